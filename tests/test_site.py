"""The documentation site builds without warnings, and its pages lead to each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the site needs mkdocs: pip install '.[docs]'")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors."""
    import os
    import subprocess
    import sys

    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_of_docs_is_in_the_navigation():
    named = set(re.findall(r"([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE))
    for page in (ROOT / "docs").glob("**/*.md"):
        assert str(page.relative_to(ROOT / "docs")) in named


def test_links_lead_to_pages_of_the_site(site: Path) -> None:
    pages = list(site.glob("**/*.html"))
    assert len(pages) > 25
    for page in pages:
        if page.name == "404.html":
            continue
        for target in re.findall(r'(?:href|src)="([^"#]+)', page.read_text()):
            if "://" in target or target.startswith(("data:", "mailto:", "javascript:")):
                continue
            assert (page.parent / target).resolve().exists(), f"{page.relative_to(site)}: {target}"


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.glob("**/*.html"):
        fetched = re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:[^"]+)', page.read_text())
        assert not fetched, page.name


def test_the_reference_has_what_packages_export(site: Path) -> None:
    text = (site / "api" / "crawl.html").read_text()
    for name in ("crawl.Graph", "crawl.sample_walks", "crawl.Network", "crawl.CRaWlConv"):
        assert f'id="{name}"' in text, name
