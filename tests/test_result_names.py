"""One name for one thing in the results of all doors."""

import dataclasses
import inspect
import math
import re

import numpy as np
import pytest

import bqvi
from bqvi.models import LogJoint
from gp.measures import Gaussian

LOG_Z = math.log(2.0 * math.pi)


def log_joint(theta):
    return -0.5 * (theta**2).sum(-1)


@pytest.fixture(scope="module")
def results():
    normal = Gaussian(np.zeros(2), np.eye(2))
    return {
        "fit": bqvi.fit(LogJoint(log_joint, 2), method="bq", budget=30),
        "vbmc": bqvi.vbmc(log_joint, plausible_lower=[-2.0, -2.0], plausible_upper=[2.0, 2.0], budget=30),
        "integrate": bqvi.integrate(lambda x: np.exp(log_joint(x)), normal, 30),
        "evidence_bounds": bqvi.evidence_bounds(log_joint, normal, 400, replicates=2),
    }


def test_every_result_has_what_all_have(results):
    for found in results.values():
        assert found.warnings == ()
        assert found.stopped
        assert all(isinstance(one, str) for one in (*found.warnings, *found.reasons))
        assert found.n_evaluations > 0
        assert callable(found.save)


def test_reasons_are_sentences_on_the_checks_in_all_doors(results):
    """What has not converged says why; what has converged says nothing."""
    for found in results.values():
        assert isinstance(found.reasons, tuple)
        assert bool(found.reasons) == (not found.converged)
        assert all(one in str(found) for one in getattr(found, "checks", ()))
    unjudged = bqvi.fit(LogJoint(log_joint, 2), method="bq", budget=30, tolerance=None)
    assert "ended by 'budget'" in unjudged.reasons[0]
    settled = bqvi.fit(bqvi.models.GaussianMixture(1, "full"), np.linspace(-1.0, 1.0, 20)[:, None])
    assert settled.converged
    assert settled.reasons == ()
    normal = Gaussian(np.zeros(1), np.eye(1))
    peaked = bqvi.integrate(lambda x: np.exp(4.0 * x[:, 0] ** 2), normal, 100, method="monte-carlo")
    assert not peaked.converged
    assert peaked.reasons


def test_a_standard_deviation_ends_in_sd_and_a_kind_has_one_name(results):
    """In public names of results and columns of traces; `se`, `std`, `stderr` and `ess` are other names."""
    names = {name for found in results.values() for name in dir(found) if not name.startswith("_")}
    traced = [found.trace.rows[0] for found in results.values() if hasattr(found, "trace")]
    columns = [field.name for row in traced for field in dataclasses.fields(row)]
    assert not [name for name in names.union(columns) if re.search(r"(^|_)(se|std|stderr|ess|reason)$", name)]
    for row in traced:
        assert {"n_evaluations", "seconds"} <= {field.name for field in dataclasses.fields(row)}
    # whatever two results both have is of one type
    for name in names - {"state", "trace"}:
        kinds = {_kind(getattr(found, name)) for found in results.values() if hasattr(found, name)}
        assert len(kinds - {type(None)}) <= 1, name


def _kind(value):
    return float if isinstance(value, np.floating) else type(value)


COUNTS = re.compile(r"^(evaluations|components|draws|failures|faults|raised|effective)$")
"""Names of rows, arrays and records; the number of them is n_..., and their share ..._share."""


def _records(value, found):
    """The dataclasses in a state, each class once."""
    if isinstance(value, tuple):
        for part in value:
            _records(part, found)
    elif dataclasses.is_dataclass(value) and type(value) not in found:
        found[type(value)] = value
        for one in dataclasses.fields(value):
            _records(getattr(value, one.name), found)
    return found


def test_a_number_is_not_named_like_what_it_counts(results):
    """In results, states and traces; `ess` is `effective_sample_size`, in states too."""
    for found in results.values():
        for record in _records((found.state, found, *getattr(found, "trace", ())), {}).values():
            numbers = [
                one.name
                for one in dataclasses.fields(record)
                if isinstance(getattr(record, one.name), int | float)
            ]
            assert not [name for name in numbers if COUNTS.match(name)], type(record)
            assert not hasattr(record, "ess")


