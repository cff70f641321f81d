"""The command line: `bqvi list`, `bqvi run NAME... | all`, `bqvi report`, each with experiments of one's own.

Exit codes: 0 done; 1 some runs or drawings failed (all others are kept); 2 a wrong argument; 130
interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

from experiments.harness import provenance, registry
from experiments.harness.experiment import Experiment, Resources, UnfitFolderError

# Each command imports pandas, matplotlib or torch itself where it needs them, so that `bqvi list` takes
# little time.
if TYPE_CHECKING:
    from experiments.harness.runner import Outcome, Plan

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_JobsOption = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Processes.", show_default="one for each processor")
]
_ResultsOption = Annotated[Path, typer.Option("--results", help="Folder of the results.")]
_ModuleOption = Annotated[
    list[str] | None,
    typer.Option("--module", help="Module with an experiment of your own, e.g. my_study, or its file."),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bqvi {provenance.version()}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Experiments on estimating ELBOs, their gradients and model evidence."""


@app.command("list")
def _list_experiments(
    beginning: Annotated[str, typer.Argument(help="Of the names that are listed, e.g. `models`.")] = "",
    *,
    module: _ModuleOption = None,
) -> None:
    """List the experiments."""
    _add(module)
    names = [name for name in registry.EXPERIMENTS if name.startswith(beginning)]
    if beginning and not names:
        raise typer.BadParameter(f"no experiment's name begins with {beginning!r}; see `bqvi list`")
    width = max((len(name) for name in names), default=0)
    for name in names:
        typer.echo(f"{name:<{width}}  {registry.first_line(name)}")


@contextmanager
def _results_as_they_were_written() -> Iterator[None]:
    """A damaged file of results is a wrong argument, not a traceback."""
    from experiments.harness import store

    try:
        yield
    except store.DamagedFileError as error:
        raise typer.BadParameter(str(error), param_hint="--results") from None


def _require_writable(folder: Path, option: str) -> None:
    """Make the ``folder`` of an ``option``; a wrong argument, before any work, where it cannot be written."""
    from gp.files import unwritable

    try:
        folder.mkdir(parents=True, exist_ok=True)
        why = unwritable(folder)
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise typer.BadParameter(
            f"{folder} cannot be written ({why}); give a folder that can", param_hint=option
        )


@app.command("run")
@_results_as_they_were_written()
def _run(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Experiments, or `all`.")],
    *,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Number of seeds, counted from 0.", show_default="the experiment's own"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version that takes seconds.")] = False,
    jobs: _JobsOption = None,
    results: _ResultsOption = Path("results"),
    module: _ModuleOption = None,
    backend: Annotated[
        str | None, typer.Option(help="Workers of `loky`, `dask` or `ray`, as of a cluster.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Of Dask's scheduler (tcp://host:8786) or of Ray's head node (host:6379).",
            show_default="workers on this machine",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Folder of data sets.")
    ] = None,
    posteriors: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Folder of reference posteriors."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Compute again what is there already.")] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Compute again what other code computed.")
    ] = False,
) -> None:
    """Run experiments, on from what is already there. Ctrl-C is safe: the same command resumes."""
    from experiments.harness import runner, store

    if address is not None and backend is None:
        raise typer.BadParameter("an address needs --backend dask or ray", param_hint="--address")
    console = Console(highlight=False, soft_wrap=True)
    resources = Resources(data, posteriors)
    own = _add(module)
    plan = partial(
        runner.plan,
        root=results,
        seeds=seeds,
        quick=quick,
        resources=resources,
        force=force,
        refresh=refresh,
    )
    plans = _planned(_runnable(names, resources, console), plan, own)
    _require_writable(results, "--results")
    for made in plans:
        path = store.manifest_path(results, made.manifest.experiment)
        store.write_text(path, made.manifest.to_json())
    _print_plan(plans, console)
    failures = _computed(plans, results, jobs, console, backend, address)
    _finish(plans, results, console)
    if failures:
        _print_failures(failures, console)
        raise typer.Exit(1)


def _planned(
    experiments: Sequence[Experiment], plan: Callable[..., Plan], own: Mapping[str, str]
) -> list[Plan]:
    """The plans of the experiments; ``own`` has the modules that their commands name."""
    try:
        return [
            plan(each, options=[f"--module {own[each.name]}"] if each.name in own else ())
            for each in experiments
        ]
    except UnfitFolderError as error:
        raise typer.BadParameter(str(error), param_hint="--data") from None


def _computed(
    plans: Sequence[Plan],
    results: Path,
    jobs: int | None,
    console: Console,
    backend: str | None,
    address: str | None,
) -> list[Outcome]:
    """Compute what is pending, and return the failures; an interrupted run says what is kept, and ends."""
    from experiments.harness import execution

    try:
        return _execute(plans, jobs, console, backend, address)
    except KeyboardInterrupt:
        _finish(plans, results, console)
        console.print("Interrupted. The finished runs are kept; the same command resumes.")
        raise typer.Exit(130) from None
    except execution.BackendError as error:
        raise typer.BadParameter(str(error), param_hint="--backend") from None


