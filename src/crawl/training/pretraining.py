"""Pre-training: a network predicts the structural bits of walks whose bits it does not see.

The bits of some walks are hidden as a whole: within a walk, bits would tell each other. What is left to learn from are
features, edges, and the bits of other walks through the same nodes, which the states of these nodes must keep.

A node that a hidden walk visits twice has the same state both times. So returns can be told by comparing states, as far
as these tell nodes apart. Whether a path closes a cycle cannot: the states must know about cycles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crawl.checks import MAX_SEED, check_type, whole_number
from crawl.data.dataset import Dataset
from crawl.data.splits import Split
from crawl.models import Network
from crawl.nn.batch import Batch
from crawl.nn.block import Block
from crawl.nn.conv import CRaWlConv
from crawl.nn.norm import BatchNorm
from crawl.nn.parallel import Parallel
from crawl.nn.walk_block import WalkBlock
from crawl.nn.walk_gru import WalkGRU
from crawl.ops.linear import linear
from crawl.ops.precision import precision
from crawl.ops.segments import Rows
from crawl.training.seeds import derive_seed
from crawl.training.settings import Evaluation, Pretraining, Training
from crawl.training.trainer import Trainer
from crawl.walks.philox import philox
from crawl.walks.walks import Walks, num_bits

_WIDTH = 64  # of the head


class MaskedBits(nn.Module):
    """A network with a head that predicts hidden bits; its `forward` is their loss.

        z = W BatchNorm(h);   logits at position i = W' ReLU(Σ_j z_j(v_(i-j))), j = 0..s

    with h the states of nodes after the last block. The readout of the network is not used, and so not changed.

    Args:
        network: What is trained, in place.
        hidden_share: The share of walks whose bits are hidden.
        seed: Of the first weights of the head, and of which walks are hidden.

    Raises:
        ValueError: If it is not a network that looks at the bits of walks.
    """

    num_steps: Tensor

    def __init__(self, network: nn.Module, hidden_share: float, seed: int) -> None:
        super().__init__()
        self.network = network = with_bits(network)
        assert network.walk_plan is not None
        self.window_size = network.walk_plan.window_size
        self.hidden_share, self.seed = hidden_share, derive_seed(seed, "hidden")
        # What a `Runner` asks a network for.
        self.walk_plan, self.precision = network.walk_plan, network.precision
        self.passes_messages, self.can_encode_ahead = network.passes_messages, network.can_encode_ahead
        self.checked_features, self.encode = network.checked_features, network.encode
        generator = torch.Generator().manual_seed(derive_seed(seed, "head"))

        def drawn(num_rows: int, width: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(num_rows, width).uniform_(-1, 1, generator=generator) / width**0.5)

        channels, number = network.hidden_channels, num_bits(self.window_size)
        self.norm, self.of_nodes = BatchNorm(channels), drawn((self.window_size + 1) * _WIDTH, channels)
        self.of_bits, self.bias = drawn(number, _WIDTH), nn.Parameter(torch.zeros(number))
        self.register_buffer("num_steps", torch.zeros((), dtype=torch.int64))  # so that each hides other walks
        self.to(dtype=network.readout.norm.weight.dtype)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The mean loss of the hidden bits, and their number; see `hidden_bits_loss`."""
        walks = batch.walks
        assert walks is not None  # by the plan
        is_hidden = self.hidden(walks)
        code = walks.code.masked_fill(is_hidden.unsqueeze(1), 0)
        known = {name: vars(walks)[name] for name in ("visits", "steps") if name in vars(walks)}
        seen = replace(batch, walks=replace(walks, code=code).with_segments(**known))
        seen = seen if seen.is_encoded else self.encode(seen)
        if self.training:
            self.num_steps.add_(1)
        with precision(self.precision):
            logits = self.logits(self.network.last_state(seen).nodes, walks, batch.nodes.rows)
        return hidden_bits_loss(logits, walks, is_hidden)

    def hidden(self, walks: Walks) -> Tensor:
        """`[W]` bool: whose bits are hidden in the coming step; the same on padded and exact batches."""
        walk = torch.arange(walks.num_walks, device=walks.device)
        return philox(self.seed, self.num_steps, 0, walk)[0] < int(self.hidden_share * 2**32)

    def logits(self, nodes: Tensor, walks: Walks, rows: Rows) -> Tensor:
        """`[W, T, 2s - 1]` for each bit, from the states of nodes alone, those at a position and up to s before it."""
        of_nodes = linear(self.norm(nodes, rows), self.of_nodes)
        num_walks, num_positions = walks.nodes.shape
        total = nodes.new_zeros(num_walks, num_positions, _WIDTH)
        for j, of_one in enumerate(torch.split(of_nodes, _WIDTH, dim=1)[:num_positions]):
            total = total + F.pad(walks.gather(of_one)[:, : num_positions - j], (0, 0, j, 0))
        logits = linear(total.relu().flatten(0, 1), self.of_bits, self.bias)
        return logits.view(num_walks, num_positions, len(self.bias))


