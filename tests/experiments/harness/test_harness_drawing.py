"""Bands against NumPy by hand and against a definition read off record by record."""

import ast
import io
import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from source_index import modules

from experiments.harness import animation, bands, drawing, summaries


def table(runs, case="a"):
    return pd.concat(
        pd.DataFrame({"case": case, "seed": seed, "t": np.array(x, float), "y": np.array(y, float)})
        for seed, (x, y) in enumerate(runs)
    )


finite = st.floats(-1e6, 1e6, allow_nan=False)
run = st.lists(st.tuples(st.integers(0, 30), finite), min_size=1, max_size=8).map(
    lambda records: tuple(zip(*sorted(records, key=lambda r: r[0]), strict=True))
)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(run, min_size=1, max_size=6))
def test_a_band_is_what_its_definition_says(runs):
    found = bands.band(table(runs), "t", "y")
    for x, *quartiles in zip(found.x, found.lower, found.median, found.upper, strict=True):
        at_x = [[y for t, y in zip(*r, strict=True) if t <= x][-1] for r in runs]
        # Quantiles interpolate between two sorted values: a few roundings of the largest.
        scale = max(map(abs, at_x))
        np.testing.assert_allclose(
            quartiles, np.quantile(at_x, [0.25, 0.5, 0.75]), rtol=0, atol=1e-14 * scale
        )
    assert found.x[0] == max(r[0][0] for r in runs)
    assert found.x[-1] == max(r[0][-1] for r in runs)


def test_quantiles_of_infinite_values():
    column = np.array([1.0, 2.0, 3.0, np.inf, np.inf])[:, None]
    assert bands.quantile(column, 0.5) == 3.0
    assert bands.quantile(column, 0.6) == np.inf
    assert bands.quantile(column, 1.0) == np.inf
    assert bands.quantile(-column, 0.0) == -np.inf


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_thinned_band_keeps_its_ends_and_true_values(scale):
    x = np.cumsum(np.random.default_rng(0).exponential(size=5000))
    full = bands.band(table([(x, 1 / x)]), "t", "y", points=10**6)
    thin = bands.band(table([(x, 1 / x)]), "t", "y", points=50, x_scale=scale)
    assert len(full.x) == 5000
    assert len(thin.x) <= 52
    assert (thin.x[0], thin.x[-1]) == (x[0], x[-1])
    np.testing.assert_array_equal(thin.median, 1 / thin.x)


def test_nothing_recorded_gives_an_empty_band():
    assert bands.band(table([([1], [np.nan])]), "t", "y").seeds == 0
    with pytest.raises(KeyError, match="lack the column 'z'"):
        bands.band(table([([1], [1])]), "t", "z")


def test_curves_draw_the_band_with_labels_and_scales():
    results = pd.concat([table([([1, 10], [3, -2])], c) for c in ("b", "a")])
    results = results.rename(columns={"t": "seconds", "y": "log_likelihood_error"})
    _, axes = drawing.figure()
    ax = axes[0, 0]
    found = drawing.curves(ax, results, "seconds", "log_likelihood_error", x_scale="log", y_scale="symlog")
    assert list(found) == ["b", "a"]
    assert [line.get_label() for line in ax.lines] == ["b", "a"]
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[1, 3], [10, -2]])
    assert ax.lines[0].get_drawstyle() == "steps-post"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (s)", "log-likelihood error (nats)")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "symlog")


def test_a_diverged_line_ends_with_a_cross_where_its_last_level_ends():
    results = pd.concat([table([([1, 2, 3], [5, 4, np.inf])], "a"), table([([1, 3], [3, 2])], "b")])
    _, axes = drawing.figure()
    drawing.curves(axes[0, 0], results, "t", "y", y_scale="log")
    crosses = [line.get_xydata().tolist() for line in axes[0, 0].lines if line.get_marker() == "x"]
    assert crosses == [[[3.0, 4.0]]]
    assert "diverged" in drawing.band_caption(results)
    assert "diverged" not in drawing.band_caption(results[results["case"] == "b"])


