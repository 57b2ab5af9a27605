"""Triton kernels for NVIDIA GPUs, forward and backward, beside the plain torch that specifies them.

No kernel adds floats in an order that may change, so two runs give the same bits. Row counts are read on the device:
a CUDA graph captured for a padded batch serves every batch that fits into it.
"""
