"""Steps on a GPU: each is one CUDA graph, and while it runs, the next batch is cut and its walks are drawn.

A step by hand is hundreds of small kernels, each of which costs the host more than the GPU. Recorded once for every
size of batch and replayed, they follow each other without the host, which never waits for the device in between.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from crawl.data.store import GraphStore
from crawl.models import CRaWl
from crawl.nn.dropout import Dropout
from crawl.nn.encoders import Dense, Embedding, OneHot
from crawl.ops.backends import can_use_triton
from crawl.ops.triton.streams import shared_stream, stream_of_thread
from crawl.training.padded import DeviceGraphs, PaddedBatch, Room, learns

_SHARE_OF_MEMORY = 0.4  # of what is free on the device, for the data set
_ALIGNMENT = 256
_RECORDING = threading.Lock()  # engines may run in several threads, each in a stream of its own; one records at a time

Function = Callable[[PaddedBatch], Tensor]


def can_use_engine(model: nn.Module, store: GraphStore, device: torch.device) -> TypeGuard[CRaWl]:
    """Whether the engine can take the steps of this model on this device; plain torch always can.

    A model that does more than `CRaWl`, in a subclass, a hook or an encoder of its own, cannot be recorded.
    """
    if not isinstance(model, CRaWl) or store.num_edges == 0 or not can_use_triton(device):
        return False
    is_ours = type(model).forward is CRaWl.forward and type(model).network is CRaWl.network
    is_ours &= {type(model.node_encoder), type(model.edge_encoder)} <= {Dense, OneHot, Embedding}
    has_hooks = any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules())
    is_fast = all(conv.implementation == "fast" for conv in model.convs)
    return is_ours and not has_hooks and is_fast and model.readout.norm.weight.dtype == torch.float32


class Engine:
    """Runs functions of batches of a data set: training steps and evaluations.

    The data set lies on the GPU. If it does not fit, parts of it are brought there, one after the other.

    Args:
        model: Its encoders and its walks are used.
        store: The graphs, wherever they are.
        keys: `[G]` the key of each graph; see `Graph.node_keys`.
        device: The GPU.
        largest_batch: The most graphs that any batch will have.
        most_bytes: What the data set may take of the GPU's memory; a share of what is free when None.
    """

    def __init__(
        self,
        model: CRaWl,
        store: GraphStore,
        keys: Tensor,
        device: torch.device,
        *,
        largest_batch: int,
        most_bytes: int | None = None,
    ) -> None:
        self.model, self.device = model, device
        if most_bytes is None:
            most_bytes = _free_bytes(device)
        cost = _bytes_on_device(store)
        self.is_resident = float(cost.sum()) <= most_bytes
        # Whichever graphs they are, so many fit.
        self.part_size = max(int((cost.sort(descending=True).values.cumsum(0) <= most_bytes).sum()), largest_batch)
        self.store, self.keys = store, keys
        if not self.is_resident:
            self.store, self.keys = store.to("cpu"), keys.cpu()
        self.graphs = DeviceGraphs(model, store, keys, device) if self.is_resident else None
        self._recorders: dict[tuple[Function, int], tuple[tuple[Any, ...], _Recorder]] = {}

    def run(
        self,
        function: Function,
        batches: list[Tensor],
        batch_size: int,
        *,
        num_steps: int,
        seed: int,
        start_share: float | None = None,
        is_training: bool = False,
        protected: Callable[[], list[Tensor]] = list,
    ) -> Iterator[Tensor]:
        """The function's result for each batch, in a tensor that the next one may overwrite.

        Args:
            function: Recorded at its first call for each room, and again if the model or what it changes is replaced.
            batches: The ids of the graphs of each batch, on the CPU.
            batch_size: The most graphs of a batch.
            num_steps: Steps of the walks.
            seed: The seed of the walks.
            start_share: The share of nodes that start a walk; all when None.
            is_training: Whether there is a backward pass.
            protected: What the function changes; trials before it is recorded leave it as it was.
        """
        model = self.model
        state = [*model.parameters(), *model.buffers(), *protected()]
        signature = (
            *(model.training, model.precision, model.strategy, model.p, model.q),
            *(tensor.data_ptr() for tensor in state),
            *map(id, _generators(model)),
        )
        known, recorder = self._recorders.get((function, num_steps), ((), None))
        if recorder is None or known != signature:
            recorder = _Recorder(model, self.device, function, num_steps, is_training, protected)
            self._recorders[function, num_steps] = signature, recorder
        for graphs, part in self._parts(batches, batch_size):
            graphs.draw_starts(start_share, seed)
            yield from recorder.run(graphs, part, batch_size, seed)

    def answer(self, batch: PaddedBatch) -> Tensor:
        """The model's answer to a batch, padded like it."""
        model, like = self.model, self.model.readout.norm.weight
        x, edge_attr = batch.x, batch.edge_attr
        if learns(model.node_encoder):
            x = model.node_encoder.encode(x, batch.room.num_nodes, like)
        if learns(model.edge_encoder):
            edge_attr = model.edge_encoder.encode(edge_attr, batch.room.num_edges, like)
        assert x is not None
        return model.network(x, edge_attr, batch.walks(model.window_size), batch.members)

    def predict(
        self, ids: Tensor, batch_size: int, num_steps: int, seed: int, on_batch: Callable[[], None] | None = None
    ) -> Tensor:
        """The answers of the model, which is in evaluation mode, for the graphs `ids`, on the device.

        Args:
            ids: Which graphs, on the CPU.
            batch_size: The most graphs of a batch.
            num_steps: Steps of the walks.
            seed: The seed of the walks.
            on_batch: Called after every batch is begun.
        """
        outputs = []
        batches = list(torch.split(ids, batch_size))
        results = self.run(
            self._answer_without_gradient,
            batches,
            batch_size,
            num_steps=num_steps,
            seed=seed,
            start_share=self.model.starts(),
        )
        per_node = self.model.readout.pool is None
        for batch, result in zip(batches, results, strict=True):
            outputs.append(result[: int(self.store.sizes[0, batch].sum()) if per_node else len(batch)].clone())
            if on_batch is not None:
                on_batch()
        return torch.cat(outputs)

    def _answer_without_gradient(self, batch: PaddedBatch) -> Tensor:
        with torch.no_grad():
            return self.answer(batch)

    def _parts(self, batches: list[Tensor], batch_size: int) -> Iterator[tuple[DeviceGraphs, list[Tensor]]]:
        """The batches, as many at a time as have their graphs on the device together."""
        if self.is_resident and self.graphs is not None:
            yield self.graphs, batches
            return
        if batch_size > self.part_size:
            raise ValueError(f"A batch of {batch_size} graphs is larger than largest_batch of this engine.")
        num_batches = self.part_size // batch_size
        for first in range(0, len(batches), num_batches):
            part = batches[first : first + num_batches]
            ids = torch.cat(part)
            store, keys = self.store.subset(ids), self.keys[ids]
            if self.graphs is None:
                # Whichever graphs come later, they will not be larger than the largest.
                largest = self.store.sizes.sort(dim=1, descending=True).values[:, : self.part_size].sum(1)
                most = (self.part_size, int(largest[0]), int(largest[1]))
                self.graphs = DeviceGraphs(self.model, store, keys, self.device, most, self.store.sizes)
            else:
                self.graphs.load(store, keys)
            ends = torch.tensor([len(batch) for batch in part]).cumsum(0).tolist()
            yield self.graphs, [torch.arange(end - len(batch), end) for batch, end in zip(part, ends, strict=True)]