def test_every_result_counts_its_failures():
    """Against the function itself, which counts them: NaN on a quarter of the plane."""
    failed = []

    def counted(theta):
        outside = (theta > 0.5).all(-1)
        failed.append(int(outside.sum()))
        return np.where(outside, np.nan, log_joint(theta))

    box = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}
    normal = Gaussian(np.zeros(2), np.eye(2))
    doors = {
        "fit": lambda: bqvi.fit(LogJoint(counted, 2, gradient=None, **box), method="bq", budget=40),
        "vbmc": lambda: bqvi.vbmc(counted, budget=40, **box),
        "bq": lambda: bqvi.integrate(
            lambda x: np.exp(counted(x)), normal, 40, run=bqvi.Run(errors="numerical")
        ),
        "qmc": lambda: bqvi.integrate(
            lambda x: np.exp(counted(x)), normal, 40, "qmc", run=bqvi.Run(errors="numerical")
        ),
        "evidence_bounds": lambda: bqvi.evidence_bounds(counted, normal, 400, replicates=2),
    }
    for name, door in doors.items():
        failed.clear()
        found = door()
        assert found.n_failed == sum(failed) > 0, name
        assert f"({found.n_failed} failed)" in repr(found)
        assert f"({found.n_failed} failed)" in found._repr_html_()


def test_every_trace_ends_at_the_number_of_all_evaluations(results):
    for door in ("fit", "vbmc", "integrate"):
        assert results[door].trace["n_evaluations"][-1] == results[door].n_evaluations
    model = LogJoint(log_joint, 2)
    for options in ({"record": bqvi.Record(2, elbo_samples=3)}, {"record": 1}):
        found = bqvi.fit(model, method="pathwise", budget=40, **options)
        assert found.trace["n_evaluations"][-1] == found.n_evaluations == 40
        assert np.all(np.diff(found.trace["n_evaluations"]) >= 0)
    rows = np.linspace(-1.0, 1.0, 20)[:, None]
    exact = bqvi.fit(
        bqvi.models.GaussianMixture(2, "full"), rows, method="sngd", minibatch=5, steps=7, record=3
    )
    assert exact.trace["n_evaluations"][-1] == exact.n_evaluations


@pytest.mark.parametrize("door", ["fit", "vbmc", "integrate"])
def test_results_by_a_surrogate_have_a_pareto_k(results, door):
    assert results[door].pareto_k < 0.7


def test_every_result_draws_its_estimates_by_one_name(results):
    for found in results.values():
        assert list(inspect.signature(found.plot_trace).parameters) == ["ax", "truth"]


@pytest.mark.parametrize("door", ["fit", "vbmc"])
def test_an_elbo_and_a_log_evidence_have_an_sd(results, door):
    """For a Gaussian posterior both are ln Z; four standard deviations, of a normal error one in 15,000."""
    found = results[door]
    assert abs(found.elbo - LOG_Z) < 4.0 * found.elbo_sd + 1e-6
    assert abs(found.log_evidence - LOG_Z) < 4.0 * found.log_evidence_sd


def test_the_elbo_of_a_fit_has_the_error_of_its_last_record():
    model = LogJoint(log_joint, 2)
    sampled = bqvi.fit(model, method="pathwise", steps=80)
    assert (sampled.elbo, sampled.elbo_sd) == (sampled.trace["elbo"][-1], sampled.trace["elbo_sd"][-1])
    assert 0.0 < sampled.elbo_sd < 1.0
    exact = bqvi.fit(bqvi.models.GaussianMixture(2, "full"), np.linspace(-1.0, 1.0, 20)[:, None], steps=3)
    assert exact.elbo_sd == 0.0


def test_the_evaluations_of_a_fit_are_in_the_users_units_and_serve_another_door():
    """A gamma variable and a normal one: values are those of the log joint, not of unbounded coordinates."""

    def skewed(theta):
        return 2.0 * np.log(theta[:, 0]) - theta[:, 0] - math.log(2.0) - 0.5 * theta[:, 1] ** 2

    bounds = {"lower": [0.0, -np.inf], "upper": [np.inf, np.inf]}
    box = {**bounds, "plausible_lower": [1.0, -1.0], "plausible_upper": [5.0, 1.0]}
    found = bqvi.fit(LogJoint(skewed, 2, gradient=None, **box), method="bq", budget=40)
    np.testing.assert_allclose(found.values, skewed(found.theta), rtol=1e-12, atol=1e-12)
    assert len(found.theta) == found.n_evaluations
    known, n = (found.theta, found.values), found.n_evaluations
    again = bqvi.vbmc(lambda t: skewed(t[None])[0], **box, evaluations=known, budget=n + 10)
    assert abs(again.log_evidence - 0.5 * LOG_Z) < 3.0 * again.log_evidence_sd + 0.01
    settled = bqvi.fit(bqvi.models.GaussianMixture(1, "full"), np.linspace(-1.0, 1.0, 20)[:, None])
    assert settled.theta is None
    assert settled.values is None
