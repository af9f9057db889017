/* primitive.h - primitives written in C: a type rule, and rules of derivatives and batching that emit
   operations, as those of the standard primitives do; and a kernel, with which tidu's executors run them.
   There is no VJP rule: reverse mode transposes the operations that the JVP rule emits.

   Callbacks return TIDU_OK, or call tidu_set_error and return another status. They may be called from any
   thread, several at once, and belong to the process: see tidu_primitive_create. */
#ifndef TIDU_C_PRIMITIVE_H
#define TIDU_C_PRIMITIVE_H

#include "tidu/c/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A primitive; lives as long as the process. */
typedef struct tidu_primitive tidu_primitive;
/** Receives the types of results. */
typedef struct tidu_results tidu_results;

/** The kind of an attribute's value. */
typedef int32_t tidu_attribute_kind;
enum {
  TIDU_ATTRIBUTE_BOOL = 0,     /**< true, false */
  TIDU_ATTRIBUTE_INTEGER = 1,  /**< 3 */
  TIDU_ATTRIBUTE_NUMBER = 2,   /**< 0.5, of the dtype in the attribute "dtype" */
  TIDU_ATTRIBUTE_TEXT = 3,     /**< "a word" */
  TIDU_ATTRIBUTE_DTYPE = 4,    /**< "f64" */
  TIDU_ATTRIBUTE_INTEGERS = 5, /**< [0, 1] */
  TIDU_ATTRIBUTE_TENSOR = 6    /**< {"dtype": "f64", "shape": [2], "data": [0.5, 1.0]} */
};
/** One attribute of a primitive. */
typedef struct tidu_attribute {
  const char* name; /**< copied */
  tidu_attribute_kind kind;
  int32_t optional;      /**< 1: may be omitted; for kinds bool, integer and text */
  int64_t default_value; /**< of an optional bool or integer; that of text is "" */
} tidu_attribute;

/** Properties of a primitive; combine with |. */
enum {
  TIDU_TRAIT_ELEMENTWISE = 1, /**< operands and results have one shape, and element i depends on elements i */
  TIDU_TRAIT_IMPURE = 2,      /**< never merged, dropped or recomputed */
  TIDU_TRAIT_NO_TANGENT = 4   /**< its derivative is zero: it has no JVP rule */
};
/** The operands in which a primitive is linear. */
enum {
  TIDU_NOT_LINEAR = 0,
  TIDU_LINEAR = 1,  /**< in all operands of linear_operands together */
  TIDU_BILINEAR = 2 /**< in each one of them alone */
};
/** A number of operands that differs from operation to operation. */
#define TIDU_VARIADIC (-1)

/** The argument of a JVP rule. Values are of the emitter. */
typedef struct tidu_jvp_call {
  const tidu_op* op;
  tidu_emitter* emitter;
  size_t num_operands;
  const uint32_t* operands;
  const uint32_t* tangents; /**< of the operands; TIDU_ABSENT for zero, at least one is not */
  size_t num_results;
  const uint32_t* results; /**< of the operation itself */
} tidu_jvp_call;
/** The argument of a transpose rule. */
typedef struct tidu_transpose_call {
  const tidu_op* op;
  tidu_emitter* emitter;
  size_t num_operands;
  const uint32_t* operands; /**< TIDU_ABSENT: a linear one, whose cotangent is wanted */
  const tidu_type* types;   /**< of the operands */
  size_t num_results;
  const uint32_t* cotangents; /**< of the results; TIDU_ABSENT for zero, at least one is not */
} tidu_transpose_call;
/** The argument of a batch rule. */
typedef struct tidu_batch_call {
  const tidu_op* op;
  tidu_emitter* emitter;
  size_t num_operands;
  const uint32_t* operands;
  const uint8_t* batched; /**< 1: the operand has the leading axis */
  const tidu_type* types; /**< of the operands without it */
  size_t num_results;
  int64_t size; /**< extent of the axis */
} tidu_batch_call;
/** The argument of a kernel. */
typedef struct tidu_kernel_call {
  const tidu_op* op;
  size_t num_operands;
  const void* const* operands; /**< elements, row-major */
  const tidu_type* operand_types;
  size_t num_results;
  void* const* results; /**< to be written, all of them */
  const tidu_type* result_types;
} tidu_kernel_call;

/** A primitive. Names are copied. */
typedef struct tidu_primitive_functions {
  size_t struct_size;
  const char* name;     /**< "project.name" */
  uint32_t version;     /**< counts changes of meaning, from 1; 0 stands for 1 */
  int32_t num_operands; /**< or TIDU_VARIADIC */
  int32_t num_results;  /**< or TIDU_VARIADIC: as many as the type rule adds */
  const tidu_attribute* attributes;
  size_t num_attributes;
  uint32_t traits;
  int32_t linearity;
  uint32_t linear_operands; /**< bit i: operand i; bit 31: operand 31 and later ones; 0: all */
  void* user;               /**< passed to each function */
  /** Adds the type of each result, or fails. Required. */
  tidu_status (*infer)(void* user, const tidu_op* op, const tidu_type* operands, size_t num_operands,
                       tidu_results* results);
  /** Sets the tangent of each result, which is TIDU_ABSENT before. NULL if it follows from the linearity, or
      the primitive has no derivative. */
  tidu_status (*jvp)(void* user, const tidu_jvp_call* call, uint32_t* tangents);
  /** Sets the cotangent of each linear operand; the others stay TIDU_ABSENT. NULL if it is not linear. */
  tidu_status (*transpose)(void* user, const tidu_transpose_call* call, uint32_t* cotangents);
  /** Sets each result, with the leading axis. NULL: no vmap, no Jacobians; elementwise ones need none. */
  tidu_status (*batch)(void* user, const tidu_batch_call* call, uint32_t* results);
  /** Computes the results. NULL: tidu's executors reject graphs with it. Compilation may call it on
     constants; if it fails there, it is called again when the program runs. */
  tidu_status (*kernel)(void* user, const tidu_kernel_call* call);
} tidu_primitive_functions;

/** A primitive, which is never freed, as graphs refer to it: make each once. Its callbacks and `user` must
    live as long as the process. */
tidu_status tidu_primitive_create(const tidu_primitive_functions* functions,
                                  const tidu_primitive** primitive);
/** For type rules: the type of the next result. */
tidu_status tidu_results_add(tidu_results* results, const tidu_type* type);

/** The standard primitives and these. Fails with TIDU_INVALID_ARGUMENT when two have one name. */
tidu_status tidu_primitive_set_create(const tidu_primitive* const* primitives, size_t num_primitives,
                                      tidu_primitive_set** set);
/** One more reference to the set, which is returned. */
tidu_primitive_set* tidu_primitive_set_retain(const tidu_primitive_set* set);
/** Gives a reference back. */
void tidu_primitive_set_release(tidu_primitive_set* set);

#ifdef __cplusplus
}
#endif
#endif
