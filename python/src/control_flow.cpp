// control_flow.cpp - scan, while_loop, fori_loop, cond and switch as one operation each, and checkpoint.
// Carries, operands and results may hold ints and bools, which become Arrays.
#include "tidu/frontend/control_flow.hpp"
#include "functions.hpp"
#include "tidu/frontend/custom.hpp"
#include "tree.hpp"

namespace tidu::python {
namespace {

using frontend_detail::Traced;
constexpr Leaves all_numbers{true};

// Parts of the result of a step, which is a tuple of `count` structures: how many Arrays each has.
std::vector<std::size_t> parts_of(const Tree& result, std::size_t count, const char* name,
                                  const char* expected) {
  const auto& nodes = result.nodes();
  if (nodes.empty() || nodes[0].kind != Tree::Kind::tuple || nodes[0].arity != count)
    throw Error(ErrorKind::invalid_argument, detail::str("[", name, "] expected a function that returns ",
                                                         expected, ", got ", result.text()));
  std::vector<std::size_t> sizes;
  std::size_t at = 1;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t leaves = 0, open = 1;
    for (; open > 0; ++at) {
      open += nodes[at].arity;
      --open;
      leaves += nodes[at].kind == Tree::Kind::leaf ? 1 : 0;
    }
    sizes.push_back(leaves);
  }
  return sizes;
}
[[noreturn]] void refuse_carry(const char* name, const Tree& expected, const Tree& got) {
  throw Error(ErrorKind::invalid_argument, detail::str("[", name, "] expected a carry of the structure ",
                                                       expected.text(), ", got ", got.text()));
}
// The structure of a part of an object.
Tree structure(nb::handle object) {
  Tree tree;
  std::vector<Array> leaves;
  flatten(object, tree, leaves, all_numbers);
  return tree;
}
nb::object placeholders(const Tree& tree) {
  return tree.build([](std::size_t) { return nb::object(nb::float_(0.0)); });
}

Traced trace_step(const Function& function, std::span<const Array> like, const char* name, Where where,
                  bool takes_all = false) {
  return unlocked(
      [&] { return frontend_detail::trace_flat(function.flat(), like, name, where, false, takes_all); });
}

nb::object scan(nb::object f, nb::object init, nb::object xs, std::optional<std::int64_t> length,
                bool reverse) {
  const auto call = std::make_shared<const Call>(nb::make_tuple(init, xs), nb::none(), all_numbers);
  const auto middle = call->leaves.begin() + static_cast<std::ptrdiff_t>(call->offsets[1]);
  const Where where = here();
  const frontend_detail::ScanCall told({call->leaves.begin(), middle}, {middle, call->leaves.end()}, length,
                                       where);
  const Function function(f, call, all_numbers);
  const Traced step = trace_step(function, told.like, "step", where);
  const auto sizes = parts_of(*function.result, 2, "scan", "a pair of the next carry and y");
  const nb::object form = placeholders(*function.result);
  const Tree next = structure(nb::object(form[nb::int_(0)]));
  if (!next.same(call->args[0])) refuse_carry("scan", call->args[0], next);
  const std::vector<Array> outputs =
      unlocked([&] { return frontend_detail::run_scan(told, step, sizes[0], reverse, where); });
  return function.result->rebuild(outputs);
}

nb::object while_loop(nb::object step, nb::object init, std::optional<std::int64_t> max_steps) {
  const auto call = std::make_shared<const Call>(nb::make_tuple(init), nb::none(), all_numbers);
  const Where where = here();
  const Function function(step, call, all_numbers);
  const Traced traced = trace_step(function, call->leaves, "step", where);
  parts_of(*function.result, 2, "while_loop", "the carry");
  const nb::object form = placeholders(*function.result);
  const Tree next = structure(nb::object(form[nb::int_(1)]));
  if (!next.same(call->args[0])) refuse_carry("while_loop", call->args[0], next);
  const std::vector<Array> outputs =
      unlocked([&] { return frontend_detail::run_while(call->leaves, traced, false, max_steps, where); });
  return call->args[0].rebuild(outputs);
}

// Between plain numbers.
nb::object fori_loop(std::int64_t lower, std::int64_t upper, nb::object body, nb::object init,
                     std::optional<std::int64_t> max_steps) {
  const Where where = here();
  const std::int64_t length = frontend_detail::fori_length(lower, upper, max_steps, where);
  const nb::object first = to_python(Array(static_cast<std::int32_t>(lower)));
  const auto call = std::make_shared<const Call>(nb::make_tuple(first, init), nb::none(), all_numbers);
  const Function function(body, call, all_numbers);
  const Traced traced = trace_step(function, call->leaves, "step", where);
  if (!function.result->same(call->args[1])) refuse_carry("fori_loop", call->args[1], *function.result);
  const std::vector<Array> carries(call->leaves.begin() + 1, call->leaves.end());
  const std::vector<Array> outputs =
      unlocked([&] { return frontend_detail::run_fori(carries, traced, lower, length, where); });
  return call->args[1].rebuild(outputs);
}

nb::object choose(const char* name, const Array& index, const std::vector<nb::object>& branches,
                  nb::handle operands, Where where) {
  const auto call = std::make_shared<const Call>(operands, nb::none(), all_numbers);
  std::vector<Traced> traced;
  std::shared_ptr<Tree> result;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const Function function(branches[i], call, all_numbers);
    traced.push_back(trace_step(function, call->leaves, "branch", where, true));
    if (result == nullptr) result = function.result;
    if (!function.result->same(*result))
      throw Error(ErrorKind::invalid_argument,
                  detail::str("[", name, "] expected branches that return one structure, got ",
                              result->text(), " and ", function.result->text()));
  }
  const std::vector<Array> outputs =
      unlocked([&] { return frontend_detail::run_cond(name, index, traced, call->leaves, where); });
  return result->rebuild(outputs);
}

