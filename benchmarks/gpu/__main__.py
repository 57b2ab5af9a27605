"""Speed and memory on one NVIDIA GPU: `PYTHONPATH=src python benchmarks/gpu --data DIR --out DIR`.

Writes `gpu.md`, which is also printed, and the raw numbers, `gpu.json`, after every section. `--only NAME` runs one
section, `--smoke` tries everything on a CPU in a minute or two with sizes that mean nothing.

`run.py` has the order of the sections and `sections/` has them; `steps.py` is what is timed, `timing.py` how.
`measure.py`, `graphs.py`, `published.py` and `message_passing.py` are beside this folder.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # benchmarks/, as for its other programs; it was this folder

from gpu.run import main  # noqa: E402

main()
