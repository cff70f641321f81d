"""Imports point downwards only, between packages and between their subpackages; linear algebra stands in gp.

experiments > bqvi > acquisition > gp
bqvi           engines and doors > posterior > calls, runs; of the engines only inference imports another
gp, acquisition, bqvi    subpackages, and the modules beside them, import each other without cycles
experiments    themes > harness, problems
"""

import ast
import functools
import re
from pathlib import Path

import pytest
from source_index import modules

ROOT = Path(__file__).parent.parent
LAYERS = ("gp", "acquisition", "bqvi", "experiments")  # from the ground up


@functools.cache
def trees() -> dict[Path, ast.Module]:
    return {module.path: module.tree for module in modules().values()}


def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a module, which all tests of the sources share."""
    return trees()[path]


def imported_packages(tree: ast.Module) -> set[str]:
    """First component of every absolute import, wherever in the module it stands."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def forbidden(path: Path) -> tuple[str, ...]:
    layer = path.relative_to(ROOT).parts[0]
    return (*LAYERS[LAYERS.index(layer) + 1 :], "benchmarks", "tests")


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_down(layer):
    for path in sorted((ROOT / layer).rglob("*.py")):
        upward = imported_packages(tree_of(path)) & set(forbidden(path))
        assert not upward, f"{path.relative_to(ROOT)} imports upward: {sorted(upward)}"


def test_the_check_sees_an_upward_import():
    assert "experiments" in imported_packages(
        ast.parse("def f():\n    from experiments.harness.cli import main\n")
    )
    assert {"bqvi", "tests"} <= set(forbidden(ROOT / "gp" / "kernels.py"))


ENGINES = ("quadrature", "sampled_bounds", "gradients", "variational_bmc", "inference")
THEMES = (
    "short", "thesis", "models", "amortised", "minibatch", "gradients", "quadrature", "vbmc", "bounds", "gp",
    "problems",
)  # fmt: skip
SUBPACKAGES = {
    "bqvi/calls": tuple(f"bqvi.{name}" for name in (*ENGINES, "adapters")),
    "bqvi/runs": tuple(f"bqvi.{name}" for name in (*ENGINES, "adapters")),
    "bqvi/adapters": tuple(f"bqvi.{name}" for name in (*ENGINES, "models", "runs", "posterior")),
    "bqvi/posterior": tuple(f"bqvi.{name}" for name in (*ENGINES, "runs")),
    "experiments/problems": ("experiments",),
    "experiments/harness": tuple(f"experiments.{name}" for name in THEMES),
}
"""What a subpackage does not import, beside itself."""


@functools.cache
def imported_modules(tree: ast.Module) -> set[str]:
    """Every module that is imported outside of type checking; names taken from it are listed as if they were
    modules.
    """
    found: set[str] = set()
    unchecked = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in unchecked:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@pytest.mark.parametrize("subpackage", SUBPACKAGES)
def test_subpackages_do_not_import_those_above_them(subpackage):
    own = subpackage.replace("/", ".")
    for path in sorted((ROOT / subpackage).rglob("*.py")):
        others = [name for name in imported_modules(tree_of(path)) if not is_in(name, own)]
        wrong = sorted(
            name for name in others if any(is_in(name, above) for above in SUBPACKAGES[subpackage])
        )
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


def unit(module: str) -> str:
    """The part of a package to which a module belongs: a subpackage, or a module beside these."""
    first, *rest = module.split(".")
    if rest and ((ROOT / first / rest[0]).is_dir() or (ROOT / first / f"{rest[0]}.py").exists()):
        return f"{first}.{rest[0]}"
    return first


@functools.cache
def imports_within(package: str) -> dict[str, set[str]]:
    """For each unit of a package, the other units of it that are imported."""
    graph: dict[str, set[str]] = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        own = unit(module)
        found = {unit(name) for name in imported_modules(tree_of(path)) if is_in(name, package)}
        graph.setdefault(own, set()).update(found - {own, package})
    return graph


def cycles(graph: dict[str, set[str]]) -> list[str]:
    """The nodes that remain when nodes without arrows to others that remain are removed one by one."""
    left = {node: set(targets) & graph.keys() for node, targets in graph.items()}
    while done := {node for node, targets in left.items() if not targets & left.keys()}:
        left = {node: targets for node, targets in left.items() if node not in done}
    return sorted(left)


@pytest.mark.parametrize("package", ["gp", "acquisition", "bqvi"])
def test_imports_within_a_package_have_an_order(package):
    assert not cycles(imports_within(package))


def test_the_check_sees_a_cycle():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]
    assert not cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    assert "gp.linalg" in imports_within("gp")["gp.regression"]


BENEATH = {"inference": {"gradients"}}
"""The engine that is beneath another: `fit` takes the estimators."""


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_do_not_import_each_other(engine):
    others = {f"bqvi.{name}" for name in ENGINES if name not in {engine, *BENEATH.get(engine, set())}}
    assert not imports_within("bqvi")[f"bqvi.{engine}"] & others


DECOMPOSITIONS = frozenset(
    (
        "cho_factor",
        "cho_solve",
        "cholesky",
        "cond",
        "det",
        "eig",
        "eigh",
        "eigvals",
        "eigvalsh",
        "inv",
        "lapack",
        "blas",
        "ldl",
        "lstsq",
        "lu",
        "pinv",
        "qr",
        "slogdet",
        "solve",
        "solve_triangular",
        "sqrtm",
        "svd",
    )
)
"""Of numpy.linalg and scipy.linalg: what belongs to a covariance matrix is in gp."""


