// executor.cpp - executors in Python: objects with execute_forward, run_transposed_linear and add_operands,
// which get graphs and Arrays; tidu/executor.py has their base class. While such a method runs, tidu's
// executor for CPUs runs the operations on Arrays in it.
#include "tidu/eager/executor.hpp"
#include "functions.hpp"
#include "primitives.hpp"
#include "tidu/frontend/modes.hpp"
#include "tidu/frontend/trace.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/tensor/inspect.hpp"

namespace tidu::python {
namespace {

nb::list array_list(std::span<const Tensor* const> tensors) {
  nb::list list;
  for (const Tensor* const tensor : tensors) list.append(to_python(Array(*tensor)));
  return list;
}

class PythonExecutor final : public TensorOperands<eager::BackwardExecutor<Tensor>> {
 public:
  explicit PythonExecutor(nb::handle object) : object_(nb::borrow(object)) {}

 private:
  // Errors pass as they are, by their dynamic type.
  template <class F>
  static auto calling(const char* method, const F& f) {
    const nb::gil_scoped_acquire acquire;
    const ExecutorGuard within(executor());
    const NoGrad no_grad;
    return in_python(ErrorKind::execution, method, f);
  }

 public:
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const> inputs) const override {
    return run("execute_forward", call, inputs);
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Tensor* const> inputs) const override {
    return run("run_transposed_linear", call, inputs);
  }
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override {
    return calling("add_operands", [&] {
      const nb::object sum = object_.get().attr("add_operands")(to_python(Array(a)), to_python(Array(b)));
      return tensor_of(sum, call.type, "add_operands", 0);
    });
  }
  bool wide_accumulation() const override { return true; }

 private:
  static Tensor tensor_of(nb::handle object, Type type, const char* method, std::size_t position) {
    const Array array = to_array(object, type.dtype());
    if (array.type() == type) return array.tensor();
    throw Error(ErrorKind::execution, detail::str("[", method, "] expected output ", position, " of type ",
                                                  type, ", got ", array.type()));
  }
  Result<Values> run(const char* method, const eager::GraphCall& call,
                     std::span<const Tensor* const> inputs) const {
    return calling(method, [&] {
      const nb::object made = object_.get().attr(method)(call.graph, array_list(inputs));
      const auto outputs = call.graph.outputs();
      Values values;
      for (const nb::handle item : nb::iter(made)) {
        if (values.size() == outputs.size()) break;
        values.push_back(tensor_of(item, call.graph.type(outputs[values.size()]), method, values.size()));
      }
      if (values.size() != outputs.size())
        throw Error(ErrorKind::execution,
                    detail::str("[", method, "] expected ", outputs.size(), " outputs, got ", values.size()));
      return values;
    });
  }

  Held object_;
};

// Executors live while operations may run on them; `with` begins and ends that.
struct Using {
  explicit Using(nb::handle object) : executor(std::make_unique<const PythonExecutor>(object)) {}
  Using(const Using&) = delete;
  Using& operator=(const Using&) = delete;
  std::unique_ptr<const PythonExecutor> executor;
  std::vector<std::unique_ptr<ExecutorGuard>> active{};
};

// One operation of a graph.
struct OperationView {
  Graph graph;
  std::uint32_t index;
  Operation get() const { return graph.operation(index); }
};
nb::object ids(std::span<const ValueId> values) {
  nb::list list;
  for (const ValueId id : values) list.append(id);
  return nb::steal(PyList_AsTuple(list.ptr()));
}
std::vector<ValueId> results_of(const Operation& operation) {
  std::vector<ValueId> results;
  for (std::size_t i = 0; i < operation.num_outputs(); ++i) results.push_back(operation.output(i));
  return results;
}
// That operation alone on Arrays.
nb::list run_operation(const OperationView& self, nb::args arguments) {
  const std::vector<Array> operands = to_arrays(arguments);
  const Where where = here();
  return to_list(unlocked([&] {
    const Operation operation = self.get();
    GraphBuilder builder(std::string(operation.name()), self.graph.primitives());
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < operands.size(); ++i)
      inputs.push_back(builder.input("x" + std::to_string(i), operands[i].type()));
    const Values results = inputs.empty() ? builder.emit(operation.op(), {}, where)
                                          : builder.emit(operation.op(), inputs, where);
    return call_graph(builder.build(std::span<const Value>(results.begin(), results.end())), operands, where);
  }));
}

nb::list steps_of(const Graph& graph) {
  nb::list list;
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) list.append(OperationView{graph, i});
  return list;
}

void bind_operations(nb::module_& m) {
  nb::class_<OperationView>(m, "Operation", "An operation of a graph: call it to compute it.")
      .def_prop_ro("name", [](const OperationView& self) { return std::string(self.get().name()); })
      .def_prop_ro(
          "attributes", [](const OperationView& self) { return attributes_dict(self.get().op()); },
          "Its attributes, by name.")
      .def_prop_ro(
          "inputs", [](const OperationView& self) { return ids(self.get().inputs()); },
          "Its operands, as numbers of values of the graph.")
      .def_prop_ro(
          "outputs", [](const OperationView& self) { return ids(results_of(self.get())); },
          "Its results, as numbers of values of the graph.")
      .def_prop_ro(
          "where", [](const OperationView& self) { return std::string(self.get().where()); },
          "The line of the program, or nothing.")
      .def("__call__", run_operation, "Its results on these Arrays, as a list.")
      .def("__repr__", [](const OperationView& self) { return to_string(self.get().op()); });
}

}  // namespace

void bind_executors(nb::module_& m, nb::class_<Graph>& graph) {
  bind_operations(m);
  graph.def_prop_ro("steps", steps_of, "The operations, in order, as Operations.");
  graph.def_prop_ro(
      "input_values", [](const Graph& self) { return ids(self.inputs()); },
      "The numbers of the values that the inputs are.");
  graph.def_prop_ro(
      "output_values", [](const Graph& self) { return ids(self.outputs()); },
      "The numbers of the values that the outputs are.");
  nb::class_<Using>(m, "_UseExecutor")
      .def("__init__",
           [](Using* self, nb::object object) {
             new (self) Using(object);
             python_runs = true;
           })
      .def("__enter__",
           [](nb::object self) {
             Using& context = nb::cast<Using&>(self);
             context.active.push_back(std::make_unique<ExecutorGuard>(*context.executor));
             return self;
           })
      .def("__exit__", [](Using& self, nb::args) { self.active.pop_back(); });
}

}  // namespace tidu::python
