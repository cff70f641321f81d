"""Open every page of the built site in a real browser and say what is wrong with it: `make docs-check`.

Each page is opened from the disk at a desktop's and at a telephone's width. Wrong are: a page that scrolls
sideways, a request that leaves the site, an exception in a script, a search that finds nothing, and what axe
(the checker of accessibility) calls serious or critical. The exit code is 1 where anything is.

Needs the extra `docs-check` and a Chromium: the one on the path, or `--browser PATH`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WIDTHS = {1280: 800, 390: 844}
SERIOUS = ("serious", "critical")
# Words that users look for, and one that no page has.
FOUND, NOT_FOUND = ("evidence", "noise", "bounds", "PyMC", "prior", "quadrature"), "xylophonically"


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: on which page, at which width, and what."""

    page: str
    width: int
    what: str


def pages(site: Path, pattern: str) -> list[Path]:
    """HTML pages of the site, in order."""
    return sorted(path for path in site.rglob(pattern) if "_static" not in path.parts)


def scrolls_sideways(page: Any) -> str | None:
    """How many pixels the page is wider than the window, and which element reaches out farthest."""
    beyond, element = page.evaluate(
        """() => {
            const width = document.documentElement.clientWidth;
            const beyond = document.documentElement.scrollWidth - width;
            let farthest = '', right = width;
            for (const e of document.querySelectorAll('article *'))
                if (e.getBoundingClientRect().right > right) {
                    right = e.getBoundingClientRect().right; farthest = e.outerHTML.slice(0, 80);
                }
            return [beyond, farthest];
        }"""
    )
    return f"scrolls sideways by {beyond} pixels: {element}" if beyond > 0 else None


def inaccessible(page: Any, axe: Any) -> Iterator[str]:
    """What axe calls serious or critical, each rule once with its first element."""
    for violation in axe.run(page).response["violations"]:
        if violation["impact"] in SERIOUS:
            nodes = violation["nodes"]
            yield f"{violation['id']} ({violation['impact']}, {len(nodes)} times): {nodes[0]['html'][:100]}"


def opened(page: Any, path: Path, width: int, query: str = "") -> None:
    """Open a page at a width."""
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    page.goto(path.resolve().as_uri() + query)


def search_faults(page: Any, site: Path) -> Iterator[Fault]:
    """The search must find words that are there, and say so of one that is not."""
    for word, there in (*((word, True) for word in FOUND), (NOT_FOUND, False)):
        opened(page, site / "search.html", 1280, f"?q={word}")
        page.wait_for_function("() => Search.status?.innerText")  # empty until the search has ended
        found = page.locator("#search-results ul.search li").count() > 0
        if found != there:
            yield Fault("search.html", 1280, f"a search for {word!r} found {'some' if found else 'no'} pages")


def faults(site: Path, pattern: str, browser: str) -> Iterator[Fault]:
    """All that is wrong, page by page."""
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    axe = Axe()
    with sync_playwright() as engine:
        page = engine.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        outside: list[str] = []
        errors: list[str] = []
        page.on(
            "request", lambda r: outside.append(r.url) if not r.url.startswith(("file:", "data:")) else None
        )
        page.on("pageerror", lambda error: errors.append(str(error)))
        for path in pages(site, pattern):
            name = str(path.relative_to(site))
            for width in WIDTHS:
                opened(page, path, width)
                said = [f"requests {url}" for url in outside] + [f"script: {error}" for error in errors]
                said += [text for text in (scrolls_sideways(page),) if text]
                said += inaccessible(page, axe)
                yield from (Fault(name, width, text) for text in said)
                outside.clear()
                errors.clear()
        yield from search_faults(page, site)


def main() -> int:
    """Check, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--site", type=Path, default=Path(__file__).parent / "_build" / "html")
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    parser.add_argument("--pages", default="*.html", help="Pattern of the files, such as 'tutorials/*.html'.")
    given = parser.parse_args()
    if not given.browser:
        parser.error("no Chromium on the path: give one with --browser PATH")
    if not (given.site / "index.html").is_file():
        parser.error(f"no site in {given.site}: run `make docs` first")
    found = 0
    for fault in faults(given.site, given.pages, given.browser):
        found += 1
        print(f"{fault.page} at {fault.width}: {fault.what}", flush=True)
    print(f"{len(pages(given.site, given.pages))} pages at {len(WIDTHS)} widths: {found} faults")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
