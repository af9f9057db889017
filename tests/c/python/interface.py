#!/usr/bin/env python3
"""Calls the C interface by ctypes: graphs, gradients, threads, and an executor of Python functions. All functions that the headers
declare are in the library, which has no others, and the tests in C call each.

usage: interface.py LIBTIDU_C INCLUDE-FOLDER
"""
import ctypes as c
import math
import pathlib
import re
import subprocess
import sys
import threading

OK, ABSENT, F64 = 0, 0xFFFFFFFF, 6


class Type(c.Structure):
    _fields_ = [("dtype", c.c_int32), ("rank", c.c_uint32), ("dims", c.POINTER(c.c_int64))]


class Input(c.Structure):
    _fields_ = [("variable", c.c_void_p), ("operand", c.c_void_p)]


class Root(c.Structure):
    _fields_ = [("variable", c.c_void_p), ("seed", c.c_void_p), ("seed_variable", c.c_void_p)]


class Operation(c.Structure):
    _fields_ = [("name", c.c_char_p), ("op", c.c_void_p), ("operands", c.POINTER(c.c_uint32)), ("num_operands", c.c_size_t),
                ("first_result", c.c_uint32), ("num_results", c.c_size_t)]


COUNT = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p)
RUN = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p, c.POINTER(c.c_void_p), c.c_size_t, c.POINTER(c.c_void_p), c.c_size_t)
ADD = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(Type), c.c_void_p, c.c_void_p, c.POINTER(c.c_void_p))


class Functions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("name", c.c_char_p), ("user", c.c_void_p), ("destroy", c.c_void_p),
                ("retain", COUNT), ("release", COUNT), ("execute_forward", RUN), ("run_transposed_linear", c.c_void_p),
                ("add_operands", ADD), ("prepare", c.c_void_p), ("discard", c.c_void_p), ("describe", c.c_void_p),
                ("ones_like", c.c_void_p), ("is_finite", c.c_void_p), ("version", c.c_void_p), ("wide_accumulation", c.c_int32)]


class TiduError(Exception):
    pass


class Library:
    """The functions; a status becomes an exception, and the last argument is the return value."""

    def __init__(self, path):
        self.c = c.CDLL(path)
        self.c.tidu_last_error.restype = c.c_char_p
        self.c.tidu_version.restype = c.c_char_p
        self.c.tidu_string_data.restype = c.c_char_p
        for name in ("tidu_builder_emitter", "tidu_gradients_find"):
            getattr(self.c, name).restype = c.c_void_p

    def call(self, name, *arguments):
        status = getattr(self.c, name)(*arguments)
        if status != OK:
            raise TiduError(status, self.c.tidu_last_error().decode())

    def make(self, name, *arguments):
        made = c.c_void_p()
        self.call(name, *arguments, c.byref(made))
        return made


def vector(count):
    return Type(F64, 1, (c.c_int64 * 1)(count))


def emit(tidu, emitter, primitive, *operands, attributes=None):
    result = c.c_uint32()
    tidu.call("tidu_emit1", c.c_void_p(emitter), primitive, (c.c_uint32 * len(operands))(*operands), c.c_size_t(len(operands)),
              attributes, c.byref(result))
    return result.value


def build(tidu, count, summed):
    """x -> sum(sin(x) x), or without the sum."""
    builder = tidu.make("tidu_builder_create", b"f", None)
    emitter = tidu.c.tidu_builder_emitter(builder)
    x = c.c_uint32()
    tidu.call("tidu_builder_input", builder, b"x", c.byref(vector(count)), c.byref(x))
    y = emit(tidu, emitter, b"mul", emit(tidu, emitter, b"sin", x.value), x.value)
    if summed:
        y = emit(tidu, emitter, b"reduce_sum", y, attributes=b'{"axes": [0]}')
    graph = tidu.make("tidu_builder_build", builder, c.byref(c.c_uint32(y)), c.c_size_t(1))
    tidu.c.tidu_builder_release(builder)
    return graph


def run(tidu, executor, graph, inputs, outputs):
    executable = tidu.make("tidu_compile", executor, graph)
    pointers = [(c.c_void_p * len(each))(*[c.addressof(item) for item in each]) for each in (inputs, outputs)]
    tidu.call("tidu_run_memory", executable, pointers[0], c.c_size_t(len(inputs)), pointers[1], c.c_size_t(len(outputs)))
    tidu.c.tidu_executable_release(executable)


def near(got, expected):
    assert len(got) == len(expected), (got, expected)
    for a, b in zip(got, expected):
        assert abs(a - b) <= 1e-12 * (1 + abs(b)), (list(got), list(expected))


def test_gradient(tidu):
    values = [0.3, -1.2, 2.0]
    graph = build(tidu, 3, True)
    gradient = tidu.make("tidu_grad", graph, None, c.c_size_t(0), None)
    for maker in ("tidu_cpu_create", "tidu_reference_create"):
        executor = tidu.make(maker, None)
        dx = (c.c_double * 3)()
        run(tidu, executor, gradient, [(c.c_double * 3)(*values)], [dx])
        near(dx, [math.cos(x) * x + math.sin(x) for x in values])
        tidu.c.tidu_executor_release(executor)
    tidu.c.tidu_graph_release(gradient)
    tidu.c.tidu_graph_release(graph)


def test_errors(tidu):
    try:
        tidu.make("tidu_graph_from_json", b"{", c.c_size_t(1), None)
        raise AssertionError("expected an error")
    except TiduError as error:
        assert error.args[0] == 6 and "line 1" in error.args[1], error.args


