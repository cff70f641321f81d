"""Conditioning of a Gaussian process on values, gradients or both, fast for few data; NumPy only.

`conditioned` has the linear algebra, for any kernel between the numbers observed at points: profiled scale
and constant, extension by rows, nodes left out, integrals and their covariance. `function_process` is the
process on one function with the kernel of `function_kernel`; `functionals` are its integrals under Gaussians.
`directional` is the process given values and single derivatives of a function, each in a row of its own.
`student_process` is the process with scale and mean integrated out.
"""

from gp.conditioning.conditioned import Conditioned
from gp.conditioning.directional import DirectionalKernel, DirectionalProcess
from gp.conditioning.function_kernel import FunctionKernel, Shown
from gp.conditioning.function_process import FunctionProcess
from gp.conditioning.student_process import StudentProcess

__all__ = [
    "Conditioned",
    "DirectionalKernel",
    "DirectionalProcess",
    "FunctionKernel",
    "FunctionProcess",
    "Shown",
    "StudentProcess",
]
