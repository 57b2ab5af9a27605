"""Functions of batches captured in CUDA graphs: one for each bucket size, replayed while the next batch is assembled.

A step by hand is hundreds of small kernels, each of which costs the host more than the GPU. Captured once for every
bucket size and replayed, they follow each other without the host, which never waits for the device in between.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from crawl.choices import Precision
from crawl.data.assembly import Assembler, Bucket
from crawl.data.padding import padded
from crawl.data.target_assembly import ClosedGraph
from crawl.nn.batch import Batch
from crawl.ops.precision import products
from crawl.ops.triton.streams import shared_stream, stream_of_thread
from crawl.walks.plan import WalkPlan

_ALIGNMENT = 256
_CAPTURING = threading.Lock()  # of the threads in which runners may work, one captures at a time

Function = Callable[[Batch], Tensor]


class CannotCapture(Exception):
    """A function did something that no CUDA graph can hold, such as waiting for the device."""


@dataclass(frozen=True)
class _Recording:
    """A function for batches of one bucket size: `prepare` makes a batch of `ids`, `step` works on a copy of it."""

    ids: Tensor
    made: Tensor
    live: Tensor
    prepare: torch.cuda.CUDAGraph
    step: torch.cuda.CUDAGraph
    result: Tensor
    places: list[Tensor] = field(default_factory=list)


class Recorder:
    """Captures functions of batches for every bucket size that comes up, and replays them.

    `prepare` is done to a batch before the function sees it, while the step before runs. `generators` are those that
    the function draws from, besides torch's own. `protected` is what it changes: trials leave that as it was.
    """

    def __init__(
        self,
        device: torch.device,
        plan: WalkPlan | None,
        num_steps: int,
        is_training: bool,
        prepare: Callable[[Batch], Batch],
        precision: Precision,
        generators: list[torch.Generator],
        protected: Callable[[], list[Tensor]],
    ) -> None:
        self.device, self.plan, self.num_steps, self.is_training = device, plan, num_steps, is_training
        self.prepare, self.precision, self.generators, self.protected = prepare, precision, generators, protected
        self.seed = torch.zeros(1, dtype=torch.int64, device=device)
        self.recordings: dict[tuple[Function, Bucket], _Recording] = {}
        if device.type == "cuda":
            self.side = stream_of_thread(device, "prepare")
            self.own = shared_stream(device, "record")
            self.pools = (torch.cuda.graph_pool_handle(), torch.cuda.graph_pool_handle())

    def run(
        self,
        graphs: Assembler | ClosedGraph,
        functions: Sequence[Function],
        batches: list[Tensor],
        batch_size: int,
        seed: int,
    ) -> Iterator[Tensor]:
        """The result of each function for its batch, in a tensor that the next one may overwrite.

        Raises:
            CannotCapture: If a function cannot be captured.
        """
        if isinstance(graphs, ClosedGraph):
            yield from self._run_closed(graphs, functions, batches, batch_size, seed)
            return
        self.seed.fill_(seed - (seed >> 63 << 64))
        buckets = graphs.buckets(batches, batch_size)
        ids = graphs.padded_ids(batches, batch_size)
        if self.device.type != "cuda":  # without CUDA graphs, as in tests with Triton's interpreter
            for function, row, bucket in zip(functions, ids, buckets, strict=True):
                yield function(self._prepared(graphs, row, bucket))
            return
        keys = list(zip(functions, buckets, strict=True))
        with torch.cuda.device(self.device):
            for key in largest_first(set(keys) - self.recordings.keys()):
                with _CAPTURING:
                    self.recordings[key] = self._captured(graphs, ids[keys.index(key)], *key)
            try:
                yield from self._replay([self.recordings[key] for key in keys], ids)
            finally:  # a consumer that stops early leaves a preparation on its way
                torch.cuda.current_stream().wait_stream(self.side)

    def _run_closed(
        self, graphs: ClosedGraph, functions: Sequence[Function], batches: list[Tensor], batch_size: int, seed: int
    ) -> Iterator[Tensor]:
        """`run` for batches whose size shows only when they are made: each is made while the step before runs."""

        def made(ids: Tensor) -> tuple[Batch, Bucket]:
            batch = graphs.batch(ids, self.plan, self.num_steps, seed)
            bucket = graphs.bucket_of(batch, batch_size)
            return self.prepare(padded(batch, bucket, graphs.walks_per_target(self.plan))), bucket

        if self.device.type != "cuda":
            for function, ids in zip(functions, batches, strict=True):
                yield function(made(ids)[0])
            return
        with torch.cuda.device(self.device):
            here, copied = torch.cuda.current_stream(), torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.side.wait_stream(here)
            following = None
            for i, function in enumerate(functions):
                if following is None:
                    with torch.cuda.stream(self.side):
                        following = made(batches[i])
                batch, bucket = following
                here.wait_stream(self.side)
                if (function, bucket) not in self.recordings:
                    with _CAPTURING:
                        self.recordings[function, bucket] = self._captured_step(function, batch)
                recording = self.recordings[function, bucket]
                torch._foreach_copy_(recording.places, _tensors(batch))
                copied.record(here)
                recording.step.replay()
                following = None
                if i + 1 < len(batches):
                    with torch.cuda.stream(self.side):
                        self.side.wait_event(copied)  # what it made is no longer needed
                        following = made(batches[i + 1])
                yield recording.result

    def _captured_step(self, function: Function, batch: Batch) -> _Recording:
        """The function for batches of the shape of this one, which are copied to `places`."""
        live, places = _flat_copy(batch)
        self._try(function, _with_tensors(batch, places))
        _release_idle_memory(self.device)
        step = torch.cuda.CUDAGraph()
        for generator in self.generators:
            step.register_generator_state(generator)
        result = self._captured_function(function, batch, places, step)
        return _Recording(places[0], live, live, step, step, result, places)

    def _captured_function(
        self, function: Function, batch: Batch, places: list[Tensor], step: torch.cuda.CUDAGraph
    ) -> Tensor:
        try:
            with _capture(step, self.pools[1], self.own), products(self.precision):
                # A batch of its own: what the one of the trial has worked out, such as counts, is not of later batches.
                return function(_with_tensors(batch, places))
        except RuntimeError as error:
            raise CannotCapture(str(error).partition("\n")[0]) from error

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

    def _prepared(self, graphs: Assembler, ids: Tensor, bucket: Bucket) -> Batch:
        settings = (ids, bucket, self.plan, self.num_steps, self.seed)
        return self.prepare(graphs.padded_batch(*settings, is_training=self.is_training))

    def _captured(self, graphs: Assembler, ids: Tensor, function: Function, bucket: Bucket) -> _Recording:
        ids = ids.clone()
        batch = self._prepared(graphs, ids, bucket)  # compiles what needs compiling, and shows the sizes
        made, made_tensors = _flat_copy(batch)
        live, live_tensors = _flat_copy(batch)
        self._try(function, _with_tensors(batch, live_tensors))
        _release_idle_memory(self.device)
        prepare, step = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        for generator in self.generators:
            step.register_generator_state(generator)
        with _capture(prepare, self.pools[0], self.own):
            batch = self._prepared(graphs, ids, bucket)
            torch._foreach_copy_(made_tensors, _tensors(batch))  # a kernel for each type of numbers
        result = self._captured_function(function, batch, live_tensors, step)
        return _Recording(ids, made, live, prepare, step, result)

    def _try(self, function: Function, batch: Batch) -> None:
        """Call the function on a stream of its own, as capturing demands, and undo what it did."""
        here = torch.cuda.current_stream()
        before = [tensor.clone() for tensor in self.protected()]
        random_state = torch.cuda.get_rng_state(self.device)
        random_states = [generator.get_state() for generator in self.generators]
        self.own.wait_stream(here)
        try:
            with torch.cuda.stream(self.own), products(self.precision):
                for _ in range(2):
                    function(batch)
        finally:
            here.wait_stream(self.own)
            with torch.no_grad():
                for tensor, value in zip(self.protected(), before, strict=True):
                    tensor.copy_(value)
            torch.cuda.set_rng_state(random_state, self.device)
            for generator, state in zip(self.generators, random_states, strict=True):
                generator.set_state(state)
            torch.cuda.synchronize(self.device)


def largest_first(keys: Iterable[tuple[Function, Bucket]]) -> list[tuple[Function, Bucket]]:
    """The order in which to capture: a graph can work in the memory of a larger one, not of a smaller."""
    return sorted(keys, key=lambda key: (key[1].num_starts, key[1].num_edges), reverse=True)


def _release_idle_memory(device: torch.device) -> None:
    """Hand back what torch keeps for later, if less than half the GPU is free: CUDA graphs have memory of their own."""
    free, total = torch.cuda.mem_get_info(device)
    if free < total / 2:
        torch.cuda.empty_cache()


@contextmanager
def _capture(graph: torch.cuda.CUDAGraph, pool: Any, stream: torch.cuda.Stream) -> Iterator[None]:
    """Capture what is done here, while other threads work.

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
            except BaseException:
                with suppress(RuntimeError):  # that the capture is spoiled
                    graph.capture_end()
                raise
            graph.capture_end()
    finally:
        torch._C._cuda_clearCublasWorkspaces()
        if collects:
            gc.enable()


def _tensors(batch: Batch) -> list[Tensor]:
    """All tensors of a batch, each once."""
    found: list[Tensor] = []

    def take(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    batch.map(take)
    return found


def _flat_copy(batch: Batch) -> tuple[Tensor, list[Tensor]]:
    """One piece of memory, and the tensors of the batch copied there: one copy moves all."""
    tensors = _tensors(batch)
    sizes = [-(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT for tensor in tensors]
    flat = torch.empty(sum(sizes), dtype=torch.uint8, device=tensors[0].device)
    views = []
    for tensor, piece in zip(tensors, torch.split(flat, sizes), strict=True):
        view = piece[: tensor.numel() * tensor.element_size()].view(tensor.dtype).view(tensor.shape)
        views.append(view.copy_(tensor))
    return flat, views


def _with_tensors(batch: Batch, tensors: list[Tensor]) -> Batch:
    """The same batch with other tensors, in the order of `_tensors`."""
    remaining = iter(tensors)
    return batch.map(lambda _: next(remaining))
