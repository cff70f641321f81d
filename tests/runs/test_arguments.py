"""A signature is the table of its arguments: what it states is checked, by doors before any call.

Wrong values are made from the table itself, and the message has to name the argument, what was given and what
is allowed.
"""

import re
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import pytest

import bqvi
import bqvi.sklearn
import gp
from acquisition.pointwise import Criterion
from bqvi import gradients, models
from bqvi.arguments import Above, Apart, AtLeast, Beside, checked, of, table
from bqvi.gradients import designs
from gp.checks import require_boolean, require_seed
from gp.measures import Gaussian


def never(*_):
    raise AssertionError("the function has been called")


NEAR = Gaussian(np.zeros(2), np.eye(2))
USUAL = {
    bqvi.vbmc: {"log_joint": never, "plausible_lower": [-1.0, -1.0], "plausible_upper": [1.0, 1.0]},
    bqvi.integrate: {"f": never, "measure": NEAR},
    bqvi.fit: {"model": bqvi.models.LogJoint(never, 2), "method": "bq"},
    bqvi.evidence_bounds: {"log_joint": never, "proposal": NEAR},
}
GOOD = {
    "gradient": never,
    "noise_sd": 0.1,
    "design": bqvi.Design(initial=5, acquisition=type("Mine", (Criterion,), {})()),
    "tolerance": 0.1,
    "replicates": 9,
    "evaluations": (np.zeros((1, 2)), np.zeros(1)),
    "lower": -1.0,
    "upper": 1.0,
    "temperatures": 4,
}
"""What a rule on two arguments is tried with."""


def wrong(check: Any) -> list[Any]:
    """Values that a check of the table refuses."""
    if isinstance(check, AtLeast):
        return [check.least - 1, "3", 2.5 if isinstance(check.least, int) else np.inf, np.nan, None]
    if isinstance(check, Above):
        return [check.lower, np.inf, "3", np.nan, None] + ([] if check.upper is None else [check.upper])
    if check in (require_boolean, require_seed):
        return ["yes", -1, np.array([True, False])]
    return ["no such", np.array([True, False])] if isinstance(check, partial) else []


def fitted(estimator, **given):
    estimator(**given).fit(np.random.default_rng(0).normal(size=(12, 2)))


ALONE = (
    bqvi.Run, bqvi.Design, bqvi.Record, bqvi.Adam, bqvi.Constant, bqvi.Exponential, bqvi.RobbinsMonro,
    bqvi.TrustRegion, gradients.BayesianQuadrature, gradients.Memoised, designs.MomentVarianceReduction,
    gradients.Pathwise, models.GaussianLikelihood, models.WeightPrior,
)  # fmt: skip
ESTIMATORS = (bqvi.sklearn.BayesianGaussianMixture, bqvi.sklearn.GaussianMixture)
MADE = {
    **{door.steps: partial(door.steps, **usual) for door, usual in USUAL.items()},
    **{record: record for record in ALONE},
    **{estimator: partial(fitted, estimator) for estimator in ESTIMATORS},
    bqvi.Cosine: partial(bqvi.Cosine, **{"scale": 1.0, "steps": 9}),
    models.Sticks: partial(models.Sticks, **{"n_components": 3}),
    gp.fit: partial(gp.fit, np.linspace(0.0, 1.0, 8)[:, None], np.arange(8.0) % 3),
}
"""What has a table, and a call of it that lacks nothing: doors, the records that they take, estimators."""
CASES = [
    pytest.param(call, name, value, id=f"{made.__name__} {name} {value}")
    for made, call in MADE.items()
    for name, row in table(made).items()
    for check in row.checks
    for value in wrong(check)
    if not (value is None and row.optional)
]


@pytest.mark.parametrize(("call", "name", "value"), CASES)
def test_what_an_argument_cannot_be_is_refused_by_its_name(call, name, value):
    with pytest.raises((ValueError, TypeError), match=rf"^{name} is .*; it must be") as told:
        call(**{name: value})
    assert repr(value) in str(told.value) or str(value) in str(told.value)


RULES = [
    pytest.param(door, name, rule, id=f"{door.__name__} {name} {rule.other}")
    for door in USUAL
    for name, row in table(door.steps).items()
    for rule in row.rules
    if rule.other == "method"
]


