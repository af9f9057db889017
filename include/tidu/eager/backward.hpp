// backward.hpp - backward and try_backward: reverse mode over a tape. A node runs once all its cotangents
// have arrived, nodes in descending order of their sequence numbers. Cotangents of one value are summed in
// descending order of (sequence number of the node they come from, its recorder, edge), whatever order they
// arrive in. So gradients are the same to the last bit for any order and any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "tidu/eager/executor.hpp"
#include "tidu/eager/hooks.hpp"
#include "tidu/eager/host.hpp"
#include "tidu/eager/recorder.hpp"
#include "tidu/eager/trace.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu::eager {

/// In which order ready nodes run. Gradients do not depend on it; memory does.
enum class Order : std::uint8_t { latest_first, fifo, lifo, random };

/// Options of a backward call.
struct BackwardOptions {
  /// Keep the saved values of nodes, so that backward can run again. Otherwise each node's are freed right
  /// after it ran. With create_graph they are kept in any case.
  bool keep_graph = false;
  /// Record the backward computation itself on `recorder`, so that its results can be differentiated.
  /// Everything runs on the calling thread then.
  bool create_graph = false;
  /// Add gradients to the slots of Leafs instead of returning them (those of leaves without a slot,
  /// and of Leafs that are gone, are returned in any case). All slots change together when everything has
  /// succeeded, or none does.
  bool accumulate = false;
  /// Holds sums of three or more cotangents of f16 or bf16 in f32, within nodes and where cotangents of
  /// several nodes meet, and rounds each to the dtype of its value once, before hooks see it (see
  /// TransposeOptions::wide_accumulation). Only with an executor that says it can:
  /// BackwardExecutor::wide_accumulation().
  bool wide_accumulation = true;
  /// With accumulate, and where wide_accumulation is in force: the slots of leaves of f16 and bf16 hold f32,
  /// to which the gradient of each backward call is added, so that sums of many calls lose nothing; their
  /// gradient is read as f32. A slot that holds f32 goes on doing so, until it is cleared, in calls without.
  bool wide_slots = false;
  /// Threads that may run independent nodes at once, including the calling one; fewer if the process cannot
  /// start as many. Devices other than the host have one further thread each. 0: the calling thread runs all
  /// nodes, also those of devices, as it does if an operation is a collective. Not negative.
  int workers = 1;
  Order order = Order::latest_first;  ///< of nodes that are ready
  std::uint64_t order_seed = 1;       ///< of Order::random
  /// After an error: start no further node (true), or still run nodes that do not depend on the failed one.
  bool exit_at_once = true;
  /// Stop at the first cotangent that is not finite, with a NonFiniteError that says where it came up.
  bool anomaly = false;
  /// Checked before every node; the call then fails with ErrorKind::cancelled.
  std::stop_token stop{};
  /// Passed to every rule that is called.
  ADContext* context = nullptr;
  Profile* profile = nullptr;  ///< receives the events of the call; may be null
};

/// A value or leaf whose cotangent is wanted. A leaf needs its key alone; a value without its trace is taken
/// for a leaf that no root depends on.
struct Requested {
  Key key{};         ///< of the value or leaf
  TraceRef trace{};  ///< of the invocation that made it; none for a leaf
  /// A leaf by its key, or a value by key and trace.
  Requested(const Key& k, TraceRef t = {}) : key(k), trace(t) {}
  /// A value, or the leaf with that key.
  Requested(const EagerOutput& output) : key(output.key), trace(output.trace) {}
};

/// Why there is no cotangent.
enum class Absence : std::uint8_t {
  none,          ///< there is one
  not_recorded,  ///< it does not require a gradient
  unreachable,   ///< no root depends on it
  zero           ///< the roots depend on it, but every derivative on the way is zero
};
/// "present", "not recorded", …
std::string_view to_string(Absence absence);

