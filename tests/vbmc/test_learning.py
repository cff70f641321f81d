"""The inference of a step: an ascent of q that ends at a lower ELBO is not kept."""

from dataclasses import replace

import numpy as np
import pytest

import bqvi
from bqvi.variational_bmc import learning
from bqvi.variational_bmc.state import InferenceStep
from bqvi.variational_bmc.variational import DiagonalMixture

BOX = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}


def before_a_step(seed):
    """The engine of a run on N(0, I) in the plane, and the state before one of its later records."""
    run = bqvi.vbmc.steps(lambda x: -0.5 * float(x @ x), **BOX, budget=40, seed=seed)
    state = next(state for state in run if state.rows and len(state) >= 20)
    return run.engine, state.before_last_record()


@pytest.mark.parametrize("seed", range(5))
def test_an_ascent_that_lowers_the_elbo_is_undone(seed, monkeypatch):
    """Moved by three sds, q has a KL divergence of 4.5 nats; that before it was within half a nat."""
    engine, state = before_a_step(seed)
    ascend = learning.climb

    def astray(surrogate, q, *arguments):
        found = ascend(surrogate, q, *arguments)
        return DiagonalMixture(found.weights, found.means + 3.0 / np.sqrt(2.0), found.scales)

    monkeypatch.setattr(learning, "climb", astray)
    _, estimate = learning.learn(state, InferenceStep(engine.settings, engine.seed_at(state)))
    assert estimate.found.log_evidence - estimate.found.elbo < 0.5
    assert estimate.found.log_evidence + state.frame.log_volume == pytest.approx(np.log(2.0 * np.pi), abs=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_an_ascent_that_raises_the_elbo_is_kept(seed):
    engine, state = before_a_step(seed)
    moved = DiagonalMixture(state.q.weights, state.q.means + 3.0 / np.sqrt(2.0), state.q.scales)
    _, estimate = learning.learn(
        replace(state, q=moved), InferenceStep(engine.settings, engine.seed_at(state))
    )
    assert estimate.found.log_evidence - estimate.found.elbo < 0.5
