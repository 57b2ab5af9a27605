"""From targets as people keep them, in text or in tensors, to a task and a tensor of its form."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, TypeGuard, get_args

import torch
from torch import Tensor

from crawl.checks import check_choice
from crawl.data.table import number_in
from crawl.data.task import Kind, Level, Task
from crawl.tensor_checks import plain_tensor

AnyKind = Literal["auto", "regression", "binary", "multiclass", "multilabel"]
Value = float | str | None  # a number, a word, or nothing

_MISSING = {"", "nan", "na", "n/a", "none", "null", "-", "?"}
_CALL = re.compile(r"(?:torch\.|numpy\.|np\.)?(?:tensor|array|float\d*|int\d*)(?=\()")
_SETTING = re.compile(r",\s*(?:dtype|device|grad_fn|requires_grad)=[^\])]*")
_GAP_IN_NUMBER = re.compile(r"(?<=\d)[\s'’](?=\d{3}\b)")  # 1 000
_COMMAS_IN_NUMBER = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")  # 1,000.5
_POINTS_IN_NUMBER = re.compile(r"[+-]?[1-9]\d{0,2}(?:(?:\.\d{3})+,\d*|(?:\.\d{3}){2,})")  # 1.000,5
_MINUS = str.maketrans("−–", "--")  # as word processors write it
MOST_CLASSES = 20  # of whole numbers; more are taken for quantities
_LARGEST_CLASS_ID = 1000  # whatever the number of rows
_LARGEST = torch.finfo(torch.float32).max
_FINEST = 1e-6  # of the range of targets: what rounding to float32 may cost


def targets_from_text(
    columns: Mapping[str, Sequence[str]], kind: AnyKind = "auto", metric: str | None = None
) -> tuple[Task, Tensor, dict[int, str]]:
    """The task, the targets of the usable rows, and for each other row the reason why it cannot be used.

    With `auto`, one column is `binary` if it has two whole numbers or two words, `multiclass` if it has a few of them,
    and `regression` if it has other numbers. Several columns are `multilabel` if they hold 0, 1 and gaps only, and else
    `regression`. A row is unusable if its target is missing, or all of several are; a missing one of several labels or
    numbers becomes NaN. It is also unusable if a target is a word where most are numbers. Classes are in the order of
    numbers, or else of the alphabet. A single value in brackets, as in `[-2.06]`, `(0,)` or `tensor(0.5)`, is that
    value; lists of several values are refused, and so are numbers such as `3,5`, `1,000` and `10 %`, unless the kind
    says that they are classes. Numbers are float32, or float64 where float32 would not tell them apart; see
    `as_numbers`.
    """
    check_choice("The task", kind, get_args(AnyKind))
    metric = "" if metric is None else metric
    values = {name: [_parsed(cell) for cell in cells] for name, cells in columns.items()}
    for name, column in values.items():
        if all(value is None for value in column):
            raise ValueError(f"Column {name!r} has no values.{_note_on_gaps(columns[name], column)}")
        lists = [value for value in column if _is_list(value)]
        if 2 * len(lists) > sum(value is not None for value in column):
            raise ValueError(
                f"Column {name!r} holds lists of values, such as {_shortened(lists[0])}: write each value into a "
                "column of its own, and name these columns as targets."
            )
        if kind not in ("binary", "multiclass"):
            _refuse_large_numbers(name, column)
            _refuse_numbers_as_words(name, column, may_be_classes=kind == "auto")
    if kind in ("binary", "multiclass") and len(values) > 1:
        raise ValueError(f"A {kind} task has one target, not {len(values)}: {', '.join(values)}.")
    single = {name: [value for value in column if not _is_list(value)] for name, column in values.items()}
    resolved = _kind_of_columns(single) if kind == "auto" else kind
    has_classes = resolved in ("binary", "multiclass")
    only_numbers = not has_classes or (kind == "auto" and all(map(_is_numeric, values.values())))
    problems = _problems(columns, values, resolved, only_numbers=only_numbers)
    kept = {name: [value for i, value in enumerate(column) if i not in problems] for name, column in values.items()}
    for name, column in kept.items():
        known = [value for value in column if value is not None]
        if resolved != "multilabel" and not known:
            raise ValueError(f"Column {name!r} has no value in a row that can be used: leave it out.")
        if resolved != "multilabel" and len(set(known)) == 1:
            value = class_name(known[0]) if has_classes else known[0]
            where = "every row that can be used" if problems else "every row"
            where = where if len(known) == len(column) else "every row that has a value"
            what = "only one class, nothing" if has_classes else "nothing"
            note = _note_on_gaps(columns[name], values[name])
            raise ValueError(f"Column {name!r} is {value} in {where}: there is {what} to learn.{note}")
    if has_classes:
        ((name, column),) = kept.items()
        return *_as_classes(name, column, resolved, metric), problems
    rows = [[math.nan if value is None else value for value in row] for row in zip(*kept.values(), strict=True)]
    task = Task(kind=resolved, num_outputs=len(columns), metric=metric, target_names=tuple(columns))
    return task, as_numbers(torch.tensor(rows, dtype=torch.float64)), problems


def targets_from_tensor(
    y: Tensor, kind: AnyKind = "auto", metric: str | None = None, level: Level = "graph"
) -> tuple[Task, Tensor]:
    """The task, and the targets in its form; a tensor that has it already is not copied.

    With `auto`, one column is `binary` if it holds 0 and 1 only, `multiclass` if it holds other integers, and
    `regression` if it holds other numbers; several columns are `multilabel` if they hold 0, 1 and NaN only, and else
    `regression`.
    """
    check_choice("The task", kind, get_args(AnyKind))
    metric = "" if metric is None else metric
    y = plain_tensor("y", y)
    y = y if y.is_floating_point() or y.dtype in (torch.bool, torch.int64) else y.long()
    rows = y.unsqueeze(1) if y.dim() == 1 else y
    if rows.dim() != 2 or rows.numel() == 0 or rows.is_complex():
        raise ValueError(f"y must be numbers of shape [rows] or [rows, targets], not {list(y.shape)}.")
    is_missing = rows.isnan()
    is_wrong = (~rows.float().isfinite() & ~is_missing).any(dim=1)
    if bool(is_wrong.any()):
        row = int(is_wrong.nonzero()[0])
        raise ValueError(
            f"The target of {level} {row} is {rows[row].tolist()}, not a finite number below {_LARGEST:.1e}."
        )
    is_yes_or_no = bool(((rows == 0) | (rows == 1) | is_missing).all())
    resolved = _kind_of_rows(rows, is_yes_or_no) if kind == "auto" else kind
    may_miss = resolved == "multilabel" or (resolved == "regression" and rows.shape[1] > 1)
    is_unknown = is_missing.all(dim=1) if may_miss else is_missing.any(dim=1)
    if bool(is_unknown.any()):
        row = int(is_unknown.nonzero()[0])
        raise ValueError(f"The target of {level} {row} is missing (NaN); leave that {level} out.")
    if resolved in ("binary", "multilabel") and not is_yes_or_no:
        raise ValueError(f"The targets of a {resolved} task must be 0 or 1.")
    if resolved != "multilabel" and bool((rows == rows[0]).all()):
        raise ValueError(f"All targets are {rows[0].tolist()}: there is nothing to learn.")
    num_targets = rows.shape[1]
    if resolved == "regression" or resolved == "multilabel":
        return Task(kind=resolved, num_outputs=num_targets, metric=metric, level=level), as_numbers(rows)

    if num_targets > 1:
        raise ValueError(f"A {resolved} task has one target, but y has {num_targets} columns.")
    classes = rows[:, 0].long()
    if bool(((classes != rows[:, 0]) | (classes < 0)).any()):
        raise ValueError("The targets of a multiclass task must be whole numbers: 0, 1, … for the classes.")
    num_classes = int(classes.max()) + 1
    if num_classes > max(len(classes), _LARGEST_CLASS_ID):
        raise ValueError(
            f"The classes go up to {num_classes - 1}, but y has only {len(classes)} rows: number the classes 0, 1, …, "
            "with y.unique(return_inverse=True) for example."
        )
    task = Task(
        kind=resolved,
        num_outputs=1 if resolved == "binary" else num_classes,
        metric=metric,
        level=level,
        class_names=tuple(map(str, range(num_classes))),
    )
    return task, classes


def _kind_of_rows(rows: Tensor, is_yes_or_no: bool) -> Kind:
    if rows.shape[1] > 1:
        return "multilabel" if is_yes_or_no else "regression"
    if is_yes_or_no:
        return "binary"
    return "regression" if rows.is_floating_point() else "multiclass"


def _refuse_numbers_as_words(name: str, column: Sequence[Value], *, may_be_classes: bool) -> None:
    """Refuse numbers in a form that is not read, such as `3,5`: they would be classes, or rows that cannot be used."""
    words = [value for value in column if isinstance(value, str)]
    forms = {word: form for word in set(words) if (form := _number_in_word(word))}
    found = [word for word in words if word in forms]
    num_given = sum(value is not None for value in column)
    if found and 2 * (num_given - len(words) + len(found)) > num_given:
        first, share = found[0], f"{len(found)} of {num_given} values"
        classes = ", or say that the task is binary or multiclass if these are classes" if may_be_classes else ""
        raise ValueError(
            f"Column {name!r} holds numbers in a form that is not read, such as {_shortened(first)} ({share}): write "
            f"{forms[first][:40]} instead{classes}."
        )


def _refuse_large_numbers(name: str, column: Sequence[Value]) -> None:
    """Refuse a column most of which is numbers, so many of them too large that it would be taken for words."""
    found = [value for value in column if isinstance(value, str) and _is_too_large(value)]
    num_given, num_numbers = (sum(isinstance(value, kind) for value in column) for kind in (float | str, float))
    if found and 2 * (num_numbers + len(found)) > num_given and not _is_numeric(column):
        raise ValueError(
            f"Column {name!r} holds numbers too large for float32, such as {_shortened(found[0])} ({len(found)} of "
            f"{num_given} values): divide them or take logarithms, so that none is beyond ±{_LARGEST:.1e}."
        )


def _is_too_large(word: str) -> bool:
    """Whether a word is a number that float32 cannot hold; a row of digits may be a name."""
    number = number_in(word.translate(_MINUS))
    return number is not None and abs(number) > _LARGEST and "inf" not in word.lower() and not word.isdigit()


def _number_in_word(word: str) -> str | None:
    """How to write the number that a word such as `3,5`, `1,000`, `1 000` or `10 %` means; None for other words."""
    text = _GAP_IN_NUMBER.sub("", word.translate(_MINUS).removesuffix("%").rstrip())
    decimal = text.replace(",", ".")
    if _COMMAS_IN_NUMBER.fullmatch(text):
        whole = text.replace(",", "")
        return f"{whole} or {decimal}" if isinstance(_plain(decimal), float) else whole
    if _POINTS_IN_NUMBER.fullmatch(text):
        return text.replace(".", "").replace(",", ".")
    return decimal if isinstance(_plain(decimal), float) else None


def _kind_of_columns(columns: Mapping[str, Sequence[Value]]) -> Kind:
    if len(columns) > 1:
        words = [name for name, column in columns.items() if not _is_numeric(column)]
        if words:
            raise ValueError(f"Column {words[0]!r} holds words; several targets must all be numbers.")
        is_yes_or_no = all(_numbers(column) <= {0.0, 1.0} for column in columns.values())
        return "multilabel" if is_yes_or_no else "regression"
    ((name, column),) = columns.items()
    is_numeric = _is_numeric(column)
    distinct = _numbers(column) if is_numeric else set(column) - {None}
    num_given = sum(value is not None for value in column)
    if is_numeric and not all(number.is_integer() for number in _numbers(column)):
        return "regression"
    if len(distinct) <= 2:
        return "binary"
    if 2 * len(distinct) <= num_given and (not is_numeric or len(distinct) <= MOST_CLASSES):
        return "multiclass"
    if is_numeric:
        return "regression"
    raise ValueError(
        f"Column {name!r} has {len(distinct)} different words in {num_given} rows, such as "
        f"{_shortened(next(value for value in column if value is not None))}; choose another target column, or say "
        "that the task is multiclass."
    )


def _problems(
    cells: Mapping[str, Sequence[str]], columns: Mapping[str, Sequence[Value]], kind: Kind, *, only_numbers: bool
) -> dict[int, str]:
    """Why rows cannot be used. Refuses columns of which no row can."""
    problems: dict[int, str] = {}
    how = (kind, only_numbers, may_miss(kind, len(columns)))
    for i, values in enumerate(zip(*columns.values(), strict=True)):
        reasons = (_problem(name, cells[name][i], columns[name][i], *how) for name in columns)
        if reason := next(filter(None, reasons), _all_missing(kind) if set(values) == {None} else None):
            problems[i] = reason
    if len(problems) == len(next(iter(columns.values()))):
        raise ValueError(f"No row has targets that can be used ({problems.get(0, 'there are none')}).")
    return problems


def may_miss(kind: Kind, num_targets: int) -> bool:
    """Whether a row may lack some of its targets: labels, or one of several numbers."""
    return kind == "multilabel" or (kind == "regression" and num_targets > 1)


def _all_missing(kind: Kind) -> str:
    return f"all {'labels' if kind == 'multilabel' else 'targets'} are missing"


def _problem(
    name: str, cell: str, value: Value, kind: Kind, only_numbers: bool, is_missing_allowed: bool
) -> str | None:
    if value is None:
        missing = f"{name} is missing ({_shortened(cell)})" if cell else f"{name} is missing"
        return None if is_missing_allowed else missing
    if _is_list(value):
        return f"{name} is {_shortened(value)}, a list of values"
    if isinstance(value, str):
        what = f"a number beyond ±{_LARGEST:.1e}" if _is_too_large(value) else "not a number"
        return f"{name} is {_shortened(value)}, {what}" if only_numbers else None
    return f"{name} is {value:g}, not 0 or 1" if kind == "multilabel" and value not in (0.0, 1.0) else None


def reason_of(cells: Mapping[str, str], kind: Kind) -> str:
    """Why a row with these cells cannot be used for numbers of this kind, where it cannot."""
    values = {name: _parsed(cell) for name, cell in cells.items()}
    how = (kind, True, may_miss(kind, len(cells)))
    reasons = (_problem(name, cells[name], value, *how) for name, value in values.items())
    return next(filter(None, reasons), _all_missing(kind))


def _as_classes(name: str, column: Sequence[Value], kind: Kind, metric: str) -> tuple[Task, Tensor]:
    """The task and the number of each value: numbers come first, then words."""
    classes = sorted(set(column), key=lambda value: (isinstance(value, str), value))
    names = tuple(map(class_name, classes))
    if kind == "binary" and len(classes) > 2:
        raise ValueError(
            f"Column {name!r} has {len(classes)} values ({', '.join(names[:5])}, …); a binary task has two."
        )
    number_of = {value: i for i, value in enumerate(classes)}
    num_outputs = 1 if kind == "binary" else len(classes)
    task = Task(kind=kind, num_outputs=num_outputs, metric=metric, target_names=(name,), class_names=names)
    return task, torch.tensor([number_of[value] for value in column])


def class_name(value: Value) -> str:
    """What a class is called whose cells hold this."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def as_numbers(y: Tensor) -> Tensor:
    """`[rows, K]` as float32, which networks use, or as float64 where float32 blurs the numbers; NaN is missing."""
    if len(y) == 0:
        return y.float()
    largest, spread = _largest_and_range(y)
    is_rounded = not y.is_floating_point() and bool((y.double().long() != y).any())
    if is_rounded or bool(((largest * 2.0**-53 > 1e-3 * spread) & (spread > 0)).any()):
        raise ValueError(
            f"The targets, such as {y.flatten()[0].item()}, are so close together for their size that float64 rounds "
            "them by more than a thousandth of their range: subtract the same number from all of them."
        )
    return y.double() if float32_blurs(y) else y.float()


