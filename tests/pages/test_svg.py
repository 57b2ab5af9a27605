from __future__ import annotations

import pytest

from crawl.pages import clean_svg
from crawl.pages.colours import INK, SERIES

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="72pt" height="36pt">'


def cleaned(content: str, **how: str) -> str:
    return clean_svg(f"{HEAD}{content}</svg>", "pic", "a label", **how)  # type: ignore[arg-type]


def test_a_picture_follows_the_page() -> None:
    text = cleaned(f'<path d="M 0 0" style="stroke: {SERIES[1]}"/><rect fill="{INK}"/>')
    assert '<path d="M 0 0" style="stroke: var(--series-2)" />' in text
    assert '<rect style="fill:var(--ink)" />' in text
    assert text.startswith('<svg viewBox="0 0 96 48" role="img" aria-label="a label" style="width: 96px">')
    assert "#000000" in cleaned('<rect fill="#000000"/>')
    assert "var(--ink)" in cleaned('<rect fill="#000000"/>', ink="black")
    assert "#000080" in cleaned('<rect fill="#000080"/>', ink="black")


def test_ids_that_are_used_get_the_name_and_others_go() -> None:
    text = cleaned(
        '<defs><clipPath id="a"><rect id="b"/></clipPath><path id="m"/></defs><g clip-path="url(#a)" id="c">'
        '<use xlink:href="#m" style="clip-path: url(#a)"/></g>'
    )
    assert text.count('id="') == 2
    assert '<clipPath id="pic-a">' in text
    assert '<g clip-path="url(#pic-a)">' in text
    assert '<use href="#pic-m" style="clip-path: url(#pic-a)" />' in text


def test_a_style_for_the_whole_page_is_left_out() -> None:
    assert "stroke" not in cleaned("<defs><style>*{stroke: red}</style></defs><metadata>x</metadata>")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("<script>1</script>", "an element script"),
        ("<foreignObject/>", "an element foreignObject"),
        ('<html xmlns="http://www.w3.org/1999/xhtml"/>', "an element html"),
        ("<animate/>", "an element animate"),
        ('<rect onclick="x"/>', "an attribute onclick"),
        ('<rect style="fill: url(http://x)"/>', "an attribute style"),
        ('<rect style="fill: url( &quot;http://x&quot;)"/>', "an attribute style"),
        ('<use xlink:href="http://x#y"/>', "links to 'http://x#y'"),
        ('<image href="file:///x"/>', "links to 'file:///x'"),
        ('<image href="data:image/svg+xml;base64,AAAA"/>', "links to 'data:image/svg"),
        ("<rect>", "is not SVG: mismatched tag"),
    ],
)
def test_what_could_act_is_refused(content: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        cleaned(content)


def test_other_files_are_refused() -> None:
    with pytest.raises(ValueError, match="it begins with html"):
        clean_svg("<html/>", "pic", "")
    with pytest.raises(ValueError, match="declares entities"):
        clean_svg(f'<!DOCTYPE svg [<!ENTITY a "b">]>{HEAD}</svg>', "pic", "")
    with pytest.raises(ValueError, match="does not say its width"):
        clean_svg('<svg xmlns="http://www.w3.org/2000/svg"/>', "pic", "")
    with pytest.raises(ValueError, match="must be a word, not 'a b'"):
        clean_svg(f"{HEAD}</svg>", "a b", "")
