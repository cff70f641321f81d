"""Arguments that random misuse of the three doors found to end in an error of another package."""

import numpy as np
import pytest

import bqvi
from gp.measures import Uniform

RAGGED = [[1, 2], [3]]
ARRAY = np.array([True, False])


def integrate(**given):
    return bqvi.integrate(lambda x: x.sum(axis=1), Uniform(0.0, 1.0), 12, **given)


def fit(**given):
    return bqvi.fit(bqvi.models.LogJoint(lambda t: -float(t @ t), 2, gradient=None, **given), method="bq")


def vbmc(**given):
    box = {"plausible_lower": [-1.0], "plausible_upper": [1.0]}
    return bqvi.vbmc(lambda t: -float(t @ t), **(box | {"budget": 8} | given))


@pytest.mark.parametrize(
    ("door", "given", "told"),
    [
        (integrate, {"vectorised": ARRAY}, "vectorised is array"),
        (integrate, {"log": ARRAY}, "log is array"),
        (integrate, {"method": ARRAY}, "method is array"),
        (integrate, {"errors": ARRAY}, "errors is array"),
        (integrate, {"gradient": ARRAY}, "gradient is array"),
        (fit, {"vectorised": ARRAY}, "vectorised is array"),
        (fit, {"errors": ARRAY}, "errors is array"),
        (vbmc, {"acquisition": ARRAY}, "acquisition is array"),
        (vbmc, {"plausible_lower": RAGGED}, "plausible_lower is .*rows differ"),
    ],
)
def test_the_argument_is_named(door, given, told):
    with pytest.raises((ValueError, TypeError), match=told):
        door(**given)