def float32_blurs(y: Tensor) -> bool:
    """Whether float32 moves numbers of a column, `[rows, K]`, by more than a millionth of the column's range.

    So it does with 10^9 + 1, 10^9 + 2, …, of which it makes a few numbers.
    """
    _, spread = _largest_and_range(y)
    moved = (y.double() - y.float()).nan_to_num().abs().amax(dim=0)
    return bool(((moved > _FINEST * spread) & (spread > 0)).any())


def _largest_and_range(y: Tensor) -> tuple[Tensor, Tensor]:
    """`[K]` the largest absolute value of each column, and its largest value less its smallest."""
    numbers, is_missing = y.double(), y.isnan()
    low = torch.where(is_missing, torch.inf, numbers).amin(dim=0)
    high = torch.where(is_missing, -torch.inf, numbers).amax(dim=0)
    return torch.maximum(low.abs(), high.abs()), high - low


def value_of(cell: str) -> Value:
    """What a cell holds: a number, a word, or nothing; a single value in brackets is that value."""
    return _parsed(cell)


def is_mostly_numbers(values: Sequence[Value]) -> bool:
    """Whether more values are numbers than words."""
    return _is_numeric(values)


def _parsed(cell: str) -> Value:
    value = _plain(cell)
    if not isinstance(value, str) or (inside := _in_brackets(cell)) is None:
        return value
    value = _plain(inside)
    if not isinstance(value, str):
        return value
    is_quoted = value[0] == value[-1] and value[0] in "'\"" and "," not in value
    return (value[1:-1] or None) if is_quoted else cell


