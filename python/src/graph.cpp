// graph.cpp - graphs: traced from functions, transformed, printed, stored, run and checked.
#include "tidu/graph/graph.hpp"

#include "functions.hpp"
#include "primitives.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/graph/html.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tree.hpp"

namespace tidu::python {
namespace {

using Transform = Graph (*)(const Graph&, const Names&, const DerivativeOptions&);
void def_transform(nb::class_<Graph>& c, const char* name, Transform f, const char* doc) {
  c.def(
      name,
      [f](const Graph& self, const Names& wrt) {
        DerivativeOptions options;
        options.named_inputs = true;
        return unlocked([&] { return f(self, wrt, options); });
      },
      nb::arg("wrt") = Names(), doc);
}

nb::list types_of(const Graph& graph, std::span<const ValueId> values) {
  nb::list list;
  for (const ValueId id : values) {
    const Type type = graph.type(id);
    list.append(nb::make_tuple(dtype_object(type.dtype()), shape_tuple(type.shape())));
  }
  return list;
}

Graph trace(nb::object f, nb::args args, nb::kwargs kwargs) {
  const auto call = std::make_shared<const Call>(args, kwargs);
  const Function function(f, call);
  const Where where = here();
  return unlocked([&] {
    return frontend_detail::closed(
        frontend_detail::trace_flat(function.flat(), call->leaves, "traced", where), where);
  });
}

nb::list call(const Graph& self, nb::args arguments) {
  Tree tree;
  std::vector<Array> leaves;
  flatten(arguments, tree, leaves, {true});
  const Where where = here();
  return to_list(unlocked([&] { return call_graph(self, leaves, where); }));
}

std::string html_of(const Graph& self) {
  HtmlOptions options;
  options.keys = false;
  const std::string page = to_html(self, options);
  std::string escaped;
  for (const char c : page) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else {
      escaped += c;
    }
  }
  return "<iframe style=\"width:100%;height:480px;border:1px solid #ccc\" sandbox=\"allow-scripts\" "
         "srcdoc=\"" +
         escaped + "\"></iframe>";
}

struct Report {
  CheckReport report;
};
Report check(const Graph& graph, nb::handle inputs, int order, std::uint64_t seed, std::int64_t batch) {
  Tree tree;
  std::vector<Array> leaves;
  flatten(inputs, tree, leaves, {true});
  std::vector<Tensor> tensors;
  for (const Array& leaf : leaves) tensors.push_back(leaf.tensor(here()));
  CheckOptions options;
  options.order = order;
  options.seed = seed;
  options.batch = batch;
  return {unlocked([&] { return check_gradients(graph, tensors, executor(), options); })};
}

}  // namespace

void bind_graph(nb::module_& m) {
  nb::class_<Graph> c(m, "Graph", "A function as a list of primitives: printed, stored, transformed, run.");
  c.def_prop_ro("name", [](const Graph& self) { return self.name(); });
  c.def_prop_ro("num_operations", [](const Graph& self) { return self.num_operations(); });
  c.def_prop_ro("input_names", [](const Graph& self) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < self.inputs().size(); ++i) names.push_back(self.input_name(i));
    return names;
  });
  c.def_prop_ro(
      "inputs", [](const Graph& self) { return types_of(self, self.inputs()); },
      "(dtype, shape) of each input.");
  c.def_prop_ro(
      "outputs", [](const Graph& self) { return types_of(self, self.outputs()); },
      "(dtype, shape) of each output.");
  c.def_prop_ro(
      "operations",
      [](const Graph& self) {
        std::vector<std::string> names;
        for (std::size_t i = 0; i < self.num_operations(); ++i) names.emplace_back(self.operation(i).name());
        return names;
      },
      "The names of the primitives, in order.");
  c.def("__call__", call, "The outputs on these Arrays, as a list.");
  c.def("__str__", [](const Graph& self) { return to_text(self); });
  c.def("__repr__", [](const Graph& self) { return to_text(self); });
  c.def("__eq__", [](const Graph& self, const Graph& other) { return structurally_equal(self, other); });
  c.def("__hash__", [](const Graph& self) { return self.structural_key().high; });
  c.def("_repr_html_", html_of);
  c.def(
      "to_html", [](const Graph& self) { return to_html(self); },
      "A page that shows the graph in a browser.");
  c.def(
      "to_json", [](const Graph& self) { return to_json(self); }, "The dump, as the tidu command reads it.");
  c.def_static(
      "from_json", [](const std::string& text) { return graph_from_json(text, primitives()); },
      nb::arg("text"), "The graph of a dump; primitives defined in Python are known.");
  def_transform(c, "jvp", jvp,
                "Inputs: the graph's, then a tangent for each in wrt; outputs: values, tangents.");
  def_transform(c, "vjp", vjp, "Inputs: the graph's, then cotangents; outputs: values, then gradients.");
  def_transform(c, "grad", grad, "Gradients of the one floating scalar output.");
  def_transform(c, "value_and_grad", value_and_grad, "The value, then the gradients.");
  def_transform(c, "hvp", hvp, "Hessian-vector products.");
  def_transform(c, "jacfwd", jacfwd, "Jacobians, forward.");
  def_transform(c, "jacrev", jacrev, "Jacobians, backward.");
  def_transform(c, "hessian", hessian, "Second derivatives.");
  c.def(
      "vmap",
      [](const Graph& self, std::int64_t size, const Names& batched) {
        return unlocked([&] { return vmap(self, size, batched); });
      },
      nb::arg("size"), nb::arg("batched") = Names(), "Mapped over a leading axis of inputs and outputs.");
  m.def("trace", trace, nb::arg("f"), nb::arg("args"), nb::arg("kwargs"),
        "The graph of f on arguments of these types; f runs once, on Arrays without data.");
  bind_executors(m, c);
  nb::class_<Report>(m, "CheckReport", "The result of check_gradients.")
      .def_prop_ro("ok", [](const Report& self) { return self.report.ok; })
      .def("__bool__", [](const Report& self) { return self.report.ok; })
      .def_prop_ro("findings",
                   [](const Report& self) {
                     std::vector<std::string> messages;
                     for (const CheckFinding& finding : self.report.findings)
                       messages.push_back(finding.message);
                     return messages;
                   })
      .def_prop_ro("notes", [](const Report& self) { return self.report.notes; })
      .def("__str__", [](const Report& self) { return to_text(self.report); })
      .def("__repr__", [](const Report& self) { return to_text(self.report); });
  m.def("_check_gradients", [](const Graph& graph, nb::object inputs, int order, std::uint64_t seed,
                               std::int64_t batch) { return check(graph, inputs, order, seed, batch); });
}

}  // namespace tidu::python
