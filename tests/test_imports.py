"""What `import bqvi` loads, and what it says where another file stands in a package's place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("package", ["bqvi", "gp", "acquisition"])
def test_heavy_packages_are_not_imported(package):
    done = python(f"import sys, {package}; print(sorted(set({HEAVY!r}) & set(sys.modules)))")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


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


def test_folders_that_harm_nothing_are_let_be(tmp_path):
    for folder in ("experiments", "gp"):  # a package of experiments; a folder of data
        (tmp_path / folder).mkdir()
    (tmp_path / "experiments" / "__init__.py").touch()
    done = python("import bqvi; print(bqvi.__version__)", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "code", "extra"),
    [
        ("gpytorch", "import gp; gp.from_gpytorch_kernel(None)", "botorch"),
        ("gpytorch", "import gp; gp.from_gpytorch(None)", "botorch"),
        ("botorch", "import gp; gp.from_botorch(None)", "botorch"),
        ("botorch", "import gp; gp.as_botorch_model(None)", "botorch"),
        ("matplotlib", "from bqvi.posterior import plots", "plot"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(tmp_path, module, code, extra):
    (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError('No module', name={module!r})\n")
    done = python(code, tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    remedy = f'pip install "bqvi[{extra}]"'
    assert last == f"ImportError: this needs {module}, which is not installed: {remedy}"