nb::object checkpointed(nb::object f, bool saves_all, nb::object args, nb::object kwargs) {
  const auto call = std::make_shared<const Call>(args, kwargs);
  const Where where = here();
  const Function function(f, call);
  const Traced traced = trace_step(function, call->leaves, "function", where);
  std::vector<Array> operands = call->leaves;
  operands.insert(operands.end(), traced.captured.begin(), traced.captured.end());
  const CheckpointPolicy policy = saves_all ? CheckpointPolicy::everything() : CheckpointPolicy::nothing();
  const std::vector<Array> outputs =
      unlocked([&] { return frontend_detail::call_checkpoint(traced.graph, policy, operands, where); });
  return function.result->rebuild(outputs);
}

}  // namespace

void bind_control_flow(nb::module_& m) {
  m.def("scan", scan, nb::arg("f"), nb::arg("init").none(), nb::arg("xs").none() = nb::none(),
        nb::arg("length") = nb::none(), nb::arg("reverse") = false,
        "carry = init; for each slice x of xs: (carry, y) = f(carry, x). Returns (carry, ys), the ys "
        "stacked, as one "
        "operation.");
  m.def("_while_loop", while_loop, nb::arg(), nb::arg().none(), nb::arg().none());
  m.def("_fori_loop", fori_loop, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none());
  m.def(
      "cond",
      [](Arg predicate, nb::object true_fn, nb::object false_fn, nb::args operands) {
        const Operand operand(predicate);
        const Where where = here();
        const Array index = frontend_detail::condition(operand.like(where));
        return choose("cond", index, {false_fn, true_fn}, operands, where);
      },
      nb::arg("predicate"), nb::arg("true_fn"), nb::arg("false_fn"), nb::arg("operands"),
      "true_fn(*operands) where the predicate holds, else false_fn(*operands), as one operation.");
  m.def(
      "switch",
      [](Arg index, nb::object branches, nb::args operands) {
        const Operand operand(index);
        const Where where = here();
        std::vector<nb::object> functions;
        for (const nb::handle branch : nb::iter(branches)) functions.push_back(nb::borrow(branch));
        frontend_detail::require_branches(functions.size(), where);
        return choose("switch", frontend_detail::branch_index(operand.like(where), functions.size()),
                      functions, operands, where);
      },
      nb::arg("index"), nb::arg("branches"), nb::arg("operands"),
      "branches[index](*operands), with the index clamped to the range, as one operation.");
  m.def("_checkpoint", checkpointed);
}

}  // namespace tidu::python
