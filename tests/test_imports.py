"""What `import bqvi` loads, and its message where another file has the name of a package."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bqvi
import gp

ROOT = Path(__file__).parent.parent
HEAVY = ("botorch", "gpytorch", "joblib", "matplotlib", "pandas", "scipy.stats", "sklearn", "torch", "tqdm")


def python(code, folder=ROOT, *options):
    """Run code with a folder before the checkout on the path, as that of a script would be."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


STAGES = """
import sys, bqvi, gp, acquisition
def loaded(names): print(sorted(set(names) & set(sys.modules)))
gp.GaussianProcess(gp.kernels.Matern52())
loaded(HEAVY)
bqvi.gradients.designs.Sobol(), bqvi.gradients.surrogates.OnFunction()
bqvi.models.SoftmaxMixture, bqvi.posterior
loaded(["matplotlib", "sklearn"])
import numpy
one = numpy.ones(1)
bqvi.vbmc(lambda t: -0.5 * float(t @ t), plausible_lower=-one, plausible_upper=one, budget=10)
loaded(["scipy.stats"])
"""


def test_heavy_packages_are_not_imported():
    """Neither `bqvi` nor `gp` nor `acquisition` imports them, and some are not imported by subpackages or a
    run either.
    """
    done = python(f"HEAVY = {HEAVY!r}{STAGES}")
    assert done.stdout.split("\n")[:3] == ["[]", "[]", "[]"], done.stdout + done.stderr


@pytest.mark.parametrize("name", ["gp", "acquisition"])
@pytest.mark.parametrize("form", ["file", "package"])
@pytest.mark.parametrize("first", ["", "import {name}; "])
def test_a_file_in_the_place_of_a_package_is_named(tmp_path, name, form, first):
    path = tmp_path / (f"{name}.py" if form == "file" else f"{name}/__init__.py")
    path.parent.mkdir(exist_ok=True)
    path.write_text("fit = None\n")
    done = python(first.format(name=name) + "import bqvi", tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith(f"ImportError: bqvi comes with a package {name!r}, but Python finds {path}"), last
    assert f"Rename that {form}" in last


def test_folders_that_hide_no_module_raise_no_error(tmp_path):
    for folder in ("experiments", "gp"):  # a package of experiments; a folder of data
        (tmp_path / folder).mkdir()
    (tmp_path / "experiments" / "__init__.py").touch()
    done = python("import bqvi; print(bqvi.__version__)", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "use", "extra"),
    [
        ("gpytorch", lambda: gp.from_gpytorch_kernel(None), "botorch"),
        ("gpytorch", lambda: gp.from_gpytorch(None), "botorch"),
        ("botorch", lambda: gp.from_botorch(None), "botorch"),
        ("botorch", lambda: gp.as_botorch_model(None), "botorch"),
        ("matplotlib", lambda: importlib.import_module("bqvi.posterior.plots"), "plot"),
        ("sklearn", lambda: importlib.import_module("bqvi.sklearn"), "sklearn"),
        ("ray", lambda: bqvi.calls.RayExecutor(), "ray"),
        ("pymc", lambda: bqvi.adapters.from_pymc(None), "pymc"),
        ("jax", lambda: bqvi.adapters.from_numpyro(None), "numpyro"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(monkeypatch, module, use, extra):
    for name in list(sys.modules):  # the modules that need it are imported anew
        if name.startswith(("gp.interop.", "bqvi.posterior.plots", "bqvi.sklearn", f"{module}.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # None forbids the import of a module
    remedy = re.escape(f'this needs {module}, which is not installed: pip install "bqvi[{extra}]"')
    with pytest.raises(ImportError, match=f"^{remedy}$"):
        use()
