// hooks.hpp - Leaf: a leaf with a slot that gradients are added to; and hooks: on a value, before a node,
// after a node, on accumulation into a leaf.
//
// Order within one backward call. When all cotangents of a node's outputs have arrived: hooks on values (by
// output slot), then captures of requested values, then hooks before the node, the node, hooks after it. When
// all cotangents of a leaf have arrived: hooks on the leaf as a value, then hooks on accumulation. Hooks of
// one kind on one object run in the order in which they were added. A hook that is removed while others run
// is not started any more; one that is added while a node's hooks run is first called in the next call.
//
// Cotangents that a hook reads are on the stream of its node (or leaf). A replacement that a hook returns is
// taken to be computed at the placement of the running thread (current_placement), and is waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tidu/eager/host.hpp"
#include "tidu/eager/recorder.hpp"
#include "tidu/eager/trace.hpp"

namespace tidu::eager {

/// The object and time of a hook.
enum class HookKind : std::uint8_t { value, before_node, after_node, accumulate };

namespace detail {

/// A cotangent in flight, followed by the operand. Not for users.
struct Cotangent {
  static constexpr std::uint64_t of_seed = ~std::uint64_t{0};
  explicit Cotangent(Type of) : type(of) {}
  Cotangent* next = nullptr;
  NodeCount* trace = nullptr;  ///< counted; with create_graph
  Key key{};
  std::uint64_t sequence = 0;  ///< of the node that it comes from, or of_seed
  std::uint64_t source = 0;    ///< of that node's recorder
  std::uint64_t stream = 0;
  std::uint32_t device = 0;
  std::uint32_t edge = 0;
  std::uint32_t slot = 0;         ///< of `trace`
  std::uint32_t target_slot = 0;  ///< of the node that it goes to
  Type type;
  void* operand() { return this + 1; }
  const void* operand() const { return this + 1; }
};
static_assert(sizeof(Cotangent) % 16 == 0);

class CallHooks;
/// The argument of a hook, untyped.
struct HookFrame {
  CallHooks& call;
  TraceRef node;
  std::span<Cotangent*> incoming;  ///< by output slot; null: absent
  std::span<Cotangent*> outgoing;  ///< by edge
  std::uint32_t slot = 0;          ///< of the value, for hooks on values
};
void replace_cotangent(HookFrame& frame, Cotangent*& cotangent, void* operand, const EagerOutput* recorded);
void drop_cotangent(HookFrame& frame, Cotangent*& cotangent);
void at_end(CallHooks& call, std::function<void()> callback);
bool creates_graph(const HookFrame& frame);
/// The cotangent of that index; `what` names the list, for messages.
Cotangent*& cotangent_at(std::span<Cotangent*> cotangents, std::size_t index, const char* what);

using UntypedHook = std::function<void(HookFrame&)>;

}  // namespace detail

/// remove() removes its hook; the destructor does not.
class HookHandle {
 public:
  HookHandle() = default;
  /// For functions that add hooks.
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  /// The hook is not called any more.
  void remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }
  explicit operator bool() const { return static_cast<bool>(remove_); }

 private:
  std::function<void()> remove_;
};

/// Takes callbacks for the end of a backward call, from hooks and from such callbacks themselves. Valid until
/// the last of them has run.
class AtEnd {
 public:
  /// For the eager layer itself.
  explicit AtEnd(detail::CallHooks& call) : call_(&call) {}
  /// Appends a callback. Throws Error (invalid_argument) for an empty function.
  void add(std::function<void()> callback) { detail::at_end(*call_, std::move(callback)); }

 private:
  detail::CallHooks* call_;
};

