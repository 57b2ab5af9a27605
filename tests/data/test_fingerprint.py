import json
from dataclasses import replace

import pytest
import torch

from crawl import Graph
from crawl.data import Dataset, Fingerprint, GraphStore, OneGraph, Split, Task, csl
from crawl.data.features import Column, Columns
from crawl.data.fingerprint import task_changes

TASK = Task(kind="multiclass", num_outputs=3, target_names=("colour",), class_names=("blue", "green", "red"))


def make(**changed) -> Dataset:
    """Three paths of two nodes with categories and numbers."""
    store = GraphStore(
        node_ptr=torch.tensor([0, 2, 4, 6]),
        edge_ptr=torch.tensor([0, 2, 4, 6]),
        edge_index=torch.tensor([[0, 1], [1, 0]]).repeat(1, 3),
        x=torch.tensor([[0], [1], [0], [1], [1], [1]]),
        edge_attr=torch.arange(6.0).view(6, 1),
        y=torch.tensor([0, 1, 2]),
    )
    settings = {name: value for name, value in changed.items() if name not in vars(store)}
    store = replace(store, **{name: value for name, value in changed.items() if name in vars(store)})
    ids = torch.arange(3)
    columns = Columns((Column("element", ("C", "N")),), (Column("length"),))
    given = {"store": store, "task": TASK, "split": Split(ids[:1], ids[1:2], ids[2:]), "columns": columns}
    return Dataset(name="paths", **({"node_categories": (2,)} | given | settings))


def changes(**changed) -> list[str]:
    return Fingerprint.of(make()).changes_to(Fingerprint.of(make(**changed)))


def test_equal_data_are_equal():
    assert changes() == []
    assert Fingerprint.of(csl(fold=1)) == Fingerprint.of(csl(fold=1))
    # Neither the type of numbers counts, nor how things are called in reports, nor the metric.
    assert changes(x=make().store.x.float(), edge_attr=make().store.edge_attr.double().flatten()) == []
    assert changes(edge_index=make().store.edge_index.int(), graph_names=("a", "b", "c"), skipped=("line 1",)) == []
    assert changes(task=replace(TASK, metric="macro_f1")) == []


def test_nothing_of_it_depends_on_the_machine():
    """The same hashes everywhere; a run that was started there is resumed here."""
    assert Fingerprint.of(make()).hashes == {
        "graphs": "fc171c09fc8f7903ed0721dd621d8dfa",
        "node_features": "76a7c6275827e3c4ae4cecfbd56507b8",
        "edge_features": "3e51cdbc7762fabe745d694d3ecd0170",
        "targets": "26896123ececf118ebdce8c15866f503",
        "split": "28844419cf9aec554143622440d18bf5",
    }


def test_zero_has_no_sign_and_nan_one_form():
    values = torch.tensor([0.0, 1.0, torch.nan])
    signed = torch.tensor([-0.0, 1.0, torch.nan])
    other = signed.view(torch.int32) ^ torch.tensor([0, 0, 1], dtype=torch.int32)
    task = Task(kind="multilabel", num_outputs=1)
    one, two, three = (
        Fingerprint.of(make(y=y.view(3, 1), task=task)) for y in (values, signed, other.view(torch.float32))
    )
    assert one == two == three


def test_large_data_are_hashed_in_pieces(monkeypatch):
    whole = Fingerprint.of(make())
    monkeypatch.setattr("crawl.data.fingerprint._NUMBERS_AT_A_TIME", 2)
    assert Fingerprint.of(make()) == whole


