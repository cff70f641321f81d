"""One HTML page from the results, complete in itself: nothing is fetched when it is read.

Figures go in as SVG while that is small, else as PNG; animations as GIF; all as data URIs. The page depends
on the results alone, so that the same results give the same bytes. Where a drawing raises, only its own place
on the page is affected.
"""

from __future__ import annotations

import base64
import io
import json
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import jinja2
import joblib
import markupsafe
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.harness import drawing, store
from experiments.harness import results as results_module
from experiments.harness.claims import Claim
from experiments.harness.experiment import Drawing, Experiment, Gif, Table
from experiments.harness.gallery import drawings, thumbnail
from experiments.harness.provenance import version
from experiments.harness.results import Results

__all__ = [
    "DPI",
    "Column",
    "Failure",
    "Grid",
    "Picture",
    "Report",
    "Section",
    "build",
    "duration",
    "grid",
    "picture",
    "write",
    "write_pictures",
]  # fmt: skip

# about 300 kB; a raster of 160 dots per inch is smaller than a larger figure, and prints well enough
_SVG_VERTICES = 9_000
DPI = 160
_LEADING = 4
"""Sections whose first figure is in the summary as it is; of later sections it is a small raster."""
_QUICK = "a quick run decides nothing"
Form = Literal["png", "svg", "pdf"]
_MEDIA = {"svg": "image/svg+xml", "png": "image/png", "gif": "image/gif"}

_NUMBERS = re.compile(r"[-+0-9.,e∞ ()\[\]%]+")

_T = TypeVar("_T")


@dataclass(frozen=True)
class Picture:
    """A figure as a file: its bytes and the ending that says which kind."""

    name: str
    ending: str
    data: bytes
    caption: str
    small: bytes = b""
    """A small PNG of it, for the summary; empty where there is none."""
    file: tuple[str, bytes] | None = None
    """Ending and bytes of the file that is written beside the page; None for those of the page."""

    @property
    def uri(self) -> str:
        """The picture as a data URI."""
        return _data_uri(self.ending, self.data)

    @property
    def small_uri(self) -> str:
        """The small PNG as a data URI."""
        return _data_uri("png", self.small)


def _data_uri(ending: str, data: bytes) -> str:
    return f"data:{_MEDIA[ending]};base64,{base64.b64encode(data).decode()}"


@dataclass(frozen=True)
class Column:
    """Head of a column; numbers are set flush right."""

    name: str
    numeric: bool


@dataclass(frozen=True)
class Grid:
    """A table as text."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Failure:
    """A `draw`, `tables` or `claims` that raised."""

    what: str
    traceback: str


@dataclass(frozen=True)
class Section:
    """What the page shows of one experiment."""

    name: str
    title: str
    paragraphs: tuple[str, ...]
    warnings: tuple[str, ...]
    images: tuple[Picture, ...]
    tables: tuple[Grid, ...]
    claims: tuple[Claim, ...]
    problems: tuple[Failure, ...]
    asked: str
    command: str
    facts: Grid
    shared: Grid
    cases: Grid | None
    runs: int
    seconds: float


@dataclass(frozen=True)
class Report:
    """The page, with the experiments whose figures, tables or claims could not be made.

    Attributes
    ----------
    html : str
    sections : tuple of Section
    """

    html: str
    sections: tuple[Section, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """Names of the experiments whose `draw`, `tables` or `claims` raised."""
        return tuple(section.name for section in self.sections if section.problems)


def build(
    experiments: Sequence[Experiment],
    root: Path,
    command: str = "bqvi report",
    jobs: int = 1,
    form: Form | None = None,
) -> Report:
    """Return the page of those experiments that have results under `root`.

    Parameters
    ----------
    experiments : sequence of Experiment
        In the order of the page.
    root : Path
    command : str
        Stated on the page as what makes it again.
    jobs : int
        Processes that draw, an experiment at a time.
    form : "png" | "svg" | "pdf" or None
        Of the files that `write_pictures` writes; None for the form that a figure has on the page.
    """
    drawn = joblib.Parallel(n_jobs=min(jobs, len(experiments)))(
        joblib.delayed(_drawn)(each, root, form) for each in experiments
    )
    sections = tuple(section for section in drawn if section is not None)
    page = {
        "version": version(),
        "runs": sum(section.runs for section in sections),
        "seconds": duration(sum(section.seconds for section in sections)),
        "command": command,
        "sections": sections,
        "leading": _LEADING,
    }
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("experiments.harness", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["marked"] = _marked
    return Report(environment.get_template("report.html.jinja").render(page=page), sections)


def _marked(text: str) -> markupsafe.Markup:
    """A text as HTML, what stands between backticks as code."""
    return markupsafe.Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(markupsafe.escape(text))))


def write_pictures(report: Report, folder: Path) -> list[Path]:
    """Write each figure as FOLDER/EXPERIMENT-FIGURE.{svg,png,pdf,gif}; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for section in report.sections:
        for image in section.images:
            ending, data = image.file or (image.ending, image.data)
            path = folder / f"{section.name}-{image.name}.{ending}"
            path.write_bytes(data)
            written.append(path)
    return written


