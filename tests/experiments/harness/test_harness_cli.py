"""The command line, in this process and, for Ctrl-C and start-up, in one of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import toy_experiment
from typer.testing import CliRunner

import bqvi as bqvi_package
from experiments import catalogue
from experiments.harness import execution, registry
from experiments.harness.cli import app

HERE = Path(__file__).parent.parent
ROOT = HERE.parent.parent
TOYS = {"toy": "toy_experiment", "slow": "slow_experiment"}


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    monkeypatch.setattr(registry, "EXPERIMENTS", TOYS)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results"


def bqvi(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def unwrapped(output):
    """The words of an error's box."""
    return " ".join(output.replace("│", " ").split())


def test_those_whose_names_begin_so_are_listed():
    assert [line.split()[0] for line in bqvi("list", "sl").output.splitlines()] == ["slow"]
    refused = bqvi("list", "no-such")
    assert refused.exit_code == 2
    assert "no-such" in refused.output


def test_run_then_report(folder):
    done = bqvi("run", "toy", "--seeds", 2, "--jobs", 1, "--results", folder)
    assert done.exit_code == 0, done.output
    assert "toy: 4 runs to compute" in done.output
    assert f"toy: 4 of 4 runs in {folder / 'toy.parquet'}" in done.output
    assert len(pd.read_parquet(folder / "toy.parquet")) == 4 * 8
    again = bqvi("run", "toy", "--seeds", 2, "--jobs", 1, "--results", folder)
    assert "toy: 0 runs to compute, 4 there already" in again.output
    page = bqvi("report", "--results", folder, "--figures", folder / "figures")
    assert page.exit_code == 0, page.output
    assert "Halving" in (folder / "report.html").read_text()
    assert (folder / "figures" / "toy-errors.svg").is_file()
    out = folder / "deep" / "page.html"
    assert bqvi("report", "--results", folder, "--out", out).exit_code == 0
    assert out.read_text() == (folder / "report.html").read_text()


def test_folders_that_cannot_be_written_are_refused_before_any_work(folder, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch()
    computed = []
    monkeypatch.setattr(execution, "execute", lambda *_: computed.append(1) or [])
    for place in (file, file / "below"):
        refused = bqvi("run", "toy", "--results", place)
        assert refused.exit_code == 2
        assert "--results" in refused.output
        assert "cannot be written" in unwrapped(refused.output)
    assert not computed
    monkeypatch.undo()
    monkeypatch.setattr(registry, "EXPERIMENTS", TOYS)
    assert bqvi("run", "toy", "--seeds", 1, "--jobs", 1, "--results", folder).exit_code == 0
    for words in (
        ("--figures", file / "below"),
        ("--gallery", file / "below"),
        ("--out", file / "page.html"),
    ):
        refused = bqvi("report", "--results", folder, *words)
        assert refused.exit_code == 2
        assert words[0] in refused.output
        assert "cannot be written" in unwrapped(refused.output)
    refused = bqvi("report", "--results", folder, "--out", tmp_path)
    assert refused.exit_code == 2
    assert "is a folder" in unwrapped(refused.output)
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize("command", ["report", "run"])
@pytest.mark.parametrize("file", ["*/*.parquet", "run.json"])
def test_a_file_that_was_cut_off_is_named_without_a_traceback(folder, command, file):
    words = ("toy", "--quick", "--seeds", 1, "--jobs", 1)
    bqvi("run", *words, "--results", folder)
    path = min((folder / "toy").glob(file))
    path.write_bytes(path.read_bytes()[:100])
    done = bqvi(command, *(words if command == "run" else ()), "--results", folder)
    if command == "run" and file == "run.json":
        assert done.exit_code == 0  # the damaged manifest is written anew
        return
    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit)
    said = "".join(done.output.replace("│", "").split())
    assert "Invalidvaluefor--results" in said
    assert f"{path}isdamaged,cutoff" in said


def test_the_error_of_a_run_may_be_damaged(folder):
    bqvi("run", "toy", "--quick", "--seeds", 1, "--jobs", 1, "--results", folder)
    path = min((folder / "toy").glob("*/*.parquet"))
    path.unlink()
    path.with_suffix(".error").write_bytes(b"Traceback\nValueError: \xff\xfe\x80 of bytes\n")
    assert bqvi("report", "--results", folder).exit_code == 0
    assert "of bytes" in (folder / "report.html").read_text()


def test_an_unknown_name_gets_the_near_ones(folder):
    done = bqvi("run", "toys", "--results", folder)
    assert done.exit_code == 2
    words = " ".join(done.output.replace("│", " ").split())
    assert "unknown experiment 'toys' (did you mean toy?); there are: all, toy, slow" in words
    assert not folder.exists()


@pytest.mark.parametrize("words", [("--seeds", 0), ("--jobs", 0), ("--data", "absent")])
def test_bad_options_are_refused(folder, words):
    assert bqvi("run", "toy", "--results", folder, *words).exit_code == 2
    assert not folder.exists()


def test_report_without_results_says_what_to_do(folder):
    done = bqvi("report", "--results", folder)
    assert done.exit_code == 2
    assert "bqvi run all" in done.output


