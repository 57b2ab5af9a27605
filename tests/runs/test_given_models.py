"""Models of the user's own in runs: trained, recorded, resumed, loaded."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, global_add_pool

from crawl import Graph, Network, WalkPlan, sample_walks
from crawl.cli import main
from crawl.data import from_pyg
from crawl.encodings import Encodings
from crawl.nn import Batch, BatchNorm, Block, Linear, State
from crawl.nn.encoders import UNKNOWN
from crawl.plain import unstructure
from crawl.runs import Experiment, GivenModel, Model, TrainedModel, resume_run, run_experiment
from crawl.runs.records import read_config
from crawl.runs.run import Stopped


class WalkRNN(Block):
    """A recurrent network along walks, pooled into the nodes, with a residual."""

    sees_edges = passes_messages = False

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.rnn = Linear(channels, channels), nn.RNN(channels, channels, batch_first=True)
        self.norm, self.last = BatchNorm(channels), Linear(channels, channels)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes."""
        along, _ = self.rnn(batch.walks.gather(self.first(state.nodes)))
        pooled = self.norm(batch.walks.mean_at_nodes(along), batch.nodes.rows, relu=True)
        return replace(state, nodes=state.nodes + self.last(pooled))


def network() -> Network:
    torch.manual_seed(3)
    return Network(
        2, 2, layer=[WalkRNN(8)], num_layers=2, hidden_channels=8, edge_dim=None, num_steps=5, num_eval_steps=6
    )


class PyGModel(nn.Module):
    """A model that takes PyG data and knows nothing of CRaWl; two of its weights are one."""

    def __init__(self, num_outputs: int = 2) -> None:
        super().__init__()
        self.conv, self.again = GINConv(nn.Linear(2, 2)), GINConv(nn.Linear(2, 2))
        self.again.nn.weight = self.conv.nn.weight
        self.dropout, self.head = nn.Dropout(0.2), nn.Linear(2, num_outputs)

    def forward(self, data):
        hidden = self.again(self.conv(data.x, data.edge_index).relu(), data.edge_index)
        return self.head(global_add_pool(self.dropout(hidden), data.batch))


@pytest.fixture
def experiment(tiny) -> Experiment:
    return replace(tiny, model=GivenModel(), walk=None)


def weights(folder) -> dict[str, torch.Tensor]:
    from crawl.training.checkpoint import load_checkpoint

    return load_checkpoint(folder / "best.safetensors")[0]


def assert_a_stop_and_a_resume_change_no_bit(experiment, dataset, folder, make, device: str) -> list[dict]:
    """The records of a whole run and of one that was stopped after an epoch and resumed."""
    start = make().state_dict()

    def new() -> nn.Module:
        model = make()
        model.load_state_dict(start)
        return model

    where = {"dataset": dataset, "device": device}
    whole = run_experiment(experiment, folder / "whole", model=new(), **where)
    with pytest.raises(Stopped):
        run_experiment(experiment, folder / "run", model=new(), stop=lambda: True, **where)
    again = resume_run(folder / "run", model=make(), **where)  # its own weights are replaced
    assert again.record["scores"] == whole.record["scores"]
    one, other = weights(whole.folder), weights(again.folder)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert any(not torch.equal(value.cpu(), one[name].cpu()) for name, value in start.items())
    trained = TrainedModel.load(again.folder, model=make(), device=device)
    expected = TrainedModel.load(whole.folder, model=make(), device=device).predict(dataset.store)
    assert (trained.predict(dataset.store).repeats == expected.repeats).all()
    return [whole.record, again.record]


@pytest.mark.parametrize("make", [network, PyGModel])
def test_a_stop_and_a_resume_change_no_bit(experiment, paths, tmp_path, make):
    assert_a_stop_and_a_resume_change_no_bit(experiment, paths, tmp_path, make, "cpu")


