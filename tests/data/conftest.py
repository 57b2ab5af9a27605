"""What the tests of data sets share."""

import warnings

with warnings.catch_warnings():  # torch 2.13 deprecates torch.jit.script, which PyG 2.8 calls when it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch_geometric  # noqa: F401