def needy():
    return toy_experiment.make(needs=("posteriors",))


def test_a_needed_folder(folder, monkeypatch):
    monkeypatch.setattr(toy_experiment, "experiment", needy())
    alone = bqvi("run", "toy", "--results", folder)
    assert alone.exit_code == 2
    assert "needs --posteriors DIR" in " ".join(alone.output.split())
    among = bqvi("run", "all", "--quick", "--jobs", 1, "--results", folder)
    assert among.exit_code == 0
    assert "toy: skipped, as it needs --posteriors" in among.output
    given = ["--posteriors", folder]
    assert bqvi("run", "toy", "--quick", "--jobs", 1, "--results", folder, *given).exit_code == 0


def test_failures_are_named_and_the_exit_code_tells(folder, monkeypatch):
    def run(case, seed):
        if case.name == "rate 0.9":
            raise ValueError("[too] slow")
        return toy_experiment.run(case, seed)

    monkeypatch.setattr(toy_experiment, "experiment", toy_experiment.make(run=run))
    done = bqvi("run", "toy", "--seeds", 2, "--jobs", 1, "--results", folder)
    assert done.exit_code == 1
    assert "2 runs failed" in done.output
    assert "toy, rate 0.9, seed 1: ValueError: [too] slow" in done.output
    assert "toy: 2 of 4 runs" in done.output
    assert len(list(folder.rglob("*.error"))) == 2
    assert bqvi("report", "--results", folder).exit_code == 0


def test_ctrl_c_in_this_process(folder, monkeypatch):
    def run(case, seed):
        if seed == 1:
            raise KeyboardInterrupt
        return toy_experiment.run(case, seed)

    monkeypatch.setattr(toy_experiment, "experiment", toy_experiment.make(run=run))
    done = bqvi("run", "toy", "--jobs", 1, "--results", folder)
    assert done.exit_code == 130
    assert "toy: 2 of 6 runs" in done.output
    last = done.output.strip().splitlines()[-1]
    assert last == "Interrupted. The finished runs are kept; the same command resumes."


def test_a_broken_drawing_makes_the_report_fail_but_exist(folder, monkeypatch):
    bqvi("run", "toy", "--quick", "--jobs", 1, "--results", folder)
    monkeypatch.setattr(toy_experiment, "experiment", toy_experiment.make(draw=lambda r: 1 / 0))
    done = bqvi("report", "--results", folder)
    assert done.exit_code == 1
    assert "Failed to draw: toy" in done.output
    assert (folder / "report.html").is_file()


def environment(**more):
    path = os.pathsep.join([str(ROOT), str(HERE)])
    return {**os.environ, "PYTHONPATH": path, **more}


def test_ctrl_c_at_the_terminal_keeps_the_finished_and_resumes(folder):
    inside = folder.parent / "inside"
    inside.mkdir()
    # a suite that runs in the background may ignore SIGINT, which its child would inherit
    start = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    start += "from experiments.harness import registry, cli\n"
    code = start + f"registry.EXPERIMENTS.update({TOYS!r})\ncli.main()\n"
    command = [sys.executable, "-c", code, "run", "slow", "--jobs", "2", "--results", str(folder)]
    process = subprocess.Popen(
        command,
        env=environment(SLOW_SECONDS="3600", SLOW_MARKS=str(inside)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while len(list(inside.glob("*"))) < 2 and process.poll() is None:
        time.sleep(0.05)  # until both workers are inside the slow seeds
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    output, _ = process.communicate()
    assert process.returncode == 130, output
    assert "slow: 4 of 8 runs" in output
    assert "Interrupted. The finished runs are kept; the same command resumes." in output
    assert "Traceback" not in output
    assert not list(folder.rglob("*.tmp"))
    done = bqvi("run", "slow", "--jobs", 1, "--results", folder)
    assert "slow: 4 runs to compute, 4 there already" in done.output
    assert done.exit_code == 0


def test_python_m_experiments_lists_without_heavy_imports():
    code = (
        "import sys, runpy\nsys.argv = ['bqvi', 'list']\n"
        "try: runpy.run_module('experiments', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print({'torch', 'pandas', 'matplotlib', 'scipy'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "set()"


def test_every_registered_experiment_can_be_loaded(monkeypatch):
    monkeypatch.undo()
    for name in registry.EXPERIMENTS:
        assert registry.load(name).name == name
        assert registry.first_line(name)


def test_a_module_without_its_experiment_is_refused(monkeypatch):
    monkeypatch.setattr(registry, "EXPERIMENTS", {"fig": "toy_experiment"})
    with pytest.raises(TypeError, match="must define `experiment`, an Experiment with name='fig'"):
        registry.load("fig")


def test_the_list_needs_no_extra():
    """As after an installation without extras: neither the command line's packages, nor torch, nor a plot."""
    names = ("typer", "rich", "pandas", "joblib", "jinja2", "matplotlib", "torch", "sklearn")
    code = f"import sys; sys.modules.update(dict.fromkeys({names}))\n"
    code += "sys.argv[1:] = ['list', 'vbmc']\nfrom experiments.__main__ import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    listed = [line.split()[0] for line in done.stdout.splitlines()]
    assert listed == [name for name in catalogue.EXPERIMENTS if name.startswith("vbmc")]
    assert 'To run them: pip install "bqvi[experiments]"' in done.stderr


def test_missing_packages_are_named_with_the_remedy():
    code = "import sys; sys.modules['typer'] = None\nfrom experiments.__main__ import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        'bqvi\'s command line needs typer; install it with: pip install "bqvi[experiments]"'
    )


def test_the_version_needs_no_extra():
    blocked = "import sys; sys.modules.update(typer=None, pandas=None); sys.argv[1:] = ['--version']\n"
    code = blocked + "from experiments.__main__ import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.stdout.strip() == f"bqvi {bqvi_package.__version__}", done.stderr


def test_the_example_of_the_how_to_page_runs(folder, tmp_path, monkeypatch):
    page = (ROOT / "docs" / "how-to" / "own-experiment.md").read_text(encoding="utf-8")
    block = page.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "means_of_the_page.py").write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "EXPERIMENTS", {"means": "means_of_the_page"})
    assert bqvi("run", "means", "--jobs", 1, "--results", folder).exit_code == 0
    assert bqvi("report", "--results", folder).exit_code == 0
    rows = pd.read_parquet(folder / "means.parquet")
    # The sd of a mean of 500 draws is sd / 22.4; 4.5 of them are exceeded once in 150,000.
    last = rows[rows["samples"] == 500]
    assert (last["error"] < 4.5 * last["sd"] / 500**0.5).all()
    assert "How fast the error of the mean" in bqvi("list").output


