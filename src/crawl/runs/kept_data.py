"""What a run keeps of its data, so that it notices when they have changed: the split and a fingerprint."""

from __future__ import annotations

import json
import warnings

from crawl.data.dataset import Dataset
from crawl.data.fingerprint import Fingerprint
from crawl.data.splits import Split
from crawl.files import parse_json, write_atomically
from crawl.plain import read_checked
from crawl.runs.folder import RunFolder


def keep_split(run: RunFolder, now: Split) -> None:
    """Keep the split with the run; refuse one that is not the split that the run was started with."""
    if not run.split.is_file():  # nothing depended on it yet
        write_atomically(run.split, now.to_json())
        return
    before = read_checked(run.split, Split.from_json, "remove it to resume with the split of the data")
    if before.to_json() != now.to_json():
        raise ValueError(
            f"The data have changed since {run.path} was started: it split {len(before.ids)} graphs in another way. "
            "Start a new run."
        )


def known_data(run: RunFolder, dataset: Dataset) -> Fingerprint | None:
    """The fingerprint of the data, kept with the run; None for a run that was begun without one. Refuses other data
    than those that the run was started with."""
    now = Fingerprint.of(dataset)
    if not run.data.is_file():
        if run.last.is_file():
            warnings.warn(
                f"{run.path} has no data.json, as runs of older versions: except for the split, its data cannot be "
                "compared with those it was started with.",
                UserWarning,
                stacklevel=3,
            )
            return None
        write_atomically(run.data, json.dumps(now.to_dict(), indent=2) + "\n")
        return now
    remedy = "remove it to resume without comparing the data"
    before = read_checked(run.data, lambda text: Fingerprint.from_dict(parse_json(text)), remedy)
    if changes := before.changes_to(now):
        raise ValueError(f"The data have changed since {run.path} was started: {'; '.join(changes)}. Start a new run.")
    return now
