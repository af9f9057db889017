// explain.hpp - explain: why a value's gradient is absent or zero, in the user's words: names, operations and
// source locations.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tidu/eager/backward.hpp"
#include "tidu/eager/recorder.hpp"
#include "tidu/eager/trace.hpp"

namespace tidu::eager {

/// The result of explain().
struct Explanation {
  /// Is there a gradient?
  enum class Status : std::uint8_t {
    present,  ///< there is a gradient, and it is not known to be zero
    zero,     ///< a root depends on the value, but the gradient is zero
    absent    ///< no gradient flows from a root to the value
  };
  /// Why not.
  enum class Cause : std::uint8_t {
    none,           ///< there is nothing to explain
    not_recorded,   ///< it does not require a gradient
    no_dependency,  ///< no root depends on it
    no_derivative,  ///< it reaches the roots only through operations without derivative
    detached,       ///< it reaches the roots only where it was taken as a constant
    structure,      ///< the derivative of an operation on every way is zero whatever its operands are
    seed,           ///< the cotangents of the roots are zero
    operation,      ///< the backward of an operation on every way gave zero
    cancellation,   ///< contributions that are not zero sum to zero
    hook            ///< a hook dropped a cotangent or made it zero
  };
  Status status = Status::present;  ///< is there a gradient?
  /// The first that holds, in the order above.
  Cause cause = Cause::none;
  /// The operations that the text names, at most `named`.
  std::vector<Trace> operations;
  /// absent: "w" reaches the root only through argmax (operation 21, head.cpp:77), which has no derivative
  std::string text;

  static constexpr std::size_t named = 3;  ///< most operations that are listed
};
/// "present", "zero", "absent".
std::string_view to_string(Explanation::Status status);
/// "none", "not recorded", …
std::string_view to_string(Explanation::Cause cause);

namespace detail {

struct ExplainRequest {
  const ErasedExecutor* host;  ///< null: values are not looked at
  std::span<const UntypedRoot> roots;
  const EagerOutput& target;
  std::string_view name;
  bool keeps_blocked;
  ADContext* context;
};
Explanation explain(const ExplainRequest& request);

/// How the leaves reach a root that requires no gradient, as far as the tape recorded that: `"w" reaches the
/// root only through floor (operation 3, head.cpp:77), which has no derivative`. Empty if there are no
/// leaves.
std::string why_no_gradient(const UntypedRoot& root);
/// Does the value, an output of the trace or a leaf, get gradients? A detached value does not.
bool gives_gradient(TraceRef trace, const Key& key);

}  // namespace detail

/// Why does `target` get no gradient from the roots, or a zero one? It is a leaf by its key, or by key and
/// trace, or another value with its trace. Messages call it `name`, else by the name that it was given, else
/// by its key. With an executor that implements is_zero(), a backward call finds the operation at which the
/// gradient becomes zero. Hooks run in it; slots of leaves do not change, and the tape is kept. Without one,
/// or if the tape was freed, only the structure is examined, and the text says so. Operations without
/// derivative are on the tape only if the recorder had the option keep_blocked; `recorder`, when given, says
/// whether it had. Rules get `context`, or else that of the recorder. Linear in the tape, without recursion.
/// Throws the errors of backward.
template <OperandType Operand>
Explanation explain(const EagerOutput& target, std::span<const Root<Operand>> roots,
                    const BackwardExecutor<Operand>* executor = nullptr,
                    const Recorder<Operand>* recorder = nullptr, std::string_view name = {},
                    ADContext* context = nullptr) {
  std::vector<std::optional<Operand>> seeds;
  seeds.reserve(roots.size());
  std::vector<detail::UntypedRoot> untyped;
  untyped.reserve(roots.size());
  for (const Root<Operand>& root : roots) {
    seeds.push_back(root.seed);
    untyped.push_back(
        {root.key, root.trace.node(), seeds.back() ? &*seeds.back() : nullptr, nullptr, root.seed_placement});
  }
  std::optional<detail::ErasedExecutorOf<Operand>> host;
  if (executor != nullptr) host.emplace(*executor);
  if (context == nullptr && recorder != nullptr) context = recorder->options().context;
  return detail::explain({host ? &*host : nullptr, untyped, target, name,
                          recorder != nullptr && recorder->options().keep_blocked, context});
}

/// One root, seeded with ones.
template <OperandType Operand>
Explanation explain(const EagerOutput& target, const EagerOutput& root,
                    const BackwardExecutor<Operand>& executor, const Recorder<Operand>* recorder = nullptr,
                    std::string_view name = {}, ADContext* context = nullptr) {
  Root<Operand> only;
  only.key = root.key;
  only.trace = root.trace;
  return explain(target, std::span<const Root<Operand>>(&only, 1), &executor, recorder, name, context);
}

}  // namespace tidu::eager
