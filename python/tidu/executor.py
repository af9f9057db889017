"""Executors of the user's own: who runs the graphs that operations, programs and backward passes are."""

from . import _core


class Executor:
    """Runs graphs on Arrays; a class that is derived from it says how. In its place tidu runs what a thread computes
    while it is in `with use_executor(executor):`.

    execute_forward(graph, inputs) gives a list of the graph's outputs: of operations and programs, and of what a backward
    pass computes again. run_transposed_linear(graph, inputs) runs the linear graphs of backward passes, and
    add_operands(a, b) adds up cotangents. Their defaults run a graph operation by operation:
    run_operation(operation, inputs) gives the results of one (an Operation: name, attributes), as a list; its default
    is tidu's own executor for CPUs. Arrays may be answered by whatever becomes an Array of the same type.

    Methods may be called from any thread.
    """

    def execute_forward(self, graph, inputs):
        return self.run(graph, inputs)

    def run_transposed_linear(self, graph, inputs):
        return self.run(graph, inputs)

    def add_operands(self, a, b):
        return a + b

    def run_operation(self, operation, inputs):
        return operation(*inputs)

    def run(self, graph, inputs):
        """Each operation by run_operation, in order."""
        values = dict(zip(graph.input_values, inputs))
        for operation in graph.steps:
            results = self.run_operation(operation, [values[i] for i in operation.inputs])
            values.update(zip(operation.outputs, results))
        return [values[i] for i in graph.output_values]


class use_executor:
    """While it lasts, what this thread computes is run by the executor."""

    def __init__(self, executor):
        self._using = _core._UseExecutor(executor)

    def __enter__(self):
        self._using.__enter__()

    def __exit__(self, *exception):
        self._using.__exit__(*exception)
