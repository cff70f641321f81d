"""What is public says what it takes: every argument of a public function, class or method is documented.

Public is what stands in the `__all__` of a package, and the methods of such classes. Arguments of a class are
those of its constructor; a field of a dataclass may be documented by the string that follows it. A method may
leave it to its class, or to the protocol of its package that asks for it.

A function of a module without an underscore, which other modules may use, names its arguments too; its
docstring may leave out one of them.
"""

import ast
import doctest
import functools
import inspect
import re

import pytest
from source_index import Function, Module, modules

import bqvi
import bqvi.adapters
import bqvi.sklearn
import gp


def public_objects() -> dict[tuple[str, str], tuple[Module, ast.AST]]:
    """Each public class and function with the module that defines it, whoever exports it."""
    found = {}
    packages = [module for module in modules().values() if module.path.name == "__init__.py"]
    for module in packages:
        for name in module.exported:
            where, node = origin(module, name)
            if isinstance(node, ast.ClassDef | Function):
                found[where.name, node.name] = (where, node)
    return found


def origin(module: Module, name: str, depth: int = 0):
    """The module that defines a name, and the statement that does."""
    bound = module.defined.get(name)
    if not isinstance(bound, str) or depth > 8:
        return module, bound
    parent, _, leaf = bound.rpartition(".")
    other = modules().get(parent)
    return origin(other, leaf, depth + 1) if other else (module, None)


@functools.cache
def contracts() -> dict[tuple[str, str], str]:
    """What the protocols and base classes of a package say of a method: (package, method) -> docstrings."""
    found: dict[tuple[str, str], str] = {}
    for module in modules().values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                asked = any("Protocol" in ast.unparse(base) for base in node.bases)
                for method in filter(is_public_method, node.body):
                    if not asked and "abstractmethod" not in decorators(method):
                        continue
                    key = module.name.split(".")[0], method.name
                    found[key] = f"{found.get(key, '')}\n{ast.get_docstring(method)}"
    return found


def is_public_method(node: ast.AST) -> bool:
    return isinstance(node, Function) and not node.name.startswith("_") and "overload" not in decorators(node)


def decorators(node: ast.AST) -> set[str]:
    return {ast.unparse(decorator) for decorator in node.decorator_list}


def undocumented(package: str, node: ast.AST) -> list[str]:
    """The arguments of a function, or of a class and its methods, without a description."""
    if isinstance(node, Function):
        return [name for name in named_arguments(node) if not said(name, ast.get_docstring(node) or "")]
    found = [name for name, text in constructor(node).items() if not said(name, text)]
    doc = ast.get_docstring(node) or ""
    for method in filter(is_public_method, node.body):
        text = "\n".join((doc, ast.get_docstring(method) or "", contracts().get((package, method.name), "")))
        found += [f"{method.name}({name})" for name in named_arguments(method) if not said(name, text)]
    return found


def constructor(node: ast.ClassDef) -> dict[str, str]:
    """The arguments of a class, each with the text that may document it."""
    doc = ast.get_docstring(node) or ""
    for method in node.body:
        if isinstance(method, Function) and method.name == "__init__":
            own = ast.get_docstring(method) or ""
            return dict.fromkeys(named_arguments(method), f"{doc}\n{own}")
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return {}
    fields = {}
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or "ClassVar" in ast.unparse(field.annotation):
            continue
        if field.value is not None and "init=False" in ast.unparse(field.value):
            continue
        name = field.target.id
        own = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        fields[name] = f"{doc}\n{name}" if own else doc
    return {name: text for name, text in fields.items() if not name.startswith("_")}


def named_arguments(node: Function) -> list[str]:
    of = node.args
    every = [arg.arg for arg in (*of.posonlyargs, *of.args, *of.kwonlyargs)]
    return [name for name in every if not name.startswith("_") and name not in ("self", "cls")]


def said(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def offenders() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for (where, name), (_, node) in public_objects().items():
        if missing := undocumented(where.split(".")[0], node):
            found.setdefault(where, []).append(f"{name}: {', '.join(missing)}")
    return found


def test_public_arguments_are_documented():
    new = offenders()
    assert not new, "arguments without a description:\n" + "\n".join(
        f"{k}: {v}" for k, v in sorted(new.items())
    )


def silent(module: Module) -> list[str]:
    """Public methods without a docstring, of whom no protocol or base class of the package says anything."""
    return [
        f"{node.name}.{method.name}"
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for method in filter(is_public_method, node.body)
        if not ast.get_docstring(method)
        and (module.name.split(".")[0], method.name) not in contracts()
        and not decorators(method) & {"override", f"{method.name}.setter"}
    ]


def test_methods_are_documented_by_themselves_or_by_their_contract():
    wrong = {module.name: found for module in modules().values() if (found := silent(module))}
    assert not wrong


def unnamed(module: Module) -> dict[str, list[str]]:
    """Functions for other modules, of three arguments or more, with those their docstrings leave out.

    Generators of random numbers and seeds are what their names say.
    """
    found = {}
    for node in module.tree.body:
        if isinstance(node, Function) and node.name in module.exported:
            names = [name for name in named_arguments(node) if name not in ("rng", "seed")]
            missing = [name for name in names if not said(name, ast.get_docstring(node) or "")]
            if len(names) >= 3 and len(missing) >= 2:
                found[node.name] = missing
    return found


@pytest.mark.parametrize("package", ["gp", "acquisition", "bqvi", "experiments"])
def test_functions_for_other_modules_name_their_arguments(package):
    of_package = [module for module in modules().values() if module.name.split(".")[0] == package]
    wrong = {module.name: found for module in of_package if (found := unnamed(module))}
    assert not wrong, "arguments without a description:\n" + "\n".join(
        f"{k}: {v}" for k, v in sorted(wrong.items())
    )


def test_the_check_finds_an_argument_without_a_description():
    node = ast.parse("def f(x, scale):\n    'At x.'").body[0]
    assert undocumented("gp", node) == ["scale"]


def test_the_check_of_modules_finds_two_arguments_without_a_description(tmp_path):
    code = """
__all__ = ["f", "g"]

def f(x, scale, shift):
    "At x."

def g(x, scale, shift):
    "At x, with this scale."
"""
    tree = ast.parse(code)
    bound = {node.name: node for node in tree.body[1:]} | {"__all__": tree.body[0]}
    module = Module("gp.made", tmp_path, tree, bound)
    assert unnamed(module) == {"f": ["scale", "shift"]}


DOORS = (
    bqvi.fit,
    bqvi.integrate,
    bqvi.vbmc,
    bqvi.evidence_bounds,
    bqvi.adapters.TargetModel,
    bqvi.adapters.from_torch,
    gp.fit,
    gp.GaussianProcess,
    gp.expectation.expectation,
    *(
        getattr(bqvi.sklearn, name)
        for name in bqvi.sklearn.__all__
        if inspect.isclass(getattr(bqvi.sklearn, name))
    ),
)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: f"{door.__module__}.{door.__name__}")
def test_a_front_door_has_an_example_that_prints_what_it_says(door):
    example = doctest.DocTestParser().get_doctest(door.__doc__, {}, door.__name__, None, 0)
    found = doctest.DocTestRunner(verbose=False).run(example)
    assert found.attempted
    assert not found.failed
