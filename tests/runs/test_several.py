from __future__ import annotations

import json
from dataclasses import replace

import pytest

from crawl.data import Dataset
from crawl.runs.build import load_dataset
from crawl.runs.cluster.connection import Cluster, OnRay
from crawl.runs.several import refuse_given, run_all, tell_last, train_job
from crawl.runs.sources import Csl
from crawl.runs.where import Where
from tests.fuzz import world

TINY = world.tiny_experiment()


def test_data_that_were_given_are_refused_for_workers(tmp_path):
    csl = load_dataset(Csl())
    given = Dataset(csl.name, csl.store, csl.task, csl.split)
    with pytest.raises(ValueError, match="data that were given in Python cannot be sent to them"):
        run_all({"a": TINY}, tmp_path, {}, dataset=given, cluster=Cluster(OnRay(), "cpu", 0))
    with pytest.raises(ValueError, match="Workers read the data from files"):
        refuse_given(given)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_a_cluster_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cluster must be a Cluster, not 'auto': use what"):
        run_all({"a": TINY}, tmp_path, {}, cluster="auto")


def test_a_run_with_other_settings_is_refused_before_any_begins(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").write_text(replace(TINY, seed=7).to_json())
    with pytest.raises(ValueError, match="b holds a run with other settings: choose another folder"):
        run_all({"a": TINY, "b": TINY}, tmp_path, {})
    assert not (tmp_path / "a").exists()


def test_a_job_is_plain(tmp_path, monkeypatch):
    monkeypatch.setattr("crawl.runs.cluster.connection._machines", lambda: [{"CPU": 4.0, "GPU": 1.0}])
    job = train_job("a", TINY, tmp_path, Where(root="/data"), Cluster(OnRay(gpus=0.5), "cuda", 0.5), among=3)
    assert json.loads(json.dumps(job.task)) == job.task
    assert job.task["where"]["device"] == "cuda"
    assert job.task["runs_at_a_time"] == 2


def test_the_last_epoch_is_told(tmp_path):
    told = []
    file = tmp_path / "metrics.jsonl"
    file.write_text("")
    assert tell_last(tmp_path, lambda news: bool(told.append(news))) is False
    file.write_text("".join(json.dumps({"epoch": epoch, "text": "x" * 50}) + "\n" for epoch in range(200)))
    assert tell_last(tmp_path, lambda news: told.append(news) is None) is True
    assert told == [{"pre-training": "is under way"}, {"epoch": 199, "text": "x" * 50}]
