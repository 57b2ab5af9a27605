"""Runs functions of batches of a data set, captured in CUDA graphs or eagerly: training steps and evaluations."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from types import TracebackType
from typing import Any, cast

import torch
from torch import Tensor, nn

from crawl.choices import Precision
from crawl.data.assembly import Assembler
from crawl.data.encoded import AnyStore
from crawl.data.identity import graph_keys
from crawl.data.link_graph import LinkGraph
from crawl.data.one_graph import OneGraph
from crawl.data.packed import PackedStore
from crawl.data.store import GraphStore
from crawl.data.target_assembly import ClosedGraph, FullGraph
from crawl.data.task import Task
from crawl.nn.batch import Batch
from crawl.nn.dropout import Dropout
from crawl.ops.backends import can_use_triton
from crawl.ops.precision import products
from crawl.training.calling import Caller, draws_from_torch, why_not_captured
from crawl.training.capture import CannotCapture, Recorder
from crawl.training.model_checks import check_model
from crawl.training.parts import MOST_OF_FILES, bytes_on_device, free_bytes, one_ahead
from crawl.training.seeds import derive_seed
from crawl.walks.plan import WalkPlan

Function = Callable[[Any], Tensor]


class Runner:
    """Makes batches of a data set and runs functions of them.

    On an NVIDIA GPU the data set is kept in its memory, and each function is captured in a CUDA graph for every bucket
    size. If the data set does not fit, parts of it are brought there, one after the other. What cannot be captured runs
    eagerly; `reason` says why.

    Args:
        model: What the functions call, by `answer`. It is called with what its `forward` accepts: a `crawl.nn.Batch` if
            the first argument is annotated as one, else a PyG `Batch`, or its `x`, `edge_index`, `edge_attr` and
            `batch` by name, and `seed` and `num_steps` of walks. The walks of a `crawl.nn.Batch` are those of the
            model's `walk_plan`, which the networks inside it must have, too.
        task: What it predicts.
        store: The graphs, or one graph with targets, wherever they are.
        device: Where the model is.
        largest_batch: The most graphs that any batch will have.
        is_captured: Whether to capture what can be captured.
        has_noise: Whether the model answers with a mean and the logarithm of a variance for each target.
        most_bytes: What the data set may take of the GPU's memory; a share of what is free when None.

    Attributes:
        reason: Why functions are not captured; None if they are.

    Raises:
        ValueError: If the model needs what there is not, or a network inside it wants other walks.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        store: GraphStore | OneGraph,
        device: torch.device,
        *,
        largest_batch: int,
        is_captured: bool = True,
        has_noise: bool = False,
        most_bytes: int | None = None,
    ) -> None:
        self.model, self.task, self.device, self.has_noise = model, task, device, has_noise
        self.caller = Caller(model)
        self.keys: Tensor | None = None  # of graphs in files they are computed as they are used
        if not isinstance(store, PackedStore):
            self.keys = torch.zeros(1, dtype=torch.long) if isinstance(store, OneGraph) else graph_keys(store)
        check_model(model, self.caller, self.plan, store)
        if not is_captured:
            self.reason: str | None = "there are too few batches"
        elif not can_use_triton(device):
            self.reason = f"there is no NVIDIA GPU with Triton, but {device}"
        elif store.num_edges == 0:
            self.reason = "no graph of the data has an edge"
        elif isinstance(store, GraphStore) and store.pairs is not None:
            self.reason = "targets are of pairs of nodes in many graphs"
        else:
            self.reason = why_not_captured(model)
        if isinstance(store, PackedStore):
            self._with_checked_features(store.subset([0]))  # refused at once
        else:
            store = self._with_checked_features(store)
        most_bytes = free_bytes(device) if most_bytes is None else most_bytes
        most_bytes = min(most_bytes, MOST_OF_FILES) if isinstance(store, PackedStore) else most_bytes
        if isinstance(store, OneGraph):
            self.is_resident, self.part_size = True, len(store)
        else:
            cost = bytes_on_device(store)
            self.is_resident = not isinstance(store, PackedStore) and float(cost.sum()) <= most_bytes
            # Whichever graphs they are, this many fit.
            self.part_size = max(int((cost.sort(descending=True).values.cumsum(0) <= most_bytes).sum()), largest_batch)
        self.store = store if self.is_resident else store.to("cpu")
        self.most_bytes = most_bytes
        self.graphs: Assembler | ClosedGraph | None = None
        self._shown: GraphStore | OneGraph = self.store
        self._shown_seed: int | None = None
        self._recorders: dict[tuple[int, bool], tuple[tuple[Any, ...], Recorder]] = {}
        self._words: tuple[int, int | None] = (0, None)

    def _with_checked_features(self, store: AnyStore) -> AnyStore:
        """The same graphs with features as the model takes them. Refuses those that do not fit."""
        module = cast(Any, self.model)
        if not (self.caller.takes_batch and hasattr(module, "checked_features")):
            return store
        x, edge_attr = module.checked_features(store.x, store.num_nodes, store.edge_attr, store.num_edges)
        checked: AnyStore = replace(store, x=x, edge_attr=edge_attr)
        return checked

    def keys_of(self, ids: Tensor) -> Tensor:
        """The keys of these graphs, on the CPU."""
        if self.keys is not None:
            return self.keys.cpu()[ids]
        assert isinstance(self.store, GraphStore)
        return graph_keys(self.store.subset(ids))

    @property
    def plan(self) -> WalkPlan | None:
        """The walks of the model as it is now; None without walks."""
        return getattr(self.model, "walk_plan", None)

    @property
    def how(self) -> str:
        """`captured`, or `eager` with the reason."""
        return "captured" if self.reason is None else f"eager: {self.reason}"

    def warn_if_eager(self) -> None:
        """Says on a GPU, where steps are expected to be captured, why they are not."""
        if self.reason is not None and (self.device.type == "cuda" or can_use_triton(self.device)):
            warnings.warn(f"Steps run eagerly, which is slower: {self.reason}.", UserWarning, stacklevel=3)

    def answer(self, batch: Any) -> Tensor:
        """The model's answer to a batch that `run` made.

        Raises:
            ValueError: If it does not have the shape that the task needs.
        """
        try:
            answer = self.caller(batch, *self._words)
        except RuntimeError as error:
            found, own = getattr(batch.x, "dtype", None), next(self.model.parameters()).dtype
            if found is not None and found.is_floating_point and found != own:
                remedy = f"call model.to({found}), or convert x in its forward"
                error.add_note(
                    f"x is of {found}, but the weights of {type(self.model).__name__} are of {own}: {remedy}."
                )
            raise
        level = self.task.level
        if isinstance(batch, Batch):
            num_rows = batch.num_answers(level == "node")
        elif level == "pair":
            num_rows = batch.edge_label_index.shape[1]
        else:
            num_rows = batch.num_nodes if level == "node" else batch.num_graphs
        width = self.task.num_outputs * (2 if self.has_noise else 1)
        expected = (num_rows, width)
        if answer.shape != expected:
            what = ", means and then what says variances (see crawl.ops.losses.variance_of)" if self.has_noise else ""
            raise ValueError(
                f"The model must answer with {width} number{'s'[: width - 1]} for each {level}{what}, in a tensor of "
                f"shape {list(expected)}, not {list(answer.shape)}."
            )
        nodes = None if isinstance(batch, Batch) else getattr(batch, "target_nodes", None)
        return answer if nodes is None else answer[nodes]

    def run(
        self,
        functions: Function | Sequence[Function],
        batches: list[Tensor],
        batch_size: int,
        *,
        seed: int,
        num_steps: int | None = None,
        is_training: bool = False,
        protected: Callable[[], list[Tensor]] = list,
    ) -> Iterator[Tensor]:
        """The result of the function for each batch, in a tensor that the next one may overwrite.

        Args:
            functions: What to run; one for all batches, or one for each.
            batches: The ids of the graphs of each batch, on the CPU.
            batch_size: The most graphs of a batch.
            seed: The seed of the walks.
            num_steps: Steps of the walks; those of the model when None.
            is_training: Whether there is a backward pass, and the walks are those of training.
            protected: What a function changes; trials before it is captured leave it as it was.
        """
        functions = [functions] * len(batches) if callable(functions) else list(functions)
        self._show(batches, seed)
        self._words = (seed, num_steps)
        walks = "num_steps" in self.caller.accepts or (self.caller.takes_batch and self.plan is not None)
        if num_steps is not None and not walks:
            raise ValueError(f"{type(self.model).__name__} does not walk: leave out num_steps={num_steps}.")
        if not self.caller.takes_batch:
            yield from self._run_on_data(functions, batches)
            return
        if num_steps is None:
            num_steps = self.plan.steps(is_training) if self.plan is not None else 0
        done = 0
        while done < len(batches):
            recorder = None if self.reason is not None else self._recorder(num_steps, is_training, protected)
            rest = (functions[done:], batches[done:])
            try:
                for result in self._run(recorder, *rest, batch_size, num_steps, seed, is_training):
                    done += 1
                    yield result
            except CannotCapture as error:
                self.reason = f"{_blamed(self.model, error)}: {error}"
                self.warn_if_eager()

    def _run(
        self,
        recorder: Recorder | None,
        functions: list[Function],
        batches: list[Tensor],
        batch_size: int,
        num_steps: int,
        seed: int,
        is_training: bool,
    ) -> Iterator[Tensor]:
        plan = None if self.plan is None else self.plan.in_mode(is_training)
        for graphs, part in self._parts(batches, batch_size):
            own, functions = functions[: len(part)], functions[len(part) :]
            if isinstance(graphs, Assembler):
                if plan is not None:
                    graphs.graph_of(plan.law)  # made ready here, since a captured step cannot wait for it
                graphs.draw_starts(plan.starts(is_training) if plan is not None else None, seed)
            if recorder is not None:
                with self._randomness(part[0]):  # a CUDA graph draws from torch's generator as it is when replayed
                    yield from recorder.run(graphs, own, part, batch_size, seed)
                continue
            for function, ids in zip(own, part, strict=True):
                with self.caller.own_threads(), self._products(), self._randomness(ids):
                    result = function(graphs.batch(ids, plan, num_steps, seed))
                yield result

    def _show(self, batches: list[Tensor], seed: int) -> None:
        """Have batches made of the graph that these may see.

        Targets that are drawn for each epoch of training see the graph without their links, also when they are
        evaluated; the seed says which they are. All others see all training links.

        Raises:
            ValueError: If there are targets of both kinds.
        """
        if not isinstance(self.store, LinkGraph) or not batches:
            return
        is_drawn = torch.cat(batches) < self.store.num_drawn
        if bool(is_drawn.any()) and not bool(is_drawn.all()):
            raise ValueError("Training links are hidden while they are predicted: evaluate the splits one by one.")
        wanted = derive_seed(seed, "links") if bool(is_drawn.any()) else None
        if wanted == self._shown_seed:
            return
        self._shown, self._shown_seed = self.store if wanted is None else self.store.drawn(wanted), wanted
        if isinstance(self.graphs, FullGraph | ClosedGraph):
            self.graphs.show(self._shown)

    def _products(self) -> AbstractContextManager[None]:
        """The precision of all products of the model, as in a captured step."""
        precision: Precision | None = getattr(self.model, "precision", None)
        return nullcontext() if precision is None or self.device.type != "cuda" else products(precision)

    def _run_on_data(self, functions: list[Function], batches: list[Tensor]) -> Iterator[Tensor]:
        if self.keys is not None:
            self._shown, self.keys = self._shown.to(self.device), self.keys.to(self.device)
        for function, ids in zip(functions, batches, strict=True):
            with self.caller.own_threads(), self._randomness(ids):
                batch = self._shown.batch(ids)
                if self.keys is None:
                    batch.graph_keys = self.keys_of(ids)
                    batch = batch.to(self.device)
                elif isinstance(self.store, GraphStore):
                    batch.graph_keys = self.keys[ids.to(self.device)]
                result = function(batch)
            yield result

    @contextmanager
    def _randomness(self, ids: Tensor) -> Iterator[None]:
        """Where to evaluate a model of one's own: what it draws from torch's generator depends on our seed."""
        if self.model.training or not draws_from_torch(self.model):  # others may train in this process
            yield
            return
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(derive_seed(self._words[0], "batch", *ids[:1].tolist()))
            yield

    @torch.no_grad()
    def predict(
        self,
        ids: Tensor,
        batch_size: int,
        *,
        seed: int,
        num_steps: int | None = None,
        on_batch: Callable[[], None] | None = None,
    ) -> Tensor:
        """The answers of the model, which is in evaluation mode, for the graphs `ids`, on the device.

        The arguments are those of `run`. `on_batch` is called after every batch is begun.
        """
        settings: Any = {"seed": seed, "num_steps": num_steps, "on_batch": on_batch}
        return self._outputs(self._answer_without_gradient, ids, batch_size, **settings)

    @torch.no_grad()
    def embed(
        self,
        ids: Tensor,
        batch_size: int,
        *,
        seed: int,
        num_steps: int | None = None,
        on_batch: Callable[[], None] | None = None,
    ) -> Tensor:
        """The same for what the head of the model sees. Refuses a model that cannot tell."""
        if not (self.caller.takes_batch and hasattr(self.model, "embed")):
            raise ValueError(
                f"{type(self.model).__name__} has no embeddings: it needs a method embed(batch) for a crawl.nn.Batch."
            )
        settings: Any = {"seed": seed, "num_steps": num_steps, "on_batch": on_batch}
        return self._outputs(self._embed_without_gradient, ids, batch_size, **settings)

    def _outputs(
        self,
        function: Function,
        ids: Tensor,
        batch_size: int,
        *,
        seed: int,
        num_steps: int | None,
        on_batch: Callable[[], None] | None,
    ) -> Tensor:
        outputs, per_graph = [], None  # rows of answers, if they are not one for each of the ids
        if isinstance(self.store, GraphStore) and self.task.level != "graph":
            per_graph = self.store.sizes[0] if self.task.level == "node" else self.store.targets_per_graph
        batches = list(torch.split(ids, batch_size))
        results = self.run(function, batches, batch_size, num_steps=num_steps, seed=seed)
        for batch, result in zip(batches, results, strict=True):
            num_rows = len(batch) if per_graph is None else int(per_graph[batch].sum())
            outputs.append(result[:num_rows].clone())
            if on_batch is not None:
                on_batch()
        return torch.cat(outputs)

    def _answer_without_gradient(self, batch: Any) -> Tensor:
        with torch.no_grad():
            return self.answer(batch)

    def _embed_without_gradient(self, batch: Any) -> Tensor:
        model: Any = self.model
        with torch.no_grad():
            embeddings: Tensor = model.embed(batch)
            return embeddings

    def _recorder(self, num_steps: int, is_training: bool, protected: Callable[[], list[Tensor]]) -> Recorder:
        """What has captured functions so far; a new one if the model, or what it changes, is another."""
        model: Any = self.model
        generators = _generators(model)
        precision: Precision = getattr(model, "precision", "tf32")
        state = [*model.parameters(), *model.buffers(), *protected()]
        signature = (
            *(model.training, precision, self.plan),
            *(tensor.data_ptr() for tensor in state),
            *(parameter.requires_grad for parameter in model.parameters()),
            *map(id, generators),
        )
        known, recorder = self._recorders.get((num_steps, is_training), ((), None))
        if recorder is None or known != signature:
            prepare = model.encode if getattr(model, "can_encode_ahead", False) else _as_it_is
            plan = None if self.plan is None else self.plan.in_mode(is_training)
            recorder = Recorder(self.device, plan, num_steps, is_training, prepare, precision, generators, protected)
            self._recorders[num_steps, is_training] = signature, recorder
        return recorder

    def _resident(self, has_edges: bool, has_walks: bool) -> Assembler | ClosedGraph:
        """What makes batches of data that stay where they are."""
        if isinstance(self.store, GraphStore):
            assert self.keys is not None
            return Assembler(self.store, self.keys, self.device, has_edges=has_edges, has_walks=has_walks)
        graphs: FullGraph | ClosedGraph
        if self.store.batches == "full":
            graphs = FullGraph(self.store, self.device, has_edges=has_edges, has_walks=has_walks)
        else:
            fits = self.store.num_bytes <= self.most_bytes
            graphs = ClosedGraph(self.store.to(self.device) if fits else self.store, self.device, has_edges=has_edges)
        if self._shown_seed is not None:
            assert isinstance(self._shown, OneGraph)
            graphs.show(self._shown)
        return graphs

    def _parts(self, batches: list[Tensor], batch_size: int) -> Iterator[tuple[Assembler | ClosedGraph, list[Tensor]]]:
        """The batches, as many at a time as have their graphs on the device together."""
        has: dict[str, Any] = {"has_edges": getattr(self.model, "passes_messages", True)}
        has["has_walks"] = self.plan is not None
        if self.graphs is not None and has["has_walks"] > self.graphs.has_walks:  # the model had no plan before
            self.graphs = None
        if self.is_resident:
            if self.graphs is None:
                self.graphs = self._resident(**has)
            yield self.graphs, batches
            return
        assert isinstance(self.store, GraphStore)
        assert self.graphs is None or isinstance(self.graphs, Assembler)
        if batch_size > self.part_size:
            raise ValueError(f"A batch of {batch_size} graphs is larger than largest_batch of this runner.")
        num_batches = self.part_size // batch_size
        parts = [batches[first : first + num_batches] for first in range(0, len(batches), num_batches)]
        cut = map(self._read, parts) if self.keys is not None else one_ahead(self._read, parts)
        for part, (store, keys) in zip(parts, cut, strict=True):
            if self.graphs is None:
                # Whichever graphs come later, they will not be larger than the largest.
                largest = self.store.sizes.sort(dim=1, descending=True).values[:, : self.part_size].sum(1)
                most = (self.part_size, int(largest[0]), int(largest[1]))
                self.graphs = Assembler(store, keys, self.device, **has, most=most, all_sizes=self.store.sizes)
            else:
                self.graphs.load(store, keys)
            ends = torch.tensor([len(batch) for batch in part]).cumsum(0).tolist()
            yield self.graphs, [torch.arange(end - len(batch), end) for batch, end in zip(part, ends, strict=True)]

    def _read(self, part: list[Tensor]) -> tuple[GraphStore, Tensor]:
        """The graphs of some batches as the model takes them, and their keys."""
        assert isinstance(self.store, GraphStore)
        store = self.store.subset(ids := torch.cat(part))
        if self.keys is not None:
            return store, self.keys_of(ids)
        return self._with_checked_features(store), graph_keys(store)


def _as_it_is(batch: Any) -> Any:
    return batch


def _generators(model: nn.Module) -> list[torch.Generator]:
    """The random generators that the model has for itself, each once."""
    found = [module.generator for module in model.modules() if isinstance(module, Dropout)]
    return list({id(generator): generator for generator in found if generator is not None}.values())


def _blamed(model: nn.Module, error: BaseException) -> str:
    """The part of the model in which an error happened."""
    names = {id(module): f"{name or 'the model'} ({type(module).__name__})" for name, module in model.named_modules()}
    found = "the step"
    cause = error.__cause__ or error
    place: TracebackType | None = cause.__traceback__
    while place is not None:
        found = names.get(id(place.tb_frame.f_locals.get("self")), found)
        place = place.tb_next
    return found
