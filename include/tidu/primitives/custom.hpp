// custom.hpp - primitives of the standard set that hold graphs and define their derivatives. custom_jvp_call
// and custom_vjp_call have a rule of the user, linear_call a transpose of the user. custom_linear_solve and
// custom_root are differentiated by the equation that their result solves. checkpoint selects the values that
// are kept for the derivative. Rules are graphs, so they are dumped, loaded, batched and differentiated like
// all others. Run forward, each is its `graph`, or its `solve`.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/value.hpp"

namespace tidu::prim {

/// Attributes: graph, jvp.
extern const Primitive custom_jvp_call;
/// The transpose of a custom_jvp_call. Attributes: graph, of, jvp, linear, outputs.
extern const Primitive custom_jvp_transpose;
/// Attributes: graph, forward, backward.
extern const Primitive custom_vjp_call;
/// Attributes: graph, transpose, num_residuals.
extern const Primitive linear_call;
/// Attributes: matvec, solve, transpose_solve, num_consts, symmetric.
extern const Primitive custom_linear_solve;
/// Attributes: residual, solve, tangent_solve, transpose_tangent_solve, num_consts.
extern const Primitive custom_root;
/// Attributes: graph, policy.
extern const Primitive checkpoint;

/// The records of this header.
std::vector<const Primitive*> custom_primitives();

}  // namespace tidu::prim

namespace tidu {

/// Which values of a checkpointed graph are kept for its derivative; the others are computed anew.
class CheckpointPolicy {
 public:
  /// Only the inputs.
  static CheckpointPolicy nothing();
  /// All that the derivative reads, as if it were a call.
  static CheckpointPolicy everything();
  /// The inputs and these values of the graph, by id.
  static CheckpointPolicy save(const std::vector<ValueId>& values);
  // Not inline, as g++ 12 then warns in users' programs of members of a variant that are not initialized.
  CheckpointPolicy(const CheckpointPolicy& other);
  CheckpointPolicy(CheckpointPolicy&& other) noexcept;
  CheckpointPolicy& operator=(const CheckpointPolicy& other);
  CheckpointPolicy& operator=(CheckpointPolicy&& other) noexcept;
  ~CheckpointPolicy();
  const Attribute& attribute() const { return attribute_; }

