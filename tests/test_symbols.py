"""A symbol keeps its case: no docstring capitalises at its start what the formula beside it writes small.

A docstring that begins with a capital letter as a symbol ("V, (m,).") is wrong where the docstrings of its
module, or that of its class with the module's own, have that letter as a symbol in lower case only. Letters
with one meaning everywhere are left out.
"""

import re

import pytest
from source_index import ROOT, Docstring, docstrings, modules

EVERYWHERE = frozenset("NSDKLPEFHIA")
"""Sizes N, S, D, K, L and P; E[.], the Fisher matrix F, an entropy H, the identity I, and the word "A"."""
BEGINNING = re.compile(r"([A-Z])(?![\w'-])(?! [a-z]{2})|([A-Z])_\w+")
TO_MEND: frozenset[str] = frozenset()
"""Files of which some symbols are capitalised: this list may only shrink."""


def symbols(text: str) -> set[str]:
    """The single letters of a text that stand alone, or before an index or a bracket."""
    return set(re.findall(r"(?<![\w'`])([A-Za-z])(?![A-Za-z0-9'`-])", text))


def capitalised(doc: Docstring, around: str) -> bool:
    match = BEGINNING.match(doc.text.strip())
    if match is None:
        return False
    letter = match.group(1) or match.group(2)
    beside = symbols(around) | symbols(doc.text.strip()[1:])
    return letter not in EVERYWHERE and letter not in beside and letter.lower() in beside


def joined(docs: list[Docstring]) -> str:
    return "\n".join(doc.text.strip()[1:] for doc in docs)


def offenders() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for module in modules().values():
        every = list(docstrings(module))
        for doc in every:
            if len(doc.scope) == 1 and doc.attribute is None:
                continue
            others = [other for other in every if other is not doc]
            above = [
                other
                for other in others
                if other.scope in (doc.scope[:1], doc.scope[:2]) and not other.attribute
            ]
            if any(
                capitalised(doc, "\n".join(one.text.strip()[1:] for one in some)) for some in (above, others)
            ):
                path = str(module.path.relative_to(ROOT))
                found.setdefault(path, []).append(f"{doc.line}: {doc.text.strip()[:40]}")
    return found


def test_symbols_keep_their_case():
    new = [f"{path}:{line}" for path, lines in offenders().items() if path not in TO_MEND for line in lines]
    assert not new, "capitalised away from the formula beside it:\n" + "\n".join(new)


def test_the_list_only_shrinks():
    done = sorted(path for path in TO_MEND if (ROOT / path).exists() and path not in offenders())
    assert not done, f"mended, so to be taken off the list: {done}"


@pytest.mark.parametrize(
    ("text", "formula", "wrong"),
    [
        ("V, (m,).", "v exp(-r^2 / 2)", True),
        ("V, (m,).", "V = v I", False),
        ("A point.", "a x + b", False),
        ("B_d, (D,).", "exp(b_d u_d)", True),
        ("Values v.", "v exp(-r^2 / 2)", False),
    ],
)
def test_the_check_tells_the_two_apart(text, formula, wrong):
    module = next(iter(modules().values()))
    assert capitalised(Docstring(module, 1, text, ()), formula) is wrong