def test_a_symlog_axis_has_a_label_below_zero():
    _, axes = drawing.figure()
    ax = axes[0, 0]
    drawing.curves(ax, table([([1, 2], [1e3, -7.0])], "a"), "t", "y", y_scale="symlog", linthresh=10.0)
    ax.set_ylim(-7.5, 2e3)
    ax.figure.canvas.draw()
    labels = dict(zip(ax.get_yticks(), [label.get_text() for label in ax.get_yticklabels()], strict=True))
    assert labels[-5.0] == "-5"
    assert labels[0.0]
    ax.set_ylim(-200.0, 2e3)
    assert (ax.get_yticks() == -100.0).any()  # powers of ten need no other


def test_curves_refuse_to_pass_two_cases_for_one():
    results = pd.concat([table([([1], [1])], c) for c in ("a", "b")]).assign(kind="k")
    with pytest.raises(ValueError, match="kind = 'k' joins the cases a, b"):
        drawing.curves(drawing.figure()[1][0, 0], results, "t", "y", by="kind")


@pytest.mark.parametrize("panels", [1, 3])
def test_a_legend_is_no_wider_than_its_figure(panels):
    with drawing.style():
        made, axes = drawing.figure(1, panels)
        for i in range(4):
            axes[0, 0].plot([0, 1], [i, i], label=f"a label of some length, {i}")
        drawing.legend_below(made, axes)
        (legend,) = made.legends
        made.canvas.draw()
        assert legend.get_window_extent().width <= made.bbox.width
        assert len(legend.get_texts()) == 4


def test_style_and_figures_leave_the_globals_alone():
    import matplotlib.pyplot as plt

    before, open_before = dict(mpl.rcParams), plt.get_fignums()
    with drawing.style():
        assert mpl.rcParams["svg.hashsalt"] == "bqvi"
        figure, axes = drawing.figure(1, 2)
        drawing.curves(axes[0, 0], table([([1, 2], [1, 2])]), "t", "y")
        drawing.legend_below(figure, axes)
        figure.savefig(io.BytesIO(), format="png")
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == open_before


def test_no_text_of_an_experiment_has_the_field_of_an_f_string_that_lost_its_prefix():
    field = re.compile(r"\{[A-Za-z_][\w.]*[(}:\[]")
    texts = {(name, text) for name, module in modules().items() if module.package.startswith("experiments")
             for text in module.literals - _names_of_cases(module) if field.search(text)}  # fmt: skip
    assert texts == {("experiments.harness.cli", "{task.description}")}  # the progress bar's own format


def _names_of_cases(module):
    """The texts that `experiment.grid` formats, which raises a KeyError for a field without a value."""
    calls = (node for node in module.nodes if isinstance(node, ast.Call))
    first = (call.args[0] for call in calls if getattr(call.func, "id", "") == "grid")
    return {argument.value for argument in first if isinstance(argument, ast.Constant)}


def test_the_caption_counts_the_seeds():
    one = table([([1], [1])])
    three = table([([1], [1])] * 3, "b")
    assert drawing.band_caption(three).endswith("over 3 seeds.")
    assert drawing.band_caption(one) == "Line: the result of 1 seed."
    assert drawing.band_caption(pd.concat([one, three])).endswith("over 1 to 3 seeds.")


def test_a_gif_shows_its_frames_in_order_and_for_their_time():
    def frame(level):
        figure, axes = drawing.figure()
        axes[0, 0].axvspan(0, level, color="black")
        axes[0, 0].set_xlim(0, 1)
        return figure

    made = animation.gif((frame(x) for x in (0.1, 0.5, 0.9)), seconds=0.3, last_seconds=1)
    image = Image.open(io.BytesIO(made.data))
    darkness, durations = [], []
    for i in range(image.n_frames):
        image.seek(i)
        darkness.append(-np.asarray(image.convert("L"), float).mean())
        durations.append(image.info["duration"])
    assert durations == [300, 300, 1000]
    assert darkness == sorted(darkness)
    assert image.info["loop"] == 0