def _drawn(experiment: Experiment, root: Path, form: Form | None) -> Section | None:
    results = results_module.read(root, experiment.name)
    return None if results is None else _section(experiment, results, form)


def _section(experiment: Experiment, results: Results, form: Form | None) -> Section:
    problems: list[Failure] = []
    images: Sequence[Picture] = ()
    tables: Sequence[Grid] = ()
    claims: Sequence[Claim] = ()
    if not results.frame.empty:
        images = _attempt("draw", lambda: _pictures(experiment, results, form), problems)
        tables = _attempt("tables", lambda: _tables(experiment, results.frame), problems)
        claims = _attempt("claims", lambda: _claims(experiment, results), problems)
    shared, cases = _settings(results)
    return Section(
        name=experiment.name,
        title=experiment.title,
        paragraphs=tuple(" ".join(part.split()) for part in experiment.summary.split("\n\n")),
        warnings=tuple(_warnings(results)),
        images=tuple(images),
        tables=tuple(tables),
        claims=tuple(claims),
        problems=tuple(problems),
        asked=experiment.asked,
        command=results.manifest.command,
        facts=_facts(results),
        shared=shared,
        cases=cases,
        runs=len(results.records),
        seconds=sum(record.seconds for record in results.records),
    )


def _claims(experiment: Experiment, results: Results) -> Sequence[Claim]:
    """The claims; without verdicts where the run was a quick one."""
    found = experiment.claims(results.frame)
    return [claim.left_open(_QUICK) for claim in found] if results.manifest.quick else found


def _attempt(what: str, make: Callable[[], Sequence[_T]], problems: list[Failure]) -> Sequence[_T]:
    try:
        return make()
    except Exception as error:  # one failed figure must not prevent the rest of the page
        problems.append(Failure(f"{what} raised {type(error).__name__}", traceback.format_exc()))
        return ()


def _pictures(experiment: Experiment, results: Results, form: Form | None) -> list[Picture]:
    with drawing.style():
        drawn = drawings(experiment, results)
        made = [picture(each, form) for each in drawn]
        return [replace(made[0], small=thumbnail(drawn[0])), *made[1:]] if made else []


def picture(drawn: Drawing, form: Form | None = None) -> Picture:
    """Return a drawing as a file: a GIF as it is, a figure as SVG, or PNG where that is large.

    ``form`` is that of the file beside the page.
    """
    made = _on_the_page(drawn)
    if form is None or isinstance(drawn.figure, Gif):
        return made
    options: dict[str, Any] = {"dpi": DPI}
    if form != "png":
        options["metadata"] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}[form]
    return replace(made, file=(form, _saved(drawn.figure, form, **options)))


def _on_the_page(drawn: Drawing) -> Picture:
    if isinstance(drawn.figure, Gif):
        return Picture(drawn.name, "gif", drawn.figure.data, drawn.caption)
    if _vertices(drawn.figure) <= _SVG_VERTICES:
        svg = _saved(drawn.figure, "svg", metadata={"Date": None})
        return Picture(drawn.name, "svg", svg, drawn.caption)
    return Picture(drawn.name, "png", _saved(drawn.figure, "png", dpi=DPI), drawn.caption)


def _vertices(figure: Figure) -> int:
    """How many points an SVG of it would spell out: of lines, bands and scatters."""
    lines = [line.get_path() for axes in figure.axes for line in axes.lines]
    parts = [part for axes in figure.axes for part in axes.collections]
    shapes = [path for part in parts for path in part.get_paths()]
    outlined = sum(np.shape(path.vertices)[0] for path in [*lines, *shapes])
    return int(outlined + sum(np.shape(part.get_offsets())[0] for part in parts))


def _saved(figure: Figure, ending: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending, **options)
    return buffer.getvalue()


def _tables(experiment: Experiment, frame: pd.DataFrame) -> list[Grid]:
    return [grid(table) for table in experiment.tables(frame)]