def _free_bytes(device: torch.device) -> int:
    """A share of the memory of a GPU that nobody uses."""
    if device.type != "cuda":
        return 2**62
    gc.collect()  # recordings and what they work on refer to each other: without this, old ones would still be there
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(_SHARE_OF_MEMORY * (torch.cuda.mem_get_info(device)[0] + idle))


def _bytes_on_device(store: GraphStore) -> Tensor:
    """`[G]` about what each graph takes in `DeviceGraphs`, the store's own tensors and the sort of edges included."""
    num_nodes, num_edges = store.sizes.double()
    widths = [0.0 if rows is None else 16.0 * rows[:1].numel() for rows in (store.x, store.edge_attr, store.y)]
    num_targets = num_nodes if store.y_per_node else 1
    cost: Tensor = num_nodes * (32 + widths[0]) + num_edges * (100 + widths[1]) + 48 + num_targets * widths[2]
    return cost


@dataclass(frozen=True)
class _Recording:
    """A function for batches of one room: `prepare` makes a batch of `ids`, `step` works on a copy of it."""

    ids: Tensor
    made: Tensor
    live: Tensor
    prepare: torch.cuda.CUDAGraph
    step: torch.cuda.CUDAGraph
    result: Tensor


class _Recorder:
    """Records a function for every room that comes up, and replays it."""

    def __init__(
        self,
        model: CRaWl,
        device: torch.device,
        function: Function,
        num_steps: int,
        is_training: bool,
        protected: Callable[[], list[Tensor]],
    ) -> None:
        self.device, self.function, self.protected = device, function, protected
        self.generators = _generators(model)
        self.num_steps, self.precision = num_steps, model.precision
        self.has_edge_groups = is_training and model.edge_encoder.out_channels > 0
        self.seed = torch.zeros(1, dtype=torch.int64, device=device)
        self.recordings: dict[Room, _Recording] = {}
        if device.type == "cuda":
            self.side = stream_of_thread(device, "prepare")
            self.own = shared_stream(device, "record")
            self.pools = (torch.cuda.graph_pool_handle(), torch.cuda.graph_pool_handle())

    def run(self, graphs: DeviceGraphs, batches: list[Tensor], batch_size: int, seed: int) -> Iterator[Tensor]:
        """The result for each batch."""
        self.seed.fill_(seed - (seed >> 63 << 64))
        rooms = graphs.rooms_for(batches, batch_size)
        ids = graphs.padded_ids(batches, batch_size)
        if self.device.type != "cuda":  # without CUDA graphs, as in tests with Triton's interpreter
            for row, room in zip(ids, rooms, strict=True):
                yield self.function(self._prepare(graphs, row, room))
            return
        with torch.cuda.device(self.device):
            for room in _largest_first(set(rooms) - self.recordings.keys()):
                with _RECORDING:
                    self.recordings[room] = self._record(graphs, ids[rooms.index(room)], room)
            try:
                yield from self._replay([self.recordings[room] for room in rooms], ids)
            finally:  # a consumer that stops early leaves a preparation on its way
                torch.cuda.current_stream().wait_stream(self.side)

    def _replay(self, recordings: list[_Recording], ids: Tensor) -> Iterator[Tensor]:
        here = torch.cuda.current_stream()
        made, copied = (torch.cuda.Event() for _ in range(2))  # type: ignore[no-untyped-call]
        copied.record(here)
        for i, recording in enumerate(recordings):
            if i == 0:
                self._make(recording, ids[0], copied, made)
            here.wait_event(made)
            recording.live.copy_(recording.made)
            copied.record(here)
            if i + 1 < len(recordings):
                self._make(recordings[i + 1], ids[i + 1], copied, made)
            recording.step.replay()
            yield recording.result

    def _make(self, recording: _Recording, ids: Tensor, copied: torch.cuda.Event, made: torch.cuda.Event) -> None:
        """Prepare a batch on the side, when the one before was taken."""
        with torch.cuda.stream(self.side):
            self.side.wait_event(copied)
            recording.ids.copy_(ids)
            recording.prepare.replay()
            made.record(self.side)

    def _prepare(self, graphs: DeviceGraphs, ids: Tensor, room: Room) -> PaddedBatch:
        return graphs.cut(ids, room, self.num_steps, self.seed, self.has_edge_groups)

    def _record(self, graphs: DeviceGraphs, ids: Tensor, room: Room) -> _Recording:
        from crawl.ops.precision import products

        ids = ids.clone()
        batch = self._prepare(graphs, ids, room)  # compiles what needs compiling, and shows the sizes
        made, made_batch = _flat_copy(batch)
        live, live_batch = _flat_copy(batch)
        self._try(live_batch)
        _release_idle_memory(self.device)
        prepare, step = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        for generator in self.generators:
            step.register_generator_state(generator)
        with _recorded(prepare, self.pools[0], self.own):
            batch = self._prepare(graphs, ids, room)
            for name, place in made_batch.tensors().items():
                place.copy_(batch.tensors()[name])
        with _recorded(step, self.pools[1], self.own), products(self.precision):
            result = self.function(live_batch)
        return _Recording(ids, made, live, prepare, step, result)

    def _try(self, batch: PaddedBatch) -> None:
        """Call the function on a stream of its own, as recording demands, and undo what it did."""
        from crawl.ops.precision import products

        here = torch.cuda.current_stream()
        before = [tensor.clone() for tensor in self.protected()]
        random_state = torch.cuda.get_rng_state(self.device)
        random_states = [generator.get_state() for generator in self.generators]
        self.own.wait_stream(here)
        try:
            with torch.cuda.stream(self.own), products(self.precision):
                for _ in range(2):
                    self.function(batch)
        finally:
            here.wait_stream(self.own)
            with torch.no_grad():
                for tensor, value in zip(self.protected(), before, strict=True):
                    tensor.copy_(value)
            torch.cuda.set_rng_state(random_state, self.device)
            for generator, state in zip(self.generators, random_states, strict=True):
                generator.set_state(state)
            torch.cuda.synchronize(self.device)


