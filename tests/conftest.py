"""What all tests share."""

import os
import warnings

import torch

# Without a GPU, Triton's kernels run in its interpreter. Triton reads this when it is first imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

with warnings.catch_warnings():  # torch 2.13 deprecates torch.jit.script, which PyG 2.8 calls when it is imported
    warnings.simplefilter("ignore")
    import torch_geometric  # noqa: F401

torch.set_num_threads(1)  # tensors as small as in tests only wait for a second thread, and long if the machine is busy
