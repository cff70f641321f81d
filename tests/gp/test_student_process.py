"""Scale and mean integrated out, against Student's t of elementary statistics and against refits."""

import numpy as np
import pytest
import scipy.stats

from gp.evidence import Evidence
from gp.linalg import Factor, regression
from gp.matrices import cholesky

RNG = np.random.default_rng(5)


def process(matrix, values, basis):
    return Evidence.of(Factor(cholesky(matrix.copy())), values, basis, "marginal")


def predict(found, cross, level, prior):
    whitened = found.factor.solve(cross)
    return found.expectations(whitened, level), found.unit_covariance(prior, whitened, level)


@pytest.mark.parametrize("n", [4, 9])
def test_independent_values_have_the_predictive_t_of_a_normal_sample(n):
    """A further value is Student t with n - 1 degrees about the mean, with scale s sqrt(1 + 1 / n)."""
    values = RNG.normal(3.0, 2.0, (n, 1))
    found = process(np.eye(n), values, np.ones((n, 1)))
    mean, unit = predict(found, np.zeros((n, 1)), np.ones(1), np.eye(1))
    spread = values.std(ddof=1) * np.sqrt(1.0 + 1.0 / n)
    exact = scipy.stats.t(n - 1, values.mean(), spread)
    assert mean.item() == pytest.approx(exact.mean())
    assert (found.inflation * found.scales[0] * unit).item() == pytest.approx(exact.var())


@pytest.mark.parametrize("basis", [False, True])
def test_values_left_out_are_those_of_refits(basis):
    n = 7
    root = RNG.standard_normal((n, n))
    matrix, values = root @ root.T + np.eye(n), RNG.standard_normal((n, 2))
    h = np.ones((n, 1)) if basis else np.zeros((n, 0))
    errors, sds = process(matrix, values, h).leave_one_out()
    whole = process(matrix, values, h)
    for i in range(n):
        rest = np.delete(np.arange(n), i)
        others = process(matrix[np.ix_(rest, rest)], values[rest], h[rest])
        mean, unit = predict(
            others, matrix[rest, i : i + 1], h[i] if basis else np.zeros(1), matrix[i : i + 1, i : i + 1]
        )
        np.testing.assert_allclose(errors[i], values[i] - mean.reshape(-1), rtol=1e-9)
        # the scale is that of all the values
        np.testing.assert_allclose(sds[i], np.sqrt(whole.inflation * whole.scales * unit.item()), rtol=1e-9)


def test_a_regression_has_the_standard_errors_of_scipy():
    x, y = RNG.standard_normal(12), RNG.standard_normal(12)
    exact = scipy.stats.linregress(x, y)
    found, errors = regression(np.column_stack([np.ones(12), x]), y)
    np.testing.assert_allclose(found, [exact.intercept, exact.slope])
    np.testing.assert_allclose(errors, [exact.intercept_stderr, exact.stderr])
