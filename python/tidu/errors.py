"""The exceptions that tidu raises. Each is an Error, and one of Python's own where one says the same."""


class Error(Exception):
    """Base of everything that tidu raises; the message says what was expected, what came, and where."""


class InvalidArgumentError(Error, ValueError):
    """A misuse of a function: unknown name, duplicate, missing or surplus argument."""


class TypeMismatchError(Error, TypeError):
    """Dtypes or shapes that do not fit an operation."""


class AttributeValueError(Error, ValueError):
    """An attribute that is missing, unknown, or out of range."""


class UnknownPrimitiveError(Error, LookupError):
    """A primitive that is not in the set."""


class ADRuleError(Error):
    """A differentiation or batching rule is missing or broke its contract."""


class DumpError(Error, ValueError):
    """A dump that cannot be read."""


class ExecutionError(Error, RuntimeError):
    """A kernel that is missing or that failed."""


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed."""


class TapeError(Error, RuntimeError):
    """What a tape kept for backward was freed or changed."""


class NonFiniteError(Error, ArithmeticError):
    """Anomaly mode met a value that is not finite."""


class CancelledError(Error):
    """The caller asked to stop."""


class InternalError(Error, RuntimeError):
    """A defect of tidu, or of a rule or executor that threw something of its own."""


BY_KIND = {
    "invalid argument": InvalidArgumentError,
    "type": TypeMismatchError,
    "attribute": AttributeValueError,
    "unknown primitive": UnknownPrimitiveError,
    "ad rule": ADRuleError,
    "dump": DumpError,
    "execution": ExecutionError,
    "out of memory": OutOfMemoryError,
    "tape": TapeError,
    "non finite": NonFiniteError,
    "cancelled": CancelledError,
    "internal": InternalError,
}
