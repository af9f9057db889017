/* executor.h - executors: tidu's for tensors (the CPU executor, and the slow reference one), compiled
   programs, stateless derivatives for hosts that record their own tapes, and executors written in C, whose
   operands are opaque to tidu. */
#ifndef TIDU_C_EXECUTOR_H
#define TIDU_C_EXECUTOR_H

#include "tidu/c/graph.h"
#include "tidu/c/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An executor; counted. */
typedef struct tidu_executor tidu_executor;
/** One more reference to the executor, which is returned. */
tidu_executor* tidu_executor_retain(const tidu_executor* executor);
/** Gives a reference back. */
void tidu_executor_release(tidu_executor* executor);

/** How the CPU executor runs. */
typedef struct tidu_cpu_options {
  size_t struct_size;
  int32_t threads;                      /**< of one run; 0: as many as there are processors for it */
  int32_t check_indices;                /**< 1: indices out of range are errors */
  int32_t generate_no_code;             /**< 1: no vector code is generated while the program runs */
  size_t cached_bytes;                  /**< memory kept for reuse; 0: a GiB */
  const tidu_primitive_set* primitives; /**< the executor has their kernels too; or NULL */
} tidu_cpu_options;
/** The CPU executor. `options` may be NULL: all such executors are one. */
tidu_status tidu_cpu_create(const tidu_cpu_options* options, tidu_executor** executor);
/** The reference executor: plain loops, and the kernels of `primitives`, which may be NULL. */
tidu_status tidu_reference_create(const tidu_primitive_set* primitives, tidu_executor** executor);

/** A program; counted. Any number of threads may run it at once. */
typedef struct tidu_executable tidu_executable;
/** One more reference to the program, which is returned. */
tidu_executable* tidu_executable_retain(const tidu_executable* executable);
/** Gives a reference back. */
void tidu_executable_release(tidu_executable* executable);

/** Compiles the graph. Equal graphs are compiled once. Fails with TIDU_EXECUTION for a missing kernel, with
    TIDU_INVALID_ARGUMENT for an executor that is written in C. */
tidu_status tidu_compile(const tidu_executor* executor, const tidu_graph* graph,
                         tidu_executable** executable);
/** Runs the program on tensors; each of `outputs` is set to a new one. */
tidu_status tidu_run(const tidu_executable* executable, const tidu_tensor* const* inputs, size_t num_inputs,
                     tidu_tensor** outputs, size_t num_outputs);
/** Runs the program on memory: the elements of each input, row-major and aligned for their dtype, are read at
    inputs[i], those of each output written to outputs[i]. A pointer to no elements may be NULL. Outputs do
    not overlap inputs or one another; after a failure they are unchanged. */
tidu_status tidu_run_memory(const tidu_executable* executable, const void* const* inputs, size_t num_inputs,
                            void* const* outputs, size_t num_outputs);

/** For hosts that record their own tapes: outputs and their tangents at `primals`. `tangents` are tensors,
   NULL for zero. So are `output_tangents`, NULL also for outputs that are integers or bools. The derivative
   is made once for each graph and set of nonzero tangents, and cached. On failure all results are NULL. */
tidu_status tidu_jvp_run(const tidu_executor* executor, const tidu_graph* graph,
                         const tidu_tensor* const* primals, const tidu_tensor* const* tangents,
                         size_t num_inputs, tidu_tensor** outputs, tidu_tensor** output_tangents,
                         size_t num_outputs);
/** The gradients at `primals` of the inputs whose `wanted` is not 0 (one flag for each; NULL: of all floating
    and complex ones), for `cotangents` of the outputs, NULL for zero. A gradient that is not wanted or is
   zero is NULL. `outputs` may be NULL when they are not wanted. */
tidu_status tidu_vjp_run(const tidu_executor* executor, const tidu_graph* graph,
                         const tidu_tensor* const* primals, const uint8_t* wanted, size_t num_inputs,
                         const tidu_tensor* const* cotangents, tidu_tensor** outputs, size_t num_outputs,
                         tidu_tensor** gradients);

/** An executor written in C, for tapes (tape.h). An operand is a void* that is opaque to tidu, never NULL,
   and counted by the executor's retain and release. Functions may be called from any thread, several at once.

    Functions with a status return TIDU_OK, or call tidu_set_error and return another status; the function
   that the user called then fails with that status and text. Operands that are arguments are borrowed, and
   must not be changed. An operand that is a result is a reference that tidu owns; on failure tidu releases
   the results that were already set. */
typedef struct tidu_executor_functions {
  size_t struct_size;
  const char* name; /**< for messages; copied */
  void* user;       /**< handed to each function */
  /** Called once, when there is no reference to the executor and its operands any more; may be NULL. */
  void (*destroy)(void* user);
  /** One more reference to the operand. Required. */
  void (*retain)(void* user, void* operand);
  /** One reference less. Required. */
  void (*release)(void* user, void* operand);
  /** Runs the operations of `graph`, which has no externals, in their order; inputs and outputs go by
      position. An operand may occur in several positions, and an output may be an input (retained).
      `prepared` is the result of prepare, or NULL. Required. */
  tidu_status (*execute_forward)(void* user, const tidu_graph* graph, void* prepared, void* const* inputs,
                                 size_t num_inputs, void** outputs, size_t num_outputs);
  /** The same for transposed linear graphs: inputs are residuals, then cotangents. NULL: execute_forward. */
  tidu_status (*run_transposed_linear)(void* user, const tidu_graph* graph, void* prepared,
                                       void* const* inputs, size_t num_inputs, void** outputs,
                                       size_t num_outputs);
  /** a + b. If tidu has the only reference to `a`, the sum may be written into it, and `a` be returned,
      retained. Required. */
  tidu_status (*add_operands)(void* user, const tidu_type* type, void* a, void* b, void** sum);
  /** Compiles a graph, once for equal ones; the result is passed to the functions above. Needs discard, which
      frees it. May be NULL. */
  tidu_status (*prepare)(void* user, const tidu_graph* graph, void** prepared);
  /** Frees the result of prepare, once the graph or the executor is not needed any more, before destroy is
      called. Must not call functions of tidu. */
  void (*discard)(void* user, void* prepared);
  /** The type of an operand; dims are read before the next call on this thread. NULL: types are not checked,
      and tidu_record_op needs them. */
  tidu_status (*describe)(void* user, void* operand, tidu_type* type);
  /** Ones of that type. NULL: every root of backward needs a seed. */
  tidu_status (*ones_like)(void* user, const tidu_type* type, void** ones);
  /** Sets `finite` to 1 when all elements are finite, else to 0. NULL: anomaly mode finds nothing. */
  tidu_status (*is_finite)(void* user, void* operand, int32_t* finite);
  /** The number of writes to the operand's memory. NULL: changes in place are not detected. */
  tidu_status (*version)(void* user, void* operand, uint64_t* version);
  /** 1: functions run convert_element_type between 16 bits and f32; sums of cotangents of f16 and bf16 are
     then held in f32. */
  int32_t wide_accumulation;
} tidu_executor_functions;
/** An executor of these functions, which are copied. When this fails, destroy is not called. */
tidu_status tidu_executor_create(const tidu_executor_functions* functions, tidu_executor** executor);

#ifdef __cplusplus
}
#endif
#endif
