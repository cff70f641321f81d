"""Models of other packages, converted for the front doors. A package is imported only by the file for it.

    model = bqvi.adapters.from_pymc(pymc_model)
    bqvi.vbmc(model)        bqvi.fit(model, method="bq")        bqvi.integrate(model)

Each function returns a `TargetModel`: the log joint over unconstrained parameters with the Jacobians of the
package's own transforms, its gradient, and the map from parameters to the variables of the model.

    from_pymc       PyMC 5.28 and 6 (extra ``pymc``)
    from_numpyro    NumPyro on JAX in float64 (extra ``numpyro``)
    from_stan       Stan, through BridgeStan or httpstan (extra ``stan``)
    from_jax        a function written in JAX (extra ``jax``)
    from_torch      a torch module whose parameters are those of the model

A `TargetModel` itself takes the functions of any other package.
"""

from bqvi.adapters.jax_function import from_jax
from bqvi.adapters.numpyro_model import from_numpyro
from bqvi.adapters.pymc_model import from_pymc
from bqvi.adapters.stan_model import from_stan
from bqvi.adapters.torch_module import from_torch
from bqvi.calls.target_model import TargetModel
from gp.names import all_suggesting, attach

__all__ = ["TargetModel", "from_jax", "from_numpyro", "from_pymc", "from_stan", "from_torch"]
all_suggesting(globals())
__getattr__, __dir__ = attach(__name__)
