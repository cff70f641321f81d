"""Levels of the captions of tables of contents, which Sphinx writes as headings without a level."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def give_levels(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Write `aria-level` beside each `role="heading"` of the navigation tree and of the page's own lists."""
    for part in ("furo_navigation_tree", "body"):
        context[part] = context.get(part, "").replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Sphinx) -> dict[str, Any]:
    """After the theme has made the tree."""
    app.connect("html-page-context", give_levels, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
