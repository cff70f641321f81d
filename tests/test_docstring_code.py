"""Code in docstrings runs: each indented block that is Python with a call or an import, given what it names.

Blocks of `experiments` are run by its own tests, and those of front doors by `test_public_docs`.
"""

import ast
import re
import textwrap

import numpy as np
import scipy.special
from source_index import modules

import acquisition
import bqvi
import gp
from bqvi.families import Gamma
from gp.fixed_points.gram import gram_of

BLOCK = re.compile(r"(?:^    .*\n(?:^\s*\n)?)+", re.MULTILINE)


def blocks(text):
    """The indented blocks of a docstring that are statements with a call or an import."""
    for found in BLOCK.findall(text + "\n"):
        code = textwrap.dedent(found).strip()
        try:
            body = ast.parse(code).body
        except SyntaxError:
            continue
        if any(is_import(part) or is_call(part) for part in body):
            yield code


def is_import(part):
    return isinstance(part, ast.Import | ast.ImportFrom)


def is_call(part):
    """A call, alone or assigned, with a name in it that is not one letter: formulas are not code."""
    value = getattr(part, "value", None)
    if not isinstance(part, ast.Assign | ast.Expr) or not isinstance(value, ast.Call):
        return False
    return any(isinstance(n, ast.Name) and len(n.id) > 3 for n in ast.walk(value.func))


def examples():
    """Each block with the module that has it."""
    for module in modules().values():
        if module.name.split(".")[0] not in ("acquisition", "bqvi", "gp"):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if ">>>" not in text:
                    yield from ((module.name, code) for code in blocks(text))


def quadrature():
    x = np.linspace(-2, 2, 5)[:, None]
    posterior = gp.GaussianProcess(gp.kernels.SquaredExponential()).condition(x, np.sin(x[:, 0]))
    return {"acquisition": acquisition, "posterior": posterior,
            "measure": gp.measures.Gaussian(np.zeros(1), np.eye(1))}  # fmt: skip


def gradients():
    rng = np.random.default_rng(0)
    strategy = acquisition.minibatch.Saga(acquisition.minibatch.Uniform(3))
    selection, state = strategy.draw(strategy.start(10, rng), rng)
    return {"strategy": strategy, "state": state, "selection": selection, "rng": rng,
            "gradients": rng.standard_normal((3, 2))}  # fmt: skip


def gram():
    observed = gp.Values(np.linspace(0, 1, 4)[:, None])
    return {"gram_of": gram_of, "kernel": gp.kernels.SquaredExponential(), "observed": observed}


def counts():
    return {"ConjugateComponents": bqvi.models.ConjugateComponents, "Gamma": Gamma, "np": np, "D": 2,
            "gammaln": scipy.special.gammaln}  # fmt: skip


GIVEN = {
    "acquisition": quadrature,
    "acquisition.minibatch.strategy": gradients,
    "bqvi.models.conjugate_components": counts,
    "gp.fixed_points.gram": gram,
}
"""What the blocks of each module name."""


def test_code_in_docstrings_runs():
    """One test: as parameters the blocks would be read by each process of the suite."""
    found = list(examples())
    assert {module for module, _ in found} == set(GIVEN), "say here what the blocks of each module name"
    for module, code in found:
        exec(compile(code, module, "exec"), GIVEN[module]())


def test_blocks_are_told_from_formulas():
    assert list(blocks("Do so:\n\n    found = search(criterion)\n")) == ["found = search(criterion)"]
    assert not list(blocks("It is\n\n    k(x, y) = variance exp(-|x - y|)\n"))
