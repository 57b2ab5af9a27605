"""What all tests share."""

import os

import torch

# Without a GPU, Triton's kernels run in its interpreter. Triton reads this when it is first imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
