"""Properties that gensim's test suite holds its topics to, held here too, from the mathematics.

Of its tests those are not repeated that other files hold already: topics of blocks of words, types of counts,
sparse and dense, lengths of priors, the perplexity of more passes (`test_peers_properties`), counts in files,
resumed runs, learnt priors at their maximum (`test_latent_dirichlet_allocation`), truncated decompositions
(`test_semantic_analysis`). There is nothing here for files of earlier versions of gensim, dictionaries of
words, several processes, hierarchical Dirichlet processes, and a prior of words for each topic.
"""

import numpy as np
import pytest
from sklearn.base import clone

from bqvi.models import LatentDirichletAllocation as TopicModel
from bqvi.sklearn import LatentDirichletAllocation

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
BLOCKS = np.kron(np.eye(2), np.full(5, 0.2))
SHARES = RNG.dirichlet(np.full(2, 0.5), 120)
COUNTS = np.stack([RNG.multinomial(60, p) for p in SHARES @ BLOCKS])


def fitted(**settings):
    return LatentDirichletAllocation(2, **{"max_iter": 20, "batch_size": 30, "random_state": 0, **settings})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [0.5, 0.5]),
        (0.3, [0.3, 0.3]),
        (3, [3.0, 3.0]),
        ([0.3, 0.6], [0.3, 0.6]),
        (np.full(2, 0.3), [0.3] * 2),
    ],
)
def test_every_form_of_a_prior_of_proportions(given, expected):
    model = TopicModel(2, 10, concentration=given)
    np.testing.assert_allclose(model.concentration, expected)
    found = fitted(concentration=given).fit(COUNTS)
    np.testing.assert_allclose(found.transform(np.zeros((1, 10)))[0], np.array(expected) / np.sum(expected))


@pytest.mark.parametrize("name", ["concentration", "word_concentration"])
@pytest.mark.parametrize("bad", ["auto", "asymmetric", -0.1, 0.0, np.nan, [0.1, -0.2]])
def test_priors_that_are_no_positive_numbers_are_refused(name, bad):
    with pytest.raises((ValueError, TypeError), match=rf"^{name} "):
        TopicModel(2, 2, **{name: bad})
    with pytest.raises((ValueError, TypeError), match=name):
        LatentDirichletAllocation(2, **{name: bad}).fit(COUNTS[:, :2])


@pytest.mark.parametrize("method", ["batch", "memoised"])
def test_learnt_priors_move_and_raise_the_bound(method):
    settled = {"method": method, "max_iter": 500, "word_concentration": 0.5}
    still = fitted(**settled).fit(COUNTS)
    learnt = fitted(**settled, learn_concentration="asymmetric", learn_word_concentration=True).fit(COUNTS)
    q = learnt.posterior_
    assert np.abs(q["concentration"].mode - 0.5).max() > 0.01
    assert np.abs(q["word_concentration"].mode - 0.5).max() > 0.1
    assert learnt.lower_bound_ > still.lower_bound_ + 1.0


def test_topics_are_distributions_and_their_top_words_fall():
    found = fitted().fit(COUNTS)
    topics = found.posterior_["topics"].mean
    assert topics.sum(axis=1) == pytest.approx(np.ones(2))
    for count in (1, 3, 10):
        top = found.model_.top_words(found.posterior_, count)
        assert top.shape == (2, count)
        assert (np.diff(np.take_along_axis(topics, top, axis=1), axis=1) <= 0.0).all()


@pytest.mark.parametrize("seed", [None, 0, np.random.RandomState(0), np.random.default_rng(0)])
def test_every_kind_of_seed_is_taken(seed):
    found = clone(fitted()).set_params(random_state=seed, max_iter=2).fit(COUNTS)
    assert np.isfinite(found.components_).all()