@pytest.mark.parametrize(
    "device",
    [
        pytest.param("cuda", marks=pytest.mark.gpu),
        pytest.param("cpu", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="kernels run on the GPU")),
    ],
)
@pytest.mark.usefixtures("triton_everywhere")
def test_a_block_of_ones_own_is_captured_and_resumed(experiment, paths, tmp_path, device):
    """Without a GPU Triton's interpreter runs what is captured there."""
    pytest.importorskip("triton")
    assert len(inspect.getsource(WalkRNN).splitlines()) <= 40
    experiment = replace(
        experiment,
        training=replace(experiment.training, max_epochs=2, batch_size=6),  # one step an epoch
        evaluation=replace(experiment.evaluation, num_test_repeats=1),
    )
    records = assert_a_stop_and_a_resume_change_no_bit(experiment, paths, tmp_path, network, device)
    assert [record["steps"] for record in records] == ["captured", "captured"]
    assert {record["config"]["model"]["class"] for record in records} == {"crawl.models.Network"}


def test_the_record_names_the_class(experiment, paths, tmp_path):
    record = run_experiment(experiment, tmp_path / "run", model=PyGModel(), dataset=paths).record
    assert record["config"]["model"] == {"name": "given", "class": f"{__name__}.PyGModel"}
    assert record["config"]["walk"] is None
    assert record["steps"].startswith("eager: ")


def test_the_record_tells_the_walks_of_the_model(experiment, paths, tmp_path):
    """A `walk` need not be given; if it is, it must be that of the model."""
    model = network()
    result = run_experiment(experiment, tmp_path / "run", model=model, dataset=paths)
    assert result.record["config"]["walk"] == unstructure(model.walk_plan)
    written = read_config(result.folder / "config.json")
    assert (written.walk, written.model) == (model.walk_plan, GivenModel("crawl.models.Network"))
    assert TrainedModel.load(result.folder, model=network()).experiment.walk == model.walk_plan
    again = run_experiment(written, tmp_path / "again", model=network(), dataset=paths)
    assert again.record["scores"] == result.record["scores"]
    other = network()
    other.walk_plan = replace(other.walk_plan, num_steps=7)
    with pytest.raises(ValueError, match="describe a Network that is not the Network that was given: leave out both"):
        run_experiment(written, tmp_path / "other", model=other, dataset=paths)
    assert not (tmp_path / "other").exists()
    (result.folder / "result.json").unlink()
    with pytest.raises(ValueError, match=r"started with WalkPlan\(.* has another walk_plan: give it that one"):
        resume_run(result.folder, model=other, dataset=paths)
    with pytest.raises(ValueError, match="walks by its own walk_plan: set it there, not by eval_start_share"):
        TrainedModel.load(result.folder, model=network(), eval_start_share=0.5)


def test_runs_of_older_versions_do_not_tell_the_walks_of_a_model(experiment, paths, tmp_path):
    with pytest.raises(Stopped):
        run_experiment(experiment, tmp_path / "run", model=network(), dataset=paths, stop=lambda: True)
    config = tmp_path / "run" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"walk": None}))
    assert resume_run(tmp_path / "run", model=network(), dataset=paths).record["config"]["walk"] is None


def test_the_record_leaves_out_what_other_strategies_have(experiment, paths, tmp_path):
    model, infinite = network(), network()
    model.walk_plan = WalkPlan("uniform", num_steps=5, num_eval_steps=5, p=4.0)
    record = run_experiment(experiment, tmp_path / "run", model=model, dataset=paths).record
    assert record["config"]["walk"] == unstructure(replace(model.walk_plan, p=1.0))
    infinite.walk_plan = WalkPlan("node2vec", p=math.inf, q=2.0)
    with pytest.raises(ValueError, match=r"walk\.p=inf cannot be recorded: take a number such as 1e300"):
        run_experiment(experiment, tmp_path / "infinite", model=infinite, dataset=paths)
    assert not (tmp_path / "infinite").exists()


