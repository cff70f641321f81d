"""Births raise the bound, and find clusters that coordinate ascent alone does not."""

import numpy as np
import pytest

import bqvi
from bqvi.families import Product
from bqvi.models import DirichletProcessMixture, GaussianMixture, elbo
from bqvi.models.births import born
from bqvi.models.components import posterior_of
from bqvi.models.conjugate import settled
from bqvi.models.merging import merged

CENTRES = np.array([[6, 3], [3, 6], [12, 15], [9, 6], [3, 14], [9, 11], [13, 1]], float)


def in_one(model, x):
    """All rows in the first component."""
    r = np.zeros((len(x), model.n_components))
    r[:, 0] = 1.0
    weights = model.mixing.start(r.sum(0))
    return Product({model.mixing.name: weights, "components": posterior_of(model.components, x, r)})


@pytest.mark.parametrize("tail", ["truncated", "tied"])
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_all_clusters_are_found_from_one_component(covariance, tail):
    rng = np.random.default_rng(0)
    z = np.repeat(np.arange(7), 50)
    x = CENTRES[z] + rng.normal(size=(350, 2))
    model = settled(DirichletProcessMixture(covariance, 15, tail=tail), x)
    start = in_one(model, x)
    alone = bqvi.fit(model, x, start_from=start, steps=100)
    found = born(model, start, x)
    assert elbo(model, found, x) > alone.elbo + 100.0
    fit = bqvi.fit(model, x, start_from=merged(model, found, x), steps=200)
    assert fit.elbo > elbo(model, found, x)
    labels = model.responsibilities(fit.q, x).argmax(1)
    assert len(np.unique(labels)) == 7
    assert np.diff(fit.trace["elbo"]).min() > -1e-9 * abs(fit.elbo)


def test_one_cluster_stays_one():
    x = np.random.default_rng(0).normal(size=(200, 2))
    model = settled(DirichletProcessMixture("full", 6), x)
    found = born(model, in_one(model, x), x)
    assert np.bincount(model.responsibilities(found, x).argmax(1), minlength=6)[0] == 200


def test_the_bound_never_falls_and_copies_are_not_divided():
    for x in (np.ones((10, 2)), np.random.default_rng(1).normal(size=(3, 2))):
        model = settled(GaussianMixture(4, "full", concentration=1.0), x)
        start = in_one(model, x)
        assert elbo(model, born(model, start, x), x) >= elbo(model, start, x) - 1e-9


def test_components_that_share_parameters_are_refused():
    x = np.random.default_rng(1).normal(size=(30, 2))
    model = settled(GaussianMixture(3, "tied"), x)
    with pytest.raises(ValueError, match="share parameters"):
        born(model, model.initial(x, "random", np.random.default_rng(0)), x)
