/* primitives.c - primitives in C: test.scale, y = factor x, which is linear, and test.cube, y = x^3, whose
   JVP emits it. */
#include <string.h>

#include "support.h"

static const double x[3] = {0.3, -1.2, 2.0}, u[3] = {1.0, 0.25, -2.0};

static tidu_status infer(void* user, const tidu_op* op, const tidu_type* operands, size_t num_operands,
                         tidu_results* results) {
  (void)user;
  if (fail_here()) return TIDU_TYPE;
  if (num_operands != 1 || operands[0].dtype != TIDU_F64) {
    tidu_set_error("expected one operand of f64");
    return TIDU_TYPE;
  }
  CHECK(tidu_op_name(op)[0] == 't');
  return tidu_results_add(results, &operands[0]);
}

static tidu_status scale_transpose(void* user, const tidu_transpose_call* call, uint32_t* cotangents) {
  (void)user;
  if (fail_here()) return TIDU_AD_RULE;
  CHECK(call->operands[0] == TIDU_ABSENT && call->num_operands == 1 && call->types[0].dtype == TIDU_F64);
  return tidu_emit_op(call->emitter, call->op, call->cotangents, call->num_results, cotangents, 1);
}
static tidu_status scale_kernel(void* user, const tidu_kernel_call* call) {
  const double* from = call->operands[0];
  double* to = call->results[0];
  const size_t count = tidu_type_bytes(&call->operand_types[0]) / sizeof(double);
  int64_t factor = 0;
  size_t i;
  (void)user;
  if (fail_here()) return TIDU_EXECUTION;
  if (tidu_op_integer(call->op, "factor", &factor) != TIDU_OK) return TIDU_INTERNAL;
  CHECK(call->num_results == 1 && call->result_types[0].rank == call->operand_types[0].rank);
  for (i = 0; i < count; ++i) to[i] = (double)factor * from[i];
  return TIDU_OK;
}

static tidu_status cube_jvp(void* user, const tidu_jvp_call* call, uint32_t* tangents) {
  uint32_t square[2], pair[2];
  tidu_type type;
  tidu_status status;
  (void)user;
  if (fail_here()) return TIDU_AD_RULE;
  CHECK(call->num_operands == 1 && call->num_results == 1 && call->tangents[0] != TIDU_ABSENT);
  TRY(tidu_emitter_type(call->emitter, call->results[0], &type));
  square[0] = square[1] = call->operands[0];
  TRY(tidu_emit1(call->emitter, "mul", square, 2, NULL, &pair[0]));
  pair[1] = call->tangents[0];
  TRY(tidu_emit1(call->emitter, "mul", pair, 2, NULL, &pair[0]));
  TRY(tidu_emit1(call->emitter, "test.scale", pair, 1, "{\"factor\": 3}", tangents));
done:
  return status;
}
static tidu_status cube_batch(void* user, const tidu_batch_call* call, uint32_t* results) {
  (void)user;
  if (fail_here()) return TIDU_AD_RULE;
  CHECK(call->num_operands == 1 && call->batched[0] == 1 && call->size == 2 && call->types[0].rank == 1);
  return tidu_emit_op(call->emitter, call->op, call->operands, 1, results, call->num_results);
}
static tidu_status cube_kernel(void* user, const tidu_kernel_call* call) {
  const double* from = call->operands[0];
  double* to = call->results[0];
  const size_t count = tidu_type_bytes(&call->operand_types[0]) / sizeof(double);
  size_t i;
  (void)user;
  if (fail_here()) return TIDU_EXECUTION;
  for (i = 0; i < count; ++i) to[i] = from[i] * from[i] * from[i];
  return TIDU_OK;
}

static tidu_status bad_jvp(void* user, const tidu_jvp_call* call, uint32_t* tangents) {
  (void)call;
  tangents[0] = *(const uint32_t*)user; /* no value of the emitter */
  return TIDU_OK;
}
static tidu_status silent_kernel(void* user, const tidu_kernel_call* call) {
  (void)user;
  (void)call;
  return 77;
}

static tidu_primitive_functions functions_of(const char* name) {
  tidu_primitive_functions functions;
  memset(&functions, 0, sizeof functions);
  functions.struct_size = sizeof functions;
  functions.name = name;
  functions.num_operands = functions.num_results = 1;
  functions.infer = infer;
  return functions;
}

