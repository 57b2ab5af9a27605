"""The documentation site builds without warnings, and its pages lead to each other."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from tests.browser import Browser, look_in_all_windows

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


@pytest.mark.parametrize("page", ["index.html", "tutorials/chemist.html", "explain.html", "results/tables.html"])
def test_pages_are_seen_in_every_window(site: Path, browser: Browser, page: str) -> None:
    seen = look_in_all_windows(browser, site / page, "site", is_whole=False)
    for each in seen.values():
        assert each.requests
        assert all(Path(unquote(urlparse(url).path)).is_file() for url in each.requests if url.startswith("file:"))


def test_the_search_works_from_a_folder(site: Path, browser: Browser, tmp_path: Path) -> None:
    search = """new Promise(done => {
      const field = document.querySelector('input[name=query]');
      field.focus();
      field.value = 'conformal';
      field.dispatchEvent(new Event('keyup', { bubbles: true }));
      const links = () => [...document.querySelectorAll('.md-search-result__link')].map(each => each.href);
      const look = again => links().length || !again ? done(links()) : setTimeout(look, 50, again - 1);
      look(200);
    })"""
    seen = browser.look_at(site / "tutorials" / "chemist.html", tmp_path, questions=(search,))
    assert seen.messages == []
    assert any("/uncertainty.html" in link for link in seen.answers[0]), seen.answers
