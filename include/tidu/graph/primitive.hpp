// primitive.hpp - the record of a primitive: its name, schema, traits and rules. Records are constants with
// static storage duration, gathered in a PrimitiveSet. Code that needs a property of an operation reads a
// trait, never a name.
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

/// Properties of a primitive that other modules rely on without knowing its name. Combine with |.
enum class Trait : std::uint32_t {
  none = 0,
  /// every array among operands and results has one shape; element i depends on elements i alone, and on
  /// operands that are scalars where the type rule takes such beside arrays (bounds of clamp)
  elementwise = 1U << 0,
  reduction = 1U << 1,    ///< removes the axes of attribute `axes` or `axis`, or combines elements along them
  shape_only = 1U << 2,   ///< moves or selects elements without arithmetic
  contraction = 1U << 3,  ///< a matmul or convolution: its cost grows faster than the size of its operands
  product [[deprecated("use contraction")]] = contraction,  ///< the former name
  constant = 1U << 4,                                       ///< no operands: cheap to rematerialize
  impure = 1U << 5,                                         ///< never merged, dropped, replayed or recomputed
  barrier = 1U << 6,      ///< values that pass through it are not merged with values that do not
  holds_graph = 1U << 7,  ///< an attribute holds a graph; its JVP rule replaces the primal operation by
                          ///< another one, and does not see the primal results
  inexact = 1U << 8,      ///< takes floating or complex operands only
  additive = 1U << 9,     ///< the set's sum of two values of one type
  view =
      1U
      << 11,  ///< result i has the elements of operand i in the same row-major order and dtype: no work to do
  repeats = 1U << 12,  ///< each element of the result is one of the only operand or, without operands, of the
                       ///< only literal among the attributes: if that has one element, all are equal
  combines = 1U << 13,  ///< a reduction that combines elements two by two, in any order
  folds [[deprecated("use combines")]] = combines,  ///< the former name
  collective = 1U << 14,  ///< runs together with other processes, in the same order in all of them
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

/// The operands in which a primitive is linear. Transforms check by it that a JVP rule puts only linear
/// operations into a linear graph, and derive the JVP of linear and bilinear primitives from it.
struct Linearity {
  /// How the linearities in several operands combine.
  enum class Kind : std::uint8_t {
    none,     ///< not linear in anything
    joint,    ///< linear in all operands of `operands` together (x, y) -> f(x, y); others are parameters
    bilinear  ///< linear in each one of `operands` alone, the others being fixed
  };
  Kind kind = Kind::none;  ///< how they combine
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
  /// The same op with a result that has `extent` points along `axis` and unchanged extents along other axes.
  using ResizeRule = Op (*)(const Op& op, std::size_t axis, std::int64_t extent);
  /// The region bindings of an operation of that op, which holds graphs: see RegionBinding. Each operand and
  /// result, and each input and output of its graphs, is in one binding. No bindings: dead code elimination
  /// changes nothing.
  using RegionBindingRule = std::vector<RegionBinding> (*)(const Op& op);

  std::string_view name;      ///< may be qualified, "project.name"
  std::uint32_t version = 1;  ///< counts changes of meaning; part of every key
  int arity = 1;              ///< number of operands, or `variadic`
  int num_outputs = 1;        ///< number of results, or `variadic`: as many as the type rule gives
  std::span<const AttributeSpec> attributes{};  ///< its schema, in the order of a dump
  Trait traits = Trait::none;                   ///< properties that other modules rely on
  Linearity linearity{};                        ///< in which operands
  InferRule infer = nullptr;                    ///< the type rule; required
  JvpRule jvp =
      nullptr;  ///< may be left out where `linearity` says it all: joint with all operands live, or bilinear
  TransposeRule transpose = nullptr;  ///< required where `linearity` is not none and reverse mode is wanted
  BatchRule batch = nullptr;          ///< required for vmap and Jacobians
  SimplifyRule simplify = nullptr;    ///< for programs; may be left out
  FactorRule factors = nullptr;       ///< if it has one result and can be split; an elementwise primitive
                                      ///< needs none
  ResizeRule resize = nullptr;        ///< required beside `factors` if attributes give extents of the result
  RegionBindingRule region_bindings = nullptr;  ///< if it holds graphs; without it, all operands are read and
                                                ///< all results computed when one result is read
  std::string_view called = "graph";  ///< if it holds graphs: the attribute, if there is one of that name,
                                      ///< whose graph is run on the operands to give the results

  /// Has it that trait?
  bool has_trait(Trait trait) const { return has(traits, trait); }
  /// Is there a JVP: its own rule, or one that follows from linearity? An operation that holds a graph is
  /// linear only if that graph is, so linearity gives it no JVP.
  bool differentiable() const {
    return jvp != nullptr || (linearity.kind != Linearity::Kind::none && !has_trait(Trait::holds_graph));
  }
};

}  // namespace tidu
