"""Conditioning of a Gaussian process on values, gradients or both, fast for few data; NumPy only."""

from gp.conditioning.conditioned import Conditioned
from gp.conditioning.function_kernel import DirectionalKernel, FunctionKernel, Shown

__all__ = ["Conditioned", "DirectionalKernel", "FunctionKernel", "Shown"]
