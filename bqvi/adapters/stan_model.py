"""`from_stan`: a Stan program and its data, through BridgeStan or else httpstan.

BridgeStan keeps every constant of the density (``propto=False``). httpstan, whose wheel contains the compiler
and the headers, drops the constants of ``~`` statements, which changes the evidence; a warning is given for a
program with such statements. Both build a program once (minutes) and keep the build.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bqvi.adapters import stan_programs
from bqvi.calls.target_model import TargetModel
from gp.user_warnings import warn_user

_Program: TypeAlias = stan_programs.BridgeProgram | stan_programs.HttpProgram
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"", re.DOTALL)


def from_stan(
    code_or_file: str | Path,
    data: Mapping[str, Any] | str | Path | None = None,
    *,
    start: Any = None,
    plausible_lower: Any = None,
    plausible_upper: Any = None,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Any] | None = None,
) -> TargetModel:
    """The log joint of a Stan program over its unconstrained parameters, with its gradient.

    Parameters
    ----------
    code_or_file : the program's text, or the path of a .stan file.
    data : name -> number or array; or the path of a JSON file of them.
    start : the unconstrained point (P,) where a run begins; by default zeros.
    plausible_lower, plausible_upper : the ends of the plausible box, (P,) or a number, unconstrained; by
        default 2 to either side of ``start``, the range in which Stan itself begins. A better box should be
        given where it is known, as Stan does not report the prior.
    coords : dimension -> labels. dims : variable -> names of its dimensions.

    Returns
    -------
    TargetModel
        The model, with indices counted from 0; results contain parameters and transformed parameters.

    Raises
    ------
    ImportError
        Neither BridgeStan with its sources nor httpstan is installed: the extra ``stan``.
    ValueError
        The program does not compile (with the compiler's message), or does not take the data.
    FileNotFoundError
        There is no such file.

    Warns
    -----
    UserWarning httpstan is used and the program has ``~`` statements, whose constants it drops: the log
        evidence lacks them. Write ``target += normal_lpdf(y | mu, sigma)`` instead of ``y ~ normal(mu,
        sigma)``.
    """
    code, folder = _code(code_or_file)
    program = _compiled(code, folder, _data(data))
    return TargetModel(
        log_joint=program.value,
        names=program.names,
        log_joint_and_gradient=program.value_and_gradient,
        start=np.zeros(len(program.names)) if start is None else start,
        plausible_lower=plausible_lower,
        plausible_upper=plausible_upper,
        to_named=partial(_variables, program),
        from_named=program.unconstrained,
        coords=dict(coords or {}),
        dims=dict(dims or {}),
        constants={name: np.asarray(x) for name, x in _data(data).items() if np.size(x)},
        package=program.package,
    )


def _variables(program: _Program, theta: np.ndarray) -> dict[str, np.ndarray]:
    """The variables of the program at draws theta (n, P)."""
    return stan_programs.arrays_by_name(
        program.columns, np.array([program.constrained(point) for point in theta])
    )


def _code(code_or_file: str | Path) -> tuple[str, Path | None]:
    """The program's text, and the folder of its includes."""
    is_path = isinstance(code_or_file, Path)
    if not is_path and not isinstance(code_or_file, str):
        raise TypeError(f"code_or_file is {code_or_file!r:.100}; it must be a program's text or a path")
    text = str(code_or_file)
    if is_path or (text.endswith(".stan") and "\n" not in text):
        path = Path(text)
        return path.read_text(), path.absolute().parent
    return text, None


def _data(data: Any) -> dict[str, Any]:
    if data is None:
        return {}
    if isinstance(data, str | Path):
        data = json.loads(Path(data).read_text())
    if not isinstance(data, Mapping):
        raise TypeError(
            f"data is {data!r:.100}; it must be a mapping of names to arrays, or a JSON file's path"
        )
    return {str(name): np.asarray(x) for name, x in data.items()}


def _compiled(code: str, folder: Path | None, data: Mapping[str, Any]) -> _Program:
    """The program compiled by BridgeStan if its sources are installed, else by httpstan."""
    if stan_programs.bridgestan_is_ready():
        return stan_programs.BridgeProgram(code, folder, data)
    if not stan_programs.httpstan_is_ready():
        raise ImportError(
            "this needs httpstan, or bridgestan with its sources, which are not installed: "
            'pip install "bqvi[stan]"',
            name="httpstan",
        )
    plain = _COMMENTS.sub(" ", code)
    if "~" in plain or re.search(r"\w_lup[dm]f\b", plain):
        warn_user(
            "httpstan drops the constants of `~` statements and of _lupdf, so that the log evidence is off "
            "by them; write target += normal_lpdf(y | mu, sigma) and the like, or install "
            "BridgeStan with its sources",
        )
    return stan_programs.HttpProgram(code, data)
