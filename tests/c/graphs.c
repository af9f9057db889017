/* graphs.c - statuses, types and strings; graphs read, written, and built. */
#include <stdio.h>
#include <string.h>

#include "support.h"

void test_base(void) {
  tidu_type type = {TIDU_C128, 0, NULL};
  const int64_t huge[] = {(int64_t)1 << 40, (int64_t)1 << 40};
  char text[1000];
  CHECK(strcmp(tidu_last_error(), "") == 0);
  CHECK(strcmp(tidu_status_text(TIDU_OK), "ok") == 0);
  CHECK(strcmp(tidu_status_text(TIDU_INTERNAL), "internal") == 0);
  CHECK(strcmp(tidu_status_text(-1), "unknown status") == 0 &&
        strcmp(tidu_status_text(99), "unknown status") == 0);
  CHECK(strchr(tidu_version(), '.') != NULL);
  tidu_set_error("short");
  CHECK(strcmp(tidu_last_error(), "short") == 0);
  memset(text, 'a', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  tidu_set_error(text);
  CHECK(strcmp(tidu_last_error(), text) == 0);
  tidu_set_error(tidu_last_error());
  CHECK(strcmp(tidu_last_error(), text) == 0);
  tidu_set_error(NULL);
  CHECK(strcmp(tidu_last_error(), "") == 0);
  CHECK(tidu_type_bytes(&vector_type) == 24 && tidu_type_bytes(&type) == 16 && tidu_type_bytes(NULL) == 0);
  type.dtype = 9;
  CHECK(tidu_type_bytes(&type) == 0);
  type.dtype = TIDU_F32;
  type.rank = 2;
  CHECK(tidu_type_bytes(&type) == 0);
  type.dims = huge;
  CHECK(tidu_type_bytes(&type) == 0);
  type.rank = 1;
  CHECK(tidu_type_bytes(&type) == (size_t)1 << 42);
  CHECK(strcmp(tidu_string_data(NULL), "") == 0 && tidu_string_size(NULL) == 0);
  tidu_string_release(NULL);
  OK(tidu_clear_caches());
}

static void check_counts(const tidu_graph* graph) {
  tidu_operation operation;
  tidu_string* text = NULL;
  tidu_type type;
  size_t position = 7;
  CHECK(strcmp(tidu_graph_name(graph), "loss") == 0);
  CHECK(tidu_graph_num_inputs(graph) == 2 && tidu_graph_num_outputs(graph) == 1);
  CHECK(tidu_graph_num_operations(graph) == 3 && tidu_graph_num_values(graph) == 5);
  CHECK(tidu_graph_input(graph, 1) == 1 && tidu_graph_input(graph, 2) == TIDU_ABSENT);
  CHECK(tidu_graph_output(graph, 0) == 4 && tidu_graph_output(graph, 1) == TIDU_ABSENT);
  OK(tidu_graph_input_name(graph, 1, &text));
  CHECK(strcmp(tidu_string_data(text), "w") == 0 && tidu_string_size(text) == 1);
  tidu_string_release(text);
  FAILS(tidu_graph_input_name(graph, 2, &text), TIDU_INVALID_ARGUMENT, "position to be below 2, got 2");
  CHECK(text == NULL);
  OK(tidu_graph_find_input(graph, "w", &position));
  CHECK(position == 1);
  FAILS(tidu_graph_find_input(graph, "v", &position), TIDU_INVALID_ARGUMENT, "\"v\"");
  OK(tidu_graph_value_type(graph, 0, &type));
  CHECK(type.dtype == TIDU_F64 && type.rank == 1 && type.dims[0] == 3);
  FAILS(tidu_graph_value_type(graph, 5, &type), TIDU_INVALID_ARGUMENT, "value to be below 5");
  OK(tidu_graph_operation(graph, 1, &operation));
  CHECK(strcmp(operation.name, "mul") == 0 && operation.num_operands == 2 && operation.operands[1] == 1);
  CHECK(operation.num_results == 1 && operation.first_result == 3);
  CHECK(strcmp(tidu_op_name(operation.op), "mul") == 0);
  OK(tidu_op_attributes(operation.op, &text));
  CHECK(tidu_string_size(text) == 0);
  tidu_string_release(text);
  FAILS(tidu_graph_operation(graph, 3, &operation), TIDU_INVALID_ARGUMENT, "index to be below 3");
}

static void check_text(const tidu_graph* graph) {
  tidu_string *first = NULL, *second = NULL;
  tidu_graph* copy = NULL;
  OK(tidu_graph_to_text(graph, &first));
  CHECK(strstr(tidu_string_data(first), "reduce_sum") != NULL);
  tidu_string_release(first);
  OK(tidu_graph_to_json(graph, &first));
  OK(tidu_graph_from_json(tidu_string_data(first), tidu_string_size(first), NULL, &copy));
  OK(tidu_graph_to_json(copy, &second));
  CHECK(strcmp(tidu_string_data(first), tidu_string_data(second)) == 0);
  tidu_graph_release(copy);
  FAILS(tidu_graph_from_json("{", 1, NULL, &copy), TIDU_DUMP, "line 1");
  CHECK(copy == NULL);
  FAILS(tidu_graph_from_json(NULL, 1, NULL, &copy), TIDU_INVALID_ARGUMENT, "json not to be NULL");
  FAILS(tidu_graph_from_json("{}", 2, NULL, NULL), TIDU_INVALID_ARGUMENT,
        "[tidu_graph_from_json] expected graph");
  tidu_string_release(first);
  tidu_string_release(second);
}

void test_graphs(void) {
  tidu_graph *graph = NULL, *again;
  tidu_string* text = NULL;
  OK(make_loss(&graph));
  check_counts(graph);
  check_text(graph);
  again = tidu_graph_retain(graph);
  tidu_graph_release(graph);
  CHECK(again == graph && tidu_graph_num_inputs(again) == 2);
  tidu_graph_release(again);
  tidu_graph_release(NULL);
  CHECK(tidu_graph_retain(NULL) == NULL && tidu_graph_num_values(NULL) == 0);
  CHECK(tidu_graph_num_outputs(NULL) == 0 && tidu_graph_num_operations(NULL) == 0);
  CHECK(tidu_graph_input(NULL, 0) == TIDU_ABSENT && tidu_graph_output(NULL, 0) == TIDU_ABSENT);
  CHECK(strcmp(tidu_graph_name(NULL), "") == 0 && strcmp(tidu_op_name(NULL), "") == 0);
  FAILS(tidu_graph_to_json(NULL, &text), TIDU_INVALID_ARGUMENT, "graph not to be NULL");
  FAILS(tidu_graph_to_text(NULL, &text), TIDU_INVALID_ARGUMENT, "graph not to be NULL");
}

/* One operation of that primitive on x of f64[3], and its op. */
static tidu_graph* graph_of(const char* primitive, const char* attributes, tidu_operation* operation) {
  tidu_builder* builder = NULL;
  tidu_graph* graph = NULL;
  uint32_t value;
  OK(tidu_builder_create(NULL, NULL, &builder));
  OK(tidu_builder_input(builder, "x", &vector_type, &value));
  OK(tidu_emit1(tidu_builder_emitter(builder), primitive, &value, 1, attributes, &value));
  OK(tidu_builder_build(builder, &value, 1, &graph));
  OK(tidu_graph_operation(graph, 0, operation));
  tidu_builder_release(builder);
  return graph;
}

static void test_attributes(void) {
  tidu_operation operation;
  const int64_t* axes = NULL;
  int64_t number = 0;
  double real = 0;
  size_t count = 0;
  tidu_string* text = NULL;
  tidu_graph *inner = NULL, *graph = graph_of("reduce_sum", "{\"axes\": [0]}", &operation);
  tidu_type type;
  const void* data = NULL;
  const char* word = NULL;
  char attributes[2000];
  OK(tidu_op_integers(operation.op, "axes", &axes, &count));
  CHECK(count == 1 && axes[0] == 0);
  OK(tidu_op_attributes(operation.op, &text));
  CHECK(strcmp(tidu_string_data(text), "{\"axes\": [0]}") == 0);
  tidu_string_release(text);
  FAILS(tidu_op_integer(operation.op, "axes", &number), TIDU_ATTRIBUTE, "to be an integer");
  FAILS(tidu_op_integer(operation.op, "axis", &number), TIDU_ATTRIBUTE,
        "attribute of reduce_sum, got \"axis\"");
  FAILS(tidu_op_text(operation.op, "axes", &word), TIDU_ATTRIBUTE, "to be a string");
  FAILS(tidu_op_tensor(operation.op, "axes", &type, &data), TIDU_ATTRIBUTE, "to be a tensor");
  FAILS(tidu_op_number(operation.op, "axes", &real), TIDU_ATTRIBUTE, "to be a number");
  FAILS(tidu_op_graph(operation.op, "axes", &inner), TIDU_ATTRIBUTE, "axes");
  FAILS(tidu_op_integers(operation.op, NULL, &axes, &count), TIDU_INVALID_ARGUMENT, "name not to be NULL");
  tidu_graph_release(graph);

  graph = graph_of("integer_pow", "{\"y\": 3}", &operation);
  OK(tidu_op_integer(operation.op, "y", &number));
  OK(tidu_op_number(operation.op, "y", &real));
  CHECK(number == 3 && real == 3);
  tidu_graph_release(graph);
  graph = graph_of("convert_element_type", "{\"new_dtype\": \"f32\"}", &operation);
  OK(tidu_op_integer(operation.op, "new_dtype", &number));
  CHECK(number == TIDU_F32);
  tidu_graph_release(graph);

  graph = graph_of("sin", NULL, &operation);
  OK(tidu_graph_to_json(graph, &text));
  snprintf(attributes, sizeof attributes, "{\"graph\": %s}", tidu_string_data(text));
  tidu_graph_release(graph);
  graph = graph_of("call", attributes, &operation);
  OK(tidu_op_graph(operation.op, "graph", &inner));
  CHECK(tidu_graph_num_operations(inner) == 1);
  tidu_graph_release(inner);
  tidu_graph_release(graph);
  tidu_string_release(text);
}

static void test_words_and_tensors(void) {
  const double data[] = {1, 2, 3};
  uint32_t value, operands[2];
  tidu_builder* builder = NULL;
  tidu_graph* graph = NULL;
  tidu_operation operation;
  tidu_type type;
  const void* elements = NULL;
  const char* word = NULL;
  OK(tidu_builder_create("words", NULL, &builder));
  OK(tidu_emit_constant(tidu_builder_emitter(builder), &vector_type, data, &operands[0]));
  OK(tidu_emit_constant(tidu_builder_emitter(builder), &integer_type, "abcdefghijkl", &operands[1]));
  OK(tidu_emit1(tidu_builder_emitter(builder), "take", operands, 2, "{\"axis\": 0, \"mode\": \"clip\"}",
                &value));
  OK(tidu_builder_build(builder, &value, 1, &graph));
  OK(tidu_graph_operation(graph, 0, &operation));
  OK(tidu_op_tensor(operation.op, "value", &type, &elements));
  CHECK(type.dtype == TIDU_F64 && memcmp(elements, data, sizeof data) == 0);
  OK(tidu_graph_operation(graph, 2, &operation));
  OK(tidu_op_text(operation.op, "mode", &word));
  CHECK(strcmp(word, "clip") == 0);
  tidu_graph_release(graph);
  tidu_builder_release(builder);
}

static void test_refusals(tidu_emitter* emitter, uint32_t x) {
  uint32_t results[2], two[2] = {x, 99};
  tidu_type type;
  FAILS(tidu_emit1(emitter, "sine", &x, 1, NULL, results), TIDU_UNKNOWN_PRIMITIVE, "\"sine\" (nearest: sin");
  CHECK(results[0] == TIDU_ABSENT);
  FAILS(tidu_emit1(emitter, "mul", two, 2, NULL, results), TIDU_INVALID_ARGUMENT, "operands to be values");
  FAILS(tidu_emit1(emitter, "mul", two, 1, NULL, results), TIDU_TYPE, "mul");
  FAILS(tidu_emit(emitter, "sin", &x, 1, NULL, results, 2), TIDU_INVALID_ARGUMENT,
        "num_results to be 1, got 2");
  FAILS(tidu_emit(emitter, "sin", NULL, 1, NULL, results, 1), TIDU_INVALID_ARGUMENT,
        "operands not to be NULL");
  FAILS(tidu_emit(emitter, "sin", &x, 1, NULL, NULL, 1), TIDU_INVALID_ARGUMENT, "results not to be NULL");
  FAILS(tidu_emit(NULL, "sin", &x, 1, NULL, results, 1), TIDU_INVALID_ARGUMENT, "emitter not to be NULL");
  FAILS(tidu_emit1(emitter, NULL, &x, 1, NULL, results), TIDU_INVALID_ARGUMENT, "primitive not to be NULL");
  FAILS(tidu_emit1(emitter, "reduce_sum", &x, 1, "{\"axes\": [1]}", results), TIDU_TYPE, "reduce_sum");
  FAILS(tidu_emit1(emitter, "reduce_sum", &x, 1, "{\"axis\": [1]}", results), TIDU_ATTRIBUTE, "\"axis\"");
  FAILS(tidu_emit1(emitter, "reduce_sum", &x, 1, "{", results), TIDU_DUMP, "line 1");
  FAILS(tidu_emit1(emitter, "reduce_sum", &x, 1, "[]", results), TIDU_DUMP, "\"attrs\"");
  FAILS(tidu_emit_constant(emitter, &vector_type, NULL, results), TIDU_INVALID_ARGUMENT,
        "data not to be NULL");
  two[1] = TIDU_ABSENT;
  FAILS(tidu_emit1(emitter, "mul", two, 2, NULL, results), TIDU_INVALID_ARGUMENT, "got TIDU_ABSENT");
  FAILS(tidu_emitter_type(emitter, 99, &type), TIDU_INVALID_ARGUMENT, "value to be values");
}

void test_emit(void) {
  uint32_t x, y, z[2], none[1];
  tidu_builder* builder = NULL;
  tidu_emitter* emitter;
  tidu_graph *loss = NULL, *graph = NULL;
  tidu_operation operation;
  tidu_string* text = NULL;
  tidu_type type;
  OK(make_loss(&loss));
  OK(tidu_builder_create("emit", NULL, &builder));
  emitter = tidu_builder_emitter(builder);
  OK(tidu_builder_input(builder, "x", &vector_type, &x));
  FAILS(tidu_builder_input(builder, "x", &vector_type, &y), TIDU_INVALID_ARGUMENT, "x");
  FAILS(tidu_builder_input(builder, NULL, &vector_type, &y), TIDU_INVALID_ARGUMENT, "name not to be NULL");
  test_refusals(emitter, x);
  OK(tidu_builder_set_location(builder, "model.f90", 12));
  OK(tidu_emit1(emitter, "cos", &x, 1, NULL, &y));
  OK(tidu_builder_set_location(builder, NULL, 0));
  OK(tidu_emitter_type(emitter, y, &type));
  CHECK(type.rank == 1 && type.dims[0] == 3);
  z[0] = x;
  z[1] = y;
  OK(tidu_emit_graph(emitter, loss, z, 2, z, 1));
  FAILS(tidu_emit_graph(emitter, loss, z, 1, none, 1), TIDU_INVALID_ARGUMENT, "num_inputs to be 2, got 1");
  OK(tidu_graph_operation(loss, 0, &operation));
  OK(tidu_emit_op(emitter, operation.op, &y, 1, &z[1], 1));
  FAILS(tidu_emit_op(emitter, NULL, &y, 1, &y, 1), TIDU_INVALID_ARGUMENT, "op not to be NULL");
  CHECK(y == TIDU_ABSENT);
  FAILS(tidu_builder_build(builder, &y, 1, &graph), TIDU_INVALID_ARGUMENT, "outputs to be values");
  OK(tidu_builder_build(builder, z, 2, &graph));
  OK(tidu_graph_to_json(graph, &text));
  CHECK(strstr(tidu_string_data(text), "model.f90:12") != NULL);
  tidu_string_release(text);
  tidu_graph_release(graph);
  FAILS(tidu_builder_build(builder, &x, 1, &graph), TIDU_INVALID_ARGUMENT, "");
  CHECK(graph == NULL);
  tidu_builder_release(builder);
  tidu_graph_release(loss);
  CHECK(tidu_builder_emitter(NULL) == NULL);
  tidu_builder_release(NULL);
  test_attributes();
  test_words_and_tensors();
}
