"""A run of several processes: the first one has the folder and speaks; the others keep what they write to themselves.

All of them do the same, epoch by epoch. So the others need no code of their own, only a folder that nobody looks at.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

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


def share_state(trainer: Trainer) -> None:
    """Let all processes resume from the state of the first one's trainer."""
    ranks = trainer.ranks
    if ranks.size == 1:
        return
    tensors, values = trainer.state()
    tensors, values = ranks.copy_from_first(tensors), ranks.from_first(values)
    if not ranks.is_first:
        trainer.restore(tensors, values)
