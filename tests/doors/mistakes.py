"""Mistakes of users of this and of other packages, and the words by which the message names the remedy.

A row is a name, a call, and words that all stand in the message.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats
import torch

import acquisition
import bqvi
import bqvi.sklearn
import gp
from bqvi.models import (
    GaussianMixture,
    LogisticRegression,
    LogJoint,
)
from experiments.harness import registry
from gp.measures import Gaussian

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((40, 2))
BOX = {"plausible_lower": [-1.0, -1.0], "plausible_upper": [1.0, 1.0]}
NEAR = Gaussian(np.zeros(2), np.eye(2))


def log_joint(theta):
    return -0.5 * float(theta @ theta)


def integrand(x):
    return np.exp(-0.5 * (x**2).sum(axis=1))


def of_single_tensors(theta):
    return -0.5 * (torch.zeros(2, dtype=torch.float32) @ theta)


def of_many(theta):
    return -0.5 * (theta**2).sum(axis=1)


def transform(u):
    return 10.0 * u - 5.0


def unpacked(found):
    vp, results = found
    return vp, results


def never(*_):
    raise AssertionError("the function has been called")


FITTED = gp.fit(ROWS, ROWS[:, 0])
RUN = bqvi.vbmc(log_joint, **BOX, budget=10, seed=0)


class Model:
    """As PyMC's."""

    __module__ = "pymc.model.core"


def vbmc(*args: Any, **given: Any) -> Callable[[], Any]:
    return lambda: bqvi.vbmc(*(args or (never,)), **(BOX | {"budget": 10} if len(args) < 2 else {}) | given)


def integrate(*args: Any, **given: Any) -> Callable[[], Any]:
    return lambda: bqvi.integrate(*(args or (never, NEAR)), **given)


def fit(*args: Any, **given: Any) -> Callable[[], Any]:
    model = LogJoint(never, 2, vectorised=False, gradient=None)
    return lambda: bqvi.fit(*(args or (model,)), **({} if args else {"method": "bq"}) | given)


def bounds(*args: Any, **given: Any) -> Callable[[], Any]:
    return lambda: bqvi.evidence_bounds(*(args or (never, NEAR)), **given)


def model(*args: Any, **given: Any) -> Callable[[], Any]:
    return lambda: GaussianMixture(*args, **given)


Row = tuple[str, Callable[[], Any], tuple[str, ...]]