@pytest.mark.parametrize(
    ("changed", "phrase"),
    [
        ({"edge_index": torch.tensor([[0, 1, 0, 1, 0, 0], [1, 0, 1, 0, 1, 0]])}, "the nodes and edges have changed"),
        ({"edge_ptr": torch.tensor([0, 0, 4, 6])}, "the nodes and edges have changed"),
        ({"x": torch.tensor([[0], [1], [0], [1], [1], [0]])}, "the node features have changed"),
        ({"x": None}, "the node features have changed"),
        ({"node_categories": (3,)}, "the node features have changed"),
        ({"edge_attr": None}, "the edge features have changed"),
        ({"edge_attr": torch.tensor([0.0, 1, 2, 3, 4, 5.0001])}, "the edge features have changed"),
        ({"y": torch.tensor([0, 2, 1])}, "the targets have changed"),
        ({"split": Split(torch.tensor([1]), torch.tensor([0]), torch.tensor([2]))}, "the split has changed"),
        (
            {"columns": Columns((Column("element", ("C", "O")),), (Column("length"),))},
            "the values of element were 'C', 'N' and are 'C', 'O'",
        ),
        (
            {"columns": Columns((Column("atom", ("C", "N")),), (Column("length"),))},
            "the attributes of nodes were 'element' and are 'atom'",
        ),
        (
            {"columns": Columns((Column("element", ("C", "N")),), (Column("length", (1, 2)),))},
            "the values of length were numbers and are 1, 2",
        ),
        (
            {"task": replace(TASK, class_names=("blue", "red", "violet"))},
            "the classes were 'blue', 'green', 'red' and are 'blue', 'red', 'violet'",
        ),
        ({"task": replace(TASK, target_names=("taste",))}, "the targets were 'colour' and are 'taste'"),
        ({"task": replace(TASK, target_names=())}, "the targets were 'colour' and are without names"),
        ({"task": Task(kind="regression", num_outputs=3)}, "the kind of the task was multiclass and is regression"),
    ],
)
def test_a_change_is_named(changed, phrase):
    assert changes(**changed) == [phrase]


def test_another_number_of_graphs():
    before, now = make(), make()
    store = now.store.subset([0, 1])
    fewer = replace(now, store=store, split=Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([])))
    assert Fingerprint.of(before).changes_to(Fingerprint.of(fewer)) == ["there were 3 graphs and are 2"]


def test_tasks_without_names():
    one, two = Task(kind="regression", num_outputs=1), Task(kind="regression", num_outputs=2)
    assert task_changes(one, one) == []
    assert task_changes(one, two) == ["the task had 1 outputs and has 2"]
    assert task_changes(one, replace(one, level="node")) == ["the level of the task was graph and is node"]


def test_survives_json():
    for dataset in (make(), make(columns=None)):
        fingerprint = Fingerprint.of(dataset)
        assert Fingerprint.from_dict(json.loads(json.dumps(fingerprint.to_dict()))) == fingerprint


@pytest.mark.parametrize("part", ["num_graphs", "task", "columns", "hashes"])
@pytest.mark.parametrize("wrong", [1, "text", [], {"": 1}, {"kind": "regression"}])
def test_something_else_is_refused(part, wrong):
    if (part, wrong) == ("num_graphs", 1):
        wrong = -1
    content = Fingerprint.of(make()).to_dict() | {part: wrong}
    with pytest.raises(ValueError, match=r"not|lacks|has no key"):
        Fingerprint.from_dict(content)
    del content[part]
    with pytest.raises(ValueError, match=f"fingerprint of data lacks {part}"):
        Fingerprint.from_dict(content)


def test_weights_of_targets_count_where_there_are_any():
    plain, light, heavy = (
        Fingerprint.of(make(sample_weight=weights))
        for weights in (None, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 4.0]))
    )
    assert "weights" not in plain.hashes
    for before, now in ((plain, light), (light, plain), (light, heavy)):
        assert before.changes_to(now) == ["the weights of the targets have changed"]
    assert Fingerprint.from_dict(light.to_dict()) == light


def test_weights_of_edges_count():
    edges, ids = torch.tensor([[0, 1, 1], [1, 2, 3]]), torch.arange(3)

    def of(weight: torch.Tensor | None) -> Fingerprint:
        store = OneGraph(Graph.from_edge_index(edges, 4, edge_weight=weight, undirected=True), ids, y=ids)
        return Fingerprint.of(make(store=store, columns=None, task=replace(TASK, level="node")))

    plain, weighted, other = (of(w) for w in (None, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0])))
    assert "edge_weights" not in plain.hashes
    assert Fingerprint.from_dict(json.loads(json.dumps(weighted.to_dict()))) == weighted
    for before, now in ((plain, weighted), (weighted, plain), (weighted, other)):
        assert before.changes_to(now) == ["the weights of the edges have changed"]
