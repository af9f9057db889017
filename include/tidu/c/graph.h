/* graph.h - graphs: immutable programs of primitives on typed values. They are read from and written to JSON
   (the format of dumps), built call by call, and read operation by operation. A value is a number, its id,
   which is smaller than tidu_graph_num_values; ids are in topological order. */
#ifndef TIDU_C_GRAPH_H
#define TIDU_C_GRAPH_H

#include "tidu/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A graph; counted. */
typedef struct tidu_graph tidu_graph;
/** The primitives that a graph may use; counted. See primitive.h; NULL stands for the standard ones. */
typedef struct tidu_primitive_set tidu_primitive_set;
/** A primitive with its attributes: of an operation, valid as long as the graph, or of a callback, until that
    returns. */
typedef struct tidu_op tidu_op;

/** One more reference to the graph, which is returned. */
tidu_graph* tidu_graph_retain(const tidu_graph* graph);
/** Gives a reference back. */
void tidu_graph_release(tidu_graph* graph);

/** Reads a dump of `size` bytes. Fails with TIDU_DUMP, TIDU_TYPE, TIDU_ATTRIBUTE, TIDU_UNKNOWN_PRIMITIVE.
    `primitives` may be NULL. */
tidu_status tidu_graph_from_json(const char* json, size_t size, const tidu_primitive_set* primitives,
                                 tidu_graph** graph);
/** The dump of the graph. */
tidu_status tidu_graph_to_json(const tidu_graph* graph, tidu_string** json);
/** The graph for people, an operation a line. */
tidu_status tidu_graph_to_text(const tidu_graph* graph, tidu_string** text);

/** The name, which belongs to the graph; "" for NULL. */
const char* tidu_graph_name(const tidu_graph* graph);
/** Counts, 0 for NULL. */
size_t tidu_graph_num_inputs(const tidu_graph* graph);
/** Number of outputs. */
size_t tidu_graph_num_outputs(const tidu_graph* graph);
/** Number of operations. */
size_t tidu_graph_num_operations(const tidu_graph* graph);
/** Number of values: inputs and results. */
size_t tidu_graph_num_values(const tidu_graph* graph);
/** Which value an input is, by position; TIDU_ABSENT where there is none, as for the next. */
uint32_t tidu_graph_input(const tidu_graph* graph, size_t position);
/** Which value an output is. */
uint32_t tidu_graph_output(const tidu_graph* graph, size_t position);
/** The name of an input; 32 hexadecimal digits when it has none. */
tidu_status tidu_graph_input_name(const tidu_graph* graph, size_t position, tidu_string** name);
/** The position of the input of that name. Fails with TIDU_INVALID_ARGUMENT when there is none. */
tidu_status tidu_graph_find_input(const tidu_graph* graph, const char* name, size_t* position);
/** The type of a value. */
tidu_status tidu_graph_value_type(const tidu_graph* graph, uint32_t value, tidu_type* type);

/** One operation. The pointers belong to the graph. */
typedef struct tidu_operation {
  const char* name;         /**< of the primitive */
  const tidu_op* op;        /**< primitive and attributes, for the functions below */
  const uint32_t* operands; /**< values */
  size_t num_operands;
  uint32_t first_result; /**< the value that is the first result; the others follow */
  size_t num_results;
} tidu_operation;
/** Operation `index`; operations are in an order in which they can be run. */
tidu_status tidu_graph_operation(const tidu_graph* graph, size_t index, tidu_operation* operation);

/** The name of the primitive; "" for NULL. */
const char* tidu_op_name(const tidu_op* op);
/** All attributes that differ from their defaults, as the "attrs" of a dump: {"axes": [0]}; "" when there are
    none. */
tidu_status tidu_op_attributes(const tidu_op* op, tidu_string** json);
/** An attribute that is an integer, a bool (0 or 1) or a dtype. These fail with TIDU_ATTRIBUTE where there is
    none of that name and kind. */
