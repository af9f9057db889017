// transforms.hpp - derivatives as graphs: jvp, vjp, grad, value_and_grad, hvp, jacfwd, jacrev, hessian, vmap,
// and Pullback. They return graphs again, so they compose to any order. `wrt` names inputs; empty stands for
// every floating or complex input. New inputs have unique keys; their labels ("x.tangent", "cotangent.0")
// name them for people and for run-by-name. A derivative that is zero because of the structure is given as
// zeros, and marked in a Presence. All except vmap and with_outputs eliminate dead code also in graphs of
// operations (see eliminate_dead_code).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/rules.hpp"
#include "tidu/linearize/batch.hpp"
#include "tidu/linearize/linearize.hpp"
#include "tidu/linearize/transpose.hpp"

namespace tidu {

/// Names of inputs.
using Names = std::vector<std::string>;

/// How derivatives are made.
struct DerivativeOptions {
  /// Give new inputs names ("x.tangent", "cotangent.0"; ".2", ".3" … if one is taken) instead of unique keys,
  /// as a dump needs. Two such graphs share their cotangents when they are merged.
  bool named_inputs = false;
  ADContext* context = nullptr;  ///< passed to every rule
  /// Applied to the linear graph of each derivative before it becomes part of the result: to the linearized
  /// one in forward mode, to the transposed one in reverse mode, to the batched one for Jacobians. It keeps
  /// inputs, externals and the number of outputs. strong_zeros is one.
  Graph (*linear_transform)(const Graph& linear) = nullptr;
  /// In reverse mode, sums of cotangents of 16 bits are held in f32: see TransposeOptions::wide_accumulation.
  bool wide_accumulation = true;
  /// For value_and_grad: f may have more outputs after the one that is differentiated. They are returned
  /// unchanged.
  bool has_aux = false;
};

/// A derivative graph and where its parts are.
struct Derivative {
  Graph graph;                       ///< the derivative
  std::vector<std::size_t> wrt;      ///< positions among the inputs of the given graph
  std::vector<std::size_t> outputs;  ///< positions of the floating and complex outputs of the given graph
  std::size_t first = 0;             ///< position in graph's outputs of the first derivative
  /// By derivative: does it depend on the inputs? If not, it is zeros.
  std::vector<bool> present;
};

/// Positions of the inputs that `wrt` names. Throws Error (invalid_argument) for an unknown, repeated or
/// integer one.
std::vector<std::size_t> wrt_positions(const Graph& f, const Names& wrt);
/// By which `wrt` names the inputs at these positions: their names, but of inputs that share a label (two
/// tangents "x.tangent") those after the first by the digits of their keys.
Names names_at(const Graph& f, std::span<const std::size_t> positions);

/// Inputs: f's, then a tangent for each input in wrt. Outputs: f's, then a tangent for each floating or
/// complex output.
Derivative jvp_parts(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
Graph jvp(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});

/// Inputs: f's, then a cotangent for each floating or complex output. Outputs: f's, then a gradient for each
/// input in wrt.
Derivative vjp_parts(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
Graph vjp(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});

/// f has one floating scalar output, or with DerivativeOptions::has_aux others after it. Inputs: f's.
/// Outputs: f's, then a gradient of the first for each input in wrt. Throws Error (invalid_argument) for
/// another number, dtype or shape of outputs.
Derivative value_and_grad_parts(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
Graph value_and_grad(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
/// The gradients alone.
Graph grad(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});

/// Hessian-vector products, forward over reverse. Inputs: f's, then a tangent v for each input in wrt.
/// Outputs: the value, the gradients, and for each input x in wrt the sum over y in wrt of (d2f / dx dy) v_y.
Derivative hvp_parts(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
Graph hvp(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});

/// Outputs: f's, then for each floating output and each input in wrt the Jacobian, of shape output + input;
/// all directions in one batched linear graph. jacfwd runs it forward (one direction per input element),
/// jacrev backward (one per output element). Throws Error (invalid_argument) for complex inputs or outputs:
/// split them with real and imag, and join with complex.
Derivative jacfwd_parts(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
Derivative jacrev_parts(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
/// The Jacobians alone.
Graph jacfwd(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
Graph jacrev(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
/// f has one floating scalar output. For each x and each y in wrt the block d2f / dx dy, of shape x + y
/// (jacfwd of grad).
Graph hessian(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});

/// f mapped over a leading axis of extent `size` that the named inputs (all when empty) and every output
/// carry.
Graph vmap(const Graph& f, std::int64_t size, const Names& batched = {}, ADContext* context = nullptr);

/// The graph with only those of its outputs, by position. Throws Error (invalid_argument) for one out of
/// range.
Graph with_outputs(const Graph& f, std::span<const std::size_t> outputs);

/// Something that a backward graph reads: a residual or an input of the forward graph.
struct Residual {
  ValueId value;       ///< in the forward (augmented) graph
  ValueKey key;        ///< of that value
  Type type;           ///< of that value
  std::size_t bytes;   ///< that keeping it takes
  bool is_input;       ///< or is it computed?
  std::string origin;  ///< its producer: the input's name, or the operation and its source location
};

/// Linearized and transposed once, to be applied to many cotangents.
struct Pullback {
  Graph forward;   ///< inputs: f's. Outputs: f's, then the residuals.
  Graph backward;  ///< inputs: the residuals, then a cotangent per floating or complex output. Outputs:
                   ///< gradients of wrt that are there.
  std::vector<Residual> manifest;  ///< the residuals, in order
  std::vector<std::size_t> wrt;    ///< positions among the inputs of f
  std::vector<std::optional<std::size_t>>
      gradient;                      ///< by entry of wrt: position in backward's outputs, or nothing (zero)
  std::vector<std::size_t> outputs;  ///< positions of the outputs that have cotangents
};
/// See Pullback.
Pullback pullback(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});

/// The values of `forward` that `transposed` (or a linear graph) reads, with their bytes. Throws Error
/// (invalid_argument) for an external that forward does not define.
std::vector<Residual> manifest(const Graph& forward, const Graph& transposed);

/// The transforms above, with an error as a Result.
Result<Graph> try_jvp(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
Result<Graph> try_vjp(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
Result<Graph> try_grad(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
/// value_and_grad, with an error as a Result.
Result<Graph> try_value_and_grad(const Graph& f, const Names& wrt = {},
                                 const DerivativeOptions& options = {});
/// The transforms above, with an error as a Result.
Result<Graph> try_hvp(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
Result<Graph> try_jacfwd(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
Result<Graph> try_jacrev(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
Result<Graph> try_hessian(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});
/// vmap, with an error as a Result.
Result<Graph> try_vmap(const Graph& f, std::int64_t size, const Names& batched = {},
                       ADContext* context = nullptr);
/// pullback, with an error as a Result.
Result<Pullback> try_pullback(const Graph& f, const Names& wrt = {}, const DerivativeOptions& options = {});

}  // namespace tidu
