"""SVG that may stand in a page: nothing in it runs, loads or changes what is outside of it."""

from __future__ import annotations

import re
from typing import Literal
from xml.etree import ElementTree

from markupsafe import Markup

from crawl.pages.colours import ATOMS, VARIABLES

_SVG = "http://www.w3.org/2000/svg"
_TAGS = {
    *("svg", "g", "defs", "clipPath", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon"),
    *("text", "tspan", "use", "image", "linearGradient", "stop"),
}
_LEFT_OUT = {"style", "metadata", "title", "desc"}  # the first would apply to the whole page
_OWN_IMAGE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=\s]*")
_COLOUR = re.compile("|".join(VARIABLES))


def clean_svg(text: str | bytes, name: str, label: str, *, ink: Literal["kept", "black"] = "kept") -> Markup:
    """A picture as an element of a page, as wide as there is place, up to its own width.

    Args:
        text: The file.
        name: A word that no other picture of the page has: ids begin with it.
        label: What the picture shows, for those who do not see it.
        ink: With `black`, what is drawn in black, as molecules are, has the colour of text instead, and the colours of
            atoms are those of the page.

    Raises:
        ValueError: If it is not SVG, or has something else in it than shapes and text.
    """
    if not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise ValueError(f"The name of a picture must be a word, not {name!r}.")
    without_type = re.sub(rb"<!DOCTYPE[^>\[]*>", b"", text.encode() if isinstance(text, str) else text)
    try:
        if b"<!DOCTYPE" in without_type or b"<!ENTITY" in without_type:
            raise ValueError("it declares entities")
        root = ElementTree.fromstring(without_type)
    except (ElementTree.ParseError, ValueError) as error:
        raise ValueError(f"The picture {name} is not SVG: {error}.") from None
    if root.tag != f"{{{_SVG}}}svg":
        raise ValueError(f"The picture {name} is not SVG: it begins with {root.tag}.")
    _clean(root, name)
    used = set(re.findall(r"(?:url\(|href=\")#([^\"')]+)", ElementTree.tostring(root, encoding="unicode")))
    for element in root.iter():
        if "id" in element.attrib and element.attrib["id"] not in used:
            del element.attrib["id"]
        _follow_page(element, name, ink == "black")
    width, height = _size(root, name)
    root.attrib |= {"viewBox": root.attrib.get("viewBox", f"0 0 {width:g} {height:g}"), "role": "img"}
    root.attrib |= {"aria-label": label, "style": f"width: {width:g}px"}
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _clean(root: ElementTree.Element, name: str) -> None:
    """Take away what is only said about a picture; refuse what could act."""
    for parent in root.iter():
        for child in list(parent):
            if isinstance(child.tag, str) and child.tag.rpartition("}")[2] in _LEFT_OUT:
                parent.remove(child)
    for element in root.iter():
        tag = element.tag.rpartition("}")[2]
        if element.tag != f"{{{_SVG}}}{tag}" or tag not in _TAGS:
            raise ValueError(f"The picture {name} has an element {tag}, which a page does not take.")
        element.tag = tag  # HTML knows it without its namespace
        for attribute, value in list(element.attrib.items()):
            key = attribute.rpartition("}")[2]
            is_link = key == "href" and not value.startswith("#")
            if is_link and not (tag == "image" and _OWN_IMAGE.fullmatch(value)):
                raise ValueError(f"The picture {name} links to {value[:40]!r}, which a page does not load.")
            if key.lower().startswith("on") or re.search(r"url\((?!['\"]?#)|expression|@import|\\", value):
                raise ValueError(f"The picture {name} has an attribute {key}={value[:40]!r}, which could act.")
            del element.attrib[attribute]
            if attribute == key or key == "href":
                element.attrib[key] = value


def _follow_page(element: ElementTree.Element, name: str, is_black_ink: bool) -> None:
    """Give ids the name of the picture, and colours the variables of the page, which only a style can have."""
    styles = [element.attrib.pop("style", "")]
    for key in ("fill", "stroke"):
        if (value := element.attrib.get(key, "")).startswith("#"):
            styles.append(f"{key}:{element.attrib.pop(key)}")
        elif value.startswith("url"):
            element.attrib[key] = value.replace("#", f"#{name}-")
    style = ";".join(part.strip("; ") for part in styles if part.strip("; "))
    if is_black_ink:
        style = re.sub(r"#[0-9A-Fa-f]{6}\b", lambda found: ATOMS.get(found[0].upper(), found[0]), style)
    style = _COLOUR.sub(lambda found: f"var({VARIABLES[found[0]]})", style)
    if style:
        element.attrib["style"] = re.sub(r"url\((['\"]?)#", rf"url(\1#{name}-", style)
    if "id" in element.attrib:
        element.attrib["id"] = f"{name}-{element.attrib['id']}"
    if element.attrib.get("href", "").startswith("#"):
        element.attrib["href"] = f"#{name}-{element.attrib['href'][1:]}"
    if "clip-path" in element.attrib:
        element.attrib["clip-path"] = element.attrib["clip-path"].replace("#", f"#{name}-")


def _size(root: ElementTree.Element, name: str) -> tuple[float, float]:
    """Width and height in pixels."""
    sizes = []
    for i, key in enumerate(("width", "height")):
        found = re.fullmatch(r"([\d.]+)(pt|px)?", root.attrib.get(key, "").strip())
        box = root.attrib.get("viewBox", "").split()
        if found is None and len(box) != 4:
            raise ValueError(f"The picture {name} does not say its {key}.")
        sizes.append(float(found[1]) * (4 / 3 if found[2] == "pt" else 1) if found else float(box[2 + i]))
    return sizes[0], sizes[1]
