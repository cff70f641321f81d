"""Results as tables, which notebooks show instead of their `repr`."""

from __future__ import annotations

import html
from collections.abc import Mapping


def table(rows: Mapping[str, str]) -> str:
    """Names beside values, as HTML."""
    cells = "".join(
        f'<tr><th style="text-align:left">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table>{cells}</table>"


def yes_or_no(answer: bool, reason: str = "") -> str:
    """An answer with its reason."""
    return f"{'yes' if answer else 'no'}{f'. {reason}' if reason else ''}"
