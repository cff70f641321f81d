"""The record of a run that is needed to repeat it: its inputs, the code, the machine, and the time.

The version is the one in pyproject.toml or in the installed metadata; git is not needed. As the version
changes seldom during development, a digest of the code is recorded too: of the bytecode without
docstrings of the three libraries and of those modules of `experiments`, or of the package of an experiment
from elsewhere, that define `run`. Comments, layout and docstrings do not change it.
"""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import platform
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType
from typing import Any

__all__ = ["RunRecord", "package_versions", "processor", "python_version", "source_digest", "version"]

_ROOT = Path(__file__).resolve().parent.parent.parent
_LIBRARIES = ("gp", "acquisition", "bqvi")
# Changes in these modules do not change the numbers.
_APART = frozenset(("__init__", "__main__", "catalogue", "harness"))
_RECORDED_PACKAGES = (
    "array-api-compat", "botorch", "gpytorch", "matplotlib", "numpy", "palmerpenguins", "pandas",
    "pyarrow", "scikit-learn", "scipy", "statsmodels", "torch",
)  # fmt: skip


@dataclass(frozen=True)
class RunRecord:
    """One run: what went in, what computed it, how long it took.

    Attributes
    ----------
    experiment, case : str
    settings : mapping
        The case's, as JSON values.
    seed : int
    version, source : str
        Version of bqvi and digest of the code (see the module's docstring).
    packages : mapping
        Version by name of distribution.
    python, platform, processor : str
    seconds : float
        Wall time of the whole run, on one thread.
    started : str
        ISO 8601, UTC.
    """

    experiment: str
    case: str
    settings: Mapping[str, Any]
    seed: int
    version: str
    source: str
    packages: Mapping[str, str]
    python: str
    platform: str
    processor: str
    seconds: float
    started: str

    def to_json(self) -> str:
        """Return the record as a JSON object with sorted keys."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> RunRecord:
        """Return the record that `to_json` wrote."""
        return cls(**json.loads(text))


@functools.cache
def version() -> str:
    """Return the version of bqvi: of the checkout that holds this file, else as installed."""
    project = _ROOT / "pyproject.toml"
    if project.is_file():
        table = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
        if table.get("name") == "bqvi":
            return str(table["version"])
    return importlib.metadata.version("bqvi")


@functools.cache
def package_versions() -> dict[str, str]:
    """Return the versions of the packages that the numbers depend on, where installed."""
    found: dict[str, str] = {}
    for name in _RECORDED_PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def python_version() -> str:
    """Return the interpreter and its version, e.g. "CPython 3.11.9"."""
    return f"{platform.python_implementation()} {platform.python_version()}"


@functools.cache
def processor() -> str:
    """Return the processor's name, as far as the platform has it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def source_digest(run: Callable[..., Any]) -> str:
    """Return 12 hexadecimal digits that change when the code on which `run` depends changes."""
    while isinstance(run, functools.partial):
        run = run.func
    files = [path for name in _LIBRARIES for path in sorted((_ROOT / name).rglob("*.py"))]
    return _digest([*files, *sorted(_modules_behind(run.__module__))])


def _modules_behind(module: str) -> set[Path]:
    """Files of `module` and of what it imports of its package and of `experiments`, the harness left out."""
    own = module.partition(".")[0]
    found: set[Path] = set()
    queue = [module]
    while queue:
        path = _file_of(queue.pop())
        if path is None or path in found:
            continue
        found.add(path)
        queue += [name for name in _imported(ast.parse(path.read_bytes())) if _is_experiment_code(name, own)]
    return found


def _file_of(module: str) -> Path | None:
    loaded = sys.modules.get(module)
    if loaded is not None:
        origin = getattr(loaded, "__file__", None)
    else:
        try:
            spec = importlib.util.find_spec(module)
        except (
            ModuleNotFoundError
        ):  # `from experiments.x import f` may also import the module experiments.x.f
            return None
        origin = spec.origin if spec else None
    return Path(origin) if origin and origin.endswith(".py") else None


def _imported(tree: ast.Module) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_experiment_code(module: str, own: str) -> bool:
    package, _, rest = module.partition(".")
    if package == own != "experiments":
        return True
    return package == "experiments" and bool(rest) and rest.split(".")[0] not in _APART


def _digest(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.name}:{_code_digest(path, path.stat().st_mtime_ns)};".encode())
    return total.hexdigest()[:12]


_BEFORE_A_DOCSTRING = bytes([dis.opmap["RESUME"], 0])
_NO_OPERATION = bytes([dis.opmap["NOP"], 0])
"""The constant that the compiler puts in place of a docstring that it removes."""


@functools.lru_cache(maxsize=1024)
def _code_digest(path: Path, _modified: int) -> str:
    """A digest of the compiled code without docstrings, so that text and layout do not change it."""
    code = compile(path.read_bytes(), "", "exec", dont_inherit=True, optimize=2)
    return hashlib.sha256(repr(_content(code)).encode()).hexdigest()


def _content(constant: Any) -> Any:
    """A constant of compiled code with what it computes, but no line numbers; sets are put in an order."""
    if isinstance(constant, CodeType):
        names = (constant.co_names, constant.co_varnames, constant.co_freevars, constant.co_cellvars)
        counts = (constant.co_argcount, constant.co_posonlyargcount, constant.co_kwonlyargcount)
        parts = [_content(inner) for inner in constant.co_consts]
        code = constant.co_code.replace(_BEFORE_A_DOCSTRING + _NO_OPERATION, _BEFORE_A_DOCSTRING, 1)
        return constant.co_name, code, constant.co_flags, names, counts, parts
    if isinstance(constant, frozenset):
        return sorted(map(repr, constant))
    return [_content(inner) for inner in constant] if isinstance(constant, tuple) else constant
