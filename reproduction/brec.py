"""BREC: 400 pairs of graphs, and how many of them a network tells apart.

A fresh network for each pair sees 32 relabellings of both graphs and is trained to give them different answers of 16
numbers. Hotelling's T² of the 32 differences of answers says whether it can tell them apart; the same for relabellings
of one graph is the control. Walks are drawn anew in each evaluation, and T² counts their noise, so it is computed from
the mean answers of 1, 2, 4, … evaluations, until it is clear on which side of the threshold it ends.
"""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from crawl.checks import check_choice, check_fields, shown
from crawl.data.benchmarks.root import data_root
from crawl.data.store import GraphStore, as_ptr
from crawl.data.task import Task
from crawl.files import write_atomically
from crawl.models import Network
from crawl.ops.triton.streams import backward
from crawl.training.runner import Runner
from crawl.training.seeds import derive_seed

CATEGORIES = {
    "basic": range(60),
    "regular": range(60, 110),
    "strongly_regular": range(110, 160),
    "extension": range(160, 260),
    "cfi": range(260, 360),
    "4_vertex": range(360, 380),
    "distance_regular": range(380, 400),
}
NUM_PAIRS = 400
THRESHOLD = 72.34  # of T²
NUM_RELABELLINGS = 32
_NUM_OUTPUTS = 16
_MAX_EPOCHS = 20
_LR = _WEIGHT_DECAY = 1e-4
_BATCH_SIZE = 16
_EVAL_BATCH_SIZE = 64
_FEWEST_EVALUATIONS, _MARGIN = 8, 3.0  # before a pair is decided
_ENOUGH = 0.2  # training stops when the loss of an epoch is below it
_GRAPHS_OF_A_PAIR = 4 * NUM_RELABELLINGS  # first those of both graphs in turn, then those of the control
_FILE, _SHA256 = "brec.g6", "a85c524d43fdf14182bad02b47d56fa1bf83b145b26908c71d4b248ac9efc242"
_DRAWING = threading.Lock()  # torch's generator is that of all threads

_HYBRID = ("walk", "edge_update", "gine", "virtual_node")
NETWORKS: dict[str, dict[str, Any]] = {
    **{f"crawl-{window}": {"layer": ("walk",), "window_size": window} for window in (8, 16, 32)},
    "hybrid": {"layer": _HYBRID, "window_size": 8},
}

Array = NDArray[np.float64]
Pair = tuple[nx.Graph, nx.Graph]


class PairRecord(TypedDict):
    """What came out for a pair: epochs trained, the loss of the last, and T² of pair and control.

    T² has a number for each of `Settings.counts`, as far as it had to be computed; see `is_decided`.
    """

    pair: int
    epochs: int
    loss: float
    t2: list[float]
    control: list[float]


@dataclass(frozen=True)
class Settings:
    """What the protocol leaves open.

    Attributes:
        hidden_channels: The width of the layers (d).
        num_layers: The number of layers (L).
        num_steps: Steps of a walk in training.
        num_eval_steps: Steps of a walk in evaluation.
        num_evaluations: Evaluations of each graph, at most, with walks of their own.
    """

    hidden_channels: int = 32
    num_layers: int = 2
    num_steps: int = 60
    num_eval_steps: int = 240
    num_evaluations: int = 64

    def __post_init__(self) -> None:
        check_fields(self, "brec")

    def check_walks(self, network: str) -> None:
        """Refuse a name that is not one of `NETWORKS`, and walks that are shorter than the network's window."""
        check_choice("network", network, NETWORKS)
        window_size, shortest = NETWORKS[network]["window_size"], min(self.num_steps, self.num_eval_steps)
        if shortest < window_size:
            raise ValueError(f"Walks of {shortest} steps are shorter than the window of {network}: take {window_size}.")

    @property
    def counts(self) -> list[int]:
        """The numbers of evaluations whose mean is tested: powers of two, and all."""
        powers = (2**k for k in range(self.num_evaluations.bit_length()))
        return sorted({*powers, self.num_evaluations})


def import_pairs(path: Path, root: str | Path | None = None) -> Path:
    """Put the file `brec.g6`, compressed with gzip or not, into the data root; the file written.

    Args:
        path: The file, or a folder with it.
        root: The data root, as `data_root` says.

    Raises:
        ValueError: If the file is not there, or is another one.
    """
    names = (_FILE, f"{_FILE}.gz")
    found = [file for file in ((path / name for name in names) if path.is_dir() else (path,)) if file.is_file()]
    if not found:
        raise ValueError(f"{path} does not hold BREC: looked for {' and '.join(names)}.")
    content = found[0].read_bytes()
    try:
        content = gzip.decompress(content) if found[0].suffix == ".gz" else content
    except (OSError, EOFError) as error:
        raise ValueError(f"{found[0]} is damaged ({error}): get the file again.") from None
    _check(content, found[0])
    target = data_root(root) / _FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, content)
    return target