 private:
  explicit CheckpointPolicy(Attribute attribute);
  Attribute attribute_;
};

/// The arguments of ops::custom_linear_solve other than its graphs.
struct LinearSolve {
  std::size_t num_consts = 0;            ///< operands that every graph reads: the first ones
  std::optional<Graph> transpose_solve;  ///< solves the transposed system; needed for reverse mode
  bool symmetric = false;                ///< the map is its own transpose, which `solve` then solves too
};

/// The arguments of ops::custom_root other than its graphs.
struct RootSolve {
  std::size_t num_consts = 0;          ///< operands that every graph reads: the first ones
  std::optional<Graph> tangent_solve;  ///< solves the linearized residual; by a dense matrix when left out
  std::optional<Graph> transpose_tangent_solve;  ///< solves that transposed; needed for reverse mode
};

namespace ops {

/// The outputs of `graph`, differentiated by `jvp`. Inputs of jvp: the inputs of graph, then a tangent for
/// each floating or complex one; outputs: the outputs of graph, then a tangent for each floating or complex
/// one. jvp must be linear in the tangents. Reverse mode transposes it.
/// Under differentiation the outputs stay those of a call with this rule, computed by jvp, and are used
/// within jvp: at every order they have the derivative that jvp defines, whatever that of graph is. (In JAX,
/// second derivatives are those of the computation in jvp. The two agree if the rule is true and computes the
/// outputs by the call itself.) Calls within jvp keep their rules too. Operations that are linear in the
/// tangent of a constant input omit it, and operations that need a tangent get zeros; an output tangent that
/// depends on no tangent must be made of zeros. Throws Error (type) naming graph and position if signatures
/// do not fit.
Values custom_jvp_call(const Graph& graph, const Graph& jvp, std::span<const Value> operands,
                       Where where = Where::current());
Values custom_jvp_call(Emitter& emitter, const Graph& graph, const Graph& jvp,
                       std::span<const Value> operands, Where where = Where::current());

/// The outputs of `graph`; reverse mode runs `forward` for it and then `backward`. Inputs of forward: those
/// of graph; outputs: those of graph, then residuals, of any number and type. Inputs of backward: the
/// residuals, then a cotangent for each floating or complex output (zeros if it has none); outputs: one
/// cotangent for each floating or complex input, in the convention <a, b> = Re(conj(a) b).
/// An output of backward that depends on no cotangent has its value whenever some result has a cotangent,
/// whatever else is differentiated.
/// Forward mode, which JAX rejects, depends on backward. If backward is linear in the cotangents, the JVP is
/// its transpose, so that jvp and vjp agree; where no rule transposes it (a while without a bound), it costs
/// a backward for each element of the results. Otherwise (for a clipped gradient, say), it is the derivative
/// of graph by all operands.
/// Higher orders differentiate backward and the computation of the residuals in forward; the outputs stay
/// those of a call with this rule, also where they are residuals: see custom_jvp_call. The call is linear in
/// operands whose cotangents read no residual that depends on them, and its transpose is backward there,
/// independent of graph. Throws Error (type) naming graph and position.
Values custom_vjp_call(const Graph& graph, const Graph& forward, const Graph& backward,
                       std::span<const Value> operands, Where where = Where::current());
Values custom_vjp_call(Emitter& emitter, const Graph& graph, const Graph& forward, const Graph& backward,
                       std::span<const Value> operands, Where where = Where::current());

/// The outputs of `graph`, which is linear in all inputs after the first `num_residuals`, and whose transpose
/// is `transpose`: from the residuals and a cotangent for each output to one for each linear input. Reverse
/// mode uses it, also for the call's tangents at any order. Tangents are those of `graph`, and so are
/// derivatives by the residuals. If the operations of `graph` do not make it linear, it is a plain call for
/// derivatives. Linearization of custom_vjp_call emits this operation. Throws Error (type) naming graph and
/// position.
Values linear_call(const Graph& graph, const Graph& transpose, std::size_t num_residuals,
                   std::span<const Value> operands, Where where = Where::current());
Values linear_call(Emitter& emitter, const Graph& graph, const Graph& transpose, std::size_t num_residuals,
                   std::span<const Value> operands, Where where = Where::current());

/// The solution x... of matvec(consts..., x...) = b..., as solve(consts..., b...) computes it; operands are
/// consts of any type, then the floating or complex b. `matvec` is linear in the unknowns; these and its
/// outputs have the types of b. Derivatives of any order and mode are those of the equation, by further
/// solves; `solve` itself (a `while` without a bound, say) is never differentiated. As in
/// jax.lax.custom_linear_solve:
///   dx solves matvec(consts, dx) = db - (d matvec/d consts) dconsts, with the same graphs;
///   the cotangent of b solves the transposed system, by transpose_solve(consts..., ct...).
/// The transpose is that of the convention <a, b> = Re(conj(a) b), for a complex matrix the conjugate
/// transpose, so that `symmetric` means Hermitian. With neither transpose_solve nor symmetric there is
/// forward mode only, and reverse mode is an ADRuleError; so is a matvec with a constant part. Throws Error
/// (type) naming graph and position if signatures do not fit, and for a matvec with effects.
Values custom_linear_solve(const Graph& matvec, const Graph& solve, std::span<const Value> operands,
                           const LinearSolve& how, Where where = Where::current());

/// The x... with residual(consts..., x...) = 0, as solve(consts..., guess...) finds them; operands are consts
/// of any type, then the floating or complex guess, of the types of x and of the residual's values.
/// Derivatives of any order and mode by the consts are those of the implicit function, and zero by the guess;
/// how `solve` does it is never differentiated. As in jax.lax.custom_root:
///   dx solves (d residual/dx) dx = -(d residual/d consts) dconsts
/// by tangent_solve(consts..., x..., rhs...), and reverse mode by transpose_tangent_solve, of the same
/// inputs, in the convention <a, b> = Re(conj(a) b): they become the `solve` and `transpose_solve` of a
/// custom_linear_solve. With no tangent_solve both are LU factors of the dense Jacobian, at the cost of n
/// tangents and n^3 for n unknowns; these are then f32 and c64 alone, or f64 and c128 alone. Throws Error
/// (type) naming graph and position where signatures do not fit, and for a residual with effects.
Values custom_root(const Graph& residual, const Graph& solve, std::span<const Value> operands,
                   const RootSolve& how, Where where = Where::current());

/// The outputs of `graph`, with rematerialization: its derivative keeps the values that `policy` selects and
/// recomputes the others, after an optimization_barrier. Derivatives of any order have the same values as
/// without. Throws Error (type) for a policy that names no value of the graph, or one twice.
Values checkpoint(const Graph& graph, std::span<const Value> operands,
                  const CheckpointPolicy& policy = CheckpointPolicy::nothing(),
                  Where where = Where::current());
Values checkpoint(Emitter& emitter, const Graph& graph, std::span<const Value> operands,
                  const CheckpointPolicy& policy = CheckpointPolicy::nothing(),
                  Where where = Where::current());

}  // namespace ops
}  // namespace tidu