KEYWORDS: list[Row] = [
    ("LB", vbmc(LB=[-1.0, -1.0]), ("LB is no argument of vbmc", "it takes lower")),
    ("UB", vbmc(UB=[1.0, 1.0]), ("UB is no argument of vbmc", "it takes upper")),
    ("PLB", vbmc(PLB=[-1.0, -1.0]), ("PLB", "it takes plausible_lower")),
    ("PUB", vbmc(PUB=[1.0, 1.0]), ("PUB", "it takes plausible_upper")),
    ("lower_bounds", vbmc(lower_bounds=-1.0), ("lower_bounds", "it takes lower")),
    ("upper_bounds", vbmc(upper_bounds=1.0), ("upper_bounds", "it takes upper")),
    ("bounds", vbmc(bounds=[(-1, 1)]), ("bounds", "it takes lower and upper")),
    ("x0", vbmc(x0=[0.0, 0.0]), ("x0", "it takes start")),
    ("x0 of fit", fit(x0=[0.0, 0.0]), ("x0", "it takes start_from")),
    ("nlive", bounds(nlive=400), ("nlive", "it takes particles")),
    ("nlive of vbmc", vbmc(nlive=400), ("nlive", "it takes budget")),
    ("maxeval", vbmc(maxeval=100), ("maxeval", "it takes budget")),
    ("max_evaluations", bounds(max_evaluations=100), ("max_evaluations", "it takes budget")),
    ("bounds of evidence_bounds", bounds(bounds=[(-1, 1)]), ("its arguments are log_joint, propo",)),
    ("verbose", fit(verbose=True), ("verbose", "it takes run=bqvi.Run(progress=...)")),
    ("maxcall", integrate(maxcall=100), ("maxcall", "it takes budget")),
    ("max_fun_evals", vbmc(max_fun_evals=100), ("max_fun_evals", "it takes budget")),
    ("options", vbmc(options={"max_fun_evals": 100}), ("options", "an argument of its own", "budget")),
    ("learning_rate", fit(learning_rate=0.01), ("learning_rate", "schedule=bqvi.Adam(")),
    ("lr", fit(lr=0.01), ("lr", "schedule=bqvi.Adam(")),
    ("optimizer", fit(optimizer="adam"), ("optimizer", "schedule=bqvi.Adam(")),
    ("truths", vbmc(truths=[0.0, 0.0]), ("truths", "plot")),
    ("n_epochs", fit(n_epochs=5), ("n_epochs", "it takes steps and budget")),
    ("batch_size", fit(batch_size=50), ("batch_size", "it takes minibatch")),
    ("random_state", fit(random_state=0), ("random_state", "it takes seed")),
    ("random_seed", vbmc(random_seed=0), ("random_seed", "it takes seed")),
    ("names", vbmc(names=["a", "b"]), ("names is no argument", "keys of a dict of bounds or priors")),
    ("prior of integrate", integrate(prior=None), ("prior", "measure")),
    (
        "prior_transform",
        vbmc(prior_transform=None),
        ("lambda u: loglike(transform(u)) with lower=np.zeros(D)", "distributions as prior"),
    ),
    ("ndim", vbmc(ndim=2), ("the number of parameters is that of the bounds, or of the priors",)),
    ("truths of a plot", lambda: RUN.posterior.plot(truths=[0, 0]), ("plot(truth=...)",)),
    (
        "n_samples of a posterior",
        lambda: RUN.posterior.sample(n_samples=3),
        ("n_samples is no argument", "it takes n"),
    ),
    ("loglikelihood", vbmc(loglikelihood=never), ("loglikelihood", "it takes log_likelihood")),
    (
        "a keyword that is misspelt",
        vbmc(plausible_lowre=0.0),
        ("plausible_lowre", "it takes plausible_lower"),
    ),
    ("a keyword of a run", vbmc(n_jobs=2), ("n_jobs", "run=bqvi.Run(n_jobs=...)")),
    ("a keyword of a design", vbmc(batch=2), ("batch", "design=bqvi.Design(batch=...)")),
    ("a keyword of a record", fit(metrics={}), ("metrics", "record=bqvi.Record(metrics=...)")),
    ("a keyword of a run, misspelt", lambda: bqvi.Run(chekpoint="f"), ("chekpoint", "checkpoint")),
    ("pool", vbmc(pool=None), ("pool", "run=bqvi.Run(executor=...)")),
    ("covariance_type", model(2, covariance_type="full"), ("covariance_type", "covariance")),
    ("a keyword of LogJoint", lambda: LogJoint(never, 2, vectorized=True), ("vectorized", "vectorised")),
    ("dim of LogJoint", lambda: LogJoint(never, dim=2), ("dim", "dimension")),
    ("a keyword of gp.fit", lambda: gp.fit(ROWS, ROWS[:, 0], kernal=None), ("kernal", "kernel")),
    ("alpha of gp.fit", lambda: gp.fit(ROWS, ROWS[:, 0], alpha=0.1), ("alpha", "it takes noise")),
    ("K of a mixture", lambda: GaussianMixture(K=2), ("K is no argument", "it takes n_components")),
    ("num_iter of Emukit", integrate(num_iter=50), ("num_iter", "it takes budget")),
    (
        "length_scale",
        lambda: gp.kernels.RBF(length_scale=2.0),
        ("SquaredExponential", "it takes lengthscale"),
    ),
    ("a kernel's keyword, misspelt", lambda: gp.kernels.Matern52(varaince=2.0), ("it takes variance",)),
    ("outputscale", lambda: gp.kernels.RationalQuadratic(outputscale=2.0), ("it takes variance",)),
    ("periodicity", lambda: gp.kernels.Periodic(periodicity=12.0), ("it takes period",)),
    ("nu", lambda: gp.kernels.Matern32(nu=1.5), ("the order is in the name", "Matern52")),
    ("active_dims", lambda: gp.kernels.RBF(active_dims=[0]), ("gp.kernels.Columns(",)),
    ("ARD", lambda: gp.kernels.RBF(ARD=True), ("one for each column",)),
    (
        "mu and cov of a measure",
        lambda: Gaussian(cov=1.0, mu=0.0),
        ("cov is no argument", "it takes covariance"),
    ),
    ("low of a box", lambda: gp.measures.Uniform(low=0.0, upper=1.0), ("it takes lower",)),
    ("loc of a family", lambda: bqvi.families.Gaussian(loc=0.0, covariance=1.0), ("it takes mean",)),
    ("batch_size of a strategy", lambda: acquisition.minibatch.Uniform(batch_size=3), ("it takes size",)),
    ("num_samples of an estimator", lambda: bqvi.gradients.Pathwise(num_samples=3), ("it takes samples",)),
    (
        "gradient of a model",
        lambda: bqvi.adapters.TargetModel(never, 2, gradient=never),
        ("gradient is no argument of TargetModel", "it takes log_joint_and_gradient"),
    ),
    ("sigma of a process", lambda: gp.GaussianProcess(gp.kernels.RBF(1.0), sigma=0.1), ("it takes noise",)),
    ("weights of a mean", lambda: gp.means.Linear(weights=1.0), ("weights is no", "are intercept, slope")),
    ("low of a plateau", lambda: gp.priors.Plateau(low=1.0, upper=2.0), ("it takes lower",)),
    ("n_clusters", lambda: bqvi.sklearn.GaussianMixture(n_clusters=2), ("it takes n_components",)),
    (
        "a prior of scikit-learn",
        lambda: bqvi.sklearn.BayesianGaussianMixture(2, weight_concentration_prior=1.0),
        ("BayesianGaussianMixture", "it takes concentration"),
    ),
    ("n_samples of a process", lambda: FITTED.sample(ROWS, n_samples=3), ("n_samples", "it takes n")),
    ("return_cov", lambda: FITTED.predict(ROWS, return_cov=True), ("return_cov", "posterior.covariance(x)")),
    ("an sd as noise", lambda: gp.fit(ROWS, ROWS[:, 0], noise_sd=0.1), ("noise_sd", "noise=sd**2")),
    ("n of integrate", integrate(n=50), ("n is no argument", "it takes budget")),
    (
        "n_components of topics",
        lambda: bqvi.models.LatentDirichletAllocation(n_components=3),
        ("it takes n_topics",),
    ),
    ("lengths of sequences", fit(lengths=[20, 20]), ("lengths", "in a list, an array each")),
    ("n_restarts of gp.fit", lambda: gp.fit(ROWS, ROWS[:, 0], n_restarts=3), ("n_restarts", "n_starts")),
]

