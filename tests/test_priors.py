"""Priors and named parameters: evidences in closed form, gradients by differences, and errors."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import gammaln

import bqvi
from bqvi.calls import make_coordinates
from bqvi.calls.coordinates import VECTORS
from bqvi.calls.function import VectorLayout, by_name
from bqvi.models import LogJoint
from bqvi.priors import Joint, posed
from gp.measures import Gaussian

D = torch.distributions
COUNTS, VALUES = np.array([3, 1, 4, 2]), np.array([1.2, 0.4, 2.0])


def binomial(p):
    return stats.binom(20, p).logpmf(7)


def normal(mu):
    return stats.norm(np.asarray(mu)[..., None], 0.8).logpdf(VALUES).sum(-1)


def poisson(rate):
    return stats.poisson(np.asarray(rate)[..., None]).logpmf(COUNTS).sum(-1)


def _gamma_poisson(shape, rate):
    after, total = shape + COUNTS.sum(), rate + len(COUNTS)
    found = shape * np.log(rate) - gammaln(shape) + gammaln(after) - after * np.log(total)
    return found - gammaln(COUNTS + 1).sum()


_MARGINAL = stats.multivariate_normal(np.full(3, 0.5), 0.64 * np.eye(3) + 4.0)
CONJUGATE = {
    "beta-binomial": (binomial, {"p": stats.beta(2, 3)}, stats.betabinom(20, 2, 3).logpmf(7), (9, 16)),
    "normal-normal": (normal, {"mu": stats.norm(0.5, 2.0)}, _MARGINAL.logpdf(VALUES), None),
    "gamma-Poisson": (poisson, {"rate": stats.gamma(2, scale=1.5)}, _gamma_poisson(2, 1 / 1.5), None),
    "of torch": (poisson, {"rate": D.Gamma(2.0, 0.5)}, _gamma_poisson(2, 0.5), None),
}


@pytest.mark.parametrize("name", CONJUGATE)
def test_the_evidence_of_conjugate_models_by_three_doors(name):
    likelihood, prior, exact, beta = CONJUGATE[name]
    found = bqvi.vbmc(log_likelihood=likelihood, prior=prior, budget=25, seed=0)
    assert abs(found.log_evidence - exact) < max(3.0 * found.log_evidence_sd, 1e-3)
    assert found.posterior.names == tuple(prior)
    if beta is not None:
        assert found.posterior.mean[0] == pytest.approx(stats.beta(*beta).mean(), abs=2e-3)
    fit = bqvi.fit(LogJoint(log_likelihood=likelihood, prior=prior, gradient=None), method="bq", budget=25)
    assert abs(fit.log_evidence - exact) < max(3.0 * fit.log_evidence_sd, 5e-3)
    assert fit.posterior.names == tuple(prior)
    bounds = bqvi.evidence_bounds(log_likelihood=likelihood, prior=prior, budget=20_000, seed=0)
    assert abs(bounds.log_evidence - exact) < 4.0 * bounds.log_evidence_sd < 0.2
    assert bounds.lower - 4.0 * bounds.lower_sd < exact


@pytest.mark.parametrize(
    "prior",
    [
        {"a": stats.norm(1, 2), "b": stats.t(4), "c": stats.cauchy(0, 2), "d": stats.laplace(1, 3)},
        {"a": stats.gamma(2.5, scale=3), "b": stats.expon(1, 2), "c": stats.lognorm(0.5, scale=2)},
        {
            "a": stats.beta(2, 3),
            "b": stats.uniform(-1, 4),
            "c": stats.invgamma(3.0),
            "d": stats.halfnorm(1, 2),
        },
        {"a": stats.halfcauchy(), "b": stats.multivariate_normal([1.0, 0.0], [[1.0, 0.4], [0.4, 2.0]])},
        stats.norm([0.0, 1.0], [1.0, 2.0]),
        {"a": D.MultivariateNormal(torch.zeros(2).double(), torch.eye(2).double()), "b": D.Beta(2.0, 2.0)},
        {"a": D.Independent(D.LogNormal(torch.zeros(2).double(), torch.ones(2).double()), 1)},
    ],
)
def test_the_gradient_of_a_prior_is_that_of_finite_differences(prior):
    """Of its own log density, which is SciPy's where the prior is; and -inf, without gradient, outside."""
    of = posed(None, len, prior, "autodiff", True, {}).prior
    points = np.stack([of.usual[name] for name in ("start", "plausible_lower", "plausible_upper")])
    steps = 1e-5 * np.eye(points.shape[1])
    slopes = [(of.log_density(points + e) - of.log_density(points - e)) / 2e-5 for e in steps]
    of_torch = isinstance(prior, dict) and isinstance(prior["a"], D.Distribution)  # parts of it in float32
    tolerance = 1e-2 if of_torch else 1e-6
    np.testing.assert_allclose(of.gradient(points), np.stack(slopes, -1), rtol=tolerance, atol=tolerance)
    in_torch = of.log_density(torch.tensor(points)).numpy()
    np.testing.assert_allclose(of.log_density(points), in_torch, rtol=1e-6, atol=1e-6)
    outside = np.where(np.isfinite(of.usual["lower"]), of.usual["lower"] - 1.0, points)[:1]
    if np.isfinite(of.usual["lower"]).any():
        assert of.log_density(outside) == -np.inf


