"""Formulas of the site: what the converter would show wrongly is named."""

import importlib.util
from pathlib import Path

import pytest

for package in ("sphinx", "docutils"):
    pytest.importorskip(package, reason="needs the extra docs")
DOCS = Path(__file__).parents[1] / "docs"


def mathml():
    """The module of the site's extension, which is in no package."""
    spec = importlib.util.spec_from_file_location("mathml", DOCS / "_ext" / "mathml.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize(
    ("tex", "bare"),
    [(r"\frac12 (a - b)", True), (r"\tfrac1S x", True), (r"\frac{1}{2} a", False), (r"\frac {a}{b}", False)],
)
def test_a_fraction_without_braces_is_found(tex, bare):
    assert bool(mathml().BARE_FRACTION.search(tex)) == bare


def test_the_converter_takes_the_sign_after_a_fraction_without_braces():
    from docutils.utils.math import latex2mathml

    assert "<mn>12</mn>" in str(latex2mathml.tex2mathml(r"\frac12 (a)", as_block=False))


def test_no_page_has_such_a_fraction():
    bare = mathml().BARE_FRACTION
    assert not [page.name for page in DOCS.rglob("*.md") if bare.search(page.read_text(encoding="utf-8"))]
