"""The card of a saved model: what it is, how it scored, how to use it, and what not to expect of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from crawl.runs.experiment import Experiment
from crawl.runs.features import Features
from crawl.runs.folder import output_names


def model_card(
    name: str, experiment: Experiment, features: Features, record: Mapping[str, Any], num_parameters: int, about: str
) -> str:
    """The text of `README.md`, in Markdown, with the header that the Hugging Face hub reads."""
    task = features.task
    kind = f"{task.kind} per {task.level}"
    sections = [
        "---\nlibrary_name: crawl-gnn\ntags:\n- graph-machine-learning\n- random-walks\n---",
        f"# {name}",
        f"A network of {experiment.model.title} with {num_parameters:,} parameters, trained with CRaWl for a {kind}: "
        f"{_outputs(features)}. `config.json` has all settings and the record of the run.",
        *([about.strip()] if about.strip() else []),
        "## Use",
        f"```python\nimport crawl\n\nmodel = crawl.from_pretrained({json.dumps(name)})  # or the path of this folder\n"
        f"{_usage(features)}\n```",
        "## Training",
        "\n".join(f"- {line}" for line in _training(experiment, record)),
        "## Scores",
        _scores(task.metric, record),
        "## Limits",
        "\n".join(f"- {line}" for line in _limits(features)),
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


def _training(experiment: Experiment, record: Mapping[str, Any]) -> list[str]:
    if not record:
        return [f"By `fit` of {experiment.name}, which keeps no record; seed {experiment.seed}."]
    versions = ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items())
    lines = [
        f"Data: {record['data']}, read as `{experiment.data.name}`.",
        f"Seed {experiment.seed}; {record['num_epochs']} epochs, of which {record.get('best_epoch', '?')} had the best "
        f"validation score; {record['wall_time_s']:.0f} s on {record['device']}.",
        f"Commit {record['commit'] or 'unknown'}; {versions or 'versions unknown'}.",
    ]
    if init := record.get("init"):
        lines.append(f"It began with weights of {init['run']} ({len(init['taken'])} modules).")
    return lines


def _scores(metric: str, record: Mapping[str, Any]) -> str:
    if not record:
        return "None are recorded."
    rows = [f"| split | {metric} | standard deviation over evaluations with different walks |", "|---|---|---|"]
    for part, score in record["scores"].items():
        values = [score["mean"], score["internal_deviation"]]
        shown = ["–" if value is None else f"{value:.4f}" for value in values]
        rows.append(f"| {part} | {shown[0]} | {shown[1]} |")
    return "\n".join(rows)


def _limits(features: Features) -> list[str]:
    lines = [
        "The score on the test split says how it does on data like those. On other graphs it may do much worse, "
        "and it does not say so.",
        "The walk spread of a prediction is how much it depends on the walks. It is not an uncertainty.",
    ]
    if features.node_categories or features.edge_categories:
        lines.append("Categories that did not occur in training are encoded as zeros, with a warning.")
    return lines