VALUES: list[Row] = [
    ("fit by vbmc", fit(method="vbmc"), ("method is 'vbmc'", "bqvi.vbmc(")),
    ("fit by vi", fit(method="pathwice"), ("Did you mean 'pathwise'",)),
    ("integrate by an unknown method", integrate(method="wsabi"), ("Did you mean", "wsabi")),
    (
        "an acquisition of another name",
        vbmc(design=bqvi.Design(acquisition="imiqrr")),
        ("Did you mean 'imiqr'",),
    ),
    ("a family of another name", fit(family="mean_field"), ("Did you mean 'mean-field'",)),
    ("a float schedule", fit(schedule=0.1), ("schedule is 0.1", "bqvi.Constant(0.1)")),
    ("n_jobs=-1", lambda: bqvi.Run(n_jobs=-1), ("n_jobs is -1", "os.cpu_count()")),
    ("budget=1e2 of vbmc", vbmc(budget=1e2), ("budget is 100.0", "give 100")),
    ("budget=1e2 of integrate", integrate(budget=1e2), ("budget is 100.0", "give 100")),
    ("budget=1e2 of fit", fit(budget=1e2), ("budget is 100.0", "give 100")),
    (
        "a budget in rows",
        lambda: bqvi.fit(LogisticRegression(2), (ROWS, ROWS[:, 0] > 0), method="pathwise", budget=100),
        ("budget", "row"),
    ),
    (
        "positional arguments of PyVBMC",
        lambda: bqvi.vbmc(never, [0.0, 0.0], [-9.0, -9.0], [9.0, 9.0], [-1.0, -1.0], [1.0, 1.0]),
        ("PyVBMC", "lower=", "plausible_upper=", "start="),
    ),
    (
        "PyVBMC's arrays of shape (1, D)",
        lambda: bqvi.vbmc(never, np.zeros((1, 2)), np.full((1, 2), -9.0), np.full((1, 2), 9.0)),
        ("lower has shape (1, 2)", "PyVBMC", "start=x0"),
    ),
    (
        "positional arguments of PyVBMC without a start",
        lambda: bqvi.vbmc(never, None, [-9.0, -9.0], [9.0, 9.0], [-1.0, -1.0], [1.0, 1.0]),
        ("PyVBMC", "lower=", "plausible_upper="),
    ),
    ("PyVBMC's pair of results", lambda: unpacked(RUN), ("one VBMCResult is returned: found = ...",)),
    (
        "a pair of an integral",
        lambda: unpacked(bqvi.integrate(integrand, NEAR, budget=8)),
        ("one Integral is returned: found = ...",),
    ),
    (
        "positional arguments of dynesty",
        lambda: bqvi.vbmc(never, transform, 2),
        ("lower is a function", "lambda u: loglike(transform(u))", "distributions as prior"),
    ),
    (
        "positional arguments of dynesty in evidence_bounds",
        bounds(never, transform, 2),
        ("proposal is a function", "distributions as prior"),
    ),
    (
        "positional arguments of UltraNest",
        lambda: bqvi.vbmc(["a", "b"], never, transform),
        ("log_joint is ['a', 'b']", "lambda u: loglike(transform(u))"),
    ),
    ("a class of dynesty", lambda: bqvi.NestedSampler, ("lambda u: loglike(transform(u))",)),
    ("a kernel of scikit-learn", lambda: gp.kernels.WhiteKernel, ("kernels are in gp.kernels", "White,")),
    ("a kernel of another module", lambda: gp.RBF, ("kernels are in gp.kernels", "(RBF)")),
    ("a start in the place of bounds", lambda: bqvi.vbmc(never, [0.0, 0.0]), ("PyVBMC", "start=x0")),
    ("the order of quad", integrate(never, -1.0, 1.0), ("measure is -1.0", "lower=", "upper=")),
    (
        "a mixture without covariance",
        lambda: GaussianMixture(2),
        ("GaussianMixture(n_components, cov", "'covariance' : (D, D)", "'full'"),
    ),
    ("topics without words", lambda: bqvi.models.LatentDirichletAllocation(3), ("'n_words' : V >= 1",)),
    (
        "a kernel of GPy",
        lambda: gp.kernels.RBF(2, 1.0, 0.5),
        ("Exponential(lengthscale, variance): too many",),
    ),
    ("a kernel of scikit-learn by its name", lambda: gp.kernels.ExpSineSquared, ("'Periodic'",)),
    ("gp as a part of bqvi", lambda: bqvi.gp, ("a package of its own: import gp",)),
    ("mc", integrate(method="mc"), ("Did you mean 'monte-carlo'",)),
    ("svi", fit(method="svi"), ("method is 'svi'", "Did you mean 'sngd'")),
    (
        "labels in another order",
        lambda: bqvi.fit(
            LogisticRegression(2), (pd.DataFrame(ROWS), pd.Series(ROWS[:, 0] > 0)[::-1]), method="ngd"
        ),
        ("the indices of x and y differ", ".to_numpy()"),
    ),
    (
        "targets in another order",
        lambda: gp.fit(pd.DataFrame(ROWS), pd.Series(ROWS[:, 0])[::-1]),
        ("the indices of x and y differ", "y.loc[x.index]"),
    ),
    (
        "a plausible box outside of the bounds",
        vbmc(lower=[-0.5, -0.5], upper=[0.5, 0.5]),
        ("x0 has plausible_lower = -1", "inside of the bounds. PyVBMC"),
    ),
    ("lr of Adam", lambda: bqvi.Adam(lr=0.1), ("lr is no argument of Adam", "it takes rate")),
    (
        "a kernel by name",
        lambda: gp.fit(ROWS, ROWS[:, 0], kernel="rbf"),
        ("gp.kernels", "SquaredExponential"),
    ),
    ("a kernel as a class", lambda: gp.fit(ROWS, ROWS[:, 0], kernel=gp.kernels.Matern52), ("Matern52", "(")),
    ("an experiment, misspelt", lambda: registry.check("vi-method"), ("did you mean vi-methods",)),
    ("a name of the package, misspelt", lambda: bqvi.vmbc, ("vbmc",)),
    ("a model, misspelt", lambda: bqvi.models.GaussianMixtur, ("GaussianMixture",)),
]

