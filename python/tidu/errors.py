"""The exceptions that tidu raises. Each is an Error, and one of Python's own where one says the same."""


class Error(Exception):
    """Base of all exceptions of tidu; the message has the expected and the actual argument, and the location."""


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
    """A value that a tape kept for backward was freed or changed."""


class NonFiniteError(Error, ArithmeticError):
    """Anomaly mode met a value that is not finite."""


class CancelledError(Error):
    """The caller asked to stop."""


class InternalError(Error, RuntimeError):
    """A defect of tidu, or of a rule or executor that threw something of its own."""


class ImportProgramError(Error, NotImplementedError):
    """A program of another system that cannot be expressed; `failures` has (primitive, detail, where) for each operation."""

    def __init__(self, failures):
        self.failures = list(failures)
        super().__init__(_import_message(self.failures))

    def __reduce__(self):
        return ImportProgramError, ([tuple(f) for f in self.failures],)


def _import_message(failures):
    kinds = {}
    for primitive, detail, where in failures:
        kinds.setdefault((primitive, detail), []).append(where or "unknown line")
    count = len(failures)
    lines = [f"[import] expected operations that tidu can express, got {count} that it cannot:"]
    for (primitive, detail), places in kinds.items():
        counted = {place: places.count(place) for place in places}
        shown = [place + (f" ({n} times)" if n > 1 else "") for place, n in counted.items()]
        more = f" and {len(shown) - 5} other lines" if len(shown) > 5 else ""
        what = primitive + (f", {detail}" if detail else "")
        lines.append(f"  {len(places)} x {what}: {', '.join(shown[:5])}{more}")
    return "\n".join(lines)


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
