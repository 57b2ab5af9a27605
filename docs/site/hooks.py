"""What makes the repository's pages a site: those outside `docs/` join it, and links between all of them hold. The
pages of the reference are made from what each package exports, so that nothing is forgotten.

A page may link to anything in the repository. On the site, a link to a page or a picture that is part of it leads
there; a link to another file becomes the name of that file.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
JOINED = {  # from the repository to the site
    "results/README.md": "results/index.md",
    "results/tables.md": "results/tables.md",
    "reproduction/README.md": "reproduction.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
}
REFERENCE = {  # packages and what their pages are called
    "crawl": "Graphs, walks, networks",
    "crawl.nn": "Blocks and layers",
    "crawl.data": "Data",
    "crawl.encodings": "Encodings",
    "crawl.training": "Training",
    "crawl.runs": "Runs",
    "crawl.explanations": "Explanations",
    "crawl.theory": "Theory",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_TABLES = re.compile(r"^(benchmarks/results|results)/[\w-]+\.(md|png)$")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures outside `docs/`, except what `docs/` has itself."""
    for source, target in _joined().items():
        if files.get_file_from_path(target) is None:
            files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    for package, title in REFERENCE.items():
        content = "\n\n".join([f"# {title}", *(f"::: {package}.{name}" for name in _exported(package))])
        files.append(File.generated(config, f"api/{package}.md", content=content + "\n"))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with links that hold on the site."""
    own = page.file.src_uri
    source = next((source for source, target in _joined().items() if target == own), f"docs/{own}")
    if (ROOT / "docs" / own).is_file():
        source = f"docs/{own}"

    def mended(link: re.Match[str]) -> str:
        mark, text, target = link.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return link[0]
        there = os.path.normpath(PurePosixPath(source).parent / path)
        on_site = there.removeprefix("docs/") if there.startswith("docs/") else _joined().get(there)
        if on_site is None or files.get_file_from_path(on_site) is None:
            return f"{text} (`{there}`)" if not mark else ""
        relative = os.path.relpath(on_site, PurePosixPath(own).parent)
        return f"{mark}[{text}]({relative}{'#' + anchor if anchor else ''})"

    return _LINK.sub(mended, markdown)


def _exported(package: str) -> list[str]:
    """What a package exports, read without importing it."""
    tree = ast.parse((ROOT / "src" / package.replace(".", "/") / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)]
    raise ValueError(f"{package} has no __all__.")


def _joined() -> dict[str, str]:
    tables = [str(path.relative_to(ROOT)) for path in (*ROOT.glob("results/*"), *ROOT.glob("benchmarks/results/*"))]
    return {path: path for path in sorted(tables) if _TABLES.match(path) and path not in JOINED} | JOINED