tidu_status tidu_op_integer(const tidu_op* op, const char* name, int64_t* value);
/** An attribute that is a number, or a tensor of one element, as a double. */
tidu_status tidu_op_number(const tidu_op* op, const char* name, double* value);
/** An attribute that is a list of integers, which belongs to the op. */
tidu_status tidu_op_integers(const tidu_op* op, const char* name, const int64_t** values, size_t* count);
/** An attribute that is a string, which belongs to the op. */
tidu_status tidu_op_text(const tidu_op* op, const char* name, const char** text);
/** An attribute that is a tensor: its type, and its elements, which belong to the op. */
tidu_status tidu_op_tensor(const tidu_op* op, const char* name, tidu_type* type, const void** data);
/** An attribute that is a graph. */
tidu_status tidu_op_graph(const tidu_op* op, const char* name, tidu_graph** graph);

/** Receives operations: the emitter of a builder, or the argument of a primitive's rule, which is valid until
    the rule returns. */
typedef struct tidu_emitter tidu_emitter;

/** Adds an operation. `primitive` is its name in the emitter's set. `attributes` is the "attrs" of a dump,
    {"axes": [0]} (graphs in it are dumps), or NULL when it needs none. `results` has space for `num_results`
    values, which has to be the number of results. Fails, with nothing added, with TIDU_UNKNOWN_PRIMITIVE,
    TIDU_ATTRIBUTE, TIDU_DUMP (of the attributes), TIDU_TYPE, TIDU_INVALID_ARGUMENT (counts, values). */
tidu_status tidu_emit(tidu_emitter* emitter, const char* primitive, const uint32_t* operands,
                      size_t num_operands, const char* attributes, uint32_t* results, size_t num_results);
/** Adds an operation with one result. `attributes` as in tidu_emit. */
tidu_status tidu_emit1(tidu_emitter* emitter, const char* primitive, const uint32_t* operands,
                       size_t num_operands, const char* attributes, uint32_t* result);
/** Adds the same operation, with its attributes, on other operands, as rules of linear primitives do. */
tidu_status tidu_emit_op(tidu_emitter* emitter, const tidu_op* op, const uint32_t* operands,
                         size_t num_operands, uint32_t* results, size_t num_results);
/** Adds a constant, whose elements are copied from `data`. */
tidu_status tidu_emit_constant(tidu_emitter* emitter, const tidu_type* type, const void* data,
                               uint32_t* result);
/** Adds all operations of `graph` with `inputs` for its inputs; `outputs` are those of the graph. */
tidu_status tidu_emit_graph(tidu_emitter* emitter, const tidu_graph* graph, const uint32_t* inputs,
                            size_t num_inputs, uint32_t* outputs, size_t num_outputs);
/** The type of a value of this emitter. */
tidu_status tidu_emitter_type(tidu_emitter* emitter, uint32_t value, tidu_type* type);

/** Makes one graph. */
typedef struct tidu_builder tidu_builder;
/** A builder of an empty graph. `name` and `primitives` may be NULL. */
tidu_status tidu_builder_create(const char* name, const tidu_primitive_set* primitives,
                                tidu_builder** builder);
/** Frees the builder, not the graph that it built. */
void tidu_builder_release(tidu_builder* builder);
/** The emitter that adds to this graph. Belongs to the builder; NULL for NULL. */
tidu_emitter* tidu_builder_emitter(tidu_builder* builder);
/** A further input. Fails with TIDU_INVALID_ARGUMENT when there is one of that name. */
tidu_status tidu_builder_input(tidu_builder* builder, const char* name, const tidu_type* type,
                               uint32_t* value);
/** Sets the source location of the next operations: messages and dumps show "file:line". `file` is copied;
    NULL: unknown. */
tidu_status tidu_builder_set_location(tidu_builder* builder, const char* file, uint32_t line);
/** Ends the graph; the builder can then only be released. */
tidu_status tidu_builder_build(tidu_builder* builder, const uint32_t* outputs, size_t num_outputs,
                               tidu_graph** graph);

#ifdef __cplusplus
}
#endif
#endif