def _plain(cell: str) -> Value:
    """What a cell without brackets holds."""
    if cell.lower() in _MISSING:
        return None
    number = number_in(cell.translate(_MINUS))
    return number if number is not None and abs(number) <= _LARGEST else cell


def _in_brackets(cell: str) -> str | None:
    """What is in the brackets of `[0.5]`, `(0.5,)`, `array([0.5])` or `tensor(0.5, dtype=…)`; None without brackets."""
    text = _SETTING.sub("", _CALL.sub("", cell))
    return text.strip("[](), ") if (text[:1], text[-1:]) in (("[", "]"), ("(", ")")) else None


def _is_list(value: Value) -> TypeGuard[str]:
    """Whether this is how Python, numpy, torch or JSON write several values."""
    if not isinstance(value, str) or (inside := _in_brackets(value)) is None:
        return False
    parts = inside.replace(",", " ").split()
    return len(parts) > 1 and ("," in inside or all(isinstance(_plain(part), float) for part in parts))


def _note_on_gaps(cells: Sequence[str], column: Sequence[Value]) -> str:
    """A sentence to follow an error message: the text that is read as missing, for it may be meant as a class."""
    texts = Counter(cell for cell, value in zip(cells, column, strict=True) if value is None and cell)
    if not texts:
        return ""
    ((text, count),) = texts.most_common(1)
    rows = f"{count} of {len(cells)} rows"
    return f" {_shortened(text)} ({rows}) is read as missing; if it is a class, give it another name."


def _shortened(value: Value) -> str:
    text = str(value)
    return repr(text if len(text) <= 40 else f"{text[:37]}…")


def _numbers(column: Sequence[Value]) -> set[float]:
    return {value for value in column if isinstance(value, float)}


def _is_numeric(column: Sequence[Value]) -> bool:
    """Whether more cells are numbers than words."""
    return sum(isinstance(value, float) for value in column) > sum(isinstance(value, str) for value in column)
