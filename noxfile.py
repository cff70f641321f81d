#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""The checks of `.ci/run` one at a time, in environments of their own: `nox -s tests-3.12`, `nox -s lint`.

`make test` and `make lint` do the same in `.venv`.
"""

from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"

PROJECT = nox.project.load_toml("pyproject.toml")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def _install(session: nox.Session, extras: str, group: str) -> None:
    """The project with ``extras`` and a dependency ``group``, in the versions of constraints.txt."""
    packages = nox.project.dependency_groups(PROJECT, group)
    session.install("-c", "constraints.txt", "-e", f".[{extras}]", *packages)


@nox.session(python=nox.project.python_versions(PROJECT))
def tests(session: nox.Session) -> None:
    """Run the test suite, or the files that are given after `--`."""
    _install(session, "arviz,experiments", "test")
    session.run("python", "-m", "pytest", "-n", "2", *session.posargs, env=ONE_THREAD)


@nox.session
def lint(session: nox.Session) -> None:
    """Check format, rules and types."""
    _install(session, "arviz,experiments", "dev")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the site in docs/_build/html; warnings are errors."""
    _install(session, "experiments,sklearn", "docs")
    session.run(
        "python", "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html"
    )


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Build wheel and source distribution in dist/."""
    session.install("build", "twine")
    session.run("python", "-m", "build")
    session.run("python", "-m", "twine", "check", "--strict", *map(str, Path("dist").iterdir()))


if __name__ == "__main__":
    nox.main()
