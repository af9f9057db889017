// roots.hpp - Roots: the roots of a backward call, checked, and their seeds. Roots and requested values are
// held until the call ends, since a hook may release the last handle to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "eager/cotangents.hpp"
#include "eager/node.hpp"
#include "tidu/eager/backward.hpp"

namespace tidu::eager::detail {

class Roots {
 public:
  /// `request` must outlive this object.
  explicit Roots(const BackwardRequest& request) : request_(request) {}
  Roots(const Roots&) = delete;
  Roots& operator=(const Roots&) = delete;
  ~Roots();

  /// Throws an Error for a request that cannot be met, whatever its tape is. Holds its nodes from then on.
  void check_and_hold();
  std::size_t size() const { return request_.roots.size(); }
  Node& node(std::size_t root) const { return *node_of(request_.roots[root].node); }
  /// Which output of its node the root is.
  std::uint32_t slot(std::size_t root) const { return slots_[root]; }
  /// The seed of a root, at its placement or else at `caller`. The caller becomes its owner.
  Cotangent* make_seed(std::size_t root, CotangentOps& cotangents, Placement caller) const;

 private:
  void check_root(std::size_t root);
  void check_requested() const;
  Cotangent* copy_or_make(std::size_t root, const Type* type) const;

  const BackwardRequest& request_;
  std::vector<std::uint32_t> slots_;  // by root
  std::size_t held_roots_ = 0;        // number of leading roots that are held
  std::size_t held_requested_ = 0;    // the same of requested values
};

}  // namespace tidu::eager::detail
