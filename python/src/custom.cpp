// custom.cpp - custom_jvp and custom_vjp: functions with derivatives of the user. The rules are traced at
// each call; tidu/custom.py has the decorators.
#include "tidu/frontend/custom.hpp"

#include "functions.hpp"
#include "tree.hpp"

namespace tidu::python {
namespace {

using frontend_detail::FlatFunction;

bool is_inexact_array(const Array& array) { return is_inexact(array.dtype()); }

// The graph of a flat function, with the data that it uses as constants.
Graph trace_rule(const char* custom, const FlatFunction& f, const std::vector<Array>& like, const char* name,
                 Where where) {
  return frontend_detail::close_rule(frontend_detail::trace_flat(f, like, name, where), custom, where);
}
std::vector<Array> types_alone(const std::vector<Array>& arrays) {
  std::vector<Array> forms;
  for (const Array& array : arrays) forms.push_back(frontend_detail::placeholder(array.type()));
  return forms;
}
std::vector<Array> inexact_of(const std::vector<Array>& arrays) {
  std::vector<Array> chosen;
  for (const Array& array : arrays) {
    if (is_inexact_array(array)) chosen.push_back(array);
  }
  return chosen;
}
std::vector<Array> joined(std::vector<Array> first, const std::vector<Array>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}
Attributes with(const char* name, const Graph& graph, const Attributes& rules) {
  Attributes attributes{{name, graph}};
  attributes.insert(attributes.end(), rules.begin(), rules.end());
  return attributes;
}
nb::tuple arguments_of(const Call& call, std::span<const Array> arrays) {
  nb::list list;
  for (std::size_t i = 0; i < call.args.size(); ++i)
    list.append(call.args[i].rebuild(arrays.subspan(call.offsets[i])));
  return nb::tuple(list);
}
// The cotangents in a structure of Arrays of `like`: those of its inexact ones, with zeros for None.
std::vector<Array> cotangents_in(nb::handle object, const Tree& tree, std::span<const Array> like) {
  std::vector<Array> found;
  if (!object.is_none()) {
    Tree given;
    flatten(object, given, found);
    if (found.size() != like.size())
      throw Error(ErrorKind::invalid_argument,
                  detail::str("[custom_vjp] expected a cotangent of the structure of its argument, ",
                              tree.text(), ", or None, got ", given.text()));
  }
  std::vector<Array> chosen;
  for (std::size_t i = 0; i < like.size(); ++i) {
    if (!is_inexact_array(like[i])) continue;
    chosen.push_back(object.is_none() ? zeros(like[i].shape(), like[i].dtype()) : found[i]);
  }
  return chosen;
}

// A function with a rule. Copies are one.
struct Custom {
  Held f, rule, backward;
  Key128 identity = detail::fresh_instance();
};

// rule(primals, tangents) -> (y, tangent of y). Integer Arrays have None for a tangent.
FlatFunction jvp_function(const Custom& custom, std::shared_ptr<const Call> call) {
  return [custom, call = std::move(call)](const std::vector<Array>& arrays) {
    const nb::gil_scoped_acquire acquire;
    const std::size_t count = call->offsets.back();
    const std::span<const Array> primals(arrays.data(), count);
    std::size_t next = count;
    nb::list tangents;
    for (std::size_t i = 0; i < call->args.size(); ++i) {
      tangents.append(call->args[i].build([&](std::size_t k) {
        return is_inexact_array(primals[call->offsets[i] + k]) ? nb::object(to_python(arrays[next++]))
                                                               : nb::object(nb::none());
      }));
    }
    const nb::object pair = custom.rule.get()(arguments_of(*call, primals), nb::tuple(tangents));
    Tree tree;
    std::vector<Array> y, ty;
    if (!nb::isinstance<nb::tuple>(pair) || nb::len(pair) != 2)
      throw Error(ErrorKind::invalid_argument,
                  "[custom_jvp] expected a rule that returns a pair of the result and "
                  "its tangent");
    flatten(nb::object(pair[nb::int_(0)]), tree, y);
    flatten(nb::object(pair[nb::int_(1)]), tree, ty);
    return joined(y, ty.size() == y.size() ? inexact_of(ty) : ty);
  };
}

nb::object call_custom_jvp(const Custom& self, nb::args args) {
  if (!self.rule)
    throw Error(ErrorKind::invalid_argument, "[custom_jvp] expected a rule: give it by @f.defjvp, got none");
  const auto call = std::make_shared<const Call>(args, nb::none());
  const Function function(self.f.get(), call);
  const Where where = here();
  const std::vector<Array> both = joined(call->leaves, inexact_of(call->leaves));
  const FlatFunction rule = jvp_function(self, call);
  const std::vector<Array> outputs = unlocked([&] {
    const Graph graph = trace_rule("custom_jvp", function.flat(), call->leaves, "function", where);
    const auto later = [&]() -> frontend_detail::TraceRules {
      return [rule, like = types_alone(both), where] {
        return std::vector<Graph>{trace_rule("custom_jvp", rule, like, "jvp", where)};
      };
    };
    const Attributes rules = frontend_detail::rules_of(
        self.identity, graph, {"jvp"},
        [&] { return std::vector<Graph>{trace_rule("custom_jvp", rule, both, "jvp", where)}; }, later);
    return frontend_detail::call_custom(prim::custom_jvp_call, with("graph", graph, rules), call->leaves,
                                        where);
  });
  return function.result->rebuild(outputs);
}

// forward(*args) -> (y, residuals); backward(residuals, cotangent of y) -> a tuple of the arguments'
// cotangents.
struct VjpRules {
  Custom custom;
  std::shared_ptr<const Call> call;
  std::shared_ptr<Tree> result, residuals = std::make_shared<Tree>();
  std::shared_ptr<std::vector<Array>> kept =
      std::make_shared<std::vector<Array>>();  ///< types of the residuals

