"""Formulas of the site: what the converter would show wrongly is named."""

import importlib.util
import re
import types
from pathlib import Path

import pytest

# docutils first: botorch installs a folder `sphinx`, after whose import SciPy looks for the real one
for package in ("docutils", "sphinx.application"):
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


@pytest.mark.parametrize("tex", [r"\bar x_k", r"\hat{\alpha}_{nk}", r"\sum_{i=1}^n \bar x_k"])
def test_the_index_of_a_letter_with_an_accent_is_beside_it(tex):
    node = types.SimpleNamespace(astext=lambda: tex)
    found = mathml().converted(node, block=False)
    assert re.search(r'<msub><mover accent="true"><mi>[xα]</mi><mo stretchy="false">.</mo></mover>', found)
    assert len(re.findall("<munderover>|<msubsup>", found)) == tex.count("sum")


def test_no_page_has_such_a_fraction():
    bare = mathml().BARE_FRACTION
    assert not [page.name for page in DOCS.rglob("*.md") if bare.search(page.read_text(encoding="utf-8"))]


def formulas(text):
    """The formulas of a page, displayed and inline, without its code."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    shown = re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL)
    return shown + re.findall(
        r"(?<![\\$])\$([^$\s][^$]*?)\$(?!\$)", re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    )


def test_every_formula_of_the_pages_can_be_converted():
    from docutils.utils.math import latex2mathml

    found = [
        (page.name, tex.strip())
        for folder in ("", "derivations", "how-to", "tutorials")
        for page in sorted((DOCS / folder).glob("*.md"))
        for tex in formulas(page.read_text(encoding="utf-8"))
    ]
    assert len(found) > 150
    for page, tex in found:
        lines = "\\\\" in tex and "\\begin" not in tex
        try:
            latex2mathml.tex2mathml(
                f"\\begin{{aligned}}{tex}\\end{{aligned}}" if lines else tex, as_block=True
            )
        except Exception as error:
            pytest.fail(f"{page}: {tex}: {error}")