OWN = """The user's own study."""


def own_study(folder, name="my-study", module="my_study"):
    made = f"experiment = toy_experiment.make(name={name!r}, run=run)\n"
    source = f'"""{OWN}"""\nimport toy_experiment\nfrom my_helper import run\n\n{made}'
    (folder / f"{module}.py").write_text(source)
    (folder / "my_helper.py").write_text("from toy_experiment import run\n")


def test_an_experiment_of_ones_own_is_run_listed_and_reported(tmp_path, monkeypatch):
    own_study(tmp_path)
    # `bqvi`, as installed: the working folder is not on the path, neither here nor in the workers
    code = "import sys; sys.path.remove(''); from experiments.__main__ import main; main()"
    words = ["run", "--module", "my_study", "my-study", "--seeds", "1", "--jobs", "2"]
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(
        command, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "my-study: 2 of 2 runs" in done.stdout
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert "my-study" in bqvi("list", "--module", "my_study").output.splitlines()[-1]
    assert bqvi("report", "--module", "my_study").exit_code == 0
    page = (tmp_path / "results" / "report.html").read_text()
    assert "bqvi run my-study --seeds 1 --module my_study" in page


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("absent", "there is no module 'absent'"),
        ("empty", "module 'empty' must define `experiment`"),
        ("taken", "a name that experiments.thesis.domain has"),
        ("absent.py", "there is no file 'absent.py'"),
        ("studies/absent", "there is no file 'studies/absent'"),
        ("my-study.py", "'my-study' is no name of a module"),
        ("pathlib.py", "rename it"),
    ],
)
def test_a_module_that_cannot_be_added_is_refused(tmp_path, module, says, monkeypatch):
    monkeypatch.undo()
    for name in ("empty", "my-study", "pathlib"):
        (tmp_path / f"{name}.py").touch()
    own_study(tmp_path, "domain", "taken")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = bqvi("list", "--module", module)
    assert done.exit_code == 2
    assert says in " ".join(done.output.replace("│", " ").split())


def test_a_module_is_found_by_its_file(tmp_path, monkeypatch):
    own_study(tmp_path, "study-in-a-folder", "study_in_a_folder")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(registry, "EXPERIMENTS", dict(registry.EXPERIMENTS))
    assert registry.add(str(tmp_path / "study_in_a_folder.py")) == "study-in-a-folder"
    assert registry.add(str(tmp_path / "study_in_a_folder.py")) == "study-in-a-folder"
    assert registry.load("study-in-a-folder").name == "study-in-a-folder"


def test_what_an_own_module_lacks_is_not_taken_for_the_module(tmp_path, monkeypatch):
    (tmp_path / "hungry.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        registry.add("hungry")


def test_installed_packages_offer_experiments(tmp_path, monkeypatch):
    own_study(tmp_path)
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\nmy-study = my_study\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.offered()["my-study"] == "my_study"
    monkeypatch.setattr(registry, "EXPERIMENTS", registry.offered())
    assert f"my-study  {OWN}" in bqvi("list").output
    assert registry.load("my-study").name == "my-study"
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\nmy-study = gone.my_study\n")
    monkeypatch.setattr(registry, "EXPERIMENTS", registry.offered())
    for words in ("list",), ("run", "my-study"):
        message = " ".join(bqvi(*words).output.replace("│", " ").split())
        assert (
            "there is no module 'gone.my_study', which the entry point 'my-study' of the package" in message
        )


def test_version():
    assert bqvi("--version").output == f"bqvi {bqvi_package.__version__}\n"