def grid(table: Table) -> Grid:
    """Return a table as text: floats with four significant digits, numbers flush right."""
    frame = table.frame
    kinds = [_is_numeric(frame.iloc[:, i]) for i in range(frame.shape[1])]
    columns = tuple(Column(str(n), bool(k)) for n, k in zip(frame.columns, kinds, strict=True))
    rows = tuple(tuple(_cell(v) for v in row) for row in frame.itertuples(index=False, name=None))
    return Grid(table.name, table.caption, columns, rows)


def _is_numeric(column: pd.Series) -> bool:
    """Whether a column holds numbers, or text of nothing else, such as "0.12 [0.1, 0.3]"."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return True
    texts = [str(value) for value in column if value not in (None, "")]
    return bool(texts) and all(_NUMBERS.fullmatch(text) for text in texts)


def _cell(value: object) -> str:
    if value is None or value is pd.NA:
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.4g}"
    return str(value)


def _warnings(results: Results) -> list[str]:
    warnings: list[str] = []
    manifest = results.manifest
    if manifest.quick:
        warnings.append("Quick form: fewer seeds or smaller settings than the experiment asks for.")
    if results.missing:
        total = len(manifest.cases) * len(manifest.seeds)
        lost = "; ".join(
            f"{run.case}, seed {run.seed}: {run.error or 'not run yet'}" for run in results.missing[:8]
        )
        more = f"; and {len(results.missing) - 8} more" if len(results.missing) > 8 else ""
        warnings.append(f"{len(results.missing)} of {total} runs are missing. {lost}{more}.")
    if len({record.source for record in results.records} | {manifest.source}) > 1:
        warnings.append(
            "Not all runs were computed with the same code. "
            f"{manifest.command} --refresh computes the older ones again."
        )
    return warnings


def _facts(results: Results) -> Grid:
    records = results.records
    seconds = [record.seconds for record in records]
    packages = sorted({f"{name} {v}" for record in records for name, v in record.packages.items()})
    facts = {
        "seeds": _ranges(results.manifest.seeds),
        "runs": f"{len(records)} of {len(results.manifest.cases) * len(results.manifest.seeds)}",
        "time": _time(seconds),
        "started": _span([record.started for record in records]),
        "bqvi": _distinct(f"{record.version} (code {record.source})" for record in records),
        "packages": ", ".join(packages),
        "Python": _distinct(record.python for record in records),
        "machine": _distinct(f"{record.processor}, {record.platform}" for record in records),
    }
    return _pairs("", {key: value for key, value in facts.items() if value})


def _time(seconds: Sequence[float]) -> str:
    if not seconds:
        return ""
    median = duration(float(np.median(seconds)))
    return f"{duration(sum(seconds))} in all, {median} a run (median), one thread"


def _pairs(caption: str, pairs: Mapping[str, str]) -> Grid:
    return Grid("", caption, (Column("", False), Column("", False)), tuple(pairs.items()))


def _distinct(values: Any) -> str:
    return "; ".join(dict.fromkeys(values))


def _span(times: Sequence[str]) -> str:
    if not times:
        return ""
    first, last = min(times), max(times)
    return first if first == last else f"{first} to {last}"


def _ranges(seeds: Sequence[int]) -> str:
    return f"{len(seeds)} ({seeds[0]} to {seeds[-1]})" if len(seeds) > 1 else f"1 ({seeds[0]})"


def _settings(results: Results) -> tuple[Grid, Grid | None]:
    """Return what all cases share, and, where they differ, one row a case."""
    cases = results.manifest.cases
    keys = list(dict.fromkeys(key for case in cases for key in case.settings))
    texts = {case.name: {k: json.dumps(v) for k, v in case.settings.items()} for case in cases}
    same = [key for key in keys if len({texts[case.name].get(key) for case in cases}) == 1]
    shared = {key: texts[cases[0].name][key] for key in same} or {"": "no setting is shared"}
    differing = [key for key in keys if key not in same]
    if len(cases) == 1:
        return _pairs(f"The one case, {cases[0].name}.", shared), None
    columns = tuple(Column(name, False) for name in ("case", *differing))
    rows = tuple((case.name, *(texts[case.name].get(key, "") for key in differing)) for case in cases)
    return _pairs("Shared by all cases.", shared), Grid("", "By case.", columns, rows)


def duration(seconds: float) -> str:
    """Return a time with a unit that suits it: "32 ms", "4.1 s", "3 min 20 s", "2 h 05 min"."""
    if seconds < 0.9995:  # from 0.9995 on, three digits would round up to the next unit
        return f"{1000 * seconds:.3g} ms"
    if seconds < 99.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def write(report: Report, path: Path) -> None:
    """Write the page to `path`, atomically."""
    store.write_text(path, report.html)