def _largest_first(rooms: Iterable[Room]) -> list[Room]:
    """Rooms in the order in which to record them: a graph can work in the memory of a larger one, not of a smaller."""
    return sorted(rooms, key=lambda room: (room.num_walks, room.num_edges), reverse=True)


def _release_idle_memory(device: torch.device) -> None:
    """Hand back what torch keeps for later, if less than half the GPU is free: recordings have memory of their own."""
    free, total = torch.cuda.mem_get_info(device)
    if free < total / 2:
        torch.cuda.empty_cache()


@contextmanager
def _recorded(graph: torch.cuda.CUDAGraph, pool: Any, stream: torch.cuda.Stream) -> Iterator[None]:
    """Record what is done here, while other threads go on.

    Unlike `torch.cuda.graph`, this does not wait for the device nor hand back its memory. cuBLAS gets workspaces of
    this graph's own, because another that runs at the same time must not write to them. A graph that the garbage
    collector found now would spoil this one.
    """
    collects = gc.isenabled()
    gc.disable()
    torch._C._cuda_clearCublasWorkspaces()
    try:
        with torch.cuda.stream(stream):
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                yield
            finally:
                graph.capture_end()
    finally:
        torch._C._cuda_clearCublasWorkspaces()
        if collects:
            gc.enable()


def _generators(model: nn.Module) -> list[torch.Generator]:
    """The random generators that the model has for itself, each once."""
    found = [module.generator for module in model.modules() if isinstance(module, Dropout)]
    return list({id(generator): generator for generator in found if generator is not None}.values())


def _flat_copy(batch: PaddedBatch) -> tuple[Tensor, PaddedBatch]:
    """A copy whose tensors lie in one piece of memory, and this piece: to copy it again is one step."""
    tensors = batch.tensors()
    sizes = [-(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT for tensor in tensors.values()]
    flat = torch.empty(sum(sizes), dtype=torch.uint8, device=batch.ptr.device)
    views: dict[str, Any] = {}
    for (name, tensor), piece in zip(tensors.items(), torch.split(flat, sizes), strict=True):
        view = piece[: tensor.numel() * tensor.element_size()].view(tensor.dtype).view(tensor.shape)
        views[name] = view.copy_(tensor)
    return flat, replace(batch, **views)