/* Made once, as a program would. */
static const tidu_primitive *scale, *cube, *bad;
static tidu_status make_set(tidu_primitive_set** set) {
  static const tidu_attribute factor = {"factor", TIDU_ATTRIBUTE_INTEGER, 1, 1};
  static uint32_t nothing = 1000;
  tidu_primitive_functions functions = functions_of("test.scale");
  const tidu_primitive* all[3];
  tidu_status status;
  functions.attributes = &factor;
  functions.num_attributes = 1;
  functions.traits = TIDU_TRAIT_ELEMENTWISE;
  functions.linearity = TIDU_LINEAR;
  functions.transpose = scale_transpose;
  functions.kernel = scale_kernel;
  if (scale == NULL) TRY(tidu_primitive_create(&functions, &scale));
  functions = functions_of("test.cube");
  functions.version = 2;
  functions.jvp = cube_jvp;
  functions.batch = cube_batch;
  functions.kernel = cube_kernel;
  if (cube == NULL) TRY(tidu_primitive_create(&functions, &cube));
  functions = functions_of("test.bad");
  functions.user = &nothing;
  functions.jvp = bad_jvp;
  functions.kernel = silent_kernel;
  if (bad == NULL) TRY(tidu_primitive_create(&functions, &bad));
  all[0] = scale;
  all[1] = cube;
  all[2] = bad;
  TRY(tidu_primitive_set_create(all, 3, set));
done:
  return status;
}

/* sum(primitive(x)) */
static tidu_status make_graph(const tidu_primitive_set* set, const char* primitive, tidu_graph** graph) {
  tidu_builder* builder = NULL;
  uint32_t value;
  tidu_status status;
  TRY(tidu_builder_create("own", set, &builder));
  TRY(tidu_builder_input(builder, "x", &vector_type, &value));
  TRY(tidu_emit1(tidu_builder_emitter(builder), primitive, &value, 1, NULL, &value));
  TRY(tidu_emit1(tidu_builder_emitter(builder), "reduce_sum", &value, 1, "{\"axes\": [0]}", &value));
  TRY(tidu_builder_build(builder, &value, 1, graph));
done:
  tidu_builder_release(builder);
  return status;
}

static tidu_status executors_of(const tidu_primitive_set* set, tidu_executor** executors) {
  tidu_cpu_options options;
  tidu_status status;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.primitives = set;
  TRY(tidu_cpu_create(&options, &executors[0]));
  TRY(tidu_reference_create(set, &executors[1]));
done:
  return status;
}

/* Gradient 3 x^2, Hessian times u 6 x u, and the gradient of two rows. */
tidu_status primitive_program(void) {
  tidu_primitive_set* set = NULL;
  tidu_executor* executors[2] = {NULL, NULL};
  tidu_graph *graph = NULL, *grad = NULL, *hvp = NULL, *batched = NULL, *copy = NULL;
  tidu_string* json = NULL;
  const void* inputs[2] = {x, u};
  double value, dx[3], hu[3], rows[6], both[6];
  void* outputs[3];
  tidu_status status;
  int i, k;
  TRY(make_set(&set));
  TRY(make_graph(set, "test.cube", &graph));
  TRY(tidu_graph_to_json(graph, &json));
  TRY(tidu_graph_from_json(tidu_string_data(json), tidu_string_size(json), set, &copy));
  TRY(tidu_grad(copy, NULL, 0, NULL, &grad));
  TRY(tidu_hvp(graph, NULL, 0, NULL, &hvp));
  TRY(tidu_vmap(grad, 2, NULL, &batched));
  TRY(executors_of(set, executors));
  for (i = 0; i < 6; ++i) both[i] = i < 3 ? x[i] : u[i - 3];
  for (k = 0; k < 2; ++k) {
    outputs[0] = &value;
    outputs[1] = dx;
    outputs[2] = hu;
    TRY(evaluate(executors[k], hvp, inputs, 2, outputs, 3));
    outputs[0] = rows;
    inputs[0] = both;
    TRY(evaluate(executors[k], batched, inputs, 1, outputs, 1));
    inputs[0] = x;
    for (i = 0; i < 3; ++i) NEAR(dx[i], 3 * x[i] * x[i]);
    for (i = 0; i < 3; ++i) NEAR(hu[i], 6 * x[i] * u[i]);
    for (i = 0; i < 6; ++i) NEAR(rows[i], 3 * both[i] * both[i]);
  }
done:
  tidu_primitive_set_release(set);
  tidu_executor_release(executors[0]);
  tidu_executor_release(executors[1]);
  tidu_graph_release(graph);
  tidu_graph_release(grad);
  tidu_graph_release(hvp);
  tidu_graph_release(batched);
  tidu_graph_release(copy);
  tidu_string_release(json);
  return status;
}