def test_names_have_the_order_of_the_first_dict_and_functions_get_them_by_name():
    def log_joint(b, a, *, scale=1.0):
        seen.append((b, a))
        return -0.5 * scale * (a - 1.0) ** 2 - 2.0 * (b + 2.0) ** 2

    seen = []
    low, high = {"a": -4.0, "b": -4.0}, {"b": 4.0, "a": 4.0}
    found = bqvi.vbmc(
        log_joint, plausible_lower=low, plausible_upper=high, start={"b": -1.0, "a": 0.0}, budget=20
    )
    assert found.posterior.names == ("a", "b")
    assert seen[0] == (-1.0, 0.0)
    np.testing.assert_allclose(found.posterior.mean, [1.0, -2.0], atol=1e-2)
    array = bqvi.vbmc(lambda theta: log_joint(theta[1], theta[0]), plausible_lower=low, plausible_upper=high,
                      start=[0.0, -1.0], budget=20)  # fmt: skip
    assert array.log_evidence == found.log_evidence
    checked = bqvi.variational_bmc.check(log_joint, found.posterior, n=25)
    assert checked.total_variation < 0.05
    bounds = bqvi.evidence_bounds(log_joint, found.posterior, budget=4000)
    assert abs(bounds.log_evidence - np.log(np.pi)) < 4.0 * bounds.log_evidence_sd + 1e-3


def test_a_joint_distribution_is_a_vector_by_name():
    """A linear model y = X w with sd 1: the evidence is that of N(0, X C X^T + I)."""
    x = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    exact = stats.multivariate_normal(np.zeros(3), x @ covariance @ x.T + np.eye(3)).logpdf(VALUES)

    def likelihood(w):
        return stats.norm(w @ x.T, 1.0).logpdf(VALUES).sum(-1)

    prior = stats.multivariate_normal([0.0, 0.0], covariance)
    for door in (
        bqvi.vbmc(log_likelihood=likelihood, prior={"w": prior}, budget=25),
        bqvi.fit(
            LogJoint(log_likelihood=likelihood, prior={"w": prior}, gradient=None), method="bq", budget=25
        ),
    ):
        assert door.posterior.names == ("w[0]", "w[1]")
        assert door.log_evidence == pytest.approx(exact, abs=5e-3)
    flat = bqvi.vbmc(log_likelihood=likelihood, prior=prior, budget=25)
    assert flat.posterior.names == ("x0", "x1")
    assert flat.log_evidence == pytest.approx(exact, abs=5e-3)


def test_a_prior_as_a_function_of_the_names():
    def prior(theta):
        return stats.norm(0.5, 2.0).logpdf(theta[0])

    box = {"plausible_lower": {"mu": -1.0}, "plausible_upper": {"mu": 2.0}}
    whole = bqvi.vbmc(lambda mu: float(normal(mu)) + prior([mu]), **box, budget=20)
    for one in (prior, lambda mu: prior([mu])):
        found = bqvi.vbmc(log_likelihood=normal, prior=one, **box, budget=20)
        assert found.log_evidence == whole.log_evidence
    sloped = bqvi.vbmc(
        log_likelihood=normal, prior=(prior, lambda theta: -(theta - 0.5) / 4.0), budget=10, **box,
        gradient=lambda theta: np.array([(VALUES - theta[0]).sum() / 0.64]),
    )  # fmt: skip
    assert sloped.log_evidence == pytest.approx(whole.log_evidence, abs=1e-3)