@pytest.mark.parametrize(("door", "name", "rule"), RULES)
def test_an_argument_of_other_methods_is_refused(door, name, rule):
    (methods,) = [check.keywords["allowed"] for check in table(door.steps)["method"].checks]
    for method in set(methods) - set(rule.values):
        with pytest.raises(ValueError, match=f"^{name} is given, and method is '{method}': it is of '"):
            door.steps(**USUAL[door] | {name: GOOD[name], "method": method})


def test_doors_have_a_table():
    assert len(CASES) > 60
    assert len(RULES) == 7


def some(
    x: object,
    size: Annotated[int | None, AtLeast(2)] = None,
    way: Literal["left", "right"] = "left",
    log: bool = False,
    at: Annotated[float | None, Above(0.0), of("left")] = None,
    near: Annotated[float, AtLeast(0.0), Apart("at", "one of the two")] = 1.0,
    box: Annotated[Any, Beside("way", ("left",))] = None,
    *,
    method: str = "left",
):
    """A function with a table."""


USED = {"x": 0, "size": None, "way": "left", "log": False, "at": None, "near": 1.0, "box": None}
USED |= {"method": "left"}


def test_values_are_those_of_the_call_and_integers_those_of_python():
    found = checked(some, USED | {"size": np.int64(3), "near": 0})
    assert found == USED | {"size": 3, "near": 0}
    assert type(found["size"]) is int


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 1}, "size is 1; it must be at least 2"),
        ({"way": "lift"}, "way is 'lift'; it must be one of left, right. Did you mean 'left'"),
        ({"log": 1}, "log is 1; it must be True or False"),
        ({"at": 0.0}, "at is 0.0; it must be above 0"),
        ({"near": -1.0}, "near is -1.0; it must be at least 0"),
        ({"near": 2.0, "at": 0.5}, "near is given, and at is 0.5: one of the two"),
        ({"at": 0.5, "method": "right"}, "at is given, and method is 'right': it is of 'left' only"),
        ({"box": 3, "way": "right"}, "box is given, and way is 'right': it is of 'left' only"),
    ],
)
def test_what_is_wrong_is_named(given, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        checked(some, USED | given)


@pytest.mark.parametrize(
    ("record", "given", "error", "message"),
    [
        (bqvi.Design, {"cheap": 3}, TypeError, "cheap is 3; it must be a function"),
        (bqvi.Design, {"cheap": (3, 20)}, TypeError, r"cheap is \(3, 20\); it must be a function"),
        (bqvi.Design, {"inital": 5}, TypeError, "inital is no argument of Design; it takes initial"),
        (bqvi.Record, {"every": 0}, ValueError, "every is 0; it must be at least 1"),
        (bqvi.Record, {"every": [1.5]}, TypeError, "every is 1.5; it must be an integer"),
        (bqvi.Record, {"metrics": {"m": 3}}, TypeError, r"metrics\['m'\] is 3; it must be a function of q"),
        (
            bqvi.Record,
            {"metrics": {"elbo": len}},
            ValueError,
            "metrics has the name 'elbo'; .* none of iteration",
        ),
        (bqvi.Record, {"metrics": [len]}, TypeError, "metrics is a list; it must be a mapping"),
        (bqvi.Record, {"metrics": np.ones(2)}, TypeError, "metrics is a ndarray; it must be a mapping"),
    ],
)
def test_a_record_is_checked_when_it_is_made(record, given, error, message):
    with pytest.raises(error, match=f"^{message}"):
        record(**given)


RECORDS = {"run": bqvi.Run, "design": bqvi.Design, "record": bqvi.Record}
FIELDS = [
    pytest.param(door, record, name, id=f"{door.__name__} {name}")
    for door in USUAL
    for argument, record in RECORDS.items()
    if argument in table(door.steps)
    for name in sorted(set(table(record)) - set(table(door.steps)))
]


@pytest.mark.parametrize(("door", "record", "name"), FIELDS)
def test_a_field_of_a_record_that_is_given_to_the_door_is_told_its_place(door, record, name):
    place = f"{record.__name__.lower()}=bqvi.{record.__name__}({name}=...)"
    with pytest.raises(
        TypeError, match=f"^{name} is no argument of {door.__name__}; it takes {re.escape(place)}$"
    ):
        door(**USUAL[door] | {name: 1})


@pytest.mark.parametrize("door", [bqvi.integrate, bqvi.fit])
def test_an_argument_that_is_missing_has_the_message_of_python(door):
    with pytest.raises(TypeError, match=r"missing . required positional arguments?"):
        door()
