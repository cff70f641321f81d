"""Formulas as MathML, which browsers show themselves: no script, and nothing fetched."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
APPLIED = "&ApplyFunction;</mo>"
"""After the name of a function, such as ln, browsers leave no space."""
BARE_FRACTION = re.compile(r"\\[dt]?frac\s*[^{\s]")
"""A fraction without braces, as frac12, of which the converter makes 12 over the sign that follows."""

ACCENTED = re.compile(
    r"<munderover>\s*(<(m[ino])>[^<]*</\2>)((?:(?!</munderover>).)*?)"
    r'(<mo stretchy="false">[ˉˆ˜˙→]</mo>)\s*</munderover>',
    re.DOTALL,
)
"""A letter with an accent and an index, as bar x_k, whose index the converter writes below the letter."""


def converted(node: nodes.Element, block: bool) -> str:
    """A formula of a page in MathML; a formula that cannot be converted is a warning, and shown as it is."""
    tex = node.astext().strip()
    if BARE_FRACTION.search(tex):
        logger.warning("a fraction lacks its braces: %s", tex, location=node)
    lines = block and "\\\\" in tex and "\\begin" not in tex
    source = f"\\begin{{aligned}}{tex}\\end{{aligned}}" if lines else tex
    try:
        found = str(latex2mathml.tex2mathml(source, as_block=block))
        found = ACCENTED.sub(r'<msub><mover accent="true">\1\4</mover>\3</msub>', found)
        return found.replace(APPLIED, f'{APPLIED}<mspace width="0.17em"></mspace>')
    except Exception as error:  # docutils raises several kinds of errors
        logger.warning("formula cannot be converted (%s): %s", error, tex, location=node)
        return f"<code>{tex}</code>"


def inline(translator: Any, node: nodes.math) -> None:
    """Write an inline formula."""
    translator.body.append(converted(node, block=False))
    raise nodes.SkipNode


def display(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own; a wide one scrolls within its box."""
    translator.body.append(f'<div class="formula">{converted(node, block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
