"""Properties that gensim's test suite holds its topics to, held here too, from the mathematics.

Of its tests those are not repeated that other files hold already: topics of blocks of words, types of counts,
sparse and dense, lengths of priors, the perplexity of more passes (`test_peers_properties`), counts in files,
resumed runs, learnt priors at their maximum (`test_latent_dirichlet_allocation`), truncated decompositions
(`test_semantic_analysis`). There is nothing here for files of earlier versions of gensim, dictionaries of
words, several processes, hierarchical Dirichlet processes, and a prior of words for each topic.
"""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from bqvi.models import LatentDirichletAllocation as TopicModel
from bqvi.sklearn import LatentDirichletAllocation
from experiments.models.semantic_analysis import latent_semantic_analysis

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
BLOCKS = np.kron(np.eye(2), np.full(5, 0.2))
SHARES = RNG.dirichlet(np.full(2, 0.5), 120)
COUNTS = np.stack([RNG.multinomial(60, p) for p in SHARES @ BLOCKS])
METHODS = ("batch", "online", "memoised")


def fitted(**settings):
    return LatentDirichletAllocation(2, **{"max_iter": 20, "batch_size": 30, "random_state": 0, **settings})


@pytest.mark.parametrize("method", METHODS)
def test_a_stream_goes_on_from_a_copy_as_from_the_original(method):
    found = fitted(method=method).fit(COUNTS)
    copy = pickle.loads(pickle.dumps(found))
    for rows in (COUNTS[:30], COUNTS[30:45]):
        found.partial_fit(rows)
        copy.partial_fit(rows)
        np.testing.assert_array_equal(copy.components_, found.components_)
    empty = np.zeros((1, 10))
    np.testing.assert_array_equal(copy.transform(empty), found.transform(empty))
    np.testing.assert_array_equal(copy.transform(COUNTS), found.transform(COUNTS))


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


@pytest.mark.parametrize("given", [0.3, 3, [0.3] * 10, np.full(10, 0.3), np.linspace(0.1, 1.0, 10)])
def test_every_form_of_a_prior_of_words(given):
    """Words that occur in no document have their prior."""
    model = TopicModel(2, 10, word_concentration=given)
    np.testing.assert_allclose(model.word_concentration, np.broadcast_to(given, 10))
    counts = COUNTS * (np.arange(10) != 7)
    found = fitted(word_concentration=given).fit(counts)
    np.testing.assert_allclose(found.components_[:, 7], np.broadcast_to(given, 10)[7])


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


def test_documents_seen_are_counted_over_passes():
    stream = fitted(total_samples=120)
    for turn in range(1, 4):
        for first in range(0, 120, 30):
            stream.partial_fit(COUNTS[first : first + 30])
        assert stream.n_samples_seen_ == 120 * turn
        assert stream.n_batch_iter_ == 4 * turn


@pytest.mark.parametrize("seed", [None, 0, np.random.RandomState(0), np.random.default_rng(0)])
def test_every_kind_of_seed_is_taken(seed):
    found = clone(fitted()).set_params(random_state=seed, max_iter=2).fit(COUNTS)
    assert np.isfinite(found.components_).all()


@pytest.mark.parametrize("kind", ["dense", "sparse", "float32"])
def test_coordinates_of_latent_semantic_analysis(kind):
    """The Gram matrix of documents' coordinates is U S U^T, that of words V S V^T; by eigenvalues."""
    counts = {
        "dense": COUNTS,
        "sparse": scipy.sparse.csr_array(COUNTS),
        "float32": COUNTS.astype(np.float32),
    }[kind]
    documents, words = latent_semantic_analysis(counts, 2)
    values, vectors = np.linalg.eigh(COUNTS.T.astype(float) @ COUNTS)
    singular = np.sqrt(values[::-1][:2])
    within = 1e-4 if kind == "float32" else 1e-8
    np.testing.assert_allclose(np.sort(np.linalg.norm(documents, axis=0) ** 2)[::-1], singular, rtol=within)
    for k in range(2):
        column = vectors[:, -1 - k] * np.sqrt(singular[k])
        sign = np.sign(column @ words[:, k])
        np.testing.assert_allclose(words[:, k], sign * column, atol=within * np.abs(column).max() * 10)
    with_nothing = np.vstack([COUNTS, np.zeros((1, 10), int)])
    assert np.abs(latent_semantic_analysis(with_nothing, 2)[0][-1]).max() < 1e-9