def hidden_bits_loss(logits: Tensor, walks: Walks, is_hidden: Tensor) -> tuple[Tensor, Tensor]:
    """The mean binary cross-entropy of hidden ones and that of hidden zeros, averaged, and the number of both.

    Ones are rare, and so count as much as zeros do; log 2 is chance. Bits about positions before the start of a walk,
    which are always 0, do not count, nor does padding. What there is none of, has the loss 0.

    Args:
        logits: `[W, T, 2s - 1]`.
        walks: The walks with their bits.
        is_hidden: `[W]` bool.
    """
    s, device = walks.window_size, walks.device
    if walks.num_real is not None:
        is_hidden = is_hidden & (torch.arange(walks.num_walks, device=device) < walks.num_real)
    back = torch.cat([torch.arange(1, s + 1, device=device), torch.arange(2, s + 1, device=device)])
    is_there = torch.arange(walks.num_steps + 1, device=device).unsqueeze(1) >= back
    bits, counts = walks.bits(), is_hidden.view(-1, 1, 1) & is_there
    losses = F.binary_cross_entropy_with_logits(logits, bits.to(logits.dtype), reduction="none")
    means = [(losses * of_kind).sum() / of_kind.sum().clamp_min(1) for of_kind in (counts & bits, counts & ~bits)]
    return (means[0] + means[1]) / 2, counts.sum()


def with_bits(model: nn.Module) -> Network:
    """The model, if it is a network that looks at the bits of walks; refuses others, which cannot be pre-trained."""
    if not isinstance(model, Network):
        what = f"a {type(model).__name__}, which is not a crawl.Network"
    elif model.walk_plan is None:
        what = "a network without a block that uses walks"
    elif model.walk_plan.window_size == 0:
        what = "a network with a window of 0, whose walks have no bits"
    elif not any(_numbers_of_bits(model)):
        what = "a network without identity and adjacency, which does not look at bits"
    else:
        return model
    raise ValueError(f"Pre-training predicts bits of walks, so it cannot train {what}: leave out pretraining.")


def _numbers_of_bits(network: Network) -> Iterator[int]:
    """How many bits each block looks at; a block of the user's own may look at any."""
    for module in network.modules():
        if isinstance(module, CRaWlConv):
            yield module.bits.number
        elif isinstance(module, WalkGRU):
            yield int(module.is_used.sum())
        elif isinstance(module, Block) and module.uses_walks and not isinstance(module, WalkBlock | Parallel):
            yield 1


class Pretrainer(Trainer):
    """Trains the encoders and blocks of a network to predict hidden bits, on the training graphs of a data set.

    It is a `Trainer` with another loss. Targets are not looked at, and there is no validation. After the last epoch the
    network has its weights; the head is of no more use.

    Args:
        network: It is trained in place, except for its readout.
        dataset: Graphs and split.
        settings: How long, and how much is hidden.
        training: The training that comes afterwards.
        seed: Of the order of graphs, the walks, what is hidden, dropout and the head.
        device: Where to compute; `auto` takes a GPU if there is one.
    """

    epoch_title: ClassVar[str] = "pre-training epoch"

    def __init__(
        self,
        network: nn.Module,
        dataset: Dataset,
        settings: Pretraining,
        training: Training,
        *,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        check_type("network", network, nn.Module)
        check_type("dataset", dataset, Dataset, "call crawl.data.from_pyg(graphs), for example")
        check_type("settings", settings, Pretraining)
        check_type("training", training, Training)
        seed = derive_seed(whole_number("seed", seed, -MAX_SEED, MAX_SEED), "pretraining")
        none = dataset.split.train[:0]
        super().__init__(
            MaskedBits(network, settings.hidden_share, seed),
            replace(dataset, split=Split(dataset.split.train, none, none)),
            settings.as_training(training),
            Evaluation(),
            seed=seed,
            device=device,
        )

    def _loss(self, batch: Any, is_mean: bool) -> tuple[Tensor, Tensor]:
        loss, count = self.model(batch)
        return loss if is_mean else loss * count, count

    @property
    def records(self) -> list[dict[str, Any]]:
        """The history, without scores."""
        return [{key: record[key] for key in ("epoch", "lr", "loss", "seconds")} for record in self.history]
