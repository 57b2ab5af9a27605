"""From a model and a graph to an explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from crawl.checks import as_list, check_type, whole_number
from crawl.data.given_graphs import GraphLike, are_molecules, is_one_graph, store_of
from crawl.explanations.attribution import Attribution, integrate
from crawl.explanations.explained import WalkParts, Windows
from crawl.explanations.explanation import Explanation
from crawl.explanations.subgraphs import Scores, top_subgraphs
from crawl.explanations.subject import Subject
from crawl.explanations.windows import Floats, Ints, evidence
from crawl.runs.trained import TrainedModel
from crawl.walks.walks import Walks

_USUAL_REPEATS, _MOST_POINTS, _MOST = 5, 4096, 10_000


def explain(
    model: nn.Module | TrainedModel,
    data: GraphLike,
    *,
    target: int | str | None = None,
    node: int | None = None,
    num_repeats: int | None = None,
    num_steps: int | None = None,
    seed: int = 0,
    top: int = 5,
    num_points: int = 32,
    walks: Walks | Sequence[Walks] | None = None,
    double: bool = False,
) -> Explanation:
    """What nodes, edges, walks, windows and subgraphs add to one number that a model answers.

    The model is copied and evaluated; nothing is changed. `docs/explain.md` says what each number means.

    Args:
        model: A network, a module of your own with a `CRaWlConv` or a block that uses `Walks.gather` in it, or the
            trained model of a run.
        data: One graph with the features that the model takes, as PyG data. For a trained model also as it predicts it:
            a networkx graph, or, for a model of molecules, a SMILES string or a molecule of rdkit.
        target: Which number: a column of the answer; for a trained model also the name of a target, class or label.
            None for the only one, the second of two classes, or the most probable of several.
        node: The node whose answer is explained, for a model that answers for nodes.
        num_repeats: Evaluations, each with its own walks; as in the run, or 5, when None.
        num_steps: Steps of the walks; those of the model in evaluation when None.
        seed: Of the walks. A trained model draws those of `TrainedModel.predict`.
        top: Subgraphs to find.
        num_points: Points of each integral: more make the residual smaller.
        walks: The walks instead, of one evaluation or of several.
        double: Compute in float64.

    Raises:
        ValueError: If the model does not walk, or not in a way that is known, or an argument does not fit.
    """
    subject = Subject(model, target, num_steps=num_steps, seed=seed, double=double)
    graph, smiles = as_graph(subject, data)
    how = {"node": node, "num_repeats": num_repeats, "top": top, "num_points": num_points, "walks": walks}
    return explain_subject(subject, graph, smiles=smiles, **how)  # type: ignore[arg-type]


def as_graph(subject: Subject, data: GraphLike) -> tuple[Data, str | None]:
    """The graph, and its SMILES if it was given as such. Refuses what is not one graph."""
    if are_molecules([data]) and subject.trained is not None and (number := subject.trained.features.num_parts) > 1:
        raise ValueError(f"The model reads {number} molecules side by side: use crawl explain with a table.")
    if are_molecules([data]) and (subject.trained is None or not subject.trained.features.are_molecules):
        raise ValueError("The model was not trained on molecules: give a graph as PyG data, not a molecule.")
    if subject.trained is not None and is_one_graph(data) and not isinstance(data, Data):
        store = subject.trained.with_descriptors(store_of([data]), [data])
        return store.graph(0), data if isinstance(data, str) else None
    check_type("data", data, Data, "give one graph as PyG data, such as dataset[0]")
    assert isinstance(data, Data)
    if isinstance(data, Batch) and data.num_graphs != 1:
        raise ValueError(f"The batch has {data.num_graphs} graphs: explain them one by one.")
    if isinstance(data.num_nodes, int) and data.num_nodes == 0:  # what is not a number is refused with the graph
        raise ValueError("The graph has no nodes, so there is nothing to explain.")
    return data, None


def explain_subject(
    subject: Subject,
    data: Data,
    *,
    node: int | None = None,
    num_repeats: int | None = None,
    top: int = 5,
    num_points: int = 32,
    walks: Walks | Sequence[Walks] | None = None,
    smiles: str | None = None,
) -> Explanation:
    """`explain` for many graphs: the subject is made once."""
    top, num_points = whole_number("top", top, 0, _MOST), whole_number("num_points", num_points, 1, _MOST_POINTS)
    given = _given_walks(walks, num_repeats, subject)
    if given is None and num_repeats is None and subject.trained is not None:
        num_repeats = subject.trained.experiment.evaluation.num_test_repeats
    usual = _USUAL_REPEATS if num_repeats is None else num_repeats
    number = len(given) if given is not None else whole_number("num_repeats", usual, 1, _MOST)
    prepared = subject.prepared(data)
    inputs = [subject.inputs(prepared, i, None if given is None else given[i]) for i in range(number)]
    answers, row = subject.answers(inputs, node)
    chosen = subject.target_of(answers)
    found = [integrate(subject, each, chosen, row, num_points) for each in inputs]
    edge_index = _edge_index(data)
    evidences = [evidence(each, edge_index) for each in found]
    subgraphs = top_subgraphs(found, Scores(evidences, edge_index), edge_index, top)
    nodes = np.stack([each.nodes + each.node_bits for each in evidences])
    edges = np.stack([each.edges + each.edge_bits for each in evidences])
    readout = [subject.readout_parts(each, chosen) for each in inputs]
    parts = [each for each in readout if each is not None]
    predictions = np.array([each.answer for each in found])
    return Explanation(
        output=chosen,
        prediction=float(predictions.mean()),
        prediction_spread=float(predictions.std()),
        probability=subject.probability(answers, chosen),
        baseline=_mean([each.baseline for each in found]),
        silent=_mean([each.silent for each in found]),
        residual=_mean([each.residual for each in found]),
        nodes=nodes.mean(axis=0),
        node_spread=nodes.std(axis=0),
        edges=edges.mean(axis=0),
        edge_spread=edges.std(axis=0),
        own=np.mean([_array(each.own_nodes) for each in found], axis=0),
        readout=np.mean([_array(each) for each, _ in parts], axis=0) if parts else None,
        readout_rest=_mean([rest for _, rest in parts]) if parts else None,
        walks=tuple(part for i, each in enumerate(found) for part in _walk_parts(each, i)),
        subgraphs=subgraphs,
        edge_index=edge_index,
        node=node,
        num_points=num_points,
        has_own=inputs[0].has_scale,
        smiles=smiles,
    )


def _given_walks(
    walks: Walks | Sequence[Walks] | None, num_repeats: int | None, subject: Subject
) -> list[Walks] | None:
    if walks is None:
        return None
    given = [walks] if isinstance(walks, Walks) else as_list("walks", walks, "Walks")
    for each in given:
        check_type("walks", each, Walks, "call crawl.sample_walks(graph)")
    if not given:
        raise ValueError("walks is an empty list: give the walks of one evaluation or more, or leave it out.")
    if num_repeats is not None or subject.num_steps is not None:
        raise ValueError("The walks are given: leave out num_repeats and num_steps.")
    return given


def _walk_parts(attribution: Attribution, repeat: int) -> list[WalkParts]:
    """What walks add, for each of the sets of walks that layers read; there is one, unless the model draws its own."""
    by_walks: dict[int, list[Any]] = {}
    for layer in attribution.layers:
        by_walks.setdefault(layer.walks.nodes.data_ptr(), []).append(layer)
    parts = []
    for layers in by_walks.values():
        windows = tuple(Windows(_array(layer.windows), layer.first, layer.size) for layer in layers)
        values = np.sum([each.values.sum(axis=1) for each in windows], axis=0)
        parts.append(WalkParts(repeat, layers[0].walks.nodes.cpu().numpy().astype(np.int64), values, windows))
    return parts


def _edge_index(data: Data) -> Ints:
    edge_index = torch.empty(2, 0, dtype=torch.long) if data.edge_index is None else data.edge_index
    found: Ints = edge_index.cpu().long().numpy()
    return found


def _array(values: Tensor) -> Floats:
    found: Floats = values.double().cpu().numpy()
    return found


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
