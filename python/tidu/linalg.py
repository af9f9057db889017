"""Linear algebra with the names of numpy.linalg: matrices are the last two axes, leading axes are a batch."""

from ._core import cross, diagonal, matmul, outer
from ._core.linalg import (
    cho_solve,
    cholesky,
    det,
    eigh,
    inv,
    lu,
    norm,
    qr,
    slogdet,
    solve,
    solve_triangular,
    svd,
    vector_norm,
)

__all__ = [
    "cho_solve",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "inv",
    "lu",
    "matmul",
    "norm",
    "outer",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "vector_norm",
]
