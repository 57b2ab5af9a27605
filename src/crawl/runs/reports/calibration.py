"""What a page shows of the part `calibration` of a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawl.pages.document import Note, Part, Table
from crawl.pages.figures import short

_PARTS = {"val": "validation", "test": "test"}
_COLUMNS = {  # in a record, and in a table
    "count": "number",
    "coverage": "inside",
    "mean_width": "mean width",
    "mean_size": "mean size",
    "coverage_error": "coverage error",
    "nll": "NLL",
    "nll_scaled": "NLL, scaled",
    "brier": "Brier",
    "brier_scaled": "Brier, scaled",
    "ece": "ECE",
    "ece_scaled": "ECE, scaled",
}


def recorded_calibration(calibration: Any) -> Iterator[Part]:
    """A row for each target and part: the share of targets within their intervals or sets, and scores of probabilities;
    or the reason why there is none. Nothing where a record does not have it."""
    if not isinstance(calibration, dict):
        return
    if "reason" in calibration:
        yield Note(f"Predictions are not calibrated: {calibration['reason']}")
    rows = [
        (short(name), _PARTS[part], scores[part])
        for name, scores in calibration.get("by_target", {}).items()
        for part in _PARTS
        if part in scores
    ]
    columns = [key for key in _COLUMNS if any(key in scores for *_, scores in rows)]
    if rows:
        yield Table(
            ("target", "part", *(_COLUMNS[key] for key in columns)),
            [(name, part, *(_shown(key, scores.get(key)) for key in columns)) for name, part, scores in rows],
            _caption(calibration, columns),
            "ll" + "r" * len(columns),
        )


def _caption(calibration: dict[str, Any], columns: list[str]) -> str:
    confidence = calibration.get("confidence")
    of = f" of {confidence:.0%}" if isinstance(confidence, int | float) else ""
    sentences = []
    if "coverage" in columns:
        what = "sets" if "mean_size" in columns else "intervals"
        sentences.append(f"Inside is the share of targets within their {what}{of}, which validation set.")
    if "ece_scaled" in columns:
        sentences.append("Scaled probabilities are those after the temperature that validation chose.")
    return " ".join(sentences)


def _shown(key: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return "–"
    return f"{value:,}" if key == "count" else f"{value:.1%}" if key == "coverage" else f"{value:.3g}"
