// primitive.hpp - the record of a primitive: its name, schema, traits and rules. Records are constants with
// static storage duration, gathered in a PrimitiveSet; whoever needs to know something about an operation
// reads a trait, never a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tidu/graph/attribute.hpp"

namespace tidu {

class InferContext;      // infer.hpp
class JvpContext;        // rules.hpp
class TransposeContext;  // rules.hpp
class BatchContext;      // rules.hpp
class SimplifyContext;   // simplify.hpp
class Derivatives;       // rules.hpp
class Factors;           // factors.hpp
class Op;                // op.hpp
class Values;            // value.hpp
struct RegionBinding;    // region_bindings.hpp

/// What other rooms may know of a primitive without knowing its name. Combine with |.
enum class Trait : std::uint32_t {
  none = 0,
  /// every array among operands and results has one shape; element i depends on elements i alone, and on
  /// operands that are scalars where the type rule takes such beside arrays (bounds of clamp)
  elementwise = 1U << 0,
  reduction = 1U << 1,    ///< drops or folds the axes of attribute `axes` or `axis`
  shape_only = 1U << 2,   ///< moves or selects elements without arithmetic
  product = 1U << 3,      ///< a contraction: cost grows faster than its operands
  constant = 1U << 4,     ///< no operands: cheap to make again
  impure = 1U << 5,       ///< never merged, dropped, replayed or recomputed
  barrier = 1U << 6,      ///< keeps what passes through apart from what does not
  holds_graph = 1U << 7,  ///< an attribute holds a graph; its JVP rule puts another operation in the place of
                          ///< the primal one, whose results it does not see
  inexact = 1U << 8,      ///< takes floating or complex operands only
  additive = 1U << 9,     ///< the set's sum of two values of one type
  view =
      1U
      << 11,  ///< result i has the elements of operand i in the same row-major order and dtype: no work to do
  repeats = 1U << 12,  ///< each element of the result is an element of the only operand, or without operands
                       ///< that of the only literal among the attributes: of one element, so all are equal
  folds = 1U << 13,    ///< a reduction that combines elements two by two, in whatever order
  collective = 1U << 14,  ///< run together with other processes, in the same order in all of them
  no_tangent =
      1U << 10  ///< its derivative is zero (or its result integer): that no JVP rule exists is intended
};
/// Both.
constexpr Trait operator|(Trait a, Trait b) {
  return static_cast<Trait>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
/// Has it one of them?
constexpr bool has(Trait traits, Trait trait) {
  return (static_cast<std::uint32_t>(traits) & static_cast<std::uint32_t>(trait)) != 0;
}

/// In which operands a primitive is linear: this polices what a JVP rule may put into a linear graph, and
/// gives linear and bilinear primitives their JVP.
struct Linearity {
  /// How several operands go together.
  enum class Kind : std::uint8_t {
    none,     ///< not linear in anything
    joint,    ///< linear in all operands of `operands` together (x, y) -> f(x, y); others are parameters
    bilinear  ///< linear in each one of `operands` alone, the others being fixed
  };
  Kind kind = Kind::none;  ///< how they go together
  /// Bit i: operand i. Bit 31: operand 31 and every later one.
  std::uint32_t operands = 0;
  /// Is the primitive linear in that operand?
  bool includes(std::size_t operand) const {
    return ((operands >> (operand < 31 ? operand : std::size_t{31})) & 1U) != 0;
  }
  /// May exactly the operands with a true flag be linear at once?
  bool allows(std::span<const bool> active) const;
  /// The same for at most 31 operands, bit i for operand i.
  constexpr bool allows_mask(std::uint32_t active) const {
    if ((active & ~operands) != 0) return false;
    return active == 0 || kind == Kind::joint || (kind == Kind::bilinear && (active & (active - 1)) == 0);
  }
};
namespace linearity {
/// In nothing, in all operands together, in each of two.
inline constexpr Linearity none{};
inline constexpr Linearity linear{Linearity::Kind::joint, ~0U};
inline constexpr Linearity bilinear{Linearity::Kind::bilinear, 0b11};
/// Jointly linear in the operands whose bits are set.
constexpr Linearity linear_in(std::uint32_t operands) { return {Linearity::Kind::joint, operands}; }
}  // namespace linearity

/// An arity, or a number of results, that differs from op to op.
inline constexpr int variadic = -1;

/// A primitive. The record must outlive every graph that uses it.
struct Primitive {
  /// Gives the result types, or throws through the context.
  using InferRule = void (*)(InferContext&);
  /// Tangents of the results from those of the operands, of which at least one is there. A tangent that is
  /// zero is absent.
  using JvpRule = Derivatives (*)(JvpContext&);
  /// Cotangents of the linear operands from those of the results, of which at least one is there; absent for
  /// the other operands.
  using TransposeRule = Derivatives (*)(TransposeContext&);
  /// The results over a leading axis from operands of which at least one carries it; every result carries it.
  using BatchRule = Values (*)(BatchContext&);
  /// Equal results from less work, bit for bit, or no values: there is nothing to gain. See simplify.hpp.
  using SimplifyRule = Values (*)(SimplifyContext&);
  /// Adds the operation's factors: see Factors.
  using FactorRule = void (*)(Factors&);
  /// The op whose result has `extent` points along `axis`, and is the same along others.
  using ResizeRule = Op (*)(const Op& op, std::size_t axis, std::int64_t extent);
  /// What goes together in an operation of that op, which holds graphs: see RegionBinding. Each operand and
  /// result, and each input and output of its graphs, is in one binding; or there are none, where nothing may
  /// be left out.
  using RegionBindingRule = std::vector<RegionBinding> (*)(const Op& op);

  std::string_view name;      ///< may be qualified, "project.name"
  std::uint32_t version = 1;  ///< counts changes of meaning; part of every key
  int arity = 1;              ///< number of operands, or `variadic`
  int num_outputs = 1;        ///< number of results, or `variadic`: as many as the type rule gives
  std::span<const AttributeSpec> attributes{};  ///< its schema, in the order of a dump
  Trait traits = Trait::none;                   ///< what others may know of it
  Linearity linearity{};                        ///< in which operands
  InferRule infer = nullptr;                    ///< the type rule; required
  JvpRule jvp =
      nullptr;  ///< may be left out where `linearity` says it all: joint with all operands live, or bilinear
  TransposeRule transpose = nullptr;  ///< required where `linearity` is not none and reverse mode is wanted
  BatchRule batch = nullptr;          ///< required for vmap and Jacobians
  SimplifyRule simplify = nullptr;    ///< for programs; may be left out
  FactorRule factors = nullptr;       ///< where it has one result and can be done part by part; what is
                                      ///< elementwise needs none
  ResizeRule resize = nullptr;  ///< required beside `factors` where attributes tell extents of the result
  RegionBindingRule region_bindings = nullptr;  ///< of what holds graphs; without it all operands are read,
                                                ///< and all results computed, where one result is read
  std::string_view called = "graph";  ///< of what holds graphs: the attribute, if there is one of that name,
                                      ///< whose graph is run on the operands to give the results

  /// Has it that trait?
  bool has_trait(Trait trait) const { return has(traits, trait); }
  /// Is there a JVP: a rule of its own, or one that follows from linearity? (What holds a graph is linear
  /// only where that graph is; its linearity gives no JVP.)
  bool differentiable() const {
    return jvp != nullptr || (linearity.kind != Linearity::Kind::none && !has_trait(Trait::holds_graph));
  }
};

}  // namespace tidu
