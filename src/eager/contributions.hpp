// contributions.hpp - Contributions: the cotangents that wait at the nodes and leaves of a backward call
// until these run. They are added as they arrive if they arrive in the order in which they are added;
// otherwise they are listed, and added in that order when the node runs.
#pragma once

#include <cstddef>
#include <span>

#include "eager/cotangents.hpp"
#include "eager/reached.hpp"

namespace tidu::eager::detail {

/// Owns all cotangents in the states of `reached`. Threads may take the cotangents of different nodes at the
/// same time; add() needs the lock of the run (parallel.cpp).
class Contributions {
 public:
  /// All three must outlive this object.
  Contributions(const OperandTable& table, const CotangentOps& cotangents, ReachedNodes& reached)
      : table_(table), cotangents_(cotangents), reached_(reached) {}
  Contributions(const Contributions&) = delete;
  Contributions& operator=(const Contributions&) = delete;
  ~Contributions();

  /// They do not arrive in the order in which they are added. Call it before the first add().
  void list_until_taken() { folds_at_once_ = false; }
  /// Takes `cotangent`, a cotangent of an output of `target`, also if it throws. `phase`: the present phase,
  /// for messages.
  void add(Node& target, Cotangent* cotangent, const PrimitiveSet* set, const char*& phase);
  /// Moves the cotangents of a node's outputs, each the sum of its contributions, to `by_slot`.
  void take(State& state, std::span<Cotangent*> by_slot) const;
  /// Moves the cotangent of a leaf to `sum`.
  void take(LeafState& leaf, std::span<Cotangent*, 1> sum) const;
  /// No cotangents are left except those of leaves. It saves the destructor a search.
  void all_taken() { live_ = 0; }

 private:
  const OperandTable& table_;
  const CotangentOps& cotangents_;
  ReachedNodes& reached_;
  bool folds_at_once_ = true;
  std::size_t live_ = 0;  // number of cotangents, and lists by slot, that were put into states
};

}  // namespace tidu::eager::detail