def decompositions(tree: ast.Module) -> set[str]:
    """Functions of numpy.linalg and scipy.linalg in `DECOMPOSITIONS` that a module uses."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in DECOMPOSITIONS:
            owner = ast.unparse(node.value)
            if owner == "linalg" or owner.endswith(".linalg"):
                found.add(f"{owner}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module in ("scipy.linalg", "numpy.linalg"):
            found |= {alias.name for alias in node.names if alias.name in DECOMPOSITIONS}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scipy.linalg."):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


OF_THEIR_OWN = ("bqvi/models/", "bqvi/families/")
"""Subpackages with matrices that belong to no Gaussian process."""


OTHER_MATRICES = {
    "bqvi/gradients/designs.py": {"np.linalg.qr"},
}
"""Rotations that are drawn."""


def modules_above_gp() -> list[Path]:
    """The modules of acquisition and bqvi that leave linear algebra to gp."""
    paths = [*(ROOT / "acquisition").rglob("*.py"), *(ROOT / "bqvi").rglob("*.py")]
    return [path for path in sorted(paths) if not str(path.relative_to(ROOT)).startswith(OF_THEIR_OWN)]


def test_linear_algebra_is_left_to_gp():
    used = {str(path.relative_to(ROOT)): decompositions(tree_of(path)) for path in modules_above_gp()}
    wrong = {name: sorted(found - OTHER_MATRICES.get(name, set())) for name, found in used.items()}
    wrong = {name: found for name, found in wrong.items() if found}
    assert not wrong, f"{wrong}: take it from gp (gp.linalg, gp.matrices) or move it there"


def test_the_rule_on_linear_algebra_covers_modules_outside_of_subpackages():
    covered = {str(path.relative_to(ROOT)) for path in modules_above_gp()}
    assert {"bqvi/arrays.py", "acquisition/conditioned.py", "bqvi/runs/driver.py"} <= covered
    assert "bqvi/models/logistic_regression.py" not in covered


def test_the_check_sees_linear_algebra():
    assert decompositions(ast.parse("import numpy as np\nx = np.linalg.solve(a, b)")) == {"np.linalg.solve"}
    assert decompositions(ast.parse("x = namespace(a).linalg.inv(a)")) == {"namespace(a).linalg.inv"}
    assert decompositions(ast.parse("from scipy.linalg import solve_triangular")) == {"solve_triangular"}
    assert decompositions(ast.parse("from scipy.linalg.lapack import dpotrf")) == {
        "scipy.linalg.lapack.dpotrf"
    }
    assert not decompositions(ast.parse("import numpy as np\nx = np.linalg.norm(a)"))


def written_out(tree: ast.Module) -> list[int]:
    """The lines in which ln(2 pi) is computed."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] == "log"
        and node.args
        and re.fullmatch(r"2(\.0)? \* (np\.|math\.)?pi", ast.unparse(node.args[0]))
    ]


def test_the_constant_of_normal_densities_stands_in_one_place():
    paths = [path for layer in ("gp", "acquisition", "bqvi") for path in sorted((ROOT / layer).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): lines for path in paths if (lines := written_out(tree_of(path)))}
    assert found.keys() == {"gp/arrays.py"}, "import LOG_2PI of gp.arrays"
    assert written_out(ast.parse("x = 0.5 * d * np.log(2.0 * np.pi)")) == [1]
    assert not written_out(ast.parse("x = log(2 * pi * scale)"))


EXTENSIONS = (
    "bqvi.models",
    "bqvi.adapters",
    "bqvi.sklearn",
    "bqvi.sampled_bounds",
    "gp.kernels.periodic",
    "gp.regression",
    "gp.testing",
    "acquisition.minibatch",
)
"""What `vbmc`, `integrate`, what all doors share, and the rest of `gp` and of `acquisition` do without."""
ON_REQUEST = ("gp.regression.process",)
"""What the core imports in a function, as an integral against another measure is asked of a posterior."""
CONTRACTS = ("components", "contracts", "data", "log_joint", "representation", "weighted")
"""The modules of `bqvi.models` that say what `fit` asks of a model."""
CORE = (
    "gp",
    "acquisition",
    "bqvi/calls",
    "bqvi/runs",
    "bqvi/posterior",
    "bqvi/variational_bmc",
    "bqvi/quadrature",
)


def imported_extensions(path: Path, allowed: tuple[str, ...] = ()) -> list[str]:
    found = imported_modules(tree_of(path))
    return sorted(
        name
        for name in found
        if any(is_in(name, one) for one in EXTENSIONS) and not any(is_in(name, one) for one in allowed)
    )


@pytest.mark.parametrize("folder", CORE)
def test_the_core_imports_no_extension(folder):
    for path in sorted((ROOT / folder).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if not any(is_in(module, one) for one in EXTENSIONS):
            assert not imported_extensions(path, ON_REQUEST), module


@pytest.mark.parametrize("folder", ["bqvi/gradients", "bqvi/inference"])
def test_fit_imports_contracts_of_models_and_no_model(folder):
    allowed = ("acquisition.minibatch", *(f"bqvi.models.{name}" for name in CONTRACTS))
    for path in sorted((ROOT / folder).rglob("*.py")):
        assert not imported_extensions(path, allowed), path.relative_to(ROOT)