/// One cotangent, as a hook sees it.
template <class Operand>
class HookValue {
 public:
  /// For the eager layer itself.
  HookValue(detail::HookFrame& frame, detail::Cotangent*& cotangent) : frame_(frame), cotangent_(cotangent) {}
  /// Is it there? An absent cotangent is a zero that was never made.
  explicit operator bool() const { return cotangent_ != nullptr; }
  /// Throws Error (invalid_argument) when it is absent.
  const Operand& operator*() const { return value(); }
  const Operand* operator->() const { return &value(); }
  const Operand& value() const {
    if (cotangent_ == nullptr)
      throw Error(ErrorKind::invalid_argument,
                  "HookValue: expected a cotangent that is there, got an absent one");
    return *static_cast<const Operand*>(cotangent_->operand());
  }
  /// With create_graph: its identity on the tape.
  EagerOutput recorded() const {
    if (cotangent_ == nullptr || cotangent_->trace == nullptr) return {};
    return {cotangent_->key, Trace::share(cotangent_->trace), true, cotangent_->slot};
  }
  /// Replaces the cotangent; `recorded` is its record on the tape, with create_graph.
  void replace(Operand value, const EagerOutput& recorded = {}) {
    detail::replace_cotangent(frame_, cotangent_, &value, &recorded);
  }
  /// Makes it absent: nothing flows on from here.
  void drop() { detail::drop_cotangent(frame_, cotangent_); }

 private:
  detail::HookFrame& frame_;
  detail::Cotangent*& cotangent_;
};

/// The argument of a hook.
template <class Operand>
class HookContext {
 public:
  /// For the eager layer itself.
  explicit HookContext(detail::HookFrame& frame) : frame_(frame) {}
  NodeView node() const { return NodeView(frame_.node); }
  /// Which output, for a hook on a value.
  std::uint32_t output_slot() const { return frame_.slot; }
  /// The cotangent of a value or leaf, which is the only one, whatever its output_slot(); of a node, by slot.
  /// Throws Error (invalid_argument) from num_incoming() on.
  HookValue<Operand> incoming(std::size_t slot = 0) {
    return {frame_, detail::cotangent_at(frame_.incoming, slot, "incoming")};
  }
  std::size_t num_incoming() const { return frame_.incoming.size(); }
  /// After a node: the cotangents of its recorded inputs, by edge. Throws Error (invalid_argument) from
  /// num_outgoing() on, which is 0 in hooks of other kinds.
  HookValue<Operand> outgoing(std::size_t edge) {
    return {frame_, detail::cotangent_at(frame_.outgoing, edge, "outgoing")};
  }
  std::size_t num_outgoing() const { return frame_.outgoing.size(); }
  bool creates_graph() const { return detail::creates_graph(frame_); }
  /// Runs `callback` once, after all other work of this backward call has succeeded; the slots of leaves have
  /// their sums by then. The first exception of the callbacks is thrown when all of them have run. Throws
  /// Error (invalid_argument) for an empty function.
  void at_end(std::function<void()> callback) { detail::at_end(frame_.call, std::move(callback)); }
  /// The same for callbacks that enter further ones.
  AtEnd end() { return AtEnd(frame_.call); }

 private:
  detail::HookFrame& frame_;
};

/// A hook; it may be called from any worker thread of backward. A hook that captures an owner of its own
/// trace, such as the Array that it is on, keeps that alive, and so itself, until HookHandle::remove().
template <class Operand>
using Hook = std::function<void(HookContext<Operand>&)>;

namespace detail {
HookHandle add_hook(TraceRef trace, HookKind kind, std::uint32_t slot, UntypedHook hook,
                    const OperandTable& table);
std::uint32_t slot_of(TraceRef trace, const Key& key, const char* who);
template <class Operand>
UntypedHook untyped(Hook<Operand> hook) {
  if (!hook) return {};
  return [hook = std::move(hook)](HookFrame& frame) {
    HookContext<Operand> context(frame);
    hook(context);
  };
}
}  // namespace detail

