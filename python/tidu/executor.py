"""Executors of the user, which run the graphs of operations, programs and backward passes."""

from . import _core


class Executor:
    """Base class of executors, which run graphs on Arrays. In `with use_executor(executor):` it runs all operations of
    the thread, instead of tidu's own executor.

    execute_forward(graph, inputs) returns a list of the graph's outputs: for operations and programs, and for values
    that a backward pass recomputes. run_transposed_linear(graph, inputs) runs the linear graphs of backward passes, and
    add_operands(a, b) adds cotangents. Their defaults run a graph operation by operation:
    run_operation(operation, inputs) returns the results of one (an Operation: name, attributes), as a list; its default
    calls tidu's own executor for CPUs. A result may be any object that converts to an Array of the same type.

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
    """While it lasts, the executor runs the operations of this thread."""

    def __init__(self, executor):
        self._using = _core._UseExecutor(executor)

    def __enter__(self):
        self._using.__enter__()

    def __exit__(self, *exception):
        self._using.__exit__(*exception)
