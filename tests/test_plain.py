from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypedDict

import pytest

from crawl.plain import structure, tagged, unstructure


@dataclass(frozen=True)
class Circle:
    name: ClassVar[str] = "circle"
    radius: float = 1.0


@dataclass(frozen=True)
class Polygon:
    name: Literal["triangle", "square"] = "triangle"
    class_: str = ""


@dataclass(frozen=True)
class Point:
    name: ClassVar[str] = "point"


Shape = Circle | Polygon | Point
tagged(Shape, {"circle": Circle, "triangle": Polygon, "square": Polygon, "point": Point})


@dataclass(frozen=True)
class Drawing:
    shape: Shape = Circle()
    sizes: tuple[int, ...] = ()
    corner: tuple[float, float] = (0.0, 0.0)
    title: str | None = None
    words: tuple[str | int, ...] | None = None

    def __post_init__(self) -> None:
        if self.title == "":
            raise ValueError("drawing.title is empty.")


class _More(TypedDict, total=False):
    parts: dict[str, Score]
    values: list[float | None]


class Score(_More):
    mean: float | None


@pytest.mark.parametrize(
    "drawing",
    [Drawing(), Drawing(Polygon("square", "b"), (1, 2), (0.5, 1.0), "x", ("a", 2)), Drawing(Circle(2.0), words=())],
)
def test_there_and_back(drawing):
    assert structure(Drawing, unstructure(drawing), "It") == drawing


def test_names_that_python_has_for_itself():
    assert unstructure(Drawing(Polygon(class_="b")))["shape"] == {"name": "triangle", "class": "b"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"shape": {"name": "cirle"}}, "shape.name must be one of circle, triangle, square, point, not 'cirle'. Did"),
        ({"shape": {"radius": 1.0}}, "shape.name must be one of circle, triangle, square, point, not None."),
        ({"shape": {"name": "circle", "radios": 1}}, "It has no key shape.radios. Did you mean shape.radius?"),
        ({"shape": {"name": "point", "radius": 1}}, "It has no key shape.radius. Leave it out: there are no settings"),
        ({"shape": {"name": "circle", "radius": True}}, "shape.radius must be a number, not True."),
        ({"shape": {"name": "circle", "radius": float("inf")}}, "shape.radius must be a number, not inf."),
        ({"shape": 3}, "shape must be a dictionary, not 3."),
        ({"sizes": [1, "2"]}, "sizes must be of type int, not '2'."),
        ({"sizes": "12"}, "sizes must be a list, not '12'."),
        ({"corner": [1]}, "corner must have 2 items, not 1."),
        ({"title": 1}, "title must be of type str, not 1."),
        ({"title": ""}, "drawing.title is empty."),
        ({"words": [1.5]}, "words must be a word or a whole number, not 1.5."),
        ({"zzz": 1}, "It has no key zzz. Known are: shape, sizes, corner, title, words."),
        ([], "It must be a dictionary, not []."),
    ],
)
def test_what_is_wrong_is_named(values, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        structure(Drawing, values, "It")
    assert str(caught.value).startswith(message)


def test_dictionaries_are_checked_and_may_hold_more():
    values = {"mean": 1, "parts": {"a": {"mean": None}}, "values": [1.0, None], "more": "x"}
    assert structure(Score, values, "It") == values
    for wrong, message in (
        ({}, "It lacks mean"),
        ({"mean": "x"}, "mean must be a number, not 'x'"),
        ({"mean": 1, "parts": {"a": {}}}, "It lacks parts.a.mean"),
        ({"mean": 1, "parts": {"a": 3}}, "parts.a: expected a mapping, not int"),
        ({"mean": 1, "values": 3}, "values must be a list, not 3"),
        (3, "It: expected a mapping, not int"),
    ):
        with pytest.raises(ValueError, match=message):
            structure(Score, wrong, "It")
