"""Models by name: in the package, in folders, on a hub that is made up here."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import crawl
from crawl.runs import TrainedModel
from crawl.runs.packaged import local_model, packaged_models
from crawl.runs.saved import CARD, CONFIG, WEIGHTS

SKIPS = {2: 0, 16: 9}  # classes of CSL


def test_the_models_in_the_package():
    found = packaged_models()
    assert list(found) == ["csl", "esol", "lipo", "zinc"]
    assert sum(file.stat().st_size for folder in found.values() for file in folder.iterdir()) < 6e6
    for name, folder in found.items():
        assert sorted(file.name for file in folder.iterdir()) == sorted([CARD, CONFIG, WEIGHTS])
        model = crawl.from_pretrained(name, "cpu")
        record = model.record
        assert len(record["commit"]) == 12  # without -dirty
        assert f"| test | {record['scores']['test']['mean']:.4f} |" in (folder / CARD).read_text()
        assert all(
            str(tensor.dtype) in ("torch.float32", "torch.int64") for tensor in model.model.state_dict().values()
        )


def test_molecules():
    pytest.importorskip("rdkit")
    found = crawl.from_pretrained("esol", "cpu").predict(["CCO", "c1ccc2ccccc2c1"], num_repeats=2)
    ethanol, naphthalene = found.mean[:, 0]
    assert ethanol > -1.0  # measured: 1.1
    assert naphthalene < -2.5  # measured: -3.6
    octanol, glycol = crawl.from_pretrained("lipo", "cpu").predict(["CCCCCCCCO", "OCCO"], num_repeats=2).mean[:, 0]
    assert octanol > glycol


def test_graphs_that_messages_cannot_tell_apart():
    networkx = pytest.importorskip("networkx")
    model = crawl.from_pretrained("csl", "cpu")
    graphs = [networkx.circulant_graph(41, [1, skip]) for skip in SKIPS]
    assert model.predict(graphs, num_repeats=1).classes.tolist() == list(SKIPS.values())


def test_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert local_model("esol") == packaged_models()["esol"]
    shutil.copytree(packaged_models()["csl"], "esol")  # a folder that is there goes before
    assert local_model("esol") == Path("esol")
    with pytest.raises(ValueError, match=r"no model of this name comes with the package\. Did you mean 'lipo'\?"):
        crawl.from_pretrained("lipoo")
    for name in ("../esol", "./esol/../../x", "..", "/esol", "esol/../../csl", "\0", "a" * 5000):
        with pytest.raises(ValueError, match=r"no checkpoint|must be a path|not the folder|no model|not finished"):
            crawl.from_pretrained(name)
    with pytest.raises(ValueError, match="path must be a path, not 7"):
        crawl.from_pretrained(7)
    with pytest.raises(ValueError, match="revision='main' is for models on the hub, and 'csl' is not one of them"):
        crawl.from_pretrained("csl", revision="main")


class Hub(ModuleType):
    """Two functions of huggingface_hub, on a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        super().__init__("huggingface_hub")
        self.folder, self.asked = folder, []

    def hf_hub_download(self, name: str, file: str, revision: str | None = None) -> str:
        self.asked.append((name, file, revision))
        path = self.folder / name / file
        if not path.is_file():
            raise FileNotFoundError(f"404 Client Error.\n{name} is not on this hub.")
        return str(path)


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Hub:
    found, errors = Hub(tmp_path / "hub"), ModuleType("huggingface_hub.errors")
    for name in ("HfHubHTTPError", "LocalEntryNotFoundError"):
        setattr(errors, name, type(name, (OSError,), {}))
    monkeypatch.setitem(sys.modules, "huggingface_hub", found)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    monkeypatch.chdir(tmp_path)
    return found


def test_the_hub(hub):
    shutil.copytree(packaged_models()["csl"], hub.folder / "someone" / "csl-model")
    model = crawl.from_pretrained("someone/csl-model", "cpu", revision="v1")
    assert model.experiment.name == "csl"
    assert hub.asked == [("someone/csl-model", name, "v1") for name in (CONFIG, WEIGHTS)]  # and nothing else
    with pytest.raises(
        ValueError, match=r"^There is no folder a/b, and no model [^\n]*: 404 Client Error\. a/b is not"
    ):
        crawl.from_pretrained("a/b")
    weights = hub.folder / "someone" / "csl-model" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    with pytest.raises(ValueError, match="do not match their checksum"):
        crawl.from_pretrained("someone/csl-model")


def test_a_folder_goes_before_the_hub(hub):
    shutil.copytree(packaged_models()["csl"], Path("someone") / "csl-model")
    assert crawl.from_pretrained("someone/csl-model", "cpu").experiment.name == "csl"
    assert hub.asked == []


def test_no_hub(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImportError, match="There is no folder a/b, and models on the Hugging Face hub need"):
        crawl.from_pretrained("a/b")


def test_answers_do_not_depend_on_where_the_model_is(tmp_path):
    copy = shutil.copytree(packaged_models()["csl"], tmp_path / "copy")
    networkx = pytest.importorskip("networkx")
    graph = networkx.circulant_graph(41, [1, 5])
    expected = crawl.from_pretrained("csl", "cpu").predict(graph, num_repeats=1)
    assert np.array_equal(TrainedModel.load(copy, "cpu").predict(graph, num_repeats=1).repeats, expected.repeats)