def test_a_likelihood_is_not_called_where_the_prior_is_zero():
    def likelihood(a):
        assert (np.asarray(a) > 0.0).all()
        return -np.asarray(a)

    joint = Joint(
        by_name(likelihood, ("a",)), posed(None, len, {"a": stats.expon()}, None, True, {}).prior, True
    )
    points = np.array([[-1.0], [2.0], [0.5]])
    np.testing.assert_array_equal(joint(points), [-np.inf, -4.0, -1.0])
    assert (joint(points[:1]) == -np.inf).all()
    found = bqvi.evidence_bounds(
        log_likelihood=likelihood, prior={"a": stats.expon()}, budget=4000, seed=0,
        proposal=Gaussian(np.array([0.5]), np.eye(1)),
    )  # fmt: skip
    assert abs(found.log_evidence - np.log(0.5)) < 4.0 * found.log_evidence_sd  # int exp(-2 a) da = 1 / 2


def test_what_a_likelihood_returns_beside_its_value_is_kept():
    def likelihood(mu):
        return float(normal(mu)), 0.1, {"twice": 2.0 * mu}

    found = bqvi.vbmc(log_likelihood=likelihood, prior={"mu": stats.norm(0.5, 2.0)}, budget=12)
    np.testing.assert_allclose(found.evaluations.noise_variance, 0.01)
    assert found.evaluations.by_products[3] == {"twice": pytest.approx(2.0 * found.theta[3, 0])}


def test_a_model_with_a_prior_travels_to_other_processes():
    prior = {"rate": stats.gamma(2.0), "mu": D.Normal(0.0, 1.0)}
    model = LogJoint(log_likelihood=partial(_two, 3.0), prior=prior, gradient=None, vectorised=False)
    again = pickle.loads(pickle.dumps(model))
    theta = np.array([1.5, 0.2])
    assert again.function.value(theta) == model.function.value(theta)
    here = bqvi.vbmc(log_likelihood=partial(_two, 3.0), prior=prior, budget=12, seed=0)
    with ProcessPoolExecutor(1) as executor:
        run = bqvi.Run(executor=executor)
        there = bqvi.vbmc(log_likelihood=partial(_two, 3.0), prior=prior, budget=12, seed=0, run=run)
    assert there.log_evidence == pytest.approx(here.log_evidence, abs=1e-9)


def _two(scale, mu, rate):
    return -scale * (mu - 0.1) ** 2 - rate


def test_a_cheap_likelihood_has_the_same_prior():
    prior = {"mu": stats.norm(0.5, 2.0)}
    found = bqvi.vbmc(
        log_likelihood=normal,
        prior=prior,
        design=bqvi.Design(cheap=(lambda mu: 0.9 * normal(mu), 20)),
        budget=12,
    )
    assert found.n_cheap_evaluations == 20
    assert found.log_evidence == pytest.approx(CONJUGATE["normal-normal"][2], abs=5e-3)


def never(*_):
    raise AssertionError("the function has been called")


