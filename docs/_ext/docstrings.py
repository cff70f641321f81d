"""Docstrings as they are written in this project, made safe for reStructuredText.

They are plain text in numpydoc's sections: single back-ticks hold code, indented lines hold formulas and
diagrams, and ``|x|`` is an absolute value. Here such lines become literal text.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext import autosummary

ABBREVIATIONS = (" Eq.", "(Eq.", " Eqs.", " Fig.", " Sec.")
"""After these a sentence goes on: summaries in tables would end there."""
SPAN = re.compile(r"(``.+?``|:[a-z:]+:`[^`]+`|`[^`]+`)")
MARKUP = re.compile(r"(?<!\\)([*|_])")


def escaped(line: str) -> str:
    """A line with its code in literals, and without markup elsewhere."""
    parts = SPAN.split(line)
    return "".join(_code(part) if i % 2 else MARKUP.sub(r"\\\1", part) for i, part in enumerate(parts))


def _code(span: str) -> str:
    if span.startswith("``"):
        return span
    if span.startswith(":"):
        return f"``{span.split('`')[1].removeprefix('~').split(' <')[0]}``"
    return f"`{span}`"


def paragraphs(lines: list[str]) -> list[list[str]]:
    """The blocks of a text between blank lines."""
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [block for block in found if block]


def plain(lines: list[str]) -> list[str]:
    """A text of paragraphs, of which the indented ones are literal."""
    done: list[str] = []
    for block in paragraphs(lines):
        base = min(len(line) - len(line.lstrip()) for line in block)
        ragged = any(len(line) - len(line.lstrip()) > base for line in block)
        bullets = block[0].lstrip().startswith("- ")
        if base > 0 or (ragged and not bullets):
            done += ["::", "", *("    " + line for line in block), ""]
        else:
            done += [*(escaped(line) for line in block), ""]
    return done


SECTION = re.compile(r"^-{3,}$")
ENTRY = re.compile(r"^(\S.*?) : (.+)$")


def whole(body: list[str]) -> list[str]:
    """The entries of a section, a sentence that goes on below its name kept in one piece.

    An entry is "name : text", where the text is a type, or a description that continues on the next lines. A
    description starts with a capital after a type, and with a small letter where it continues.
    """
    done: list[str] = []
    for line, after in itertools.zip_longest(body, body[1:], fillvalue=""):
        entry = ENTRY.match(line)
        continued = after.startswith(" ") and not after.lstrip()[0].isupper()
        done += [entry[1], f"    {entry[2]}"] if entry and continued else [line]
    return done


def process(lines: list[str]) -> list[str]:
    """A docstring in numpydoc's sections: their text is escaped, their form is kept."""
    heads = [i - 1 for i, line in enumerate(lines) if i and SECTION.match(line)]
    first = heads[0] if heads else len(lines)
    done = plain(lines[:first])
    for start, stop in itertools.pairwise([*heads, len(lines)]):
        name, body = lines[start].strip(), lines[start + 2 : stop]
        done += [lines[start], lines[start + 1]]
        if name in ("Parameters", "Attributes"):
            body = whole(body)
        if name in ("Examples", "Notes", "References"):
            done += body if name == "Examples" else plain(body)
        else:
            done += [escaped(line) for line in body]
        done += [""]
    return done


def before_numpydoc(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Replace the lines in place."""
    lines[:] = process(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register, ahead of numpydoc's own handler."""
    autosummary.WELL_KNOWN_ABBREVIATIONS = (*autosummary.WELL_KNOWN_ABBREVIATIONS, *ABBREVIATIONS)
    app.connect("autodoc-process-docstring", before_numpydoc, priority=100)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
