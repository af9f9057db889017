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
  CallHooks(const BackwardRequest& request, const Cotangents& cotangents)
      : request_(request), cotangents_(cotangents) {}

  /// Calls the node's hooks of a kind. `incoming`: by output slot; `outgoing`: by edge, or empty.
  void run(const HookList::Hooks& hooks, HookKind kind, Node& node, std::span<Cell*> incoming,
           std::span<Cell*> outgoing);
  /// Must be called after the last hooks on cotangents that go to no operation, which would check them.
  void check_left(const Node& node, std::span<Cell* const> cells) const;
  void show(When when, const Node& node, std::span<Cell* const> cells) const {
    if (request_.observer != nullptr) [[unlikely]]
      request_.observer->see(when, node, cells);
  }
  FinalCallbacks& callbacks() { return callbacks_; }

  // --- for hooks
  /// Replaces a cotangent of the frame.
  void replace(HookFrame& frame, Cell*& cell, void* operand, const EagerOutput* recorded) const;
  void drop(Cell*& cell) const {
    if (cell != nullptr) destroy_cell(request_.host.table, std::exchange(cell, nullptr));
  }
  bool creates_graph() const { return cotangents_.creates_graph; }

 private:
  Type type_of_replaced(const HookFrame& frame, Cell* const& cell, const void* operand) const;
  void check_device(const Cell& cell, const void* operand) const;
  void check_leaf(const Node& leaf, const Cell* cell, Type before, const char* who) const;
  void check_node(const Node& node, std::span<Cell* const> seen, std::size_t first_slot,
                  std::span<Cell* const> outgoing, const char* who) const;

  const BackwardRequest& request_;
  const Cotangents& cotangents_;
  FinalCallbacks callbacks_;
};

}  // namespace tidu::eager::detail
