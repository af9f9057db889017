// standard.cpp - the standard set: every record of this room, the primitive that adds, and zeros.
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu {
namespace {

Value make_zeros(Emitter& emitter, Type type) { return ops::full(emitter, type, 0.0, {}); }

PrimitiveSet make_standard() {
  std::vector<const Primitive*> all = prim::elementwise_primitives();
  const std::vector<const Primitive*> structural = prim::structural_primitives();
  all.insert(all.end(), structural.begin(), structural.end());
  return PrimitiveSet(std::move(all), &prim::add, make_zeros);
}

}  // namespace

const PrimitiveSet& standard_primitives() {
  static const PrimitiveSet set = make_standard();
  return set;
}

}  // namespace tidu
