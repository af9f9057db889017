/* tape.h - eager programs: a recorder records the operations that were run, and backward differentiates the
   recording. The recorder's executor defines the operands: opaque void* for an executor written in C,
   tidu_tensor* for tidu's own. A variable is the identity of a value on the tape; it has no elements. */
#ifndef TIDU_C_TAPE_H
#define TIDU_C_TAPE_H

#include "tidu/c/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The identity of a value on the tape, with a reference to its producer; counted. */
typedef struct tidu_variable tidu_variable;
/** One more reference to the variable, which is returned. */
tidu_variable* tidu_variable_retain(const tidu_variable* variable);
/** Gives a reference back; the tape that it refers to is freed with the last one. */
void tidu_variable_release(tidu_variable* variable);
/** 1 when a gradient can flow through the variable, else 0, as for NULL. */
int32_t tidu_variable_requires_grad(const tidu_variable* variable);
/** Its key, which no other value of any recorder has; zeros for NULL. */
void tidu_variable_key(const tidu_variable* variable, uint64_t key[2]);

/** Options of a recorder. */
typedef struct tidu_recorder_options {
  size_t struct_size;
  int32_t anomaly;         /**< 1: an output that is not finite is an error of the call that records it */
  int32_t save_everything; /**< 1: all operands are kept, and no rule is called before backward */
} tidu_recorder_options;

/** Records operations; belongs to one thread at a time. */
typedef struct tidu_recorder tidu_recorder;
/** A recorder of operands of this executor, which it holds. `options` may be NULL. */
tidu_status tidu_recorder_create(const tidu_executor* executor, const tidu_recorder_options* options,
                                 tidu_recorder** recorder);
/** Frees the recorder, not the tape. */
void tidu_recorder_release(tidu_recorder* recorder);
/** Sets the source location of the next operations, for messages; `file` is copied, NULL: unknown. */
tidu_status tidu_recorder_set_location(tidu_recorder* recorder, const char* file, uint32_t line);
/** A new leaf, whose gradient is wanted. */
tidu_status tidu_recorder_leaf(tidu_recorder* recorder, tidu_variable** leaf);

/** An operand of a recorded operation. */
typedef struct tidu_input {
  const tidu_variable* variable; /**< its identity; NULL for a constant */
  void* operand; /**< its value, or NULL if it is not retained: an error if backward reads it */
} tidu_input;
/** An intermediate value of a graph that the caller has; backward then need not recompute it. */
typedef struct tidu_retained {
  uint32_t value; /**< of the graph */
  void* operand;
} tidu_retained;

/** Records that `graph` was run on `inputs`. `outputs` are its results, or NULL: backward then recomputes
   those that it reads. `retained` may be NULL. The tape retains the operands that it keeps. `variables` is
   set to one variable for each output. When no input requires a gradient, nothing is recorded. After a
   failure nothing was recorded. */
tidu_status tidu_record(tidu_recorder* recorder, const tidu_graph* graph, const tidu_input* inputs,
                        size_t num_inputs, void* const* outputs, const tidu_retained* retained,
                        size_t num_retained, tidu_variable** variables, size_t num_outputs);
/** The same for one primitive by its name (`primitives` NULL: a standard one) with these attributes (see
    tidu_emit). `types` are those of the operands, or NULL if the executor describes them. */
tidu_status tidu_record_op(tidu_recorder* recorder, const tidu_primitive_set* primitives,
                           const char* primitive, const char* attributes, const tidu_input* inputs,
                           const tidu_type* types, size_t num_inputs, void* const* outputs,
                           tidu_variable** variables, size_t num_outputs);

/** How backward runs. */
typedef struct tidu_backward_options {
  size_t struct_size;
  int32_t keep_graph;   /**< 1: values that the tape keeps are not freed, so that backward can run again */
  int32_t create_graph; /**< 1: the backward pass is recorded, so that gradients can be differentiated */
  int32_t anomaly;      /**< 1: a cotangent that is not finite is an error that names its operation */
  int32_t more_workers; /**< threads beside the calling one that may run independent operations */
} tidu_backward_options;
/** Something to differentiate. */
typedef struct tidu_root {
  const tidu_variable* variable;
  void* seed;                         /**< its cotangent; NULL: one, of a root of one element */
  const tidu_variable* seed_variable; /**< identity of the seed, with create_graph; may be NULL */
} tidu_root;

/** Gradients of one backward call. */
typedef struct tidu_gradients tidu_gradients;
/** Differentiates the roots with respect to the variables of `wanted`, which may be intermediate values, or
   if it is NULL and 0, to every leaf that they depend on. `options` may be NULL. Fails with
    TIDU_INVALID_ARGUMENT, TIDU_TYPE, TIDU_TAPE (a saved value was freed or changed), TIDU_AD_RULE,
    TIDU_NON_FINITE, or the status of the executor; nothing is changed then. */
tidu_status tidu_backward(tidu_recorder* recorder, const tidu_root* roots, size_t num_roots,
                          const tidu_variable* const* wanted, size_t num_wanted,
                          const tidu_backward_options* options, tidu_gradients** gradients);
/** The gradient of a variable that was wanted, or of a leaf: its operand, which belongs to `gradients` (with
    one of tidu's executors a tidu_tensor*); NULL when there is none. */
void* tidu_gradients_find(const tidu_gradients* gradients, const tidu_variable* variable);
/** With create_graph: the variable of that gradient. NULL when there is none; belongs to the caller. */
tidu_status tidu_gradients_variable(const tidu_gradients* gradients, const tidu_variable* variable,
                                    tidu_variable** recorded);
/** Frees the gradients. */
void tidu_gradients_release(tidu_gradients* gradients);

#ifdef __cplusplus
}
#endif
#endif
