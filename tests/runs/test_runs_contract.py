"""The contract of every front door's runs, for each way in which they end.

The oracle is the function itself, which counts its calls and records where it returned.
"""

import contextlib
import dataclasses
import inspect
import io
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import threading
from typing import Any

import numpy as np
import pytest
from doors import CASES, Calls
from engine_contract import check_engine
from tqdm.auto import tqdm

import bqvi
from bqvi.runs import RunStatus, Steps
from bqvi.runs.driver import ProgressLine

EXITS = {
    KeyboardInterrupt: bqvi.RunInterrupted,
    SystemExit: bqvi.RunExit,
    NameError: bqvi.RunError,
    GeneratorExit: bqvi.RunStopped,
}


def raising(error):
    def raise_it():
        raise error

    return raise_it


def never(x):
    raise AssertionError("evaluated")


def same_points(found, expected):
    assert len(found) == len(expected)
    np.testing.assert_allclose(found, np.reshape(expected, np.shape(found)), rtol=1e-12, atol=1e-14)


@pytest.fixture(scope="module")
def shown():
    """name -> the result of an uninterrupted run, and what its progress line has written."""
    found = {}
    for name, case in CASES.items():
        with contextlib.redirect_stderr(io.StringIO()) as terminal:
            result = case.run(case.function, run=bqvi.Run(progress=True))
        found[name] = result, terminal.getvalue()
    return found


@pytest.fixture(scope="module")
def results(shown):
    """name -> the result of an uninterrupted run."""
    return {name: result for name, (result, _) in shown.items()}


@pytest.fixture(scope="module")
def whole(results):
    """name -> its numbers."""
    return {name: CASES[name].numbers(result) for name, result in results.items()}


