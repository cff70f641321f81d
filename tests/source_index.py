"""The sources of the four packages as syntax trees: what each module defines, and its docstrings."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("gp", "acquisition", "bqvi", "experiments")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, eq=False)
class Module:
    """One source file: its dotted name, its tree, and what its names stand for.

    Attributes
    ----------
    name : str
    path : Path
    tree : ast.Module
    defined : dict
        The statement that binds each name at the top level; for imports the alias's full dotted name.
    """

    name: str
    path: Path
    tree: ast.Module
    defined: dict[str, ast.AST | str]

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @functools.cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Everything in its tree."""
        return tuple(ast.walk(self.tree))

    @functools.cached_property
    def classes(self) -> tuple[ast.ClassDef, ...]:
        return tuple(node for node in self.nodes if isinstance(node, ast.ClassDef))

    @functools.cached_property
    def inner_arguments(self) -> frozenset[str]:
        """Arguments of all its functions, also of those inside others."""
        return frozenset().union(*(arguments(node) for node in self.nodes))

    @functools.cached_property
    def late_imports(self) -> frozenset[str]:
        """Names that it takes from other modules, wherever the statement stands."""
        found = (node for node in self.nodes if isinstance(node, ast.ImportFrom))
        return frozenset(alias.asname or alias.name for node in found for alias in node.names)

    @functools.cached_property
    def literals(self) -> set[str]:
        """The strings of its code that are no docstrings, and the keywords of its calls."""
        docs = {id(node) for node in self.nodes if isinstance(node, ast.Expr)}
        found = set()
        for node in self.nodes:
            if id(node) in docs:
                continue
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.Constant) and isinstance(child.value, str):
                    found.add(child.value)
                if isinstance(child, ast.keyword) and child.arg:
                    found.add(child.arg)
        return found

    @property
    def exported(self) -> tuple[str, ...]:
        """What stands in its `__all__`; without one, what it defines without an underscore."""
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else ()
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                return tuple(ast.literal_eval(node.value))
        if self.path.name.startswith("_"):
            return ()
        own = (name for name, bound in self.defined.items() if not isinstance(bound, str))
        return tuple(name for name in own if not name.startswith("_"))


@dataclass(frozen=True)
class Docstring:
    """A docstring with what it stands in: module > class > function, or the name that it follows."""

    module: Module
    line: int
    text: str
    scope: tuple[ast.AST, ...]
    attribute: str | None = None


@functools.cache
def modules() -> dict[str, Module]:
    """Every module of the packages by its dotted name.

    Garbage collection, which would traverse the trees repeatedly, is off meanwhile and leaves them out then.
    """
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    enabled = gc.isenabled()
    gc.disable()
    found = {module.name: module for module in map(_read, paths)}
    gc.freeze()
    if enabled:
        gc.enable()
    return found


def docstrings(module: Module) -> Iterator[Docstring]:
    """Docstrings of the module, of its classes and functions, and strings that follow an assignment."""
    yield from _docstrings(module, module.tree, ())


def _docstrings(module: Module, node: ast.AST, scope: tuple[ast.AST, ...]) -> Iterator[Docstring]:
    inner = (*scope, node)
    before: ast.AST | None = None
    for child in getattr(node, "body", []):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            if isinstance(child.value.value, str):
                yield Docstring(module, child.lineno, child.value.value, inner, _target(before))
        elif isinstance(child, ast.ClassDef | Function | ast.If | ast.With | ast.Try):
            yield from _docstrings(module, child, inner)
        before = child


def _target(node: ast.AST | None) -> str | None:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def _read(path: Path) -> Module:
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return Module(name, path, tree, bindings(tree.body))


def bindings(body: list[ast.stmt]) -> dict[str, ast.AST | str]:
    """The statement, or the full name of what is imported, by each name that the statements bind."""
    found: dict[str, ast.AST | str] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | Function):
            found[node.name] = node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For):
            found |= bindings([*node.body, *getattr(node, "orelse", [])])
        else:
            found |= dict.fromkeys(_stored(node), node)
    return found


def _stored(node: ast.AST) -> set[str]:
    """Names that a statement binds; those of a comprehension are its own."""
    if isinstance(node, Comprehension):
        return set()
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Store) else set()
    return set().union(*map(_stored, ast.iter_child_nodes(node)))


@functools.cache
def members(node: ast.ClassDef) -> dict[str, ast.AST | str]:
    """What a class binds: methods, fields, and attributes that its methods set on their first argument."""
    found = bindings(node.body)
    for method in node.body:
        if isinstance(method, Function) and method.args.args:
            first = method.args.args[0].arg
            for inner in ast.walk(method):
                if (
                    isinstance(inner, ast.Attribute)
                    and isinstance(inner.ctx, ast.Store)
                    and isinstance(inner.value, ast.Name)
                    and inner.value.id == first
                ):
                    found.setdefault(inner.attr, inner)
    return found


def arguments(node: ast.AST) -> set[str]:
    """Names of a function's arguments, without stars."""
    if not isinstance(node, Function):
        return set()
    of = node.args
    every = [*of.posonlyargs, *of.args, *of.kwonlyargs, *filter(None, (of.vararg, of.kwarg))]
    return {arg.arg for arg in every}