static void test_wrong_rules(const tidu_primitive_set* set) {
  tidu_graph *graph = NULL, *grad = NULL;
  tidu_executor* executors[2] = {NULL, NULL};
  tidu_builder* builder = NULL;
  const void* inputs[1] = {x};
  double value;
  void* outputs[1];
  uint32_t y;
  int k;
  outputs[0] = &value;
  OK(make_graph(set, "test.bad", &graph));
  FAILS(tidu_grad(graph, NULL, 0, NULL, &grad), TIDU_INVALID_ARGUMENT, "test.bad");
  CHECK(grad == NULL);
  OK(executors_of(set, executors));
  for (k = 0; k < 2; ++k) {
    FAILS(evaluate(executors[k], graph, inputs, 1, outputs, 1), TIDU_INTERNAL, "kernel returned status 77");
    tidu_executor_release(executors[k]);
  }
  OK(tidu_cpu_create(NULL, &executors[0]));
  FAILS(evaluate(executors[0], graph, inputs, 1, outputs, 1), TIDU_EXECUTION, "test.bad");
  tidu_executor_release(executors[0]);
  tidu_graph_release(graph);
  FAILS(make_graph(NULL, "test.cube", &graph), TIDU_UNKNOWN_PRIMITIVE, "test.cube");
  OK(tidu_builder_create("types", set, &builder));
  OK(tidu_builder_input(builder, "n", &integer_type, &y));
  FAILS(tidu_emit1(tidu_builder_emitter(builder), "test.cube", &y, 1, NULL, &y), TIDU_TYPE,
        "infer: expected one operand of f64");
  tidu_builder_release(builder);
}

static void test_refusals(void) {
  static const tidu_attribute wrong[] = {{"t", TIDU_ATTRIBUTE_TENSOR, 1, 0}, {"k", 7, 0, 0}, {NULL, 0, 0, 0}};
  tidu_primitive_functions functions = functions_of(NULL);
  const tidu_primitive *primitive = NULL, *twice[2];
  tidu_primitive_set* set = NULL;
  FAILS(tidu_primitive_create(&functions, &primitive), TIDU_INVALID_ARGUMENT, "functions->name");
  functions = functions_of("test.wrong");
  functions.attributes = wrong;
  functions.num_attributes = 1;
  FAILS(tidu_primitive_create(&functions, &primitive), TIDU_INVALID_ARGUMENT, "to be required");
  functions.attributes = wrong + 1;
  FAILS(tidu_primitive_create(&functions, &primitive), TIDU_INVALID_ARGUMENT, "kind of 0 to 6, got 7");
  functions.attributes = wrong + 2;
  FAILS(tidu_primitive_create(&functions, &primitive), TIDU_INVALID_ARGUMENT, "name not to be NULL");
  functions.num_attributes = 0;
  functions.traits = 8;
  FAILS(tidu_primitive_create(&functions, &primitive), TIDU_INVALID_ARGUMENT, "traits");
  functions.traits = 0;
  functions.linearity = 3;
  FAILS(tidu_primitive_create(&functions, &primitive), TIDU_INVALID_ARGUMENT, "linearity of 0 to 2, got 3");
  functions.linearity = 0;
  functions.num_results = -2;
  FAILS(tidu_primitive_create(&functions, &primitive), TIDU_INVALID_ARGUMENT, "num_results from -1 on");
  functions.num_results = 1;
  functions.infer = NULL;
  FAILS(tidu_primitive_create(&functions, &primitive), TIDU_INVALID_ARGUMENT, "functions->infer");
  CHECK(primitive == NULL);
  twice[0] = twice[1] = cube;
  FAILS(tidu_primitive_set_create(twice, 2, &set), TIDU_INVALID_ARGUMENT, "test.cube");
  CHECK(set == NULL);
  FAILS(tidu_results_add(NULL, &vector_type), TIDU_INVALID_ARGUMENT, "results not to be NULL");
}

void test_primitives(void) {
  tidu_primitive_set* set = NULL;
  OK(primitive_program());
  OK(make_set(&set));
  test_wrong_rules(set);
  test_refusals();
  CHECK(tidu_primitive_set_retain(set) == set);
  tidu_primitive_set_release(set);
  tidu_primitive_set_release(set);
  tidu_primitive_set_release(NULL);
}
