// slots.hpp - SlotUpdate: adds the gradients of a backward call to the slots of leaves. All slots change
// together: sums are made without locks, and stored if no slot was changed in the meantime.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eager/cotangents.hpp"
#include "eager/states.hpp"
#include "tidu/eager/backward.hpp"

namespace tidu::eager::detail {

/// Owns the sums until they are stored.
class SlotUpdate {
 public:
  /// For the `leaves` that have a cotangent and a slot. All must outlive this object.
  SlotUpdate(const BackwardRequest& request, const CotangentOps& cotangents, std::span<LeafState> leaves);
  SlotUpdate(const SlotUpdate&) = delete;
  SlotUpdate& operator=(const SlotUpdate&) = delete;
  ~SlotUpdate();

  /// Adds the cotangents to copies of what the slots hold.
  void make_sums();
  /// Null for a slot that is closed.
  std::span<Cotangent* const> sums() const { return sums_; }
  /// Stores the sums, and destroys the cotangents that they contain. Returns false, without effect on slots,
  /// if another call changed a slot since make_sums(): repeat both.
  bool store();

 private:
  bool swap_if_unchanged();
  void destroy_sums();
  void add_to_slot(Cotangent* sum, Cotangent* from, const LeafState& leaf) const;
  bool widen_alike(Cotangent& sum, Type held, Cotangent& from, const LeafState& leaf) const;
  Cotangent* for_slot(const LeafState& leaf) const;

  const BackwardRequest& request_;
  const CotangentOps& cotangents_;
  const OperandTable& table_;
  std::vector<LeafState*> into_;     // in the order of the addresses of their slots; null: the slot is closed
  std::vector<Cotangent*> sums_;     // as into_
  std::vector<std::uint64_t> seen_;  // the number of changes of each slot
};

}  // namespace tidu::eager::detail