def test_threads(tidu):
    """Each thread has its own error text, and any thread may run a program."""
    graph, executor, wrong = build(tidu, 3, True), tidu.make("tidu_cpu_create", None), []

    def work(number):
        for i in range(100):
            name = f"thread{number}x{i}"
            try:
                tidu.call("tidu_graph_find_input", graph, name.encode(), c.byref(c.c_size_t()))
            except TiduError as error:
                if name not in error.args[1]:
                    wrong.append(error.args[1])
            value = (c.c_double * 1)()
            run(tidu, executor, graph, [(c.c_double * 3)(number, 1.0, i)], [value])
            if abs(value[0] - (math.sin(number) * number + math.sin(1.0) + math.sin(i) * i)) > 1e-9 * (1 + i):
                wrong.append((number, i, value[0]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]
    tidu.c.tidu_graph_release(graph)
    tidu.c.tidu_executor_release(executor)


class Executor:
    """Operands are lists of floats, known by numbers from 1 on, and counted."""

    def __init__(self, tidu):
        self.tidu, self.objects, self.counts, self.fails = tidu, {}, {}, False
        self.callbacks = (COUNT(self.retain), COUNT(self.release), RUN(self.run), ADD(self.add))
        retain, release, run_graph, add = self.callbacks
        functions = Functions(struct_size=c.sizeof(Functions), name=b"python", retain=retain, release=release,
                              execute_forward=run_graph, add_operands=add)
        self.handle = tidu.make("tidu_executor_create", c.byref(functions))

    def put(self, value):
        number = max(self.objects, default=0) + 1
        self.objects[number], self.counts[number] = value, 1
        return number

    def retain(self, _, operand):
        self.counts[operand] += 1

    def release(self, _, operand):
        self.counts[operand] -= 1
        if self.counts[operand] == 0:
            del self.objects[operand], self.counts[operand]

    def add(self, _, type, a, b, result):
        result[0] = self.put([p + q for p, q in zip(self.objects[a], self.objects[b])])
        return OK

    def run(self, _, graph, prepared, inputs, num_inputs, outputs, num_outputs):
        tidu = self.tidu
        if self.fails:
            tidu.c.tidu_set_error(b"Python said no")
            return 7
        graph = c.c_void_p(graph)
        rules = {"sin": math.sin, "cos": math.cos, "neg": lambda p: -p, "mul": lambda p, q: p * q, "add": lambda p, q: p + q}
        values = {tidu.c.tidu_graph_input(graph, c.c_size_t(i)): self.objects[inputs[i]] for i in range(num_inputs)}
        operation = Operation()
        for index in range(tidu.c.tidu_graph_num_operations(graph)):
            tidu.call("tidu_graph_operation", graph, c.c_size_t(index), c.byref(operation))
            operands = [values[operation.operands[i]] for i in range(operation.num_operands)]
            values[operation.first_result] = [rules[operation.name.decode()](*each) for each in zip(*operands)]
        for i in range(num_outputs):
            outputs[i] = self.put(values[tidu.c.tidu_graph_output(graph, c.c_size_t(i))])
        return OK


def test_tape(tidu):
    executor = Executor(tidu)
    graph = build(tidu, 2, False)
    recorder = tidu.make("tidu_recorder_create", executor.handle, None)
    leaf = tidu.make("tidu_recorder_leaf", recorder)
    x, seed = executor.put([0.5, -2.0]), executor.put([1.0, 10.0])
    variable = c.c_void_p()
    given = Input(leaf, x)
    tidu.call("tidu_record", recorder, graph, c.byref(given), c.c_size_t(1), None, None, c.c_size_t(0), c.byref(variable), c.c_size_t(1))
    root = Root(variable, seed, None)
    backward = ("tidu_backward", recorder, c.byref(root), c.c_size_t(1), None, c.c_size_t(0), None)
    executor.fails = True
    try:
        tidu.make(*backward)
        raise AssertionError("expected an error")
    except TiduError as error:
        assert error.args[0] == 7 and "Python said no" in error.args[1], error.args
    executor.fails = False
    gradients = tidu.make(*backward)
    dx = executor.objects[tidu.c.tidu_gradients_find(gradients, leaf)]
    near(dx, [s * (math.cos(v) * v + math.sin(v)) for s, v in ((1.0, 0.5), (10.0, -2.0))])
    for name, handle in (("gradients", gradients), ("variable", variable), ("variable", leaf), ("recorder", recorder), ("graph", graph),
                         ("executor", executor.handle)):
        getattr(tidu.c, f"tidu_{name}_release")(handle)
    assert executor.counts == {x: 1, seed: 1}, executor.counts


def test_names(library, include):
    text = "".join(path.read_text() for path in (pathlib.Path(include) / "tidu" / "c").glob("*.h"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    declared = set(re.findall(r"^[\w *]+[ *](tidu_\w+)\(", text, re.MULTILINE))
    listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    assert len(declared) > 80 and declared == exported, declared ^ exported
    tests = "".join(path.read_text() for path in pathlib.Path(__file__).resolve().parent.parent.glob("*.c"))
    assert not [name for name in declared if not re.search(rf"\b{name}\(", tests)]


def main(arguments):
    library, include = arguments
    tidu = Library(library)
    assert tidu.c.tidu_version().count(b".") == 2
    test_names(library, include)
    test_gradient(tidu)
    test_errors(tidu)
    test_threads(tidu)
    test_tape(tidu)
    print("ctypes: names, gradients, errors, threads and a tape of Python's operands, all as they should be")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