def test_the_model_must_be_given_again(experiment, paths, tmp_path, capsys):
    with pytest.raises(Stopped):
        run_experiment(experiment, tmp_path / "run", model=PyGModel(), dataset=paths, stop=lambda: True)
    with pytest.raises(ValueError, match=r"with a model of its own, .*PyGModel: give the model again"):
        resume_run(tmp_path / "run", dataset=paths)
    assert main(["train", "--resume", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("give the model again, with model=… in resume_run or TrainedModel.load.")
    assert main(["info", str(tmp_path / "run")]) == 0
    assert "model=…, dataset=…)" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"give the data set again, with dataset=… in resume_run"):
        resume_run(tmp_path / "run", model=PyGModel())
    with pytest.raises(ValueError, match=r"not finished: resume it with resume_run\('.*run', model=…, dataset=…\)\.$"):
        TrainedModel.load(tmp_path / "run", model=PyGModel())
    resume_run(tmp_path / "run", model=PyGModel(), dataset=paths)
    with pytest.raises(ValueError, match=r"give the model again, with model=… in .* TrainedModel\.load"):
        TrainedModel.load(tmp_path / "run")


def test_another_model_does_not_fit(experiment, paths, tmp_path):
    folder = run_experiment(experiment, tmp_path / "run", model=PyGModel(), dataset=paths).folder
    other_class = "started with a model of the class .*PyGModel, not crawl.models.Network: give one of that class"
    with pytest.raises(ValueError, match="The weights belong to another architecture than the model"):
        TrainedModel.load(folder, model=PyGModel(3))
    with pytest.raises(ValueError, match=other_class):
        TrainedModel.load(folder, model=network())
    (folder / "result.json").unlink()
    with pytest.raises(ValueError, match=r"last\.safetensors: .* another architecture .* the run begins anew"):
        resume_run(folder, model=PyGModel(3), dataset=paths)
    with pytest.raises(ValueError, match=other_class):
        resume_run(folder, model=network(), dataset=paths)


def test_a_class_may_move_to_another_module(experiment, paths, tmp_path, monkeypatch):
    folder = run_experiment(experiment, tmp_path / "run", model=PyGModel(), dataset=paths).folder
    monkeypatch.setattr(PyGModel, "__module__", "__main__")
    TrainedModel.load(folder, model=PyGModel())


class Interrupted(PyGModel):
    """A model whose training is interrupted after some steps, once."""

    steps_left = 2

    def forward(self, data):
        Interrupted.steps_left -= 1
        if Interrupted.steps_left == 0:
            raise KeyboardInterrupt
        return super().forward(data)


def test_a_run_that_is_interrupted_in_its_first_epoch_keeps_its_first_weights(experiment, paths, tmp_path):
    torch.manual_seed(1)
    model = Interrupted()
    start = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, tmp_path / "run", model=model, dataset=paths)
    again = resume_run(tmp_path / "run", model=Interrupted(), dataset=paths)
    model.load_state_dict(start)
    whole = run_experiment(experiment, tmp_path / "whole", model=model, dataset=paths)
    assert again.record["scores"] == whole.record["scores"]


