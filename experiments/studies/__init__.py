"""The studies behind the constants of the library, as rows of data: one file for each module of settings.

A row has the name of a setting (Class.field; a class alone for what its studies have in common, "" for the
whole module), the value on which the study rests, and what other values do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["studies"]


def studies(module: str) -> list[dict[str, Any]]:
    """The rows of a ``module`` of settings, as "gp.regression.settings": setting, value and study of each."""
    return list(json.loads((Path(__file__).parent / f"{module}.json").read_text(encoding="utf-8")))