def load_pairs(root: str | Path | None = None) -> list[Pair]:
    """The 400 pairs, from the data root.

    Raises:
        ValueError: If they are not there, or the file is damaged.
    """
    path = data_root(root) / _FILE
    if not path.is_file():
        raise ValueError(f"{path} is missing: python -m reproduction import brec PATH.")
    content = path.read_bytes()
    _check(content, path)
    graphs = [nx.from_graph6_bytes(line) for line in content.split()]
    return list(zip(graphs[::2], graphs[1::2], strict=True))


def _check(content: bytes, path: Path) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != _SHA256:
        raise ValueError(f"{path} is not BREC's file: its sha256 is {found}, not {_SHA256}; get the file again.")


def chosen_pairs(words: Sequence[str]) -> list[int]:
    """The pairs that words such as `0-59`, `110` or `cfi` name, in their order; all without words.

    Raises:
        ValueError: For a word that is neither a category nor a range of pairs.
    """
    chosen: set[int] = set()
    for word in words:
        first, _, last = word.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            numbers = range(int(first), int(last or first) + 1)
            if not numbers or numbers[-1] >= NUM_PAIRS:
                raise ValueError(f"pairs must be from 0 to {NUM_PAIRS - 1}, such as 0-59, not {shown(word)}.")
            chosen.update(numbers)
        else:
            check_choice("pairs, unless a range such as 0-59,", word, CATEGORIES)
            chosen.update(CATEGORIES[word])
    return sorted(chosen) if words else list(range(NUM_PAIRS))


def t_squared(differences: Array) -> float:
    """T² of differences `[n, k]` as the protocol has it, without Hotelling's factor n: D̄ᵀ S⁻¹ D̄.

    S is their covariance. Its pseudo-inverse is taken, since answers may depend on each other.
    """
    mean = differences.mean(axis=0)
    covariance = np.atleast_2d(np.cov(differences, rowvar=False))
    return float(mean @ np.linalg.pinv(covariance, hermitian=True) @ mean)


def is_decided(t2: float, control: float, count: int, num_evaluations: int) -> bool:
    """Whether more evaluations than this many would change nothing.

    The mean of more evaluations has less noise, and T² grows at most in proportion to their number. So a pair is
    decided if T² is far above the threshold and that of the control far below it, or if T² would stay below it even if
    it grew several times as fast. Few evaluations decide nothing, since T² itself is noisy.
    """
    if count < _FEWEST_EVALUATIONS:
        return False
    is_distinguished = t2 > _MARGIN * THRESHOLD and _MARGIN * control < THRESHOLD
    return is_distinguished or _MARGIN * max(t2, control) * num_evaluations / count < THRESHOLD


def relabelled_pairs(pairs: Iterable[tuple[int, Pair]], seed: int) -> GraphStore:
    """For each pair 128 graphs: 32 relabellings of both, in turn, and 64 of one of them, drawn at random, as control.

    They depend on the seed and the number of the pair.
    """
    sizes: list[tuple[int, int]] = []
    edges: list[NDArray[np.int64]] = []
    for number, pair in pairs:
        draw = np.random.default_rng(derive_seed(seed, "relabel", number))
        graphs = [(len(graph), _both_ways(graph)) for graph in pair]
        control = graphs[draw.integers(2)]
        for num_nodes, both_ways in graphs * NUM_RELABELLINGS + [control] * (2 * NUM_RELABELLINGS):
            edges.append(draw.permutation(num_nodes)[both_ways])
            sizes.append((num_nodes, both_ways.shape[1]))
    node_ptr, edge_ptr = (as_ptr(list(counts)) for counts in zip(*sizes, strict=True))
    return GraphStore(node_ptr, edge_ptr, torch.from_numpy(np.concatenate(edges, axis=1)))


def _both_ways(graph: nx.Graph) -> NDArray[np.int64]:
    once = np.array(graph.edges, dtype=np.int64).reshape(-1, 2).T
    return np.concatenate([once, once[::-1]], axis=1)