ONE = {"a": stats.norm()}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"log_joint": never, "prior": ONE}, "would be counted twice"),
        ({"log_joint": never, "log_likelihood": never}, "log_likelihood is given beside log_joint"),
        ({"log_likelihood": never}, "log_likelihood is given: give log_likelihood and prior"),
        ({"prior": ONE}, "prior is given: give log_likelihood and prior"),
        ({}, "no function is given"),
        ({"log_likelihood": 3, "prior": ONE}, "log_likelihood is 3"),
        (
            {"log_likelihood": never, "prior": {"a": stats.norm}},
            r"prior\['a'\] is scipy.stats.norm, without arg",
        ),
        ({"log_likelihood": never, "prior": stats.gamma}, "prior is scipy.stats.gamma, without arguments"),
        ({"log_likelihood": never, "prior": [stats.poisson(3)]}, r"prior\[0\] is a discrete distribution"),
        ({"log_likelihood": never, "prior": {"a": 3.0}}, r"prior\['a'\] is 3.0; it must be a frozen"),
        ({"log_likelihood": never, "prior": {"a": D.Poisson(3.0)}}, "density of a number"),
        ({"log_likelihood": never, "prior": stats.dirichlet([1.0, 2.0])}, "density of a number"),
        ({"log_likelihood": never, "prior": {"a": D.Dirichlet(torch.ones(2))}}, "density of a number"),
        ({"log_likelihood": never, "prior": {}}, "prior is {}; it must be"),
        (
            {"log_likelihood": lambda a, b: 0, "prior": {"a": stats.norm(), "c": stats.norm()}},
            "takes a, b, and",
        ),
        (
            {"log_likelihood": never, "prior": ONE, "gradient": never, "prior_is": 1},
            "gradient is given, and pri",
        ),
        (
            {"log_likelihood": never, "prior": {"a": stats.weibull_min(2.0)}, "gradient": never},
            r"that of prior\['a'\], scipy's weibull_min, is not known",
        ),
    ],
)
def test_what_has_no_place_is_named_before_any_call(given, message):
    if given.pop("prior_is", None):
        given = given | {"prior": never}
    with pytest.raises((ValueError, TypeError), match=message):
        LogJoint(**({"gradient": None} | given))
    box = {} if "prior" in given and given["prior"] is not never else {"start": [0.0]}
    with pytest.raises((ValueError, TypeError), match=message):
        bqvi.vbmc(**given, **box)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lower": {"a": 0.0, "b": 0.0}, "upper": {"a": 1.0}}, "upper has a, and lacks b"),
        ({"lower": {"a": 0.0}, "start": {"b": 1.0}}, "start has b; the parameters are a"),
        ({"lower": {"a": [0.0, 0.0]}, "upper": {"a": [1.0, 1.0, 1.0]}}, r"upper has a = .* an array \(2,\)"),
        ({"lower": {"a": [[0.0], [0.0, 1.0]]}, "upper": {"a": 1.0}}, "lower has a = "),
        ({"lower": {"a": "x"}, "upper": {"a": 1.0}}, "lower has a = 'x'; it must be a number"),
        ({"lower": {"a": 0.0}, "start": {"a": [1.0, 2.0]}}, "start has a = .* it must be a number"),
        ({"prior": ONE, "lower": {"z": 0.0}}, "lower has z; the parameters are a"),
        ({"prior": ONE, "start": {"a": "one"}}, "start has a = 'one'; it must be a number"),
        ({"prior": ONE, "start": {"a": [0.0, 1.0]}}, "start has a = .* it must be a number"),
        ({"prior": ONE, "plausible_lower": {"a": None}}, "plausible_lower of a is missing"),
    ],
)
def test_names_that_disagree_are_named_before_any_call(given, message):
    function = {"log_likelihood": never} if "prior" in given else {"log_joint": never}
    with pytest.raises((ValueError, TypeError), match=message):
        bqvi.vbmc(**function, **given)


def test_functions_are_called_by_name_where_their_arguments_are_the_names():
    theta = np.array([1.0, 2.0, 3.0])
    names = ("a", "b[0]", "b[1]")
    assert VectorLayout.of(names).names == names
    assert by_name(lambda b, a: (a, b.tolist()), names)(theta) == (1.0, [2.0, 3.0])
    for other in (never, lambda theta: 0, lambda theta, a=1, b=2: 0, lambda *all_of_them, **more: 0, len):
        assert by_name(other, names) is other
    assert by_name(lambda **given: list(given), names)(theta) == ["a", "b"]
    assert by_name(np.vectorize(lambda x, y: x + 2.0 * y), ("y", "x"))(np.array([1.0, 2.0])) == 4.0
    once = by_name(lambda theta: theta, ("theta",))
    assert by_name(once, ("theta",)) is once


def test_entries_of_an_array_that_do_not_stand_together_are_refused():
    for names in (("b[0]", "c", "b[1]"), ("b[1]", "b[0]", "c"), ("b[1]", "b[2]", "c"), ("b", "b[0]", "c")):
        with pytest.raises(ValueError, match="entries of one array must stand together and in order"):
            by_name(lambda b, c: 0.0, names)
        assert by_name(never, names) is never
        with pytest.raises(ValueError, match="stand together"):
            VectorLayout.of(names).vector("lower", {"b": 0.0, "c": 0.0}, None)


