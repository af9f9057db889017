// call_hooks.hpp - CallHooks: calls the hooks of nodes in a backward call, checks the cotangents that they
// leave, and shows cotangents to the call's observer.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "eager/cotangents.hpp"
#include "eager/final_callbacks.hpp"
#include "eager/node.hpp"
#include "eager/watch.hpp"
#include "tidu/eager/backward.hpp"

namespace tidu::eager::detail {

/// Owns the callbacks that hooks add. Threads may use it at the same time for different nodes.
class CallHooks {
 public:
  using When = BackwardObserver::When;

  /// Both must outlive this object.
  CallHooks(const BackwardRequest& request, const CotangentOps& cotangents)
      : request_(request), cotangents_(cotangents) {}

  /// Calls the node's hooks of a kind. `incoming`: by output slot; `outgoing`: by edge, or empty.
  void run(const HookList::Hooks& hooks, HookKind kind, Node& node, std::span<Cotangent*> incoming,
           std::span<Cotangent*> outgoing);
  /// Must be called after the last hooks on cotangents that go to no operation, which would check them.
  void check_left(const Node& node, std::span<Cotangent* const> cotangents) const;
  void show(When when, const Node& node, std::span<Cotangent* const> cotangents) const {
    if (request_.observer != nullptr) [[unlikely]]
      request_.observer->see(when, node, cotangents);
  }
  FinalCallbacks& callbacks() { return callbacks_; }

  // --- for hooks
  /// Replaces a cotangent of the frame.
  void replace(HookFrame& frame, Cotangent*& cotangent, void* operand, const EagerOutput* recorded) const;
  void drop(Cotangent*& cotangent) const {
    if (cotangent != nullptr) destroy_cotangent(request_.host.table, std::exchange(cotangent, nullptr));
  }
  bool creates_graph() const { return cotangents_.creates_graph; }

 private:
  Type type_of_replaced(const HookFrame& frame, Cotangent* const& cotangent, const void* operand) const;
  void check_device(const Cotangent& cotangent, const void* operand) const;
  void check_leaf(const Node& leaf, const Cotangent* cotangent, Type before, const char* who) const;
  void check_node(const Node& node, std::span<Cotangent* const> seen, std::size_t first_slot,
                  std::span<Cotangent* const> outgoing, const char* who) const;

  const BackwardRequest& request_;
  const CotangentOps& cotangents_;
  FinalCallbacks callbacks_;
};

}  // namespace tidu::eager::detail
