"""Edges in text, parsed block by block: two node ids a line and, where it is asked for, a weight."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crawl.checks import shown

Block = tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]

_BYTES_AT_ONCE = 2**24
_LONGEST_LINE = 2**16
_COLUMNS = ("source", "target", "weight")
_BOM = b"\xef\xbb\xbf"
_SEPARATOR = re.compile(r"[ \t\r]*[,;][ \t\r]*|[ \t\r]+")
_EXACT_POWERS = 10.0 ** np.arange(23)  # floats hold these exactly, so that one product or quotient rounds only once

_NEWLINE, _COMMENT, _COMMA, _SEMICOLON = (ord(c) for c in "\n#,;")
_BLANK, _TAB, _RETURN, _ZERO, _NINE, _POINT = (ord(c) for c in " \t\r09.")


def edges_of_text(
    file: IO[bytes] | gzip.GzipFile, name: str, most_id: int, why: str = "", *, weighted: bool, header: bool
) -> Iterator[Block]:
    """Sources and targets, int32, and weights, float64, of the edges in a file, in blocks.

    Columns are separated by blanks, tabs, a comma or a semicolon. Empty lines are passed over, and what follows a #.

    Args:
        file: The file, open to read bytes.
        name: What it is called in messages.
        most_id: The largest node id.
        why: What decided it, for messages.
        weighted: Whether there is a third column with a positive weight.
        header: Whether the first line names the columns.

    Raises:
        ValueError: For a line that is not an edge, by its number, and for a header that is one, or names the columns in
            another order.
    """
    line, is_first = 1, True
    for text in _whole_lines(file, name):
        if is_first:
            text = b"   " + text[3:] if text.startswith(_BOM) else text
            text = _without_header(text, name) if header else text
        num_lines = text.count(b"\n")
        source, target = np.empty(num_lines, np.int32), np.empty(num_lines, np.int32)
        weight = np.empty(num_lines if weighted else 0)
        begins = np.empty(num_lines if weighted else 0, np.int64)
        content = np.frombuffer(text, np.uint8)
        num_edges, wrong = _parse(content, most_id, weighted, _EXACT_POWERS, source, target, weight, begins)
        weight, begins = weight[:num_edges], begins[:num_edges]
        for i in np.flatnonzero(np.isnan(weight)):  # Python takes its time, and is exact
            weight[i] = _as_float(_fields(_line_at(text, begins[i]))[-1])
        bad_weights = begins[~((weight > 0) & (weight < np.inf))]
        if bad_weights.size:
            wrong = int(bad_weights[0])
        if wrong >= 0:
            is_first_line = is_first and not header and num_edges == 0
            problem = _problem(_line_at(text, wrong), most_id, why, weighted, is_first_line)
            line += text.count(b"\n", 0, wrong)
            raise ValueError(f"{name}, line {line}: {problem}")
        yield source[:num_edges], target[:num_edges], weight if weighted else None
        line, is_first = line + num_lines, False


def _whole_lines(file: IO[bytes] | gzip.GzipFile, name: str) -> Iterator[bytes]:
    """The content of a file in blocks that end with a line."""
    rest = b""
    while block := file.read(_BYTES_AT_ONCE):
        lines, newline, rest_of_block = block.rpartition(b"\n")
        if newline:
            yield rest + lines + newline
            rest = rest_of_block
        else:
            rest += rest_of_block
        if len(rest) > _LONGEST_LINE:
            raise ValueError(f"{name}: a line has more than {_LONGEST_LINE} characters, so it is not an edge list.")
    if rest:
        yield rest + b"\n"


def _without_header(text: bytes, name: str) -> bytes:
    """The text with its first line, comments and empty lines aside, made a comment. Refuses what is no header of ours:
    an edge, or the names of the columns in another order."""
    begin = 0
    while begin < len(text) and not (fields := _fields(_line_at(text, begin))):
        begin = text.index(b"\n", begin) + 1
    if begin == len(text):
        return text
    where = f"{name}, line {1 + text[:begin].count(10)}"
    if all(field.isdecimal() for field in fields[:2]):
        raise ValueError(
            f"{where}: {shown(_line_at(text, begin))} does not name columns: leave out --header, or put a # before "
            "the line if it is not an edge."
        )
    names = [field.strip("'\"").lower() for field in fields]
    for place, column in enumerate(_COLUMNS):
        if column in names and names.index(column) != place:
            raise ValueError(
                f"{where}: column {names.index(column) + 1} is named {column!r}, but columns are read in the order "
                f"{', '.join(_COLUMNS)}: write the list so."
            )
    return text[:begin] + b"#" + text[begin + 1 :]


def _line_at(text: bytes, begin: int) -> str:
    return text[begin : text.index(b"\n", begin)].decode("utf-8", "replace")


def _fields(line: str) -> list[str]:
    line = line.partition("#")[0].strip(" \t\r")
    return _SEPARATOR.split(line) if line else []


def _as_float(field: str) -> float:
    try:
        return float(field)
    except ValueError:
        return -1.0


def _problem(line: str, most_id: int, why: str, weighted: bool, may_be_header: bool) -> str:
    """Why a line is not an edge."""
    fields = _fields(line)
    columns = _COLUMNS[: 3 if weighted else 2]
    hint = " If this line names the columns, add --header." if may_be_header and not fields[0].isdecimal() else ""
    if len(fields) != len(columns):
        hint = hint or (" If the third one is a weight, add --weighted." if len(fields) == 3 else "")
        return f"expected {len(columns)} columns ({', '.join(columns)}), not {len(fields)}: {shown(line)}.{hint}"
    for field, column in zip(fields[:2], columns, strict=False):
        if not re.fullmatch("[0-9]+", field):
            return f"the {column} {shown(field)} is not a whole number from 0 on.{hint}"
        if len(field) > 20 or int(field) > most_id:
            return f"the {column} {field[:40]} is not a node: ids go from 0 to {most_id}{why}."
    return f"the weight {shown(fields[-1])} is not a positive number; leave out edges that must not be walked."


@njit(inline="always")
def _after_blanks(text, i):
    while text[i] == _BLANK or text[i] == _TAB or text[i] == _RETURN:
        i += 1
    return i


@njit(inline="always")
def _after_separator(text, i):
    """Where the next column begins; `i` itself if nothing separates."""
    i = _after_blanks(text, i)
    if text[i] == _COMMA or text[i] == _SEMICOLON:
        i = _after_blanks(text, i + 1)
    return i


@njit(inline="always")
def _is_digit(c):
    return _ZERO <= c <= _NINE


@njit(inline="always")
def _integer(text, i, most):
    """The number that begins at `i` and where it ends; -1 if there is none, or it is above `most`."""
    value = np.int64(0 if _is_digit(text[i]) else -1)
    while _is_digit(text[i]):
        value = value * 10 + (text[i] - _ZERO) if value <= most else value
        i += 1
    return value if value <= most else np.int64(-1), i


@njit(inline="always")
def _short_decimal(text, i, powers):
    """The number of at most 15 digits that begins at `i`, and where it ends; NaN for others, which Python reads."""
    first, digits, decimals = i, np.int64(0), 0
    while _is_digit(text[i]):
        digits = digits * 10 + (text[i] - _ZERO)
        i += 1
    if text[i] == _POINT:
        i += 1
        while _is_digit(text[i]):
            digits = digits * 10 + (text[i] - _ZERO)
            i += 1
            decimals += 1
    is_short = first < i <= first + 16 and i - first > (decimals > 0) and decimals <= 15
    end = i
    while text[end] not in (_BLANK, _TAB, _RETURN, _NEWLINE, _COMMENT, _COMMA, _SEMICOLON):
        end += 1
    if not is_short or end != i or digits >= 10**15:
        return np.nan, end
    return digits / powers[decimals], end


@njit(nogil=True, cache=True, boundscheck=False)
def _parse(text, most_id, weighted, powers, source, target, weight, begins):
    """Fill in the edges of text that ends with a line; their number, and where the first wrong line begins, or -1.

    A weight is NaN where Python must read it, on the line that begins at `begins`.
    """
    i, edge = 0, 0
    while i < text.size:
        begin = i
        i = _after_blanks(text, i)
        if text[i] != _NEWLINE and text[i] != _COMMENT:
            u, end = _integer(text, i, most_id)
            i = _after_separator(text, end)
            v, next_end = _integer(text, i, most_id)
            if u < 0 or v < 0 or i == end:
                return edge, begin
            i = next_end
            if weighted:
                i = _after_separator(text, next_end)
                if i == next_end or text[i] == _NEWLINE or text[i] == _COMMENT:
                    return edge, begin
                weight[edge], i = _short_decimal(text, i, powers)
                begins[edge] = begin
            source[edge], target[edge] = u, v
            i = _after_blanks(text, i)
            if text[i] != _NEWLINE and text[i] != _COMMENT:
                return edge, begin
            edge += 1
        while text[i] != _NEWLINE:
            i += 1
        i += 1
    return edge, -1
