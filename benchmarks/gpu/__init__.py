"""Speed and memory on one NVIDIA GPU; see `__main__.py`."""