WHOLE = ("integrate qmc", "evidence_bounds")
"""Doors that give no result before their last evaluation: replicates, particles that have not reached
temperature 1."""
LAST = None
EXIT_AT = [(LAST, KeyboardInterrupt), (LAST, NameError), *zip((1, 5, 11, 17), EXITS, strict=True)]
"""An interrupt and a failure at the last call, and each exit at another: in the first design and after it."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("at", "error"), EXIT_AT)
def test_no_evaluation_is_lost_at_any_call(name, error, at, whole, tmp_path):
    case = CASES[name]
    at = case.budget if at is LAST else at
    calls = Calls(case.function, at, raising(error("mended by now")))
    with pytest.raises(EXITS[error]) as caught:
        case.run(calls)
    ended = caught.value
    cause = (
        ended.__context__ if error is KeyboardInterrupt else ended.__cause__
    )  # a Ctrl-C has a short traceback
    assert isinstance(cause, Exception if error is NameError else error)
    paid = list(calls.returned)
    assert len(paid) == at - 1 == ended.n_evaluations
    if case.known is not None:
        same_points(case.known(ended.state), paid)
    ended.save(tmp_path / "run.npz")
    resume = (ended, tmp_path / "run.npz", pickle.loads(pickle.dumps(ended)))[at % 3]
    if at == case.budget and name not in WHOLE:
        assert ended.result().stopped == ("failed" if error is NameError else "interrupted")
        assert ended.result().n_evaluations == len(paid)
    calls = Calls(case.function)
    assert case.numbers(case.run(calls, resume=resume)) == whole[name]
    assert calls.count == case.budget - len(paid)


@pytest.mark.parametrize("at", [1, 7])
@pytest.mark.parametrize("name", CASES)
def test_a_numerical_error_ends_a_run_at_once_where_the_user_says_so(name, at):
    calls = Calls(CASES[name].function, at, raising(ZeroDivisionError("at this point")))
    with pytest.raises(bqvi.RunError, match="ZeroDivisionError: at this point"):
        CASES[name].run(calls, run=bqvi.Run(errors="raise"))
    assert calls.count == at


@pytest.mark.parametrize("name", CASES)
def test_engines_keep_the_contract_that_is_shipped(name):
    case = CASES[name]
    check_engine(lambda path: case.steps(case.function, resume=path), case.numbers, at=(2, 13))


@dataclasses.dataclass
class Wrong:
    """An engine of which one part does something else."""

    engine: Any
    part: str

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def with_evaluations(self, state, made):
        return state if self.part == "forgets" else self.engine.with_evaluations(state, made)

    def step(self, state):
        reached = self.engine.step(state)
        return state if self.part == "stands" else reached

    def checkpoint(self, state):
        found = self.engine.checkpoint(state)
        if self.part != "saves less":
            return found
        # the exception's state is whole, and its file lacks the latest evaluation
        return dataclasses.replace(found, records=without_the_latest)


def without_the_latest(state):
    return dataclasses.replace(state, evaluations=state.evaluations[:-1])


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("forgets", "of 1 evaluations that returned the state has 0"),
        ("stands", "a new state"),
        ("saves less", "of 1 evaluations that were saved the state from the file has 0"),
    ],
)
def test_what_is_wrong_with_an_engine_is_named(part, message):
    case = CASES["vbmc"]

    def steps(path):
        run = case.steps(case.function, resume=path)
        return Steps(Wrong(run.engine, part), run.state)

    with pytest.raises(AssertionError, match=message):
        check_engine(steps, case.numbers)


@pytest.mark.parametrize("name", CASES)
def test_an_exit_keeps_its_code_and_its_cause(name):
    case = CASES[name]
    with pytest.raises(SystemExit) as caught:
        case.run(Calls(case.function, 3, lambda: sys.exit(7)))
    assert caught.value.code == 7
    assert type(caught.value.__cause__) is SystemExit
    assert not vars(caught.value.__cause__)  # an exception of the user is not changed


@pytest.mark.parametrize("name", CASES)
def test_steps_give_states_and_end_where_a_call_does(name, whole, tmp_path):
    case = CASES[name]
    calls = Calls(case.function)
    run = case.steps(calls)
    assert isinstance(run, Steps)
    assert calls.count == 0
    for state in run:
        assert state is run.state
        assert run.n_evaluations == calls.count
    assert run.stopped == whole[name][-1]
    assert case.numbers(run.result()) == whole[name]
    run.save(tmp_path / "run.npz")
    saved = case.run(never, resume=tmp_path / "run.npz")
    assert case.numbers(saved) == whole[name]
    saved.save(tmp_path / "again.npz")
    assert case.numbers(case.run(never, resume=saved)) == whole[name]
    assert len(repr(saved)) < 200


@pytest.mark.parametrize("name", CASES)
def test_a_step_that_failed_may_be_tried_again(name, whole):
    case = CASES[name]
    calls = Calls(case.function, 7, raising(OSError("the license server is away")))
    run = case.steps(calls)
    with pytest.raises(bqvi.RunError, match="license server"):
        list(run)
    assert case.numbers(run.finish()) == whole[name]
    assert len(calls.returned) == case.budget
    assert calls.count == case.budget + 1


@pytest.mark.parametrize("name", CASES)
def test_a_callback_that_fails_loses_nothing(name, whole):
    case = CASES[name]
    with pytest.raises(bqvi.RunError, match="disk full") as caught:
        case.run(case.function, run=bqvi.Run(callback=lambda state: raising(OSError("disk full"))()))
    assert caught.value.n_evaluations > 0
    assert case.numbers(case.run(case.function, resume=caught.value)) == whole[name]


@pytest.mark.parametrize("name", CASES)
def test_no_call_beyond_the_budget_and_all_are_counted(name):
    case = CASES[name]
    for budget in (case.least, case.least + 3):
        calls = Calls(case.function)
        found = case.run(calls, budget=budget)
        assert calls.count == found.n_evaluations <= budget


OPTIONS = {
    "noise as a function": ("integrate bq", {"noise_sd": lambda x: 0.1}),
    "replicates": ("integrate qmc", {"replicates": 5}),
    "a tolerance": ("integrate bq", {"tolerance": 1e-9}),
    "many at once": ("vbmc", {"design": bqvi.Design(batch=7)}),
    "noise": ("vbmc", {"noise_sd": 0.1}),
    "a start": ("vbmc", {"start": [[0.1, 0.2], [0.3, 0.4]]}),
    "evaluations made before": ("vbmc", {"evaluations": (np.eye(2), np.array([-0.6, -0.5]))}),
    "a large first design": ("vbmc with gradients", {"design": bqvi.Design(initial=12)}),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_no_option_costs_a_call_beyond_the_budget(option):
    name, options = OPTIONS[option]
    made = len(options["evaluations"][1]) if "evaluations" in options else 0
    calls = Calls(CASES[name].function)
    found = CASES[name].run(calls, budget=21, **options)
    assert calls.count + made == found.n_evaluations <= 21


@pytest.mark.parametrize("name", CASES)
def test_a_killed_process_loses_the_evaluation_under_way_only(name, whole, tmp_path):
    """At call counts drawn from a fixed seed; the function kills its own process."""
    case, path = CASES[name], tmp_path / "run.npz"
    at = int(np.random.default_rng(len(name)).integers(2, case.budget + 1))
    killing = Calls(case.function, at, lambda: os.kill(os.getpid(), signal.SIGKILL))
    process = multiprocessing.get_context("fork").Process(
        target=case.run, args=(killing,), kwargs={"run": bqvi.Run(checkpoint=path)}
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    calls = Calls(case.function)
    assert case.numbers(case.run(calls, resume=path)) == whole[name]
    assert calls.count == case.budget - (at - 1)


@pytest.mark.parametrize("name", CASES)
def test_checkpoints_are_written_as_evaluations_return(name, tmp_path):
    case, path = CASES[name], tmp_path / "run.npz"
    path.write_bytes(b"")  # an empty file is no run
    calls = Calls(case.function, 12, lambda: seen.append(path.read_bytes()))
    seen: list[bytes] = []
    found = case.run(calls, run=bqvi.Run(checkpoint=path))
    copied = tmp_path / "copied.npz"
    copied.write_bytes(seen[0])
    again = Calls(case.function)
    assert case.numbers(case.run(again, resume=copied)) == case.numbers(found)
    assert again.count == case.budget - 11
    assert case.numbers(case.run(never, resume=path)) == case.numbers(found)
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("name", CASES)
def test_a_new_run_does_not_overwrite_the_evaluations_of_another(name, results, tmp_path):
    case, path = CASES[name], tmp_path / "run.npz"
    results[name].save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"checkpoint is .* with {case.budget} evaluations of a run of bqvi"):
        case.run(never, run=bqvi.Run(checkpoint=path))
    assert path.read_bytes() == before
    found = case.run(never, run=bqvi.Run(checkpoint=path), resume=path)
    assert found.n_evaluations == case.budget
    before = path.read_bytes()
    with pytest.raises(bqvi.RunInterrupted) as stopped:
        case.run(Calls(case.function, 9, raising(KeyboardInterrupt)))
    with pytest.raises(ValueError, match=r"more than the .* of the run that is resumed"):
        case.run(never, run=bqvi.Run(checkpoint=path), resume=stopped.value)
    assert path.read_bytes() == before
    path.write_text("x, y")
    with pytest.raises(ValueError, match="a file that exists and is no saved run"):
        case.run(never, run=bqvi.Run(checkpoint=path))
    assert path.read_text() == "x, y"


@pytest.mark.parametrize("name", CASES)
def test_the_message_of_an_exception_says_how_to_resume(name, tmp_path):
    case, path = CASES[name], tmp_path / "run.npz"
    with pytest.raises(bqvi.RunInterrupted, match="save") as caught:
        case.run(Calls(case.function, 9, raising(KeyboardInterrupt)))
    assert "pass it as resume" in str(caught.value)
    with pytest.raises(bqvi.RunInterrupted) as caught:
        case.run(Calls(case.function, 9, raising(KeyboardInterrupt)), run=bqvi.Run(checkpoint=path))
    assert f"resume={str(path)!r} goes on" in str(caught.value)
    with pytest.raises(bqvi.RunInterrupted) as caught:
        case.run(Calls(case.function, 1, raising(KeyboardInterrupt)))
    assert "resume" not in str(caught.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt, None])
@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_that_cannot_be_written_loses_nothing(name, error, whole, tmp_path):
    """The folder of the checkpoint is removed at the seventh call, which may fail too."""
    case, folder = CASES[name], tmp_path / "folder"
    folder.mkdir()

    def gone():
        shutil.rmtree(folder)
        if error is not None:
            raise error

    calls = Calls(case.function, 7, gone)
    with pytest.raises(bqvi.RunError if error is None else EXITS[error]) as caught:
        case.run(calls, run=bqvi.Run(checkpoint=folder / "run.npz"))
    assert caught.value.n_evaluations == len(calls.returned) == (7 if error is None else 6)
    assert case.numbers(case.run(case.function, resume=caught.value)) == whole[name]


@pytest.mark.parametrize("name", CASES)
def test_the_progress_line_counts_and_says_how_it_ended(name, shown):
    found, written = shown[name]
    line = written.split("\r")[-1]
    assert f"{CASES[name].budget}/{CASES[name].budget}" in line
    assert found.stopped in line


class Closing(io.StringIO):
    """A terminal that is closed."""

    gone = False

    def write(self, text):
        if self.gone:
            raise BrokenPipeError(32, "Broken pipe")
        return super().write(text)

    def flush(self):
        self.write("")


@pytest.mark.parametrize("name", CASES)
def test_a_run_goes_on_where_the_progress_line_cannot_be_written(name, whole, monkeypatch):
    case, terminal = CASES[name], Closing()
    monkeypatch.setattr(sys, "stderr", terminal)
    calls = Calls(case.function, 7, lambda: setattr(terminal, "gone", True))
    assert case.numbers(case.run(calls, run=bqvi.Run(progress=True))) == whole[name]


@pytest.mark.parametrize("error", [BrokenPipeError, KeyboardInterrupt])
def test_the_lock_of_progress_lines_is_released_where_one_cannot_be_drawn(error, monkeypatch):
    """tqdm itself keeps it, and a thread of tqdm's would wait for it when Python exits."""
    line = ProgressLine(RunStatus(0, 2, "evaluations"))
    monkeypatch.setattr(line._bar, "display", raising(error))
    line._bar.mininterval = line._bar.miniters = 0  # drawn at each update
    with contextlib.suppress(KeyboardInterrupt):
        line.show(RunStatus(1, 2, "evaluations"))
    got = []

    def take():
        lock = tqdm.get_lock().th_lock
        got.append(lock.acquire(blocking=False))
        if got[0]:
            lock.release()

    other = threading.Thread(target=take)
    other.start()
    other.join()
    assert got == [True]


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize("name", CASES)
def test_an_exception_without_a_message_loses_nothing(name):
    case = CASES[name]
    calls = Calls(case.function, 7, raising(MuteError))
    with pytest.raises(bqvi.RunError, match=r"MuteError: .its message cannot be formatted") as caught:
        case.run(calls, run=bqvi.Run(errors="raise"))
    assert caught.value.n_evaluations == 6
    with pytest.raises(bqvi.RunError, match=r"MuteError: .its message cannot be formatted") as caught:
        case.run(case.function, run=bqvi.Run(callback=lambda state: raising(MuteError)()))
    assert caught.value.n_evaluations > 0
    with pytest.raises(bqvi.RunError, match=": StopIteration; this exception has what was reached"):
        case.run(case.function, run=bqvi.Run(callback=lambda state: raising(StopIteration)()))


def test_doors_are_functions_with_their_own_signature_and_help():
    for function in (bqvi.fit, bqvi.integrate, bqvi.vbmc, bqvi.evidence_bounds):
        assert inspect.isfunction(function)
        signature = inspect.signature(function)
        assert signature == inspect.signature(function.steps).replace(
            return_annotation=signature.return_annotation
        )
        assert isinstance(signature.return_annotation, type)
        assert "Parameters" in (inspect.getdoc(function) or "")
        for name in ("budget", "seed", "resume", "run"):
            assert name in signature.parameters
