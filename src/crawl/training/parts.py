"""Parts of a data set that are brought to a device one after the other: how large they may be, and who reads them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from crawl.data.store import GraphStore

_SHARE_OF_MEMORY = 0.4  # of what is free on the device, for the data set
MOST_OF_FILES = 2**27  # bytes that a part of graphs in files may take on the device, and about as many on the host

Item = TypeVar("Item")
Found = TypeVar("Found")


def free_bytes(device: torch.device) -> int:
    """A share of the memory of a GPU that nobody uses."""
    if device.type != "cuda":
        return 2**62
    gc.collect()  # CUDA graphs and what they work on refer to each other: without this, old ones would still be there
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(_SHARE_OF_MEMORY * (torch.cuda.mem_get_info(device)[0] + idle))


def bytes_on_device(store: GraphStore) -> Tensor:
    """`[G]` about what each graph takes in an `Assembler`, the store's own tensors and the sort of edges included."""
    num_nodes, num_edges = store.sizes.double()
    widths = [0.0 if rows is None else 16.0 * rows[:1].numel() for rows in (store.x, store.edge_attr, store.y)]
    num_targets = store.targets_per_graph.double()
    cost: Tensor = num_nodes * (48 + widths[0]) + num_edges * (140 + widths[1]) + 48 + num_targets * widths[2]
    return cost


def one_ahead(read: Callable[[Item], Found], items: Sequence[Item]) -> Iterator[Found]:
    """What is read for each item; the next one is read by another thread while this one is used."""
    with ThreadPoolExecutor(1, "reading") as reader:
        coming = [reader.submit(read, item) for item in items[:1]]
        for i in range(len(items)):
            found = coming.pop().result()
            coming += [reader.submit(read, item) for item in items[i + 1 : i + 2]]
            yield found
