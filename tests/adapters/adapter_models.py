"""Three models as formulas: densities by scipy.stats, Jacobians by differences.

    schools      mu ~ N(0, 5), tau ~ half-Cauchy(5), z_j ~ N(0, 1), y_j ~ N(mu + tau z_j, sigma_j)
    regression   a ~ N(0, 2), b ~ N(0, 2), s ~ log-normal(0, 1), y_i ~ N(a + b x_i, s)
    shares       w ~ Dirichlet(2, 3, 4), R ~ LKJ(2), s_i ~ half-normal(1), counts ~ multinomial(w),
                 y_n ~ N(0, diag(s) R diag(s))

Each density is of the constrained variables; `log_joint` adds the Jacobian of the model's own way from its
unconstrained parameters to them, whatever that is.
"""

import numpy as np
from call_contracts import check_target
from scipy import stats
from scipy.special import betaln, logsumexp

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
SCHOOLS_EVIDENCE = -31.311347352296824
"""All but tau in closed form, tau by a sum."""

X = np.linspace(-1.0, 1.0, 12)
Y = 0.7 + 1.3 * X + 0.3 * np.random.default_rng(0).standard_normal(12)

COUNTS = np.array([3, 5, 9])
POINTS = np.random.default_rng(1).standard_normal((6, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.3], [0, 0, 1]])
ETA = 2.0


def schools(v):
    values = stats.norm(0, 5).logpdf(v["mu"]) + stats.halfcauchy(scale=5).logpdf(v["tau"])
    values = values + stats.norm.logpdf(v["z"]).sum()
    return values + stats.norm(v["mu"] + v["tau"] * v["z"], ERRORS).logpdf(EFFECTS).sum()


def regression(v):
    values = stats.norm(0, 2).logpdf(v["a"]) + stats.norm(0, 2).logpdf(v["b"])
    values = values + stats.lognorm(1.0).logpdf(v["s"])
    return values + stats.norm(v["a"] + v["b"] * X, v["s"]).logpdf(Y).sum()


def regression_evidence():
    """The evidence given s is Gaussian; ln s is summed over a grid."""
    grid = np.linspace(-5.0, 4.0, 2001)
    design = np.stack([np.ones_like(X), X], axis=1)
    logs = [
        stats.multivariate_normal(cov=4.0 * design @ design.T + np.exp(2 * t) * np.eye(len(Y))).logpdf(Y)
        for t in grid
    ]
    return logsumexp(np.array(logs) + stats.norm.logpdf(grid)) + np.log(grid[1] - grid[0])


def log_lkj(correlation, eta):
    """ln p(R), with the normaliser of Lewandowski, Kurowicka and Joe (2009)."""
    d = len(correlation)
    k = np.arange(1, d)
    power = ((2 * eta - 2 + d - k) * (d - k)).sum()
    half = eta + 0.5 * (d - k - 1)
    normaliser = power * np.log(2.0) + ((d - k) * betaln(half, half)).sum()
    return (eta - 1) * np.linalg.slogdet(correlation)[1] - normaliser


def shares(v):
    values = stats.dirichlet([2.0, 3.0, 4.0]).logpdf(v["w"] / v["w"].sum())
    values = values + log_lkj(v["R"], ETA) + stats.halfnorm.logpdf(v["s"]).sum()
    values = values + stats.multinomial(COUNTS.sum(), v["w"] / v["w"].sum()).logpmf(COUNTS)
    covariance = v["s"][:, None] * v["R"] * v["s"]
    return values + stats.multivariate_normal(cov=covariance).logpdf(POINTS).sum()


def free_numbers(v, names):
    """As many numbers as there are parameters: a simplex without its last, a correlation's lower half."""
    parts = []
    for name in names:
        x = np.asarray(v[name], float)
        if name == "w":
            x = x[:-1]
        parts.append(x[np.tril_indices(3, -1)] if name == "R" else x.reshape(-1))
    return np.concatenate(parts)


def log_joint(density, variables, names, theta, step=1e-4):
    """The density at theta (P,), with the Jacobian of ``variables`` by differences of fourth order."""
    columns = []
    for unit in np.eye(len(theta)):
        at = [free_numbers(variables(theta + k * step * unit), names) for k in (-2, -1, 1, 2)]
        columns.append((at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step))
    return density(variables(theta)) + np.linalg.slogdet(np.array(columns))[1]


def check(model, density, variables, names, scale=0.5, seed=0):
    """A `TargetModel` keeps its contract, and its value is that of the formula, to 1e-6."""
    points = model.start + scale * np.random.default_rng(seed).standard_normal((3, model.dimension))
    check_target(model, points)
    for theta in points:
        expected = log_joint(density, variables, names, theta)
        np.testing.assert_allclose(model.value(theta), expected, rtol=1e-6, atol=1e-6)