def test_a_gif_needs_frames_of_one_size():
    with pytest.raises(ValueError, match="at least one figure"):
        animation.gif([])
    with pytest.raises(ValueError, match="one size"):
        animation.gif(drawing.figure(size=(s, 1))[0] for s in (1, 2))
    with pytest.raises(ValueError, match="positive"):
        animation.gif([drawing.figure()[0]], seconds=0)


def test_quartiles_of_last_records():
    runs = [([0, 1], [9, y]) for y in (1.0, 2.0, 3.0, 4.0, 5.0)]
    last = summaries.last_records(table(runs))
    assert sorted(last["y"]) == [1, 2, 3, 4, 5]
    made = summaries.quartiles(last, {"y": "error (nats)"})
    assert made.to_dict("records") == [{"case": "a", "seeds": 5, "error (nats)": "3 [2, 4]"}]
    unknown = summaries.quartiles(last.assign(y=np.nan), {"y": "error (nats)"})
    assert unknown["error (nats)"].to_list() == [""]


@pytest.mark.parametrize(
    ("n", "columns", "shape"), [(1, 3, (1, 1)), (4, 3, (2, 3)), (6, 3, (2, 3)), (3, 5, (1, 3))]
)
def test_a_panel_for_each_value_and_none_besides(n, columns, shape):
    names = [f"target {9 - i}" for i in range(n)]  # not in alphabetical order
    results = pd.DataFrame({"target": names * 2, "y": np.arange(2.0 * n)})
    figure, axes, filled = drawing.panels(results, columns=columns, size=(2.0, 1.0), sharex=True)
    assert axes.shape == shape
    assert tuple(figure.get_size_inches()) == (2.0 * shape[1], 1.0 * shape[0])
    assert [ax.get_title() for ax in axes.flat] == names + [""] * (axes.size - n)
    assert [ax.get_visible() for ax in axes.flat] == [True] * n + [False] * (axes.size - n)
    for ax, (found, rows), i in zip(axes.flat, filled, range(n), strict=False):
        assert found is ax
        assert list(rows["y"]) == [i, n + i]


def test_the_ends_of_an_axis_are_marked_where_it_reaches_them():
    _, axes = drawing.figure(1, 2)
    for ax, y in zip(axes.flat, ([1e-3, 1e4], [0.1, 1.0]), strict=True):
        ax.plot([0, 1], y)
        ax.set_yscale("log")
    drawing.mark_ends(axes.flat, 1e-3, 1e4)
    said = [[text.get_text() for text in ax.texts] for ax in axes.flat]
    assert said == [["0.001 or less", "10000 or more"], []]
    levels = [line.get_ydata()[0] for line in axes[0, 0].lines[1:]]
    np.testing.assert_allclose(levels, [1e-3, 1e4])
    assert len(axes[0, 1].lines) == 1


def test_each_tick_within_two_decades_has_a_label():
    _, axes = drawing.figure()
    rows = table([([0, 1, 2], [0.4, 0.1, 0.02]), ([0, 1, 2], [0.5, 0.2, 0.03])])
    drawing.curves(axes[0, 0], rows, "t", "y", y_scale="log")
    ticks = axes[0, 0].yaxis
    ticks.figure.canvas.draw()
    said = [tick.label1.get_text() for tick in (*ticks.get_major_ticks(), *ticks.get_minor_ticks())]
    assert {"0.02", "0.05", "0.1", "0.2", "0.5"} <= set(said)
    assert all(said)


def test_a_summary_has_a_statistic_of_each_column():
    rows = pd.DataFrame(
        {"case": ["a", "a", "a", "b"], "n": [1.0, 2.0, 6.0, np.nan], "good": [True, False, True, True]}
    )
    columns = {
        "median": ("n", "median", ".1f"),
        "most": ("n", lambda n: n.max(), ".0f"),
        "good": ("good", summaries.of_all, ""),
    }
    found = summaries.summary(rows, {"case": "which"}, columns)
    assert found.to_dict("list") == {
        "which": ["a", "b"], "median": ["2.0", ""], "most": ["6", ""], "good": ["2 of 3", "1 of 1"],
    }  # fmt: skip
