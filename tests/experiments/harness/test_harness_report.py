"""The page is complete in itself, says what is missing, and depends on the results alone."""

import base64
import html
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import toy_experiment
from PIL import Image

from experiments.harness import drawing, execution, gallery, report, results, runner, store
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Drawing, Experiment, Table


class Page(HTMLParser):
    """Every reference, image and piece of text of a page."""

    def __init__(self, text):
        super().__init__()
        self.references, self.images, self.ids, self.text = [], [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key in {"src", "href", "srcset", "data", "action", "poster"}:
                self.references.append(value)
            if key == "id":
                self.ids.add(value)
        assert tag not in {"script", "link", "iframe", "object", "embed"}
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_data(self, data):
        self.text.append(data)


def computed(experiment: Experiment, root, **options):
    made = runner.plan(experiment, root, **options)
    store.write_text(store.manifest_path(root, experiment.name), made.manifest.to_json())
    list(execution.execute(made.pending))
    return made


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    computed(toy_experiment.experiment, root)
    computed(toy_experiment.make(name="other", title="An other"), root, quick=True)
    return root


@pytest.fixture(scope="module")
def made(root):
    others = [toy_experiment.make(name=name) for name in ("other", "never-run")]
    return report.build([toy_experiment.experiment, *others], root)


@pytest.fixture(scope="module")
def page(made):
    return Page(made.html)


def test_nothing_is_fetched(made, page):
    assert page.references
    assert all(r.startswith(("data:", "#")) for r in page.references)
    assert {r[1:] for r in page.references if r.startswith("#")} <= page.ids
    assert not re.search(r"url\(|@import|https?:", made.html)


def test_every_figure_is_there_and_opens(page):
    captions = [image["alt"] for image in page.images]
    leading, captions = captions[:2], captions[2:]  # the first figure of each section is in the summary too
    assert leading == captions[0::2]
    figures = ["Errors <by> rate. Line: median; band: interquartile range; over {} seeds."]
    assert captions[0::2] == [figures[0].format(n) for n in (3, 2)]
    assert captions[1::2] == ["A moving point."] * 2
    for image in page.images:
        kind, data = re.fullmatch(r"data:image/([a-z+]+);base64,(.*)", image["src"]).groups()
        raw = base64.b64decode(data)
        if kind == "svg+xml":
            assert raw.lstrip().startswith(b"<?xml")
            assert raw.rstrip().endswith(b"</svg>")
        else:
            assert Image.open(io.BytesIO(raw)).n_frames == 3


def test_each_section_has_a_figure_in_the_summary(root, monkeypatch):
    monkeypatch.setattr(report, "_LEADING", 1)
    experiments = [toy_experiment.experiment, toy_experiment.make(name="other")]
    first, second = [image["src"] for image in Page(report.build(experiments, root).html).images[:2]]
    assert first.startswith("data:image/svg+xml")
    assert second.startswith("data:image/png")


def test_the_page_states_what_is_behind_it(made, page):
    text = " ".join(" ".join(page.text).split())
    for words in (
        "Regenerate with bqvi report",
        "Regenerate with bqvi run toy --seeds 3",
        "Regenerate with bqvi run other --seeds 2 --quick",
        "Quick form",
        "First paragraph.",
        "Second <paragraph>.",
        "Last & least errors.",
        "3 (0 to 2)",
        "6 of 6",
        "a run (median), one thread",
        f"numpy {np.__version__}",
        "10 runs",
    ):
        assert words in text, words
    assert "never-run" not in made.html
    assert made.broken == ()


def test_figures_are_numbered_through_the_page(page):
    text = " ".join(" ".join(page.text).split())
    assert re.findall(r"Figure (\d)\.", text)[-4:] == ["1", "2", "3", "4"]


@pytest.mark.parametrize(("quick", "verdict"), [(False, "holds"), (True, "undecided")])
def test_a_quick_run_has_no_verdict(quick, verdict, tmp_path):
    claim = Claim("6", "s", "c", [Check("all", True, "9 of 9", wins=9, seeds=9)])
    experiment = toy_experiment.make(name="claimed", claims=lambda results: [claim])
    computed(experiment, tmp_path, quick=quick)
    assert [found.verdict for found in report.build([experiment], tmp_path).sections[0].claims] == [verdict]


def test_settings_are_split_into_shared_and_differing(made):
    section = made.sections[0]
    assert dict(section.shared.rows) == {"steps": "8", "kind": '"toy"'}
    assert section.cases.rows == (("rate 0.5", "0.5"), ("rate 0.9", "0.9"))


def test_the_same_results_give_the_same_bytes(root, made):
    others = [toy_experiment.make(name=name) for name in ("other", "never-run")]
    assert report.build([toy_experiment.experiment, *others], root).html == made.html


def test_tables_show_the_numbers_of_the_results(root, made):
    frame = pd.read_parquet(next(root.glob("toy/*/rate-0.5-0.parquet")))
    first = made.sections[0].tables[0].rows[0]
    assert first == ("rate 0.5", "0", f"{frame['error'].iloc[-1]:.4g}")
    columns = made.sections[0].tables[0].columns
    assert [c.numeric for c in columns] == [False, True, True]


def test_cells():
    frame = pd.DataFrame(
        {"x": [1234567.0, np.nan], "ok": [True, False], "name": ["<b>", None], "n": [7, 10**7]}
    )
    grid = report.grid(Table("t", frame, ""))
    assert grid.rows == (("1.235e+06", "yes", "<b>", "7"), ("", "no", "", "10000000"))


def test_a_drawing_that_raises_leaves_the_rest_of_the_page(tmp_path):
    def draw(results):
        raise RuntimeError("no ink")

    broken = toy_experiment.make(draw=draw)
    computed(broken, tmp_path, seeds=1)
    made = report.build([broken], tmp_path)
    assert made.broken == ("toy",)
    assert "RuntimeError: no ink" in html.unescape(made.html)
    assert "Last &amp; least errors." in made.html


def test_missing_runs_and_other_code_are_stated(tmp_path):
    experiment = toy_experiment.make()
    plan = computed(experiment, tmp_path)
    plan.jobs[0].path.unlink()
    frame, record = store.read_shard(plan.jobs[1].path)
    changed = json.loads(record.to_json()) | {"source": "older"}
    store.write_shard(plan.jobs[1].path, frame, type(record)(**changed))
    warnings = report.build([experiment], tmp_path).sections[0].warnings
    assert warnings[0] == "1 of 6 runs are missing. rate 0.5, seed 0: not run yet."
    assert "Not all runs were computed with the same code." in warnings[1]
    assert "bqvi run toy --seeds 3 --refresh" in warnings[1]


def test_no_finished_run_is_no_error(tmp_path):
    experiment = toy_experiment.make()
    plan = runner.plan(experiment, tmp_path)
    store.write_text(store.manifest_path(tmp_path, "toy"), plan.manifest.to_json())
    made = report.build([experiment], tmp_path)
    assert made.sections[0].images == ()
    assert "6 of 6 runs are missing" in made.html


def test_a_heavy_figure_becomes_a_raster():
    with drawing.style():
        figure, axes = drawing.figure()
        points = np.random.default_rng(0).normal(size=(2, 20_000))
        axes[0, 0].scatter(*points)
        heavy = report.picture(Drawing("heavy", figure, ""))
    assert heavy.ending == "png"
    width, height = Image.open(io.BytesIO(heavy.data)).size
    assert (width, height) == (round(3.4 * report.DPI), round(2.8 * report.DPI))


def test_pictures_are_written_as_files(made, tmp_path):
    paths = report.write_pictures(made, tmp_path / "figures")
    assert [path.name for path in paths] == [
        "toy-errors.svg",
        "toy-motion.gif",
        "other-errors.svg",
        "other-motion.gif",
    ]
    assert all(path.stat().st_size > 500 for path in paths)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0321, "32.1 ms"),
        (0.99999, "1 s"),
        (4.123, "4.12 s"),
        (99.94, "99.9 s"),
        (99.96, "1 min 40 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations(seconds, words):
    assert report.duration(seconds) == words


@pytest.mark.parametrize("make", [Drawing, Table])
def test_names_that_cannot_be_anchors_are_refused(make):
    with pytest.raises(ValueError, match="name must be lower-case letters"):
        make("Fig 6.1", None, "")


def test_what_stands_between_backticks_is_code(root):
    asked = replace(toy_experiment.experiment, summary="Is `x < 1` & y? `bqvi run toy` is all.")
    text = report.build([asked], root).html
    assert "<p>Is <code>x &lt; 1</code> &amp; y? <code>bqvi run toy</code> is all.</p>" in text
    assert "<strong>Asked.</strong> Is <code>x &lt; 1</code> &amp; y?</p>" in text


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_files_have_the_form_that_was_asked_for(root, tmp_path, form):
    experiment = toy_experiment.make(source="A paper, Figure 3")
    made = report.build([experiment], root, form=form)
    figure, animation = report.write_pictures(made, tmp_path)
    beginning = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[form]
    assert figure.suffix == f".{form}"
    assert figure.read_bytes().startswith(beginning)
    assert animation.suffix == ".gif"
    assert made.sections[0].images[0].caption.endswith("The source is A paper, Figure 3.")


def test_a_quick_figure_says_so_and_its_number_of_seeds(root):
    words = "quick form, 2 seeds"
    for name, quick in (("toy", False), ("other", True)):
        experiment = toy_experiment.make(name=name)
        figure = gallery.drawings(experiment, results.read(root, name))[0].figure
        assert (words in figure.get_suptitle()) is quick
