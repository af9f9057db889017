// transforms.cpp - grad, vjp, jvp, hvp, Jacobians and vmap of functions of Python, on the frontend's
// functions of flat lists of Arrays. tidu/transforms.py has the user's interface.
#include "tidu/frontend/transforms.hpp"

#include "functions.hpp"
#include "tidu/frontend/vmap.hpp"
#include "tree.hpp"

namespace tidu::python {
namespace {

using frontend_detail::Argnums;
using frontend_detail::Jacobian;

std::shared_ptr<const Call> call_of(nb::handle args, nb::handle kwargs) {
  return std::make_shared<const Call>(args, kwargs);
}
Argnums argnums_of(nb::handle object) {
  if (PyLong_Check(object.ptr())) return {{nb::cast<int>(object)}, true};
  return {nb::cast<std::vector<int>>(object), false};
}
// An argument's form, or a tuple of several ones', with the Arrays that `take` gives one after another.
template <class Take>
nb::object formed(const Argnums& argnums, const Call& call, const Take& take) {
  const auto count = static_cast<int>(call.args.size());
  nb::list forms;
  std::size_t next = 0;
  for (const int position : argnums.positions) {
    const Tree& tree = call.args[static_cast<std::size_t>(position < 0 ? position + count : position)];
    forms.append(tree.build([&](std::size_t) { return take(next++); }));
  }
  if (argnums.one) return forms[0];
  return nb::steal(PyList_AsTuple(forms.ptr()));
}

void require_one_result(const Tree& result, bool has_aux, const char* name) {
  const auto& nodes = result.nodes();
  const bool fits = has_aux ? nodes.size() > 2 && nodes[0].kind == Tree::Kind::tuple && nodes[0].arity == 2 &&
                                  nodes[1].kind == Tree::Kind::leaf
                            : result.is_leaf();
  if (fits) return;
  throw Error(ErrorKind::invalid_argument,
              detail::str("[", name, "] expected a function that returns ",
                          has_aux ? "a pair of a floating scalar and something else (has_aux=True)"
                                  : "a floating scalar (a pair with has_aux=True)",
                          ", got ", result.text()));
}

nb::object value_and_grad(nb::object f, nb::object argnums, bool has_aux, const std::string& name,
                          nb::object args, nb::object kwargs) {
  const auto call = call_of(args, kwargs);
  const Function function(f, call);
  const Argnums wrt = argnums_of(argnums);
  const Where where = here();
  const auto positions = wrt.in(call->offsets, name.c_str(), where);
  const auto flat = [inner = function.flat(), has_aux, name,
                     result = function.result](const std::vector<Array>& arrays) {
    std::vector<Array> outputs = inner(arrays);
    const nb::gil_scoped_acquire acquire;
    require_one_result(*result, has_aux, name.c_str());
    return outputs;
  };
  auto computed = unlocked([&] {
    return frontend_detail::value_and_gradients(flat, call->leaves, positions, name.c_str(), where);
  });
  nb::object gradients =
      formed(wrt, *call, [&](std::size_t i) { return to_python(std::move(computed.gradients[i])); });
  return nb::make_tuple(function.result->rebuild(computed.outputs), gradients);
}

struct Pullback {
  std::shared_ptr<const Call> call;
  std::shared_ptr<Tree> result;
  frontend_detail::FlatPullback apply;
};
nb::object pull_back(const Pullback& self, nb::object cotangent) {
  Tree tree;
  std::vector<Array> leaves;
  flatten(cotangent, tree, leaves);
  if (!tree.same(*self.result))
    throw Error(ErrorKind::invalid_argument,
                detail::str("[vjp] expected a cotangent of the result's structure, ", self.result->text(),
                            ", got ", tree.text()));
  const std::vector<Array> found = unlocked([&] { return self.apply(leaves); });
  Argnums all{{}, false};
  for (std::size_t i = 0; i < self.call->args.size(); ++i) all.positions.push_back(static_cast<int>(i));
  return formed(all, *self.call, [&](std::size_t i) { return to_python(found[i]); });
}
nb::object vjp(nb::object f, nb::object args) {
  const auto call = call_of(args, nb::none());
  const Function function(f, call);
  const Where where = here();
  // A copy for the pullback, whose calls do not change the structure of this one's result.
  Function later(f, call);
  auto [outputs, apply] =
      unlocked([&] { return frontend_detail::vjp_flat(function.flat(), later.flat(), call->leaves, where); });
  return nb::make_tuple(function.result->rebuild(outputs), Pullback{call, function.result, std::move(apply)});
}

// The structure of the arguments, without their static parts.
std::vector<Array> tangents_for(const Call& call, nb::handle tangents, const char* name) {
  const Call given(tangents, nb::none());
  const bool fits = given.offsets == call.offsets;
  if (!fits)
    throw Error(ErrorKind::invalid_argument,
                detail::str("[", name, "] expected tangents of the structure of the arguments, of ",
                            call.leaves.size(), " Arrays in ", call.args.size(), " arguments, got ",
                            given.leaves.size(), " in ", given.args.size()));
  return given.leaves;
}
nb::object jvp(nb::object f, nb::object primals, nb::object tangents) {
  const auto call = call_of(primals, nb::none());
  const Function function(f, call);
  const std::vector<Array> along = tangents_for(*call, tangents, "jvp");
  const Where where = here();
  auto [outputs, found] =
      unlocked([&] { return frontend_detail::jvp_flat(function.flat(), call->leaves, along, where); });
  return nb::make_tuple(function.result->rebuild(outputs), function.result->rebuild(found));
}
nb::object hvp(nb::object f, nb::object primals, nb::object tangents) {
  const auto call = call_of(primals, nb::none());
  const Function function(f, call);
  const std::vector<Array> along = tangents_for(*call, tangents, "hvp");
  const Where where = here();
  const std::vector<Array> found =
      unlocked([&] { return frontend_detail::hvp_flat(function.flat(), call->leaves, along, where); });
  Argnums all{{}, false};
  for (std::size_t i = 0; i < call->args.size(); ++i) all.positions.push_back(static_cast<int>(i));
  return formed(all, *call, [&](std::size_t i) { return to_python(found[i]); });
}

nb::object jacobian(const std::string& kind, nb::object f, nb::object argnums, nb::object args,
                    nb::object kwargs) {
  const auto call = call_of(args, kwargs);
  const Function function(f, call);
  const Argnums wrt = argnums_of(argnums);
  const Where where = here();
  const auto positions = wrt.in(call->offsets, kind.c_str(), where);
  const Jacobian which = kind == "jacfwd"   ? Jacobian::forward
                         : kind == "jacrev" ? Jacobian::reverse
                                            : Jacobian::hessian;
  const std::vector<Array> blocks = unlocked(
      [&] { return frontend_detail::jacobian_flat(which, function.flat(), call->leaves, positions, where); });
  std::size_t next = 0;
  const auto row = [&](std::size_t) {
    return formed(wrt, *call, [&](std::size_t) { return to_python(blocks.at(next++)); });
  };
  return which == Jacobian::hessian ? formed(wrt, *call, row) : function.result->build(row);
}

nb::object vmap(nb::object f, nb::object in_axes, nb::object out_axes, nb::object args, nb::object kwargs) {
  const auto call = call_of(args, kwargs);
  const Function function(f, call);
  const auto axes = nb::cast<std::vector<std::optional<int>>>(in_axes(args, kwargs));
  const Where where = here();
  std::vector<Array> outputs =
      unlocked([&] { return frontend_detail::vmap_flat(function.flat(), call->leaves, axes, where); });
  if (!out_axes.is_none()) {
    const nb::object form = function.result->rebuild(outputs);
    const auto places = nb::cast<std::vector<int>>(out_axes(form));
    std::vector<std::size_t> offsets;
    for (std::size_t i = 0; i <= outputs.size(); ++i) offsets.push_back(i);
    if (!places.empty()) frontend_detail::move_examples(outputs, places, offsets, where);
  }
  return function.result->rebuild(outputs);
}

}  // namespace

void bind_transforms(nb::module_& m) {
  m.def("_value_and_grad", value_and_grad);
  m.def("_vjp", vjp);
  m.def("_jvp", jvp);
  m.def("_hvp", hvp);
  m.def("_jacobian", jacobian);
  m.def("_vmap", vmap);
  nb::class_<Pullback>(m, "Pullback", "From the cotangent of a result to those of the arguments, as a tuple.")
      .def("__call__", pull_back, nb::arg("cotangent").none());
}

}  // namespace tidu::python
