// gradients.cpp - the tape: backward(), leaves and their gradients, hooks, modes, explain.
#include "core.hpp"
#include "functions.hpp"
#include "tidu/eager/dump.hpp"
#include "tidu/frontend/explain.hpp"
#include "tidu/frontend/modes.hpp"

namespace tidu::python {
namespace {

BackwardOptions options_of(bool keep_graph, bool create_graph, int workers) {
  BackwardOptions options;
  options.keep_graph = keep_graph;
  options.create_graph = create_graph;
  options.workers = workers;
  return options;
}

// Python's hooks may run on any thread.
std::optional<Array> call_hook(const Held& hook, const Array& cotangent) {
  const nb::gil_scoped_acquire acquire;
  const nb::object result = hook.get()(to_python(cotangent));
  if (result.is_none()) return std::nullopt;
  return to_array(result);
}

struct Handle {
  HookHandle handle;
};

// A guard that `with` begins and ends.
template <class Guard>
struct Context {
  explicit Context(bool on) : enabled(on) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  bool enabled;
  std::vector<std::unique_ptr<Guard>> active{};
};
template <class Guard>
void bind_context(nb::module_& m, const char* name, const char* doc) {
  using C = Context<Guard>;
  nb::class_<C>(m, name, doc)
      .def(
          "__init__", [](C* self, bool enabled) { new (self) C(enabled); }, nb::arg("enabled") = true)
      .def("__enter__",
           [](nb::object self) {
             C& context = nb::cast<C&>(self);
             context.active.push_back(std::make_unique<Guard>(context.enabled));
             return self;
           })
      .def("__exit__", [](C& self, nb::args) { self.active.pop_back(); });
}

OptionalArrayObject optional_array(std::optional<Array> array) {
  return nb::borrow<OptionalArrayObject>(array ? nb::object(to_python(std::move(*array)))
                                               : nb::object(nb::none()));
}

nb::list gradients_of(Arg roots, Arg inputs, Arg seeds, bool keep_graph, bool create_graph) {
  const std::vector<Array> r = to_arrays(roots.object), x = to_arrays(inputs.object);
  const std::vector<Array> s = seeds.object.is_none() ? std::vector<Array>() : to_arrays(seeds.object);
  const Where where = here();
  auto found = unlocked([&] { return grad_of(r, x, s, options_of(keep_graph, create_graph, 1), where); });
  nb::list list;
  for (auto& gradient : found) list.append(optional_array(std::move(gradient)));
  return list;
}

}  // namespace

void bind_gradients(nb::module_& m, nb::class_<Array>& c) {
  c.def_prop_rw(
      "requires_grad", [](const Array& self) { return self.requires_grad(); },
      [](Array& self, bool wanted) { self.set_requires_grad(wanted, {}, here()); },
      "Is it known to a tape? Set it to make a leaf whose gradient is wanted.");
  c.def(
      "requires_grad_",
      [](nb::object self, bool wanted, const std::string& name) {
        nb::cast<Array&>(self).set_requires_grad(wanted, name, here());
        return nb::borrow<ArrayObject>(self);
      },
      nb::arg("wanted") = true, nb::arg("name") = "", "The same, returning the Array.");
  c.def(
      "set_name",
      [](nb::object self, const std::string& name) {
        nb::cast<Array&>(self).set_name(name, here());
        return nb::borrow<ArrayObject>(self);
      },
      nb::arg("name"), "A name for messages.");
  c.def_prop_ro("is_leaf", [](const Array& self) { return self.is_leaf(here()); });
  c.def_prop_rw(
      "grad", [](const Array& self) { return optional_array(self.grad(here())); },
      [](const Array& self, nb::object gradient) {
        if (gradient.is_none()) return self.zero_grad(here());
        self.set_grad(to_array(gradient), here());
      },
      nb::arg("gradient").none(), "The gradient that backward() accumulated, or None.");
  c.def(
      "zero_grad", [](const Array& self) { self.zero_grad(here()); }, "Drops the accumulated gradient.");
  c.def(
      "detach", [](const Array& self) { return to_python(self.detach(here())); },
      "The same data, unknown to any tape.");
  c.def(
      "backward",
      [](const Array& self, Arg seed, bool keep_graph, bool create_graph, int workers) {
        const Where where = here();
        const BackwardOptions options = options_of(keep_graph, create_graph, workers);
        if (seed.object.is_none()) return unlocked([&] { self.backward(options, where); });
        const Array cotangent = to_array(seed.object);
        return unlocked([&] { self.backward(cotangent, options, where); });
      },
      nb::arg("seed").none() = nb::none(), nb::arg("keep_graph") = false, nb::arg("create_graph") = false,
      nb::arg("workers") = 1, "Differentiates this Array and adds the gradients to .grad of the leaves.");
  nb::class_<Handle>(m, "HookHandle")
      .def(
          "remove", [](Handle& self) { self.handle.remove(); }, "Calls the hook no more.");
  c.def(
      "register_hook",
      [](const Array& self, nb::object hook) {
        return Handle{self.register_hook(
            [held = Held(std::move(hook))](const Array& cotangent) { return call_hook(held, cotangent); },
            here())};
      },
      nb::arg("hook"),
      "Calls hook(cotangent) in every later backward that reaches this Array; its result, unless None, "
      "replaces the cotangent.");
  m.def("grad_of", gradients_of, nb::arg("roots"), nb::arg("inputs"), nb::arg("seeds").none() = nb::none(),
        nb::arg("keep_graph") = false, nb::arg("create_graph") = false,
        "The gradients of roots by inputs (lists of Arrays), from the tape; None where nothing depends on "
        "one.");
  m.def(
      "explain",
      [](Arg target, Arg root, const std::string& name) {
        Operand x(target), y(root);
        const Where where = here();
        const Array &wanted = x.as_array(), &from = y.as_array();
        return unlocked([&] { return explain(wanted, from, name, where); }).text;
      },
      nb::arg("target"), nb::arg("root"), nb::arg("name") = "",
      "Why target gets no gradient from root, or a zero one, in words.");
  m.def(
      "grad_enabled", [] { return grad_enabled(); }, "Are operations on this thread recorded?");
  bind_context<GradMode>(m, "_GradMode", "Turns recording on or off.");
  bind_context<AnomalyGuard>(m, "detect_anomaly",
                             "Every operation raises NonFiniteError for a result that is not finite.");
  bind_context<ExplainGuard>(
      m, "explain_mode",
      "Operations that have no derivative are kept on the tape, so that explain() names them.");
}

}  // namespace tidu::python
