"""tidu: arrays to compute with as with NumPy's, and to differentiate as with JAX or PyTorch.

    import tidu as td

    def f(x):
        return td.sum(x * td.sin(x))

    x = td.array([0.0, 1.0, 2.0])
    td.grad(f)(x)                      # transforms of functions: grad, jvp, vjp, hessian, vmap, jit, ...
    w = x.copy().requires_grad_()
    f(w).backward()                    # or the tape: w.grad
    print(td.trace(f, x).grad())       # or graphs
"""

from . import _core, errors

_core._set_errors(errors.BY_KIND)

from ._core import *  # noqa: E402, F401, F403
del linalg, nn, random  # noqa: F821, which are modules of this package
from ._methods import meshgrid, ndim, pad, shape  # noqa: E402, F401
from .custom import custom_jvp, custom_vjp  # noqa: E402, F401
from .errors import *  # noqa: E402, F401, F403
from .executor import Executor, use_executor  # noqa: E402, F401
from .importing import from_jax, from_stablehlo  # noqa: E402, F401
from .modes import detect_anomaly, enable_grad, explain_mode, no_grad  # noqa: E402, F401
from .primitive import Primitive, Type  # noqa: E402, F401
from .transforms import (  # noqa: E402, F401
    check_gradients,
    checkpoint,
    compile,
    fori_loop,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jit,
    jvp,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_unflatten,
    value_and_grad,
    vjp,
    vmap,
    while_loop,
)
from . import linalg, nn, random  # noqa: E402, F401

pi = 3.141592653589793
e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
__version__ = "0.1.0"
