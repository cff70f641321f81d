"""Names between back-ticks in docstrings exist, and each file of tests has a name of its own.

A name is resolved as a reader would: an argument, a variable or an attribute of what it stands in, a name, a
string, a method or a field of the module, a module or a class beside it, a public name of one of the
packages, a package that is installed, a file, or a builtin. A module's docstring may also name arguments of
its functions.
Fragments of code (with spaces, operators or calls) are not resolved.
"""

import ast
import builtins
import functools
import importlib.util
import re
from collections import Counter

import pytest
from source_index import (
    PACKAGES,
    ROOT,
    Docstring,
    Function,
    Module,
    arguments,
    bindings,
    docstrings,
    members,
    modules,
)

NAME = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?`(?!`)")
ALLOWED = {"arviz", "arviz.from_netcdf", "peers", "sharey", "submit"}
"""Packages and extras that need not be installed; arguments and methods of other packages."""
COLUMNS = {"case", "seed", "iteration", "seconds", "evaluations", "samples", "elbo", "log_likelihood_error"}
"""What a run's table may have."""
TO_MEND: set[tuple[str, str]] = set()
"""Docstrings that name what does not exist: this list may only shrink."""
FORMULA = re.compile(r"^    +\S.*$", re.MULTILINE)


def names_in(text):
    return NAME.findall(text)


def public():
    return {name for module in modules().values() for name in module.exported}


def resolved(name: str, doc: Docstring) -> bool:
    """Whether a reader of the docstring finds what `name` stands for."""
    first, _, rest = name.partition(".")
    if name in ALLOWED | COLUMNS or (first in dir(builtins) and not rest):
        return True
    if name in method_names() or in_a_formula(name, doc.text):
        return True
    if (
        name in doc.module.literals
        or (ROOT / doc.module.path.parent / name).exists()
        or (ROOT / name).exists()
    ):
        return True
    for node in doc.scope[::-1]:
        if first in arguments(node) or (isinstance(node, Function) and first in local(node)):
            return True
        if isinstance(node, ast.ClassDef) and found_in(doc.module, node, first, rest):
            return True
    return in_module(doc.module, first, rest) or in_classes(doc, first, rest) or in_packages(doc.module, name)


def in_classes(doc: Docstring, first: str, rest: str) -> bool:
    """As a member of a class of the module; for the module's own docstring, an argument in it."""
    if any(found_in(doc.module, node, first, rest) for node in doc.module.classes):
        return True
    return len(doc.scope) == 1 and first in doc.module.inner_arguments


def method_names():
    """What `bqvi.fit(method=...)` takes."""
    return modules()["bqvi.inference.choices"].literals


def in_a_formula(name, text):
    """Whether an indented line of the docstring, such as a formula, has it without back-ticks."""
    lines = " ".join(re.sub(r"`[^`]*`", "", line) for line in FORMULA.findall(text))
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w])", lines) is not None


@functools.cache
def local(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }


def in_module(module: Module, first: str, rest: str) -> bool:
    if first in module.defined:
        return reached(module, module.defined[first], rest)
    return first in module.late_imports


def in_packages(module: Module, name: str) -> bool:
    """As a module beside this one or above, as a dotted name from the top, or as a public name."""
    first, _, rest = name.partition(".")
    above = module.package
    while above:
        if within(f"{above}.{name}"):
            return True
        above = above.rpartition(".")[0]
    if first in PACKAGES:
        return within(name)
    for other in modules().values():
        beside = other.package == module.package and isinstance(other.defined.get(first), ast.ClassDef)
        if (first in other.exported or beside) and in_module(other, first, rest):
            return True
    return first not in PACKAGES and external(first)


def external(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def within(dotted: str, depth: int = 0) -> bool:
    """Whether a dotted name leads from a module of the packages to something that exists."""
    if depth > 8:
        return False
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        module = modules().get(".".join(parts[:end]))
        if module is None:
            continue
        if end == len(parts):
            return True
        first, rest = parts[end], ".".join(parts[end + 1 :])
        return first in module.defined and reached(module, module.defined[first], rest, depth)
    return False


def reached(module: Module, bound, rest: str, depth: int = 0) -> bool:
    """Whether the attributes ``rest`` lead to something from the statement that binds the name."""
    if isinstance(bound, str):
        if bound.split(".")[0] not in PACKAGES:
            return True  # another project's
        return within(f"{bound}.{rest}" if rest else bound, depth + 1)
    if not rest or not isinstance(bound, ast.ClassDef):
        return True  # the type of a variable is not looked at
    first, _, more = rest.partition(".")
    return found_in(module, bound, first, more, depth)


def found_in(module: Module, node: ast.ClassDef, first: str, rest: str, depth: int = 0) -> bool:
    """Whether a class, or one that it is made from, has the attribute."""
    if first in members(node):
        return True
    for base in node.bases:
        name = ast.unparse(base).partition("[")[0]
        head, _, more = name.partition(".")
        bound = module.defined.get(head)
        if isinstance(bound, ast.ClassDef) and found_in(module, bound, first, rest, depth + 1):
            return True
        if isinstance(bound, str):
            full = f"{bound}.{more}" if more else bound
            if full.split(".")[0] not in PACKAGES:
                return full.split(".")[0] not in ("typing", "abc")
            if depth < 8 and within(f"{full}.{first}", depth + 1):
                return True
    return False


def unresolved(module):
    return [
        (str(module.path.relative_to(ROOT)), doc.line, name)
        for doc in docstrings(module)
        for name in names_in(doc.text)
        if not resolved(name, doc)
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_names_in_docstrings_exist(package):
    found = [
        at
        for module in modules().values()
        if module.name.split(".")[0] == package
        for at in unresolved(module)
    ]
    missing = [f"{path}:{line} `{name}`" for path, line, name in found if (path, name) not in TO_MEND]
    assert not missing, "docstrings name what does not exist:\n" + "\n".join(missing)


def test_the_list_of_what_is_to_be_mended_is_not_too_long():
    paths = {path for path, _ in TO_MEND if (ROOT / path).exists()}
    found = {
        (path, name)
        for module in modules().values()
        if str(module.path.relative_to(ROOT)) in paths
        for path, _, name in unresolved(module)
    }
    assert found >= TO_MEND, f"mended, so to be taken off the list: {sorted(TO_MEND - found)}"


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("State.theta", True),
        ("theta", True),
        ("scale", True),
        ("State.nothing", False),
        ("vanished", False),
        ("gp.fit", True),
        ("gp.fitted", False),
    ],
)
def test_the_check_tells_what_exists_from_what_does_not(tmp_path, name, there):
    source = "class State:\n    theta: int\n\ndef f(scale):\n    'Uses `x`.'\n"
    tree = ast.parse(source)
    module = Module("gp.made_up", ROOT / "gp" / "made_up.py", tree, bindings(tree.body))
    function = tree.body[1]
    assert resolved(name, Docstring(module, 5, "", (tree, function))) is there


def test_files_of_tests_have_names_of_their_own():
    """pytest imports a file of tests by its name alone, and refuses a second file of that name."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]
