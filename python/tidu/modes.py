"""Modes of the calling thread: recording of operations, anomaly detection and profiling."""

from ._core import _GradMode, detect_anomaly, explain_mode


class _Mode:
    """A context manager, also to be used as a decorator."""

    _enabled = True

    def __init__(self):
        self._modes = []

    def __enter__(self):
        mode = _GradMode(self._enabled)
        mode.__enter__()
        self._modes.append(mode)

    def __exit__(self, *exception):
        self._modes.pop().__exit__(*exception)

    def __call__(self, f):
        import functools

        @functools.wraps(f)
        def g(*args, **kwargs):
            with type(self)():
                return f(*args, **kwargs)

        return g


class no_grad(_Mode):
    """While it lasts nothing is recorded: results require no gradient."""

    _enabled = False


class enable_grad(_Mode):
    """While it lasts operations are recorded, also within no_grad."""


__all__ = ["no_grad", "enable_grad", "detect_anomaly", "explain_mode"]