def test_the_same_names_in_another_order_are_refused():
    prior = {"a": stats.norm(), "b": stats.norm()}
    other = dict(reversed(prior.items()))
    found = bqvi.vbmc(log_likelihood=lambda a, b: -a - b * b, prior=prior, budget=12)
    order = "has the parameters a, b, and here they are b, a"
    with pytest.raises(ValueError, match=f"resume {order}"):
        bqvi.vbmc(log_likelihood=never, prior=other, budget=15, resume=found)
    for argument in ("proposal", "posterior"):
        with pytest.raises(ValueError, match=f"{argument} {order}"):
            bqvi.evidence_bounds(log_likelihood=never, prior=other, **{argument: found.posterior})
    flat = bqvi.vbmc(
        log_likelihood=lambda x: -x[0] - x[1] ** 2, prior=[*prior.values()], budget=15, resume=found
    )
    assert flat.posterior.names == ("x0", "x1")


def box_of(prior, count=1, **bounds):
    """Bounds, plausible box and start of a prior between bounds."""
    bounds = {"lower": None, "upper": None, "plausible_lower": None, "plausible_upper": None} | bounds
    return posed(None, lambda theta: 0.0, prior, None, False, bounds | {"start": None})


@pytest.mark.parametrize("torch_prior", [False, True])
def test_between_bounds_the_box_is_that_of_the_truncated_prior(torch_prior):
    normal = torch.distributions.Normal(torch.tensor(0.5, dtype=torch.float64), 2.0)
    found = box_of({"a": normal if torch_prior else stats.norm(0.5, 2.0)}, lower={"a": 1.0}).arguments
    exact = stats.truncnorm(0.25, np.inf, 0.5, 2.0).ppf([0.16, 0.84, 0.5])
    quantiles = [found[name][0] for name in ("plausible_lower", "plausible_upper", "start")]
    np.testing.assert_allclose(quantiles, exact, atol=0.1 if torch_prior else 1e-9)  # of 6,500 draws: sd .02
    assert (found["lower"][0], found["upper"][0]) == (1.0, np.inf)


@pytest.mark.parametrize(
    ("prior", "bounds", "message"),
    [
        (stats.uniform(), {"lower": 1.0, "upper": 1.0}, "too little, of the prior of x0"),
        (stats.norm(), {"lower": 50.0}, "too little, of the prior of x0"),
        (stats.norm(0, -1), {}, "norm, has no quantiles"),
        (stats.vonmises(2.0), {}, "of an angle give scipy.stats.vonmises_line"),
        (
            bqvi.Posterior.of(Gaussian(np.zeros(2), np.eye(2))),
            {},
            r"prior is Posterior.* it must be a frozen distribution",
        ),
        (stats.gaussian_kde(np.arange(9.0)), {}, "it must be a density of a number"),
    ],
)
def test_priors_that_are_none_are_refused(prior, bounds, message):
    with pytest.raises((TypeError, ValueError), match=message):
        box_of(prior, **bounds)


def test_a_gradient_of_one_row_is_a_gradient():
    of = {"start": None, "lower": None, "upper": None}
    prior = [stats.norm(), stats.norm(0, 2)]
    found = posed(None, lambda t: 0.0, prior, lambda t: np.array([[3.0, 4.0]]), False, of).gradient
    np.testing.assert_allclose(found(np.array([0.5, -1.0])), [3.0 - 0.5, 4.0 + 0.25])


@pytest.mark.parametrize(
    "discrete",
    [
        lambda: stats.Binomial(n=3, p=0.5),
        lambda: stats.make_distribution(stats.poisson)(mu=2.0),
    ],
)
def test_discrete_distributions_of_scipys_new_kind_are_refused(discrete):
    if not hasattr(stats, "Binomial"):
        pytest.skip("SciPy 1.17 has the first")
    with pytest.raises(TypeError, match=r"prior\['a'\] is a discrete distribution"):
        box_of({"a": discrete()})


@pytest.mark.parametrize("name", [0, ("a", 0), None, "", b"a"])
def test_names_that_are_no_text_are_refused(name):
    for given in (
        {"log_likelihood": never, "prior": {name: stats.norm()}},
        {"log_joint": never, "lower": {name: 0}},
    ):
        with pytest.raises(TypeError, match="a name must be text"):
            bqvi.vbmc(**given)


def halves(a, b):
    return -0.5 * (a - 1.0) ** 2 - 0.3 * b


PRIOR = {"a": stats.norm(), "b": stats.gamma(2.0)}


class Bent(stats.rv_continuous):
    """A density with the bounds and quantiles of the normal one, and others of its values."""

    _ppf, _cdf = staticmethod(stats.norm.ppf), staticmethod(stats.norm.cdf)
    _logpdf = staticmethod(stats.t(3).logpdf)