@app.command("report")
@_results_as_they_were_written()
def _report(
    results: _ResultsOption = Path("results"),
    out: Annotated[
        Path | None, typer.Option(help="The page.", show_default="report.html in the results")
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Also write each figure as a file into this folder."),
    ] = None,
    gallery: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Also write pictures and verdicts for the site's gallery."),
    ] = None,
    form: Annotated[
        Literal["png", "svg", "pdf"] | None,
        typer.Option(
            "--format", help="Of the files of --figures.", show_default="svg, or png where that is large"
        ),
    ] = None,
    jobs: _JobsOption = None,
    module: _ModuleOption = None,
) -> None:
    """Make one self-contained HTML page of the results."""
    import joblib

    from experiments.harness import report as page
    from experiments.harness import store

    console = Console(highlight=False, soft_wrap=True)
    own = _add(module)
    if form is not None and figures is None:
        raise typer.BadParameter("give --figures too, whose files have it", param_hint="--format")
    names = [name for name in registry.EXPERIMENTS if store.read_manifest(results, name)]
    if not names:
        raise typer.BadParameter(
            f"there are no results of known experiments in {results}; first: bqvi run all. For those of a "
            "module of your own, name it: --module MODULE",
            param_hint="--results",
        )
    options = [f"--results {results}"] * (results != Path("results"))
    command = " ".join(["bqvi report", *options, *(f"--module {own[name]}" for name in own)])
    target = out or results / "report.html"
    if target.is_dir():
        raise typer.BadParameter(f"{target} is a folder; give the file of the page", param_hint="--out")
    for folder, option in ((target.parent, "--out"), (figures, "--figures"), (gallery, "--gallery")):
        if folder is not None:
            _require_writable(folder, option)
    experiments = [registry.load(name) for name in names]
    made = page.build(experiments, results, command, jobs or joblib.cpu_count(), form)
    page.write(made, target)
    console.print(
        f"{escape(str(target))}: {_counted(len(names), 'experiment')}, {len(made.html) / 1e6:.2g} MB"
    )
    if figures is not None:
        console.print(f"{escape(str(figures))}: {len(page.write_pictures(made, figures))} figures")
        for each in filter(lambda each: each.source, experiments):
            console.print(f"  the first of {each.name} is that of {each.source}")
    if gallery is not None:
        from experiments.harness import gallery as cards

        written = cards.write(experiments, results, gallery)
        console.print(f"{escape(str(gallery))}: {_counted(len(written), 'card')}")
    if made.broken:
        console.print(f"[red]Failed to draw:[/] {', '.join(made.broken)} (the page holds the tracebacks)")
        raise typer.Exit(1)


def _counted(number: int, noun: str) -> str:
    """The number with its noun, in the plural unless it is one."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _add(modules: Sequence[str] | None) -> dict[str, str]:
    """Register the experiments of the user's modules; return the module of each by its name."""
    try:
        return {registry.add(module): module for module in modules or ()}
    except registry.OwnModuleError as error:
        raise typer.BadParameter(str(error), param_hint="--module") from None


def _runnable(names: Sequence[str], resources: Resources, console: Console) -> list[Experiment]:
    """Import the experiments. One that lacks a folder is left out of `all`, and else an error."""
    wanted = list(registry.EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    try:
        # all names are checked before the first experiment is imported
        checked = [registry.check(name) for name in wanted]
        experiments = [registry.load(name) for name in checked]
    except (registry.UnknownExperimentError, registry.OwnModuleError) as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from None
    runnable: list[Experiment] = []
    for experiment in experiments:
        missing = resources.missing(experiment.needs)
        if missing and "all" not in names:
            options = " ".join(f"--{name} DIR" for name in missing)
            raise typer.BadParameter(f"experiment {experiment.name} needs {options}", param_hint="NAME")
        if missing:
            console.print(f"{experiment.name}: skipped, as it needs --{' and --'.join(missing)}")
        else:
            runnable.append(experiment)
    return runnable


def _print_plan(plans: Sequence[Plan], console: Console) -> None:
    for made in plans:
        kept = len(made.jobs) - len(made.pending)
        note = f", {kept} there already" * (kept > 0)
        console.print(f"{made.manifest.experiment}: {len(made.pending)} runs to compute{note}")
        if made.outdated:
            console.print(
                f"  [yellow]{made.outdated} of them were computed with other code; "
                "--refresh computes them again[/]"
            )


def _execute(
    plans: Sequence[Plan], jobs: int | None, console: Console, backend: str | None, address: str | None
) -> list[Outcome]:
    """Compute what is pending, showing progress; return the failures."""
    import joblib
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from experiments.harness import execution

    pending = [job for made in plans for job in made.pending]
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("elapsed"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    failures: list[Outcome] = []
    with Progress(*columns, console=console, disable=not pending) as progress:
        task = progress.add_task("runs", total=len(pending))
        for outcome in execution.execute(pending, jobs or joblib.cpu_count(), backend, address):
            if outcome.error is not None:
                failures.append(outcome)
                progress.console.print(f"[red]failed[/] {_describe(outcome)}")
            progress.update(task, advance=1, description=outcome.experiment)
    return failures


def _finish(plans: Sequence[Plan], root: Path, console: Console) -> None:
    """Write the combined tables and say what is there now."""
    from experiments.harness import results as results_module

    for made in plans:
        done = sum(job.path.is_file() for job in made.jobs)
        path = results_module.combine(root, made.manifest.experiment)
        where = f" in {escape(str(path))}" if path else ""
        console.print(f"{made.manifest.experiment}: {done} of {len(made.jobs)} runs{where}")
    place = "" if root == Path("results") else f" --results {escape(str(root))}"
    console.print(
        f"bqvi report{place} makes the page of results; --figures FOLDER also a file of each figure"
    )


def _print_failures(failures: Sequence[Outcome], console: Console) -> None:
    console.print(f"[red]{len(failures)} runs failed[/]; the same command tries them again:")
    for outcome in failures:
        console.print(f"  {_describe(outcome)}\n    {escape(str(outcome.log))}")


def _describe(outcome: Outcome) -> str:
    return escape(f"{outcome.experiment}, {outcome.case}, seed {outcome.seed}: {outcome.error}")


def main() -> None:
    """Run the command line."""
    app(prog_name="bqvi")
