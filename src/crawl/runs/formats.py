"""Records as people read them: scores, models and epochs in words."""

from __future__ import annotations

from typing import Any

from crawl.runs.experiment import GivenModel, Model


def has_best(record: dict[str, Any]) -> bool:
    """Whether a record's best epoch is the best by a validation score; without any, the last is taken."""
    return record["scores"].get("val", {}).get("mean") is not None


def model_title(model: Model | GivenModel) -> str:
    """What a model is called in tables; a network of several blocks by their names."""
    acronyms = {name: name.upper() for name in ("gcn", "gin", "gine", "gat", "pna")}
    title = {**acronyms, "sage": "GraphSAGE", "gated_gcn": "GatedGCN"}.get(model.title)
    return "CRaWl" if model.title == "crawl" else model.title if title is None else f"{title} (message passing)"


def format_score(metric: str, value: float | None) -> str:
    """A score as people write it: shares in percent; a dash where there is none."""
    if value is None:
        return "–"
    return f"{100 * value:.2f} %" if metric == "accuracy" else f"{value:.4f}"
