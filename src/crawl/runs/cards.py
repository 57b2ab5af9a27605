"""The card of a saved model: what it is, how it scored, how to use it, and what not to expect of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from crawl.runs.experiment import Experiment
from crawl.runs.features import Features
from crawl.runs.folder import output_names


def model_card(
    name: str,
    experiment: Experiment,
    features: Features,
    record: Mapping[str, Any],
    num_parameters: int,
    about: str,
    num_members: int = 0,
    has_intervals: bool = False,
) -> str:
    """The text of `README.md`, in Markdown, with the header that the Hugging Face hub reads.

    `num_members` is 0 for a single model; `has_intervals` says whether there is a calibration.
    """
    task = features.task
    kind = f"{task.kind} per {task.level}"
    networks = f"{num_members} networks" if num_members else "A network"
    sections = [
        "---\nlibrary_name: crawl-gnn\ntags:\n- graph-machine-learning\n- random-walks\n---",
        f"# {name}",
        f"{networks} of {experiment.model.title} with {num_parameters:,} parameters, trained with CRaWl for a {kind}: "
        f"{_outputs(features)}. `config.json` has all settings and the record of the run.",
        *([about.strip()] if about.strip() else []),
        "## Use",
        f"```python\nimport crawl\n\nmodel = crawl.from_pretrained({json.dumps(name)})  # or the path of this folder\n"
        f"{_usage(features)}{_trust(features) if has_intervals else ''}\n```",
        "## Training",
        "\n".join(f"- {line}" for line in _training(experiment, record, num_members)),
        "## Scores",
        _scores(task.metric, record),
        "## Limits",
        "\n".join(f"- {line}" for line in _limits(features, has_intervals)),
    ]
    return "\n\n".join(sections) + "\n"


def _outputs(features: Features) -> str:
    names = output_names(features.task)
    shown = ", ".join(names[:10]) + (f", … ({len(names)} in all)" if len(names) > 10 else "")
    words = {"regression": "it predicts", "multilabel": "it gives probabilities of"}
    return f"{words.get(features.task.kind, 'it tells apart')} {shown}"


def _usage(features: Features) -> str:
    if features.are_molecules:
        return 'model.predict(["CCO", "c1ccccc1O"]).mean  # SMILES strings, or molecules of rdkit'
    return "model.predict(graphs).mean  # PyG data or networkx graphs, with the features of the training data"


def _trust(features: Features) -> str:
    how = "interval" if features.task.kind == "regression" else "sets"
    return (
        f"\nmodel.{how}(model.predict(graphs))  # hold the truth in 9 cases of 10, if data are like those of validation"
    )


def _training(experiment: Experiment, record: Mapping[str, Any], num_members: int) -> list[str]:
    if not record:
        return [f"By `fit` of {experiment.name}, which keeps no record; seed {experiment.seed}."]
    versions = ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items())
    lines = [
        f"Data: {record['data']}, read as `{experiment.data.name}`.",
        f"{_epochs(experiment, record, num_members)}; {record['wall_time_s']:.0f} s on {record['device']}.",
        f"Commit {record['commit'] or 'unknown'}; {versions or 'versions unknown'}.",
    ]
    if init := record.get("init"):
        lines.append(f"It began with weights of {init['run']} ({len(init['taken'])} modules).")
    return lines


def _epochs(experiment: Experiment, record: Mapping[str, Any], num_members: int) -> str:
    if num_members:
        return (
            f"Seed {record['seed']}; {num_members} models of seeds of their own, {record['num_epochs']} epochs in all"
        )
    best = record.get("best_epoch", "?")
    return f"Seed {experiment.seed}; {record['num_epochs']} epochs; the best by validation was epoch {best}"


def _scores(metric: str, record: Mapping[str, Any]) -> str:
    if not record:
        return "None are recorded."
    rows = [f"| split | {metric} | standard deviation over evaluations with different walks |", "|---|---|---|"]
    for part, score in record["scores"].items():
        values = [score["mean"], score["internal_deviation"]]
        shown = ["–" if value is None else f"{value:.4f}" for value in values]
        rows.append(f"| {part} | {shown[0]} | {shown[1]} |")
    return "\n".join(rows)


def _limits(features: Features, has_intervals: bool) -> list[str]:
    has_categories = bool(features.node_categories or features.edge_categories)
    is_told = features.task.level == "graph" and (has_categories or features.num_graph_features > 0)
    lines = [
        "The score on the test split says how it does on data like those. On other graphs it may do much worse, "
        f"and it does not say so{', except as below' * is_told}.",
        "The walk spread of a prediction is how much it depends on the walks. It is not an uncertainty.",
    ]
    if has_intervals:
        lines.append("Intervals and sets are by the validation part: for other kinds of graphs they hold less often.")
    if has_categories:
        far = "; `far` is 1 then" * is_told
        lines.append(f"Categories that did not occur in training are encoded as zeros, with a warning{far}.")
    if features.num_graph_features and is_told:
        lines.append("Features of graphs far outside the range of training are clipped; `far` is 1 then.")
    return lines
