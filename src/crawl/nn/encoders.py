"""From the features of a data set to the channels of the first layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crawl.checks import MAX_CHANNELS, MAX_COUNT, as_list, check_type, truth, whole_number
from crawl.tensor_checks import in_memory, plain_tensor

UNKNOWN = -(2**62)  # the category of a value that was not there in training; no data holds this number by chance
_MAX_CATEGORIES = 10_000_000  # of one column


class Encoder(nn.Module):
    """Features of nodes or edges in, `[rows, out_channels]` out.

    `Dense`, `OneHot`, `Embedding` and `WithEncodings` are encoders.
    """

    out_channels: int

    def forward(self, features: Tensor | None, num_rows: int, like: Tensor) -> Tensor:
        """`[num_rows, out_channels]` in the dtype and on the device of `like`."""
        if not plain_tensor("like", like).is_floating_point():
            raise ValueError(f"like must hold floating-point numbers, not {like.dtype}: give a weight of the model.")
        return self.encode(self.checked(features, num_rows), num_rows, like)

    def checked(self, features: Tensor | None, num_rows: int) -> Tensor | None:
        """What `encode` takes. Refuses features that do not fit this encoder."""
        raise NotImplementedError

    def encode(self, features: Tensor | None, num_rows: int, like: Tensor) -> Tensor:
        """`forward` for features that were checked before: no wait for a GPU."""
        raise NotImplementedError


class Dense(Encoder):
    """Numbers as they are, `[rows, channels]`; a constant 1 where the data has no features and `channels` is 1.

    Args:
        channels: The width of the features.
        normalised: Divide each row by the sum of its absolute values, as PyG's `NormalizeFeatures` does where these are
            counts; a row of zeros stays as it is.
    """

    def __init__(self, channels: int, *, normalised: bool = False) -> None:
        super().__init__()
        self.out_channels = whole_number("channels", channels, 0, MAX_CHANNELS)
        self.normalised = truth("normalised", normalised)

    def checked(self, features: Tensor | None, num_rows: int) -> Tensor | None:
        """What `encode` takes. Refuses features of another width."""
        num_rows = whole_number("num_rows", num_rows, 0, MAX_COUNT)
        if features is None and self.out_channels > 1 and num_rows:
            raise ValueError(f"The data has no features, but {self.out_channels} channels are expected.")
        return None if features is None else _as_rows(features, num_rows, self.out_channels)

    def encode(self, features: Tensor | None, num_rows: int, like: Tensor) -> Tensor:
        """`forward` for features that were checked before."""
        if features is None:
            return like.new_ones(num_rows, self.out_channels)
        features = features.to(like.device, like.dtype)
        return F.normalize(features, p=1.0, dim=1) if self.normalised else features


class _Categorical(Encoder):
    """Categories in columns, 0 to `num_categories` - 1 in each, or `UNKNOWN`."""

    def __init__(self, num_categories: int | Sequence[int]) -> None:
        super().__init__()
        is_one = isinstance(num_categories, int)
        columns = [num_categories] if is_one else as_list("num_categories", num_categories, "sizes")
        if not columns:
            raise ValueError("num_categories must name at least one column with at least one value, not [].")
        self.num_categories = tuple(whole_number("Each of num_categories", n, 1, _MAX_CATEGORIES) for n in columns)

    def checked(self, features: Tensor | None, num_rows: int) -> Tensor:
        """What `encode` takes: `[num_rows, columns]` int64. Refuses what is not a known category."""
        num_rows = whole_number("num_rows", num_rows, 0, MAX_COUNT)
        if features is None:
            if num_rows:
                raise ValueError("The data has no features, but categories are expected.")
            features = torch.empty(0, dtype=torch.long)
        features = _as_rows(features, num_rows, len(self.num_categories))
        if features.is_floating_point() and not bool((features.isfinite() & (features == features.floor())).all()):
            raise ValueError("Expected categories (whole numbers), not other numbers; use Dense for those.")
        features = features.long()
        limit = torch.tensor(self.num_categories, device=features.device)
        wrong = ((features < 0) | (features >= limit)) & (features != UNKNOWN)
        if bool(wrong.any()):
            row, column = (int(i) for i in wrong.nonzero()[0])
            raise ValueError(
                f"Row {row} has category {int(features[row, column])} in column {column}, "
                f"but only 0 to {self.num_categories[column] - 1} are known."
            )
        return features


class OneHot(_Categorical):
    """Categories one-hot, several columns side by side; the category `UNKNOWN` as zeros.

    Args:
        num_categories: How many values each column takes, 0 to num_categories - 1.
    """

    def __init__(self, num_categories: int | Sequence[int]) -> None:
        super().__init__(num_categories)
        self.out_channels = sum(self.num_categories)
        self.first_channel: Tensor  # of each column
        self.register_buffer("first_channel", torch.tensor([0, *self.num_categories[:-1]]).cumsum(0), persistent=False)

    def encode(self, features: Tensor | None, num_rows: int, like: Tensor) -> Tensor:
        """`forward` for features that were checked before."""
        assert features is not None
        features = features.to(like.device)
        channels = features.clamp_min(0) + self.first_channel.to(like.device)
        return like.new_zeros(num_rows, self.out_channels).scatter_(1, channels, (features >= 0).to(like.dtype))


class Embedding(_Categorical):
    """Categories as learned vectors, summed over the columns; the category `UNKNOWN` adds nothing.

    Args:
        num_categories: How many values each column takes, 0 to num_categories - 1.
        channels: The width of the vectors.
    """

    @in_memory("An encoder of this size")
    def __init__(self, num_categories: int | Sequence[int], channels: int) -> None:
        super().__init__(num_categories)
        self.out_channels = whole_number("channels", channels, 1, MAX_CHANNELS)
        self.tables = nn.ModuleList(nn.Embedding(n, channels) for n in self.num_categories)

    def encode(self, features: Tensor | None, num_rows: int, like: Tensor) -> Tensor:
        """`forward` for features that were checked before."""
        assert features is not None
        columns = zip(features.to(like.device).unbind(1), self.tables, strict=True)
        vectors = [table(column.clamp_min(0)) * (column >= 0).unsqueeze(1) for column, table in columns]
        return torch.stack(vectors).sum(dim=0).to(like.dtype)


class WithEncodings(Encoder):
    """Features by another encoder, then structural encodings: the numbers in the last columns of the features.

    The features are those that the transforms of `crawl.encodings` make. The network puts a batch norm on the
    encodings.

    Args:
        encoder: The encoder of the other columns; `Dense(0)` if there are none.
        width: The number of columns of encodings.
    """

    def __init__(self, encoder: Encoder, width: int) -> None:
        super().__init__()
        check_type("encoder", encoder, Encoder, "such as OneHot(21)")
        self.encoder, self.width = encoder, whole_number("width", width, 1, MAX_CHANNELS)
        self.out_channels = encoder.out_channels + self.width

    def checked(self, features: Tensor | None, num_rows: int) -> Tensor:
        """What `encode` takes. Refuses features without the encodings, or others that do not fit the encoder."""
        if features is None or not num_rows:
            if num_rows:
                raise ValueError(f"The data has no features, but {self.width} columns of encodings are expected.")
            features = torch.empty(0, self.width)
        features = plain_tensor("features", features)
        if features.dim() != 2 or features.shape[1] < self.width:
            raise ValueError(
                f"Expected {self.width} columns of encodings after the features, not shape {list(features.shape)}: "
                "add them with crawl.encodings."
            )
        own, encodings = self._parts(features)
        own = self.encoder.checked(own, num_rows)
        return encodings if own is None else torch.cat([own.to(encodings.dtype), encodings], dim=1)

    def encode(self, features: Tensor | None, num_rows: int, like: Tensor) -> Tensor:
        """`forward` for features that were checked before."""
        assert features is not None
        own, encodings = self._parts(features)
        if own is not None and isinstance(self.encoder, _Categorical):
            own = own.long()
        return torch.cat([self.encoder.encode(own, num_rows, like), encodings.to(like.device, like.dtype)], dim=1)

    def _parts(self, features: Tensor) -> tuple[Tensor | None, Tensor]:
        """The features of the other encoder, None without any, and the encodings."""
        own, encodings = features[:, : -self.width], features[:, -self.width :]
        return own if own.shape[1] else None, encodings


def _as_rows(features: Tensor, num_rows: int, num_columns: int) -> Tensor:
    """`[num_rows, num_columns]`: one column may come without its dimension, no rows in any shape."""
    features = plain_tensor("features", features)
    if features.numel() == num_rows == 0:
        return features.reshape(0, num_columns)
    features = features.unsqueeze(1) if features.dim() == 1 else features
    if features.shape != (num_rows, num_columns):
        raise ValueError(f"Expected features of shape {[num_rows, num_columns]}, not {list(features.shape)}.")
    return features
