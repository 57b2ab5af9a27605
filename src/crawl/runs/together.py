"""A run of several processes: the first one has the folder and speaks; the others keep what they write to themselves.

All of them do the same, epoch by epoch. So the others need no code of their own, only a folder that nobody looks at.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crawl.checks import shown
from crawl.data.fingerprint import Fingerprint
from crawl.plain import structure
from crawl.runs.experiment import Experiment
from crawl.runs.where import Where
from crawl.training.ranks import Ranks
from crawl.training.trainer import Trainer


def scratch() -> Path:
    """A new folder that is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="crawl-rank-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def refuse_several(ranks: Ranks, what: str, remedy: str) -> None:
    """Refuse several processes for what only one can do."""
    if ranks.size > 1:
        raise ValueError(f"{what} cannot be shared by {ranks.size} processes: {remedy}.")


def tell(ranks: Ranks, experiment: Experiment, where: Where) -> None:
    """Tell the processes that wait in `told` what the first one resumes."""
    ranks.from_first({"record": None, "experiment": experiment.to_json(), "where": asdict(where)})


def tell_finished(ranks: Ranks, record: dict[str, Any]) -> None:
    """Tell the processes that wait in `told` that there is nothing to do."""
    ranks.from_first({"record": record})


def told(ranks: Ranks) -> tuple[dict[str, Any] | None, Experiment, Where]:
    """What the first process resumes, and where its data are; or the record of a run that is finished."""
    words = ranks.from_first(None)
    if words["record"] is not None:
        return words["record"], Experiment(), Where()
    return None, Experiment.from_json(words["experiment"]), structure(Where, words["where"], "where")


def check_same_experiment(ranks: Ranks, experiment: Experiment) -> None:
    """Refuse, in all processes alike, settings that are not the same on all machines; the message names the first.

    Where the split is may differ; `check_same_data` compares what it is.
    """
    if ranks.size == 1:
        return
    first, *others = (_leaves(told) for told in ranks.each(json.loads(experiment.to_json())))
    for rank, other in enumerate(others, 1):
        for name in sorted({*first, *other} - {"data.split"}):
            if first.get(name) != other.get(name):
                values = f"{shown(first.get(name))} for rank 0 and {shown(other.get(name))} for rank {rank}"
                raise ValueError(f"The processes differ in {name}, {values}: start all of them with the same settings.")


def check_same_data(ranks: Ranks, data: Fingerprint | None) -> None:
    """Refuse, in all processes alike, data that are not the same on all machines; None where they are not known."""
    if ranks.size == 1:
        return
    known = {rank: told for rank, told in enumerate(ranks.each(data and data.to_dict())) if told is not None}
    for rank, told in known.items():
        one = min(known)
        if changes := Fingerprint.from_dict(known[one]).changes_to(Fingerprint.from_dict(told)):
            raise ValueError(
                f"The data of rank {rank} are not those of rank {one}: {'; '.join(changes)}. Copy them to all machines."
            )


def _leaves(value: Any, name: str = "") -> dict[str, Any]:
    """The single values within dictionaries, by their names with dots."""
    if not isinstance(value, dict):
        return {name: value}
    return {
        leaf: found
        for key, part in value.items()
        for leaf, found in _leaves(part, f"{name}.{key}".removeprefix(".")).items()
    }


def share_state(trainer: Trainer) -> None:
    """Let all processes resume from the state of the first one's trainer."""
    ranks = trainer.ranks
    if ranks.size == 1:
        return
    tensors, values = trainer.state()
    tensors, values = ranks.copy_from_first(tensors), ranks.from_first(values)
    if not ranks.is_first:
        trainer.restore(tensors, values)
