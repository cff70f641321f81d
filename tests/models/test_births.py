"""The division of a component's rows: against known clusters, and where there is nothing to divide."""

import numpy as np

from bqvi.gradients.memoised_moves import divided
from bqvi.models import DirichletProcessMixture
from bqvi.models.conjugate import settled

CENTRES = np.array([[6, 3], [3, 6], [12, 15], [9, 6], [3, 14], [9, 11], [13, 1]], float)
SPARE = np.array([3, 5])


def in_one(model, x, component=0):
    """Responsibilities with all rows in one component."""
    r = np.zeros((len(x), model.n_components))
    r[:, component] = 1.0
    return r


def test_rows_far_apart_are_parted_and_each_row_keeps_its_responsibility():
    rng = np.random.default_rng(0)
    z = np.repeat(np.arange(3), 50)
    x = 100.0 * CENTRES[z] + rng.normal(size=(150, 2))
    model = settled(DirichletProcessMixture("full", 8), x)
    before = in_one(model, x)
    before[:10, 0], before[:10, 1] = 0.4, 0.6  # rows of another component stay where they are
    r = divided(model, x, before, 0, SPARE, rng)
    np.testing.assert_allclose(r.sum(1), before.sum(1), rtol=1e-15)
    np.testing.assert_array_equal(r[:10], before[:10])
    owner = r[10:].argmax(1)
    parts = [set(owner[z[10:] == k]) for k in range(3)]
    assert all(len(part) == 1 for part in parts)
    assert set().union(*parts) == {0, *SPARE.tolist()}


def test_copies_and_too_few_rows_are_not_divided():
    rng = np.random.default_rng(1)
    for x in (np.ones((10, 2)), rng.normal(size=(2, 2))):
        model = settled(DirichletProcessMixture("full", 8), rng.normal(size=(30, 2)))
        assert divided(model, x, in_one(model, x), 0, SPARE, rng) is None
