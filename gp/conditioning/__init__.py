"""Conditioning of a Gaussian process on values, gradients or both, fast for few data; NumPy only.

`conditioned` is for any kernel between the numbers observed at points: extension by rows, nodes left out,
integrals and their covariance; with scale, constant and weights of `gp.evidence`. `FunctionProcess` is that
on one function with the kernel of `function_kernel`, or, given values and single derivatives, each in a row
of its own, that of `directional`.
"""

from gp.conditioning.conditioned import Conditioned
from gp.conditioning.directional import DirectionalKernel
from gp.conditioning.function_kernel import FunctionKernel, FunctionProcess, Shown

__all__ = ["Conditioned", "DirectionalKernel", "FunctionKernel", "FunctionProcess", "Shown"]
