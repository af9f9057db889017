"""Programs of other systems as graphs of tidu: functions of JAX, and StableHLO as JAX and PyTorch export it.

JAX is imported when a program is; tidu itself does not need it.
"""


def from_jax(f, *args, **kwargs):
    """The graph of f, a function of JAX, for arguments of these shapes and dtypes: an ImportedProgram, called like f.

    The arguments are structures of arrays (of JAX, NumPy or tidu, or jax.ShapeDtypeStruct) and numbers; anything else
    in them is static. Loops, branches, checkpoints and rules of custom_jvp and custom_vjp are kept. Raises
    ImportProgramError, with the primitives and lines, where something cannot be translated.
    """
    from .program import from_jax

    return from_jax(f, *args, **kwargs)


def from_stablehlo(text, *, name="main"):
    """The graph of a StableHLO module: an ImportedProgram of the function `name`. text is MLIR text or its bytes."""
    from .stablehlo import from_stablehlo

    return from_stablehlo(text, name=name)
