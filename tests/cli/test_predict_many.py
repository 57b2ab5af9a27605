"""`crawl predict --jobs`: the same bytes as one process writes, also after a stop; other data are not mixed in."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from crawl.cli import predict_many as module
from crawl.processes import in_order
from tests.cli.conftest import MOLECULES, TINY

pytest.importorskip("rdkit")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A table of 32 molecules, a packed store of some, a model, and predictions of one process in pieces of five."""
    from crawl.cli import main

    folder = tmp_path_factory.mktemp("many")
    header, *rows = MOLECULES.splitlines()
    (folder / "small.csv").write_text(MOLECULES)
    (folder / "many.csv").write_text("\n".join([header, *rows, *rows, *rows[:3], 'x,"C[Si]",1,1,a', *rows[:4]]) + "\n")
    assert main(["data", "pack", str(folder / "small.csv"), "-o", str(folder / "store"), "--targets", "logS"]) == 0
    words = ["--data.path", str(folder / "store"), *TINY, "--out", str(folder / "run"), "--quiet"]
    assert main(["train", "packed", *words]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crawl.cli.predict.ROWS_AT_A_TIME", 5)
        assert main(["predict", str(folder / "run"), str(folder / "many.csv"), "-o", str(folder / "plain.csv")]) == 0
    return folder


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_AT_A_TIME", 5)


def stopped_after(number: int):
    def some(*arguments, **settings):
        for i, found in enumerate(in_order(*arguments, **settings)):
            if i == number:
                raise KeyboardInterrupt
            yield found

    return some


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_the_output_is_that_of_one_process(crawl, trained, tmp_path, jobs):
    words = ["predict", trained / "run", trained / "many.csv", "-o", tmp_path / "out.csv", "--jobs", jobs]
    done = crawl(*words, "--threads", "1")
    assert (done.code, done.out) == (0, "")
    assert "32 rows, 3 without a prediction" in done.err
    assert ("starting 2 processes" in done.err) == (jobs == "2")
    assert "silicon" in done.err or "atomic number" in done.err  # which did not occur in training
    assert (tmp_path / "out.csv").read_bytes() == (trained / "plain.csv").read_bytes()
    assert files(tmp_path) == ["out.csv"]


def test_what_was_stopped_is_resumed(crawl, trained, tmp_path, monkeypatch):
    words = ["predict", trained / "run", trained / "many.csv", "-o", tmp_path / "out.csv", "--jobs", "1"]
    for number in (2, 1):
        monkeypatch.setattr(module, "in_order", stopped_after(number))
        done = crawl(*words)
        assert done.code == 130
        assert "the same command resumes there" in done.err
        with (tmp_path / ".out.csv.rows").open("ab") as rows:
            rows.write(b"half of a row that was being written when the process was ki")
    monkeypatch.undo()
    monkeypatch.setattr(module, "ROWS_AT_A_TIME", 5)
    done = crawl(*words)
    assert "resuming after 15 rows" in done.err
    assert "32 rows, 3 without a prediction" in done.err
    assert (tmp_path / "out.csv").read_bytes() == (trained / "plain.csv").read_bytes()
    assert files(tmp_path) == ["out.csv"]


def test_a_process_died(crawl, trained, tmp_path, monkeypatch):
    def dies(*arguments, **settings):
        yield next(in_order(*arguments, **settings))
        raise ChildProcessError("One of the 2 processes was ended from outside.")

    monkeypatch.setattr(module, "in_order", dies)
    words = ["predict", trained / "run", trained / "many.csv", "-o", tmp_path / "out.csv", "--jobs", "1"]
    error = crawl.error(*words)
    assert error.endswith("ended from outside. 5 rows are done; the same command resumes there")
    monkeypatch.setattr(module, "in_order", in_order)
    assert crawl(*words).code == 0
    assert (tmp_path / "out.csv").read_bytes() == (trained / "plain.csv").read_bytes()


def test_an_input_that_changes_while_it_is_read_is_refused(crawl, trained, tmp_path, monkeypatch):
    def changes(*arguments, **settings):
        yield from in_order(*arguments, **settings)
        with (tmp_path / "many.csv").open("a") as file:
            file.write("\n")

    shutil.copy(trained / "many.csv", tmp_path)
    monkeypatch.setattr(module, "in_order", changes)
    error = crawl.error("predict", trained / "run", tmp_path / "many.csv", "-o", tmp_path / "out.csv", "--jobs", "1")
    assert "many.csv was changed while it was read" in error
    assert files(tmp_path) == ["many.csv"]


def test_two_at_once(tmp_path, monkeypatch):
    output, fresh = tmp_path / "out.csv", module.Note("input", "model", {})
    with module._begun(output, fresh) as (_, file):
        file.write(b"whole")
        with pytest.raises(ValueError, match="Another process is writing"), module._begun(output, fresh):
            pass
    flock = module.fcntl.flock

    def late(*arguments):  # the other one ends after this one has opened its rows
        os.replace(tmp_path / ".out.csv.rows", output)
        flock(*arguments)

    (tmp_path / ".out.csv.rows").write_bytes(b"whole")
    monkeypatch.setattr(module.fcntl, "flock", late)
    with pytest.raises(ValueError, match="Another process is writing"), module._begun(output, fresh):
        pass
    assert output.read_bytes() == b"whole"


def test_another_input_model_or_setting_is_not_resumed(crawl, trained, tmp_path, monkeypatch):
    shutil.copytree(trained / "run", tmp_path / "run")
    shutil.copy(trained / "many.csv", tmp_path / "many.csv")
    words = ["predict", tmp_path / "run", tmp_path / "many.csv", "-o", tmp_path / "out.csv", "--jobs", "1"]
    monkeypatch.setattr(module, "in_order", stopped_after(1))
    assert crawl(*words).code == 130
    monkeypatch.setattr(module, "in_order", in_order)
    assert "since the setting seed has changed" in crawl.error(*words, "--seed", "1")
    text = (tmp_path / "many.csv").read_text()
    (tmp_path / "many.csv").write_text(text.replace("CCO", "CCN"))
    assert "since the input has changed: remove" in crawl.error(*words)
    (tmp_path / "many.csv").write_text(text)
    config = (tmp_path / "run" / "config.json").read_text()
    (tmp_path / "run" / "config.json").write_text(config + " ")
    assert "since the model has changed" in crawl.error(*words)
    (tmp_path / "run" / "config.json").write_text(config)
    note = tmp_path / ".out.csv.note.json"
    kept = note.read_text()
    note.write_text(kept[:-9])
    assert "is damaged" in crawl.error(*words)
    note.write_text(kept)
    (tmp_path / ".out.csv.rows").write_bytes(b"")
    assert "rows of it are missing" in crawl.error(*words)
    note.unlink()
    assert crawl(*words).code == 0
    assert (tmp_path / "out.csv").read_bytes() == (trained / "plain.csv").read_bytes()


def test_a_packed_store(crawl, trained, tmp_path):
    for jobs in ((), ("--jobs", "1")):
        done = crawl("predict", trained / "run", trained / "store", "-o", tmp_path / f"{len(jobs)}.csv", *jobs)
        assert done.code == 0
        assert "11 rows →" in done.err
    first, *rows = (tmp_path / "0.csv").read_text().splitlines()
    assert first == "graph,predicted_logS,walk_spread_logS,far,reason"
    assert [row.partition(",")[0] for row in rows[:4]] == ["C", "CC", "CCC", "CCCC"]
    plain = {line.split(",")[1]: line.split(",")[5:] for line in (trained / "plain.csv").read_text().splitlines()}
    for row, other in zip(rows, (tmp_path / "2.csv").read_text().splitlines()[1:], strict=True):
        name, value, *_ = row.split(",")
        assert float(value) == pytest.approx(float(plain[name][0]), abs=1e-4)
        assert float(value) == pytest.approx(float(other.split(",")[1]), abs=1e-4)


def test_a_damaged_store_is_refused_also_when_resumed(crawl, trained, tmp_path, monkeypatch):
    shutil.copytree(trained / "store", tmp_path / "store")
    words = ["predict", trained / "run", tmp_path / "store", "-o", tmp_path / "out.csv", "--jobs", "1"]
    monkeypatch.setattr(module, "in_order", stopped_after(1))
    assert crawl(*words).code == 130
    monkeypatch.setattr(module, "in_order", in_order)
    shard = tmp_path / "store" / "shard-0.crawl"
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    for _ in range(2):
        assert "shard-0.crawl" in (error := crawl.error(*words))
        assert "damaged" in error
        (tmp_path / ".out.csv.note.json").unlink(missing_ok=True)
    assert not (tmp_path / "out.csv").exists()


def test_names_of_columns_are_kept(crawl, trained, tmp_path):
    (tmp_path / "new.csv").write_text("a,SMILES,a,\n1,CCO,2,3\n")
    for jobs in ((), ("--jobs", "1")):
        words = ("predict", trained / "run", tmp_path / "new.csv", "-o", tmp_path / "out.csv", *jobs)
        assert crawl(*words).code == 0
        header, row = (tmp_path / "out.csv").read_text().splitlines()
        assert header.startswith("a,SMILES,a,,predicted_logS,")
        assert row.startswith("1,CCO,2,3,")


def test_what_is_refused(crawl, trained, tmp_path):
    words = ["predict", trained / "run", trained / "many.csv"]
    assert "--jobs needs a file" in crawl.error(*words, "--jobs", "2")
    assert "--jobs must be" in crawl.error(*words, "--jobs", "0", "-o", tmp_path / "out.csv")
    assert "leave out --pairs" in crawl.error(*words, "--jobs", "1", "--hide", "-o", tmp_path / "out.csv")
    (tmp_path / "bad.csv").write_text("SMILES\nx\ny\n")
    bad = ["predict", trained / "run", tmp_path / "bad.csv", "-o", tmp_path / "out.csv", "--jobs", "1"]
    assert "No row of" in crawl.error(*bad)
    (tmp_path / "empty.csv").write_text("SMILES\n")
    assert crawl(*bad[:2], tmp_path / "empty.csv", *bad[3:]).code == 0
    assert (tmp_path / "out.csv").read_text().startswith("SMILES,predicted_logS")
    assert "there is no folder" in crawl.error(
        *bad[:2], tmp_path / "empty.csv", "-o", tmp_path / "no" / "out.csv", *bad[5:]
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    assert "is a folder: leave it out" in crawl.error(*bad[:2], folder, *bad[3:])
    assert files(tmp_path) == ["bad.csv", "empty.csv", "folder", "out.csv"]