/// Something to differentiate, and its cotangent.
template <class Operand>
struct Root {
  Key key{};         ///< of the value
  TraceRef trace{};  ///< of the invocation that made it
  /// Without one the executor's ones_like is the seed, of a root of one element only.
  std::optional<Operand> seed{};
  /// How the seed was recorded, with create_graph.
  EagerOutput recorded_seed{};
  /// Placement of the seed, if that is not the root's.
  std::optional<Placement> seed_placement{};
};

/// A requested cotangent.
template <class Operand>
struct Gradient {
  Key key{};                       ///< of the leaf or value
  std::optional<Operand> value{};  ///< the cotangent; nothing when it is absent
  /// With create_graph: how it was recorded.
  EagerOutput recorded{};
  Absence absence = Absence::none;  ///< why it is
};

namespace detail {
struct GradientFields;
}  // namespace detail

/// The result of a backward call.
template <class Operand>
class Gradients {
 public:
  /// The cotangent of the leaf with that key, or null.
  const Operand* find(const Key& key) const {
    const Gradient<Operand>* entry = entry_of(key);
    return entry != nullptr ? &*entry->value : nullptr;
  }
  /// Throws Error (invalid_argument) when there is none.
  const Operand& at(const Key& key) const {
    const Operand* value = find(key);
    if (value == nullptr) {
      throw Error(ErrorKind::invalid_argument,
                  tidu::detail::str("Gradients: expected a leaf that got a cotangent, got ", to_string(key)));
    }
    return *value;
  }
  /// The same with all that is known of it, or null.
  const Gradient<Operand>* entry_of(const Key& key) const {
    const auto at = std::lower_bound(leaves_.begin(), leaves_.end(), key,
                                     [](const Gradient<Operand>& g, const Key& k) { return g.key < k; });
    return at != leaves_.end() && at->key == key ? &*at : nullptr;
  }
  /// Those of leaves that require a gradient and got one, in the order of their keys.
  std::span<const Gradient<Operand>> leaves() const { return leaves_; }
  std::size_t size() const { return leaves_.size(); }
  /// Those that were requested, in the order of the request.
  std::span<const Gradient<Operand>> requested() const { return requested_; }

 private:
  // Not the function template `backward`: clang 16 does not recognise a friend with constraints.
  friend struct detail::GradientFields;
  std::vector<Gradient<Operand>> leaves_;
  std::vector<Gradient<Operand>> requested_;
};

namespace detail {

// The fields of a result, for backward to fill.
struct GradientFields {
  template <class Operand>
  static std::vector<Gradient<Operand>>& leaves(Gradients<Operand>& of) {
    return of.leaves_;
  }
  template <class Operand>
  static std::vector<Gradient<Operand>>& requested(Gradients<Operand>& of) {
    return of.requested_;
  }
};

struct UntypedRoot {
  Key key;
  NodeCount* node;
  void* seed;  ///< moved from; null: none
  const EagerOutput* recorded;
  std::optional<Placement> placement;
};
struct UntypedGradient {
  Key key;
  Cotangent* cotangent;  ///< owned by the outcome
  Absence absence;
};
class BackwardObserver;
struct BackwardRequest {
  const ErasedExecutor& host;
  RecorderCore* recorder;
  std::span<const UntypedRoot> roots;
  std::span<const Requested> requested;
  const BackwardOptions& options;
  /// Reserves space for this number of results, of leaves and requested; called before anything is changed.
  void (*reserve)(void* result, std::size_t leaves, std::size_t requested) = nullptr;
  void* result = nullptr;
  BackwardObserver* observer = nullptr;  ///< called with every cotangent
};
/// Owns its cotangents.
class BackwardOutcome {
 public:
  explicit BackwardOutcome(const OperandTable& operands) : table(operands) {}
  BackwardOutcome(BackwardOutcome&& other) noexcept = default;
  ~BackwardOutcome();
  const OperandTable& table;
  std::vector<UntypedGradient> leaves;
  std::vector<UntypedGradient> requested;
};
BackwardOutcome run_backward(const BackwardRequest& request);

template <class Operand>
Gradient<Operand> typed(UntypedGradient& from) {
  Gradient<Operand> to;
  to.key = from.key;
  to.absence = from.absence;
  if (from.cotangent != nullptr) {
    to.value.emplace(std::move(*static_cast<Operand*>(from.cotangent->operand())));
    if (from.cotangent->trace != nullptr)
      to.recorded = {from.cotangent->key, Trace::share(from.cotangent->trace), true, from.cotangent->slot};
  }
  return to;
}

}  // namespace detail

