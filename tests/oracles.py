"""The models term by term from the thesis' equations, in torch and with loops."""

import math

import numpy as np
import scipy.special
import scipy.stats
import torch

LOG_2PI = math.log(2.0 * math.pi)


def tensor(x):
    return torch.as_tensor(np.asarray(x), dtype=torch.float64)


def leaf(x):
    return tensor(x).clone().requires_grad_()


class Digamma(torch.autograd.Function):
    """The digamma function of torch with SciPy's trigamma as its derivative; torch's own errs by 1e-9 (a
    short series).
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.digamma(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * torch.as_tensor(scipy.special.polygamma(1, x.detach().numpy()))


def expected_log_weights(alpha):
    """Eq. 3.36."""
    return Digamma.apply(alpha) - Digamma.apply(alpha.sum())


def dirichlet_log_constant(alpha):
    """ln C(alpha)."""
    return torch.lgamma(alpha.sum()) - torch.lgamma(alpha).sum()


def quadratic(a, v, matrix_inverse):
    """(v_n - a)^T M^-1 (v_n - a), row by row."""
    gap = v - a
    return (gap @ matrix_inverse * gap).sum(-1)


def gaussian_mixture_elbo(x, r, alpha, m, c, alpha_0, m_0, c_0, sigma):
    """Eqs 3.27 to 3.34 with 3.38 and 3.39; torch tensors; N data, K components."""
    _n, d = x.shape
    k_components = len(alpha)
    sigma_inverse, c_0_inverse = torch.linalg.inv(sigma), torch.linalg.inv(c_0)
    log_pi = expected_log_weights(alpha)
    total = dirichlet_log_constant(alpha_0) + ((alpha_0 - 1.0) * log_pi).sum()  # 3.30
    total = total - dirichlet_log_constant(alpha) - ((alpha - 1.0) * log_pi).sum()  # 3.33
    for k in range(k_components):
        squares = quadratic(m[k], x, sigma_inverse) + torch.trace(sigma_inverse @ c[k])
        total = total - 0.5 * (r[:, k] * (squares + d * LOG_2PI + torch.logdet(sigma))).sum()  # 3.28
        total = total + (r[:, k] * log_pi[k]).sum()  # 3.29
        prior = quadratic(m_0, m[k], c_0_inverse) + torch.trace(c_0_inverse @ c[k])
        total = total - 0.5 * (prior + d * LOG_2PI + torch.logdet(c_0))  # 3.31
        total = total + 0.5 * (d + d * LOG_2PI + torch.logdet(c[k]))  # 3.34
    return total - torch.special.xlogy(r, r).sum()  # 3.32


def gaussian_mixture_responsibilities(x, alpha, m, c, sigma):
    """Eqs 3.12 and 3.23 with the softmax."""
    sigma_inverse = torch.linalg.inv(sigma)
    rho = torch.stack(
        [
            -0.5 * (quadratic(m[k], x, sigma_inverse) + torch.trace(sigma_inverse @ c[k]))
            for k in range(len(alpha))
        ],
        -1,
    )
    return torch.softmax(rho + expected_log_weights(alpha), -1)


def multinomial_mixture_elbo(x, r, alpha, gamma, alpha_0, gamma_0):
    """The ELBO for counts (N, V); gamma (K, V), gamma_0 (V,)."""
    log_pi = expected_log_weights(alpha)
    total = dirichlet_log_constant(alpha_0) + ((alpha_0 - 1.0) * log_pi).sum()
    total = total - dirichlet_log_constant(alpha) - ((alpha - 1.0) * log_pi).sum()
    total = total + (torch.lgamma(x.sum(1) + 1.0).sum() - torch.lgamma(x + 1.0).sum())
    for k in range(len(alpha)):
        log_beta = expected_log_weights(gamma[k])
        total = total + dirichlet_log_constant(gamma_0) + ((gamma_0 - 1.0) * log_beta).sum()
        total = total - dirichlet_log_constant(gamma[k]) - ((gamma[k] - 1.0) * log_beta).sum()
        total = total + (r[:, k] * (x @ log_beta + log_pi[k])).sum()
    return total - torch.special.xlogy(r, r).sum()


def multinomial_mixture_responsibilities(x, alpha, gamma):
    log_beta = torch.stack([expected_log_weights(g) for g in gamma])
    return torch.softmax(x @ log_beta.T + expected_log_weights(alpha), -1)


def z_scores(draws, mean):
    """The z-scores of the average of ``draws`` (R, ...), entry by entry; 0 / 0 counts as 0."""
    gap = np.abs(draws.mean(0) - mean)
    error = draws.std(0, ddof=1) / np.sqrt(len(draws))
    return gap / np.maximum(error, 1e-12 * (1.0 + np.abs(mean)))


def bonferroni_t(entries, draws, level=1e-6):
    """The |t| that the largest of ``entries`` correlated statistics exceeds with probability < level."""
    return scipy.stats.t.isf(0.5 * level / entries, draws - 1)