_NAMES = "has the parameters a, b, and here they are a, c|had names a, b"
_BOUNDS = r"posterior has lower = \[-inf, 0.0\], and here|had (bounds|prior) with other numbers"
OTHERS = {
    "names": ({"a": stats.norm(), "c": stats.gamma(2.0)}, _NAMES),
    "bounds": ({"a": stats.norm(), "b": stats.norm()}, _BOUNDS),
    "scale": ({"a": stats.norm(), "b": stats.gamma(5.0)}, _BOUNDS),
    "kind": ({"a": Bent()(), "b": stats.gamma(2.0)}, "had prior with other numbers"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_posterior_or_a_run_of_another_model_is_refused(other):
    prior, message = OTHERS[other]
    named = {"log_likelihood": (lambda a, c: 1 / 0) if other == "names" else never, "prior": prior}
    begun = {"log_likelihood": halves, "prior": PRIOR}
    found = box_of(PRIOR)
    ends = {end: found.arguments[end] for end in VECTORS[:4]}
    q = bqvi.Posterior.of(Gaussian(np.zeros(2), np.eye(2)), make_coordinates(**ends, names=found.names))
    if other in ("names", "bounds"):
        with pytest.raises(ValueError, match=message):
            bqvi.evidence_bounds(**named, posterior=q)
    bounds = bqvi.evidence_bounds(**begun, budget=1000)
    with pytest.raises(ValueError, match=message):
        bqvi.evidence_bounds(**named, budget=1000, resume=bounds)
    fit = bqvi.fit(LogJoint(**begun, gradient=None), method="bq", budget=14)
    with pytest.raises(ValueError, match=message):
        bqvi.fit(LogJoint(**named, gradient=None), method="bq", budget=20, resume=fit)
    if other == "kind":
        found = bqvi.vbmc(**begun, budget=14)
        with pytest.raises(ValueError, match=message):
            bqvi.vbmc(**named, budget=20, resume=found)
        to = found.posterior.coordinates
        box = {end: dict(zip("ab", getattr(to, end), strict=True)) for end in VECTORS[:4]}
        with pytest.raises(ValueError, match=message):
            bqvi.vbmc(never, **box, budget=20, resume=found)


def test_messages_name_the_likelihood_and_not_the_joint():
    given = {"prior": {"a": stats.norm()}, "budget": 14}
    for value, message in (("x", "the log likelihood returned 'x'"), (np.inf, "the log likelihood is inf")):
        with pytest.raises(RuntimeError, match=message):
            bqvi.vbmc(log_likelihood=lambda a, value=value: value, **given)
    with pytest.raises(RuntimeError, match="the log likelihood is finite at 0 of the 10 first points"):
        bqvi.vbmc(log_likelihood=lambda a: -np.inf, **given)
    with pytest.raises(RuntimeError, match="the log of prior times likelihood returned 'x'"):
        bqvi.vbmc(log_likelihood=lambda a: "x", prior=lambda a: -0.5 * a**2, start={"a": 0.0}, budget=14)
    with pytest.raises(RuntimeError, match=r"take \*\*p in the place of p for a dict"):
        bqvi.vbmc(log_likelihood=lambda p: p["a"], **given)


def test_a_likelihood_that_is_no_logarithm_is_seen_beneath_the_prior():
    """The sum of a density that underflows and a log prior is the prior, whose evidence is 1."""

    def density(a):
        return float(stats.norm(a, 0.05).pdf([1.0, 1.1, 0.9]).prod())

    with pytest.warns(UserWarning, match="The log likelihood is 0 at each of"):
        found = bqvi.vbmc(log_likelihood=density, prior={"a": stats.norm()}, budget=20, seed=0)
    assert "return the logarithm of the likelihood" in " ".join(found.warnings)


def test_a_prior_as_a_function_of_names_that_the_proposal_has():
    q = bqvi.vbmc(log_likelihood=halves, prior=PRIOR, budget=20, seed=0).posterior
    exact = np.log(np.exp(-0.25) / np.sqrt(2.0)) - 2.0 * np.log(1.3)
    found = bqvi.evidence_bounds(
        log_likelihood=halves, prior=lambda a, b: stats.norm().logpdf(a) + stats.gamma(2.0).logpdf(b),
        proposal=q, budget=4000, seed=0,
    )  # fmt: skip
    assert abs(found.log_evidence - exact) < 4.0 * found.log_evidence_sd + 1e-3