/// Differentiates the roots. Without `requested` the result holds the cotangent of every leaf that requires
/// one and that a root depends on. With it, the result holds only those, and only nodes on a path to them
/// run. `recorder` is needed for create_graph alone.
///
/// Throws the first error by its own type, after all running work has ended and everything was released:
/// Error (invalid_argument) for a root that was not recorded, a missing seed, a duplicate request, a negative
/// number of workers; (type) for a seed or cotangent of another type; (tape) for a tape whose saved values
/// were freed or changed; (execution) for a device whose thread cannot be started; (cancelled); ADRuleError;
/// NonFiniteError; the exceptions of executor and hooks. No leaf is changed then (except by an error of a
/// callback of at_end, which runs after the leaves), nodes that ran have freed their saved operands as after
/// a success, and the next call works.
template <OperandType Operand>
Gradients<Operand> backward(std::span<const Root<Operand>> roots, const BackwardExecutor<Operand>& executor,
                            const BackwardOptions& options = {}, std::span<const Requested> requested = {},
                            Recorder<Operand>* recorder = nullptr) {
  const detail::ErasedExecutorOf<Operand> host(executor);
  std::vector<std::optional<Operand>> seeds;
  seeds.reserve(roots.size());
  std::vector<detail::UntypedRoot> untyped;
  untyped.reserve(roots.size());
  for (const Root<Operand>& root : roots) {
    seeds.push_back(root.seed);
    untyped.push_back({root.key, root.trace.node(), seeds.back() ? &*seeds.back() : nullptr,
                       &root.recorded_seed, root.seed_placement});
  }
  Gradients<Operand> result;
  const auto reserve = [](void* to, std::size_t leaves, std::size_t wanted) {
    auto& gradients = *static_cast<Gradients<Operand>*>(to);
    detail::GradientFields::leaves(gradients).reserve(leaves);
    detail::GradientFields::requested(gradients).reserve(wanted);
  };
  detail::BackwardOutcome outcome =
      detail::run_backward({host, recorder != nullptr ? &recorder->core() : nullptr, untyped, requested,
                            options, reserve, &result});
  for (detail::UntypedGradient& leaf : outcome.leaves)
    detail::GradientFields::leaves(result).push_back(detail::typed<Operand>(leaf));
  for (detail::UntypedGradient& wanted : outcome.requested)
    detail::GradientFields::requested(result).push_back(detail::typed<Operand>(wanted));
  return result;
}

/// The same with the error as a Result: an exception that is no tidu::Error becomes ErrorKind::internal with
/// its text.
template <OperandType Operand>
Result<Gradients<Operand>> try_backward(std::span<const Root<Operand>> roots,
                                        const BackwardExecutor<Operand>& executor,
                                        const BackwardOptions& options = {},
                                        std::span<const Requested> requested = {},
                                        Recorder<Operand>* recorder = nullptr) {
  return tidu::detail::capture([&] { return backward(roots, executor, options, requested, recorder); });
}

/// One root.
template <OperandType Operand>
Result<Gradients<Operand>> try_backward(const Key& output_key, TraceRef output_trace,
                                        std::type_identity_t<std::optional<Operand>> seed,
                                        const BackwardExecutor<Operand>& executor,
                                        ADContext* context = nullptr, BackwardOptions options = {}) {
  options.context = context != nullptr ? context : options.context;
  Root<Operand> root;
  root.key = output_key;
  root.trace = output_trace;
  root.seed = std::move(seed);
  return try_backward(std::span<const Root<Operand>>(&root, 1), executor, options);
}

}  // namespace tidu::eager