FUNCTIONS: list[Row] = [
    ("an adapter of before", lambda: bqvi.adapters.from_function(never, 2), ("TargetModel",)),
    ("a PyMC model in vbmc", vbmc(Model()), ("bqvi.adapters.from_pymc",)),
    ("a PyMC model in fit", fit(Model(), method="bq"), ("bqvi.adapters.from_pymc",)),
    ("a PyMC model in integrate", integrate(Model()), ("bqvi.adapters.from_pymc",)),
    ("a frozen distribution in vbmc", vbmc(scipy.stats.multivariate_normal([0.0, 0.0])), (".logpdf",)),
    ("a frozen distribution in fit", fit(scipy.stats.norm(0.0, 1.0), method="bq"), (".logpdf",)),
    ("a frozen distribution as an integrand", integrate(scipy.stats.norm(0.0, 1.0), NEAR), (".pdf",)),
    (
        "a frozen distribution as a measure",
        integrate(integrand, scipy.stats.norm(0.0, 1.0)),
        ("gp.measures, as Gaussian(mean, covariance) is",),
    ),
    ("a distribution of torch", vbmc(torch.distributions.Normal(0.0, 1.0)), (".log_prob",)),
    ("a function in fit", fit(log_joint, method="bq"), ("bqvi.models.LogJoint(",)),
    ("data and model in the other order", fit(ROWS, GaussianMixture(2, "full")), ("fit(model, data)",)),
    ("x and y one after the other", fit(LogisticRegression(2), ROWS, ROWS[:, 0] > 0), ("as (x, y)",)),
    ("a regression without a method", fit(LogisticRegression(2), (ROWS, ROWS[:, 0] > 0)), ("one of ngd,",)),
    (
        "a value with its gradient",
        vbmc(lambda t: (log_joint(t), -t)),
        ("has the sd", "give a gradient as gradient="),
    ),
    (
        "a frozen distribution as a proposal",
        bounds(never, scipy.stats.multivariate_normal([0.0, 0.0])),
        ("proposal is a multivariate_normal_frozen", "gp.measures.Gaussian(mean, covariance)"),
    ),
    ("a model as a class", fit(GaussianMixture, ROWS), ("GaussianMixture(",)),
    ("a vectorised function in vbmc", vbmc(of_many), ("one point", "(P,)")),
    ("a function of one point in integrate", integrate(log_joint, NEAR), ("vectorised=False",)),
    (
        "float32 in a log joint of torch",
        vbmc(of_single_tensors, gradient="autodiff"),
        ("float32", "torch.float64"),
    ),
    (
        "a density in the place of its logarithm",
        vbmc(lambda t: float(np.exp(-0.5 * t @ t)), budget=20),
        ("log",),
    ),
    (
        "a prior's density by its method",
        vbmc(None, log_likelihood=never, prior=scipy.stats.multivariate_normal([0.0, 0.0]).pdf, **BOX),
        ("prior is", "a density", "as .logpdf"),
    ),
    (
        "a density that f is weighted by",
        integrate(never, NEAR, log_density=integrand),
        ("log_density is a density",),
    ),
    (
        "a transform of nested sampling as a prior",
        vbmc(None, log_likelihood=never, prior=transform, **BOX),
        ("prior returned", "the log of its density", "lambda u: loglike(transform(u))"),
    ),
    (
        "a transform of one parameter as a prior",
        lambda: bqvi.vbmc(
            log_likelihood=log_joint, prior=transform, plausible_lower=[-1.0], plausible_upper=[1.0]
        ),
        ("prior is no log density", "lambda u: loglike(transform(u))"),
    ),
    (
        "the negative of a log joint",
        vbmc(lambda t: -log_joint(t), budget=40),
        ("the log joint has the other sign",),
    ),
    (
        "columns in units far apart",
        lambda: bqvi.fit(
            LogisticRegression(2), (ROWS * [1.0, 1e4], ROWS.prod(1) > 0), method="ngd", steps=20
        ),
        ("the ELBO has fallen by", "scale the columns"),
    ),
    ("a density as a distribution", integrate(never, NEAR, log_density=scipy.stats.norm(0, 1)), (".logpdf",)),
    (
        "a log likelihood's density",
        vbmc(None, log_likelihood=scipy.stats.norm(0, 1).pdf),
        ("log_likelihood is",),
    ),
    ("a density by its method", vbmc(scipy.stats.norm(0, 1).pdf), ("log_joint is", "as .logpdf")),
    ("float32 in a log joint", vbmc(lambda t: np.float32(log_joint(t) - 2000.0)), ("float32", "float64")),
    ("an executor as a class", lambda: bqvi.Run(executor=ThreadPoolExecutor), ("ThreadPoolExecutor(",)),
    ("one name of a model", lambda: bqvi.adapters.TargetModel(never, "mu"), ("names is 'mu'", "a sequence")),
    (
        "lengths of hmmlearn",
        lambda: bqvi.sklearn.HiddenMarkovModel(2).fit(ROWS, [20, 20]),
        ("y has 2 entries", "lengths="),
    ),
    (
        "a column that is not there",
        lambda: gp.fit(ROWS, ROWS[:, 0]).plot(column=2),
        ("column is 2", "below 2"),
    ),
    (
        "kernels compared in a list",
        lambda: gp.compare([gp.fit(ROWS, ROWS[:, 0])] * 2),
        ("posteriors is [", "a dict"),
    ),
    ("data averaged over", lambda: gp.marginalise(ROWS), ("posterior has no", "gp.fit(x, y)")),
    ("a function that returns None", vbmc(lambda t: None), ("None", "return")),
    ("one point to a process", lambda: gp.fit(ROWS, ROWS[:, 0]).predict(ROWS[0]), ("x[None, :]",)),
]

MISTAKES = KEYWORDS + VALUES + FUNCTIONS