/// Calls `hook` with the whole cotangent of that output (or leaf) in every later backward call that reaches
/// it. Throws Error (invalid_argument) when the key is not one of the trace's outputs, as all of these do for
/// an empty function and for a trace of operands of another type.
template <class Operand>
HookHandle on_value(TraceRef trace, const Key& key, Hook<Operand> hook) {
  return detail::add_hook(trace, HookKind::value, detail::slot_of(trace, key, "on_value"),
                          detail::untyped(std::move(hook)), detail::operand_table<Operand>);
}
/// Calls `hook` before (after) the node of that trace in every later backward call that runs it.
template <class Operand>
HookHandle before_node(TraceRef trace, Hook<Operand> hook) {
  return detail::add_hook(trace, HookKind::before_node, 0, detail::untyped(std::move(hook)),
                          detail::operand_table<Operand>);
}
template <class Operand>
HookHandle after_node(TraceRef trace, Hook<Operand> hook) {
  return detail::add_hook(trace, HookKind::after_node, 0, detail::untyped(std::move(hook)),
                          detail::operand_table<Operand>);
}

namespace detail {
struct Accumulator;

/// The slot of a leaf: a value and how it was recorded.
class LeafSlot {
 public:
  LeafSlot(const OperandTable& table, Key key, std::string name, Placement placement);
  LeafSlot(LeafSlot&&) noexcept = default;
  ~LeafSlot();
  TraceRef trace() const { return trace_; }
  /// Copies the gradient to `to` when there is one.
  bool read(void* to, EagerOutput* recorded) const;
  /// Moves `from` into the slot; null clears it. No placement: the leaf's.
  void write(void* from, const EagerOutput* recorded, std::optional<Placement> placement = {});

 private:
  Accumulator& slot() const;  ///< throws Error (invalid_argument) after a move
  void put(Cotangent* cotangent, bool closed);
  Trace trace_;
};
}  // namespace detail

/// A leaf that lives on: it has a name, hooks, and a slot to which backward calls add its gradient when
/// BackwardOptions::accumulate says so. Inputs that name it pass its key and trace.
template <OperandType Operand>
class Leaf {
 public:
  /// A leaf of its own key. `name` is for messages; `placement` where its gradient is accumulated.
  explicit Leaf(KeySource& keys, std::string name = {}, Placement placement = {})
      : key_(keys.fresh()), slot_(detail::operand_table<Operand>, key_, std::move(name), placement) {}
  Key key() const { return key_; }
  TraceRef trace() const { return slot_.trace(); }
  /// The leaf as an operand of an invocation, with its value, which it borrows: no temporary.
  EagerInput<Operand> input(const Operand& data) const { return {key_, trace(), true, &data}; }
  EagerInput<Operand> input(const Operand&& data) const = delete;

  /// The accumulated gradient since the slot was last cleared.
  std::optional<Operand> gradient() const {
    alignas(Operand) std::byte storage[sizeof(Operand)];
    if (!slot_.read(storage, nullptr)) return std::nullopt;
    auto* held = std::launder(reinterpret_cast<Operand*>(storage));
    std::optional<Operand> result(std::move(*held));
    held->~Operand();
    return result;
  }
  /// How the gradient was recorded, with create_graph.
  EagerOutput recorded_gradient() const {
    EagerOutput recorded;
    slot_.read(nullptr, &recorded);
    return recorded;
  }
  /// Empties the slot.
  void clear_gradient() { slot_.write(nullptr, nullptr); }
  /// Sets the gradient of the slot. `placement`: its placement, if that is not the leaf's; additions to it
  /// wait for it.
  void set_gradient(Operand value, const EagerOutput& recorded = {},
                    std::optional<Placement> placement = {}) {
    slot_.write(&value, &recorded, placement);
  }

  /// Sees, or replaces, the leaf's whole cotangent.
  HookHandle on_value(Hook<Operand> hook) {
    return detail::add_hook(trace(), HookKind::value, 0, detail::untyped(std::move(hook)),
                            detail::operand_table<Operand>);
  }
  /// Reads, or replaces, the sum that is about to be added to the slot or returned.
  HookHandle on_accumulate(Hook<Operand> hook) {
    return detail::add_hook(trace(), HookKind::accumulate, 0, detail::untyped(std::move(hook)),
                            detail::operand_table<Operand>);
  }

 private:
  Key key_;
  detail::LeafSlot slot_;
};

}  // namespace tidu::eager
