"""Speed and memory on one NVIDIA GPU; `run.py` has the order of the sections, `sections/` has them."""
