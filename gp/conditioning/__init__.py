"""Conditioning of a Gaussian process on values, gradients or both, fast for few data; NumPy only.

`conditioned` has the linear algebra, for any kernel between the numbers observed at points: profiled scale
and constant, extension by rows, nodes left out, integrals and their covariance. `FunctionProcess` is that
on one function with the kernel of `function_kernel`, or, given values and single derivatives, each in a row
of its own, that of `directional`.
`student_process` is the process with scale and mean integrated out.
"""

from gp.conditioning.conditioned import Conditioned
from gp.conditioning.directional import DirectionalKernel
from gp.conditioning.function_kernel import FunctionKernel, FunctionProcess, Shown
from gp.conditioning.student_process import StudentProcess

__all__ = [
    "Conditioned",
    "DirectionalKernel",
    "FunctionKernel",
    "FunctionProcess",
    "Shown",
    "StudentProcess",
]