class Contest:
    """Trains and tests one kind of network on pair after pair.

    There is one network, whose weights are drawn anew in place for each pair, and all pairs are in one store: on a GPU
    the step is captured once for each bucket size, not for each pair. What comes out for a pair does not depend on the
    pairs before it.

    Args:
        network: One of `NETWORKS`.
        pairs: The numbers of the pairs, and the pairs.
        settings: What the protocol leaves open.
        seed: Of relabellings, weights and walks.
        device: Where to compute.

    Raises:
        ValueError: As `Settings.check_walks` does.
    """

    def __init__(
        self, network: str, pairs: Sequence[tuple[int, Pair]], settings: Settings, seed: int, device: torch.device
    ) -> None:
        settings.check_walks(network)
        self.network, self.settings, self.seed, self.device = network, settings, seed, device
        self._place = {number: place for place, (number, _) in enumerate(pairs)}
        self.model = self._fresh_network(0).to(device)
        self.runner = Runner(
            self.model,
            Task(kind="regression", num_outputs=_NUM_OUTPUTS),
            relabelled_pairs(pairs, seed).to(device),
            device,
            largest_batch=_EVAL_BATCH_SIZE,
        )
        self.runner.warn_if_eager()
        # By itself, the runner gives equal graphs equal walks. Relabellings may be equal, and need walks of their own.
        numbers = torch.tensor([number for number, _ in pairs]).unsqueeze(1)
        self.runner.keys = (numbers * _GRAPHS_OF_A_PAIR + torch.arange(_GRAPHS_OF_A_PAIR)).flatten().to(device)
        self._is_different = -torch.ones(_BATCH_SIZE // 2, device=device)
        self.optimiser = torch.optim.Adam(
            self.model.parameters(), _LR, weight_decay=_WEIGHT_DECAY, fused=True, capturable=device.type == "cuda"
        )
        for parameter in self.model.parameters():  # a captured step needs the optimiser's state from the beginning
            parameter.grad = torch.zeros_like(parameter)
        self.optimiser.step()

    @property
    def num_parameters(self) -> int:
        """The number of weights of the network."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def test(self, pair: int) -> PairRecord:
        """Trains a fresh network on a pair and tests it.

        Raises:
            ValueError: If the network's answers are not finite.
        """
        self._reset(pair)
        ids = torch.arange(_GRAPHS_OF_A_PAIR) + _GRAPHS_OF_A_PAIR * self._place[pair]
        epochs, loss = self._train(pair, ids[: 2 * NUM_RELABELLINGS])
        t2: list[float] = []
        control: list[float] = []
        for count, answers in self._mean_answers(pair, ids):
            if not np.isfinite(answers).all():
                raise ValueError(
                    f"{self.network} does not answer pair {pair} with finite numbers; its loss was {loss:g}."
                )
            differences = answers[0::2] - answers[1::2]
            t2.append(_rounded(t_squared(differences[:NUM_RELABELLINGS])))
            control.append(_rounded(t_squared(differences[NUM_RELABELLINGS:])))
            if is_decided(t2[-1], control[-1], count, self.settings.num_evaluations):
                break
        return PairRecord(pair=pair, epochs=epochs, loss=_rounded(loss), t2=t2, control=control)

    def _fresh_network(self, pair: int) -> Network:
        settings = self.settings
        with _DRAWING, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(self.seed, "weights", pair))  # not that of a GPU in use
            return Network(
                1,
                _NUM_OUTPUTS,
                **NETWORKS[self.network],
                num_layers=settings.num_layers,
                hidden_channels=settings.hidden_channels,
                num_steps=settings.num_steps,
                num_eval_steps=settings.num_eval_steps,
                precision="float32",
            )

    @torch.no_grad()
    def _reset(self, pair: int) -> None:
        self.model.load_state_dict(self._fresh_network(pair).state_dict())
        for state in self.optimiser.state.values():
            for tensor in state.values():
                tensor.zero_()

    def _train(self, pair: int, ids: Tensor) -> tuple[int, float]:
        """The number of epochs trained, and the loss of the last."""
        self.model.train()
        batches = list(torch.split(ids, _BATCH_SIZE))
        epoch, loss = 0, float("inf")
        while epoch < _MAX_EPOCHS and not loss < _ENOUGH:
            epoch += 1
            losses = self.runner.run(
                self._step,
                batches,
                _BATCH_SIZE,
                seed=derive_seed(self.seed, "walks", pair, epoch),
                is_training=True,
                protected=self._changed_by_steps,
            )
            total = torch.zeros((), device=self.device)
            for of_batch in losses:
                total += of_batch
            loss = float(total) / len(batches)
        return epoch, loss

    def _step(self, batch: Any) -> Tensor:
        """One optimiser step; returns the loss before it."""
        answers = self.runner.answer(batch)[:_BATCH_SIZE]
        loss = F.cosine_embedding_loss(answers[0::2], answers[1::2], self._is_different)
        self.optimiser.zero_grad()
        backward(loss)
        self.optimiser.step()
        return loss.detach()

    def _changed_by_steps(self) -> list[Tensor]:
        state = [tensor for of_one in self.optimiser.state.values() for tensor in of_one.values()]
        return [*self.model.state_dict().values(), *state]

    def _mean_answers(self, pair: int, ids: Tensor) -> Iterator[tuple[int, Array]]:
        """Each of `settings.counts`, and `[len(ids), 16]` the mean answers of that many evaluations."""
        self.model.eval()
        total, done = np.zeros((len(ids), _NUM_OUTPUTS)), 0
        for count in self.settings.counts:
            seeds = [derive_seed(self.seed, "evaluate", pair, i) for i in range(done, count)]
            answers = torch.stack([self.runner.predict(ids, _EVAL_BATCH_SIZE, seed=seed) for seed in seeds])
            total, done = total + answers.cpu().double().sum(0).numpy(), count
            yield count, total / count


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
