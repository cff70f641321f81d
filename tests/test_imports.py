"""What `import bqvi` loads, and its message where another file has the name of a package."""

import importlib
import json
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
bqvi.models.LogJoint, bqvi.posterior
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


def test_packages_import_their_names_when_these_are_used():
    """Not even NumPy is loaded before; `dir` lists the names, and another name is an error."""
    done = python(
        "import sys, bqvi, gp, acquisition\n"
        "print(sorted({'numpy', 'scipy', 'torch'} & set(sys.modules)))\n"
        "print(all(set(each.__all__) <= set(dir(each)) for each in (bqvi, gp, acquisition, bqvi.models)))\n"
        "print(callable(bqvi.vbmc), callable(gp.components), bqvi.calls.Run is bqvi.Run)\n"
        "bqvi.vmbc"
    )
    assert done.stdout.split("\n")[:3] == ["[]", "True", "True True True"], done.stdout + done.stderr
    assert done.stderr.endswith(
        "AttributeError: module 'bqvi' has no attribute 'vmbc'. Did you mean 'vbmc'?\n"
    )


WITHOUT_TORCH = """
import importlib.abc, json, sys

class Forbidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Forbidden())
import numpy as np
import scipy.stats
import bqvi, gp

ones, standard = np.ones(2), gp.measures.Gaussian([0.0, 0.0], np.eye(2))
random = np.random.default_rng(0).random((1_100_000, 2))
def f(t): return -0.5 * float(t @ t)
def rows(t): return -0.5 * (t * t).sum(1)
def slope(t): return -t

def used(result):
    if hasattr(result, "save"):
        print(result, repr(result), file=sys.stderr)
        result.save("run.npz")
        getattr(result, "plot_trace", getattr(result, "plot", None))()
    posterior = getattr(result, "posterior", None)
    if isinstance(posterior, bqvi.Posterior):
        posterior.sample(3, 0), posterior.log_prob(posterior.mode()), posterior.plot(), str(posterior)
        posterior.save("posterior.npz"), bqvi.load("posterior.npz").quantiles([0.5])
        posterior.to_arviz(8)
    assert "torch" not in sys.modules

found = {}
for name, call in CALLS.items():
    try:
        used(eval(call))
    except BaseException as error:
        found[name] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


NUMPY_CALLS = {
    "vbmc": "bqvi.vbmc(f, plausible_lower=-ones, plausible_upper=ones, budget=20)",
    "vbmc-gradient": "bqvi.vbmc(f, gradient=slope, plausible_lower=-ones, plausible_upper=ones, budget=12)",
    "prior": "bqvi.vbmc(log_likelihood=f, prior=scipy.stats.norm([0, 0], [1, 1]), budget=12)",
    "integrate": "bqvi.integrate(lambda x: np.exp(rows(x)), standard, budget=20, seed=0)",
    "integrate-log": "bqvi.integrate(rows, standard, log=True, budget=20, seed=0)",
    "gp.fit": "gp.fit(np.linspace(0.0, 1.0, 9)[:, None], np.arange(9.0) ** 2)",
    "gp.fit-evidence": "gp.fit(np.linspace(0.0, 1.0, 9)[:, None], np.arange(9.0) ** 2, method='evidence')",
    "bq": "bqvi.fit(bqvi.adapters.TargetModel(f, 2, lambda x: (f(x), -x)), method='bq', budget=20, seed=0)",
    "bq-log-joint": "bqvi.fit(bqvi.models.LogJoint(rows, 2, gradient=None), method='bq', budget=20, seed=0)",
    "bq-prior": "bqvi.fit(bqvi.models.LogJoint(log_likelihood=lambda a: -a * a, gradient=None, "
    "prior={'a': scipy.stats.norm()}), method='bq', budget=20, seed=0)",
    "evidence_bounds": "bqvi.evidence_bounds(rows, standard, gradient=slope, budget=2000, seed=0)",
    "cavi": "bqvi.fit(bqvi.models.GaussianMixture(2, covariance='full'), random, steps=1).q",
}


NEEDS_TORCH = {
    "score": "bqvi.fit(bqvi.adapters.TargetModel(f, 2), method='score', budget=20, seed=0)",
    "autodiff": "bqvi.vbmc(f, gradient='autodiff', plausible_lower=-ones, plausible_upper=ones)",
    "class": "bqvi.models.VariationalAutoencoder",
    "rows": "bqvi.fit(bqvi.models.LogisticRegression(1), (np.ones((2, 1)), np.arange(2.0)), method='bq')",
    "log-joint": "bqvi.models.LogJoint(log_likelihood=f, prior={'a': scipy.stats.norm()})",
    "log-joint-of-rows": "bqvi.models.LogJoint(log_likelihood=f, prior=scipy.stats.norm(), data=ones)",
    "log-joint-called": "bqvi.models.LogJoint(f, 2)(ones)",
    "to_torch": "bqvi.Posterior.of(standard).to_torch()",
}


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory):
    """The errors of all these calls in one process in which an import of torch is an error."""
    done = python(f"CALLS = {NUMPY_CALLS | NEEDS_TORCH!r}\n{WITHOUT_TORCH}", tmp_path_factory.mktemp("calls"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_numpy_functions_need_no_torch(without_torch):
    """Results are printed, drawn, saved and exported."""
    assert {name: error for name, error in without_torch.items() if name in NUMPY_CALLS} == {}


def test_what_needs_torch_names_the_extra(without_torch):
    message = 'ImportError: this needs torch, which is not installed: pip install "bqvi[torch]"'
    assert {name for name in NEEDS_TORCH if message not in without_torch.get(name, "")} == set()


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
        ("jax", lambda: bqvi.adapters.from_jax(None), "jax"),
        ("numpyro", lambda: bqvi.adapters.from_numpyro(None), "numpyro"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(monkeypatch, module, use, extra):
    for name in list(sys.modules):  # the modules that need it are imported anew
        if name.startswith(("gp.regression.interop.", "bqvi.posterior.plots", "bqvi.sklearn", f"{module}.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # None forbids the import of a module
    remedy = re.escape(f'this needs {module}, which is not installed: pip install "bqvi[{extra}]"')
    with pytest.raises(ImportError, match=f"^{remedy}$"):
        use()
