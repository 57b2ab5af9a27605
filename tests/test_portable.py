"""The library where the system has no `os.register_at_fork`, `fcntl` and `resource`, as on Windows."""

import subprocess
import sys

HIDE = """
import os, sys
import torch, torch_geometric  # their builds for Linux need them
for name in ("fork", "register_at_fork", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("fcntl", "resource"):
    sys.modules[name] = None  # importing it raises ImportError
"""


def run(*scripts: str) -> list[str]:
    """The lines that scripts print, one after the other in one process."""
    code = HIDE + "".join(scripts)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


WALKS_AND_ESTIMATORS = """
import crawl, networkx as nx
graphs = [nx.cycle_graph(n) for n in range(4, 10)] + [nx.path_graph(n) for n in range(4, 10)]
small = dict(hidden_channels=8, num_layers=1, num_steps=8, num_eval_steps=8, max_epochs=2, device="cpu")
model = crawl.CRaWlClassifier(**small).fit(graphs, [0] * 6 + [1] * 6)
assert model.predict(graphs).shape == (12,)
crawl.CRaWlRegressor(**small).fit(graphs, range(12)).predict(graphs)
walks = crawl.sample_walks(crawl.Graph.from_networkx(graphs[0]), num_steps=5, backend="auto")
print(walks.nodes.shape[1])
"""

A_RUN_ITS_LOCK_AND_ITS_RECORD = """
import json, tempfile
from pathlib import Path
from crawl.cli import main
from crawl.runs import resume_run, run
from crawl.runs.folder import RunFolder

tiny = "--model.hidden-channels 8 --model.num-layers 1 --walk.num-steps 8 --walk.num-eval-steps 8 "
tiny += "--evaluation.num-test-repeats 1 --training.max-epochs 1 --device cpu --quiet"
with tempfile.TemporaryDirectory() as folder:
    place = Path(folder, "run")
    write, run.write_run_page = run.write_run_page, lambda _: None  # its page is written when it is resumed
    assert main(["train", "csl", "--out", str(place), *tiny.split()]) == 0
    record = json.loads((place / "result.json").read_text())
    print(record["peak_memory_mb"], (place / ".in-use").exists())
    (place / "result.json").unlink()
    with RunFolder(place).locked():
        try:
            resume_run(place)
        except ValueError as error:
            print(str(error).replace(folder, ""))
    run.write_run_page = write
    resume_run(place, quiet=True)
    print((place / "result.json").is_file(), (place / "report.html").is_file())
"""


def test_walks_estimators_and_runs() -> None:
    out = run(WALKS_AND_ESTIMATORS, A_RUN_ITS_LOCK_AND_ITS_RECORD)
    assert out[0] == "6"
    assert out[-3:] == [
        "None False",
        "Another process is training in /run, or one was killed there: in that case, remove /run/.in-use.",
        "True True",
    ]
