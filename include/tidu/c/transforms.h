/* transforms.h - derivatives of graphs as graphs: forward and reverse mode, Jacobians, Hessians and their
   products with vectors, batching. The resulting graph can be differentiated again, dumped, compiled.

   `wrt` are the positions of the inputs to differentiate by, `num_wrt` of them; NULL and 0 stand for every
   input with a floating or complex dtype. A derivative that is zero because no path leads there is zeros. */
#ifndef TIDU_C_TRANSFORMS_H
#define TIDU_C_TRANSFORMS_H

#include "tidu/c/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How derivatives are made. */
typedef struct tidu_derivative_options {
  size_t struct_size;
  int32_t named_inputs;        /**< 1: new inputs have names ("x.tangent", "cotangent.0"), for dumps */
  int32_t has_aux;             /**< 1: value_and_grad returns outputs after the first unchanged */
  int32_t narrow_accumulation; /**< 1: sums of cotangents of f16 and bf16 are rounded after each term */
} tidu_derivative_options;

/** Inputs: the graph's, then a tangent for each wrt. Outputs: the graph's, then a tangent for each floating
   or complex output. `options` may be NULL, here and below. */
tidu_status tidu_jvp(const tidu_graph* graph, const size_t* wrt, size_t num_wrt,
                     const tidu_derivative_options* options, tidu_graph** result);
/** Inputs: the graph's, then a cotangent for each floating or complex output. Outputs: the graph's, then a
    gradient for each wrt. */
tidu_status tidu_vjp(const tidu_graph* graph, const size_t* wrt, size_t num_wrt,
                     const tidu_derivative_options* options, tidu_graph** result);
/** The gradients of a graph with one floating scalar output. Fails with TIDU_INVALID_ARGUMENT for others. */
tidu_status tidu_grad(const tidu_graph* graph, const size_t* wrt, size_t num_wrt,
                      const tidu_derivative_options* options, tidu_graph** result);
/** The outputs of the graph, then the gradients of the first. */
tidu_status tidu_value_and_grad(const tidu_graph* graph, const size_t* wrt, size_t num_wrt,
                                const tidu_derivative_options* options, tidu_graph** result);
/** Hessian times vector. Inputs: the graph's, then a vector for each wrt. Outputs: the value, the gradients,
    the products. */
tidu_status tidu_hvp(const tidu_graph* graph, const size_t* wrt, size_t num_wrt,
                     const tidu_derivative_options* options, tidu_graph** result);
/** For each floating output and each wrt the Jacobian, of shape output + input, by forward mode. */
tidu_status tidu_jacfwd(const tidu_graph* graph, const size_t* wrt, size_t num_wrt,
                        const tidu_derivative_options* options, tidu_graph** result);
/** The same by reverse mode. */
tidu_status tidu_jacrev(const tidu_graph* graph, const size_t* wrt, size_t num_wrt,
                        const tidu_derivative_options* options, tidu_graph** result);
/** The Hessian of one floating scalar output: for each x and each y of wrt the block of shape x + y. */
tidu_status tidu_hessian(const tidu_graph* graph, const size_t* wrt, size_t num_wrt,
                         const tidu_derivative_options* options, tidu_graph** result);

/** The graph, linearized. `augmented` has the graph's inputs, and its outputs and then `num_residuals`
    residuals as outputs. `linear` has the residuals and then a tangent for each wrt as inputs; its outputs
   are the tangents that are there. `tangent_of_output`, NULL or one for each output of the graph, are
   positions among the outputs of `linear`, TIDU_ABSENT where the tangent is zero. */
tidu_status tidu_linearize(const tidu_graph* graph, const size_t* wrt, size_t num_wrt, tidu_graph** augmented,
                           tidu_graph** linear, size_t* num_residuals, uint32_t* tangent_of_output);
/** The transpose of a graph that is linear in the inputs at `linear_inputs` (NULL and 0: in all). Inputs: the
    other inputs, then a cotangent for each output. Outputs: the cotangents that are there.
    `cotangent_of_input`, NULL or one for each linear input, are positions among these, TIDU_ABSENT for zero.
    Fails with TIDU_AD_RULE for a graph that is not linear in them. */
tidu_status tidu_linear_transpose(const tidu_graph* linear, const size_t* linear_inputs,
                                  size_t num_linear_inputs, tidu_graph** transposed,
                                  uint32_t* cotangent_of_input);
/** The graph mapped over a leading axis of extent `size`, which inputs have where `batched` is not 0 (one for
    each input; NULL: all), and every output has. */
tidu_status tidu_vmap(const tidu_graph* graph, int64_t size, const uint8_t* batched, tidu_graph** result);
/** The same function with less work. (Executors do that themselves.) */
tidu_status tidu_optimize(const tidu_graph* graph, tidu_graph** result);

#ifdef __cplusplus
}
#endif
#endif