  FlatFunction forward() const {
    return [self = *this](const std::vector<Array>& arrays) {
      const nb::gil_scoped_acquire acquire;
      const nb::object pair = self.call->apply(self.custom.rule.get(), arrays);
      if (!nb::isinstance<nb::tuple>(pair) || nb::len(pair) != 2)
        throw Error(ErrorKind::invalid_argument,
                    "[custom_vjp] expected a forward that returns a pair of the result and the residuals");
      Tree of_result, of_residuals;
      std::vector<Array> y, saved;
      flatten(nb::object(pair[nb::int_(0)]), of_result, y);
      flatten(nb::object(pair[nb::int_(1)]), of_residuals, saved);
      *self.residuals = std::move(of_residuals);
      *self.kept = types_alone(saved);
      return joined(y, saved);
    };
  }
  FlatFunction backward(const std::vector<Array>& y) const {
    return [self = *this, y](const std::vector<Array>& arrays) {
      const nb::gil_scoped_acquire acquire;
      std::size_t next = self.kept->size();
      const nb::object saved = self.residuals->rebuild(arrays);
      const nb::object cotangent = self.result->build([&](std::size_t i) {
        return is_inexact_array(y[i]) ? nb::object(to_python(arrays[next++])) : nb::object(nb::none());
      });
      const nb::object found = self.custom.backward.get()(saved, cotangent);
      if (!nb::isinstance<nb::tuple>(found) || nb::len(found) != self.call->args.size())
        throw Error(ErrorKind::invalid_argument,
                    detail::str("[custom_vjp] expected a backward that returns a tuple of ",
                                self.call->args.size(), " cotangents, one for each argument"));
      std::vector<Array> cotangents;
      for (std::size_t i = 0; i < self.call->args.size(); ++i) {
        const std::span<const Array> like(self.call->leaves.data() + self.call->offsets[i],
                                          self.call->offsets[i + 1] - self.call->offsets[i]);
        cotangents = joined(cotangents, cotangents_in(found[nb::int_(i)], self.call->args[i], like));
      }
      return cotangents;
    };
  }
  // The structure of the residuals is known when forward was traced.
  std::vector<Graph> trace(const std::vector<Array>& like, const std::vector<Array>& y, Where where) const {
    const Graph ahead = trace_rule("custom_vjp", forward(), like, "forward", where);
    const std::vector<Array> given = joined(*kept, inexact_of(y));
    return {ahead, trace_rule("custom_vjp", backward(y), given, "backward", where)};
  }
};

nb::object call_custom_vjp(const Custom& self, nb::args args) {
  if (!self.rule || !self.backward)
    throw Error(ErrorKind::invalid_argument,
                "[custom_vjp] expected rules: give them by f.defvjp(forward, backward), got none");
  const auto call = std::make_shared<const Call>(args, nb::none());
  const Function function(self.f.get(), call);
  const Where where = here();
  // Rules that are traced later refer to types alone, and so to no data.
  auto forms = std::make_shared<Call>(args, nb::none());
  forms->leaves = types_alone(forms->leaves);
  const VjpRules rules{self, forms, function.result};
  const std::vector<Array> outputs = unlocked([&] {
    const Graph graph = trace_rule("custom_vjp", function.flat(), call->leaves, "function", where);
    std::vector<Array> y;
    for (const ValueId id : graph.outputs()) y.push_back(frontend_detail::placeholder(graph.type(id)));
    const auto trace = [rules, like = forms->leaves, y, where] { return rules.trace(like, y, where); };
    const Attributes traced =
        frontend_detail::rules_of(self.identity, graph, {"forward", "backward"}, trace,
                                  [&]() -> frontend_detail::TraceRules { return trace; });
    return frontend_detail::call_custom(prim::custom_vjp_call, with("graph", graph, traced), call->leaves,
                                        where);
  });
  return function.result->rebuild(outputs);
}

}  // namespace

void bind_custom(nb::module_& m) {
  nb::class_<Custom>(m, "_Custom")
      .def(
          "__init__",
          [](Custom* self, nb::object f, nb::object rule, nb::object backward) {
            new (self) Custom{Held(f), rule.is_none() ? Held() : Held(rule),
                              backward.is_none() ? Held() : Held(backward)};
          },
          nb::arg("f"), nb::arg("rule").none(), nb::arg("backward").none())
      .def("call_jvp", call_custom_jvp)
      .def("call_vjp", call_custom_vjp);
}

}  // namespace tidu::python
