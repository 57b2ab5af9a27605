"""The pictures of pages in the docs, taken by the browser of the tests: `python docs/make_screens.py RUN`.

RUN is the folder of the run that the packaged model `esol` was saved from, so that the picture of its page has the
scores of the model's card. The explanations are of that model, as `crawl explain esol` writes them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from PIL import Image

from crawl.cli import main as crawl
from crawl.runs.reports.run_page import run_page
from tests.browser import Browser, browsing

IMAGES = Path(__file__).parent / "images"
PACKAGED = Path(__file__).parents[1] / "src" / "crawl" / "pretrained" / "esol" / "config.json"
MOLECULES = ("OCCc1ccccc1", "Clc1ccc(cc1)C(c1ccc(Cl)cc1)C(Cl)(Cl)Cl")
WIDTH = 1000


def take(browser: Browser, page: Path, name: str, height: int, folder: Path) -> None:
    """The beginning of a page, as a small file."""
    seen = browser.look_at(page, folder, width=WIDTH, height=height)
    seen.check()
    with Image.open(seen.picture) as picture:
        picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            IMAGES / name, optimize=True
        )
    print(name, (IMAGES / name).stat().st_size)


def main(run: Path) -> None:
    """Take them."""
    record, packaged = json.loads((run / "result.json").read_text()), json.loads(PACKAGED.read_text())["record"]
    if record["scores"] != packaged["scores"]:
        sys.exit(f"{run} is not the run that the packaged model esol was saved from: its scores differ.")
    with tempfile.TemporaryDirectory() as name, browsing(Path(name)) as browser:
        folder = Path(name)
        (folder / "run.html").write_text(run_page(run))
        take(browser, folder / "run.html", "run_page.png", 1025, folder)
        (folder / "molecules.csv").write_text("\n".join(["smiles", *MOLECULES]) + "\n")
        why = folder / "why.html"
        if crawl(["explain", "esol", str(folder / "molecules.csv"), "-o", str(why), "--top", "5", "--device", "cpu"]):
            sys.exit("There is no explanation.")
        take(browser, why, "explain_page.png", 905, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