class Masked(nn.Module):
    """A model with a mask whose upper half is infinite, and with noise in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.register_buffer("mask", torch.full((3, 3), -torch.inf).triu(1))
        self.head = nn.Linear(2, 2)

    def forward(self, batch: Batch):
        return self.head(batch.nodes.mean(batch.x + torch.randn_like(batch.x)))


def test_an_infinite_buffer_is_loaded_and_noise_repeats(experiment, paths, tmp_path):
    assert_a_stop_and_a_resume_change_no_bit(experiment, paths, tmp_path, Masked, "cpu")
    trained = TrainedModel.load(tmp_path / "run", model=Masked())
    first, again, other = (trained.predict(paths.store, seed=seed).repeats for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


class Walking(PyGModel):
    """A model that makes its own walks on the data that it gets."""

    def forward(self, data, seed=0):
        walks = sample_walks(Graph.from_data(data), num_steps=5, strategy="uniform", seed=seed)
        seen = walks.mean_at_nodes(walks.gather(data.x).cumsum(1))
        return self.head(global_add_pool(seen, data.batch))


def test_the_walks_that_a_model_makes_do_not_depend_on_the_batch(experiment, paths, tmp_path):
    folder = run_experiment(experiment, tmp_path / "run", model=Walking(), dataset=paths).folder
    trained = TrainedModel.load(folder, model=Walking())
    whole, parts = (trained.predict(paths.store, batch_size=size).mean for size in (10, 3))
    np.testing.assert_allclose(parts, whole, rtol=1e-5)
    alone = trained.predict(paths.store.subset([7])).mean
    np.testing.assert_allclose(alone, whole[7:8], rtol=1e-5)


def test_encodings_that_a_model_does_not_take_are_named(experiment, paths, tmp_path):
    experiment = replace(experiment, encodings=Encodings(return_steps=3))
    with pytest.raises(RuntimeError) as caught:
        run_experiment(experiment, tmp_path / "run", model=PyGModel(), dataset=paths)
    (note,) = caught.value.__notes__
    assert note.startswith("experiment.encodings widen x by 3 columns and edge_attr by 0: a model that is given must")


class Categories(nn.Module):
    """A model that does not care which categories it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(1, 1)

    def forward(self, batch: Batch):
        return self.head(batch.nodes.mean(batch.x.clamp(0, 1).float()))


def test_unknown_categories_are_not_said_to_be_zeros(experiment, tmp_path):
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(x=torch.tensor([[0], [1]]), edge_index=edge_index, y=torch.tensor([1.0 * i])) for i in range(10)]
    dataset = from_pyg(graphs, task="regression")
    experiment = replace(experiment, training=replace(experiment.training, max_epochs=1))
    folder = run_experiment(experiment, tmp_path / "run", model=Categories(), dataset=dataset).folder
    trained = TrainedModel.load(folder, model=Categories())
    store = replace(dataset.store, x=dataset.store.x + 4)
    with pytest.warns(UserWarning, match=f"in training are {UNKNOWN} in what Categories gets: 4, 5 in "):
        trained.predict(store)


def test_models_that_are_built_are_not_given(tiny, finished, paths, tmp_path):
    with pytest.raises(ValueError, match="describe a crawl that is not the PyGModel that was given: leave out both"):
        run_experiment(tiny, tmp_path / "run", model=PyGModel(), dataset=paths)
    with pytest.raises(ValueError, match="says how to build its model, a crawl: leave out model"):
        TrainedModel.load(finished.folder, model=PyGModel())
    with pytest.raises(ValueError, match="model must be a Module, not 'gin'"):
        run_experiment(Experiment(), tmp_path / "run", model="gin", dataset=paths)
    with pytest.raises(ValueError, match="give the model again"):
        run_experiment(Experiment(model=GivenModel("here.Mine")), tmp_path / "run", dataset=paths)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="leave out both settings, or the model"):
        run_experiment(Experiment(walk=WalkPlan(num_steps=7)), tmp_path / "run", model=PyGModel(), dataset=paths)
    assert Experiment().model == Model()


class Positions(PyGModel):
    def forward(self, data, pos):
        raise AssertionError


def test_a_forward_that_needs_more_leaves_no_folder(experiment, paths, tmp_path):
    with pytest.raises(ValueError, match="The forward of Positions needs pos"):
        run_experiment(experiment, tmp_path / "run", model=Positions(), dataset=paths)
    assert not (tmp_path / "run").exists()


def test_a_wrong_output_shape_is_one_sentence(experiment, paths, tmp_path):
    with pytest.raises(ValueError, match=r"^[^\n]* 2 numbers for each graph, .* shape \[4, 2\], not \[4, 3\]\.$"):
        run_experiment(experiment, tmp_path / "run", model=PyGModel(3), dataset=paths)
