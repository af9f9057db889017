/* function_executor.c - an executor in C: operands are counted vectors of three numbers, and a graph is run
   by a loop over its operations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static const double x[3] = {0.3, -1.2, 2.0}, w[3] = {0.5, 2.0, -0.7};

typedef struct vector {
  long references;
  uint64_t version;
  double data[3];
} vector;
static long num_vectors, num_prepared, num_destroyed;

static vector* new_vector(const double* data) {
  vector* made = malloc(sizeof *made);
  if (made == NULL) abort();
  made->references = 1;
  made->version = 0;
  if (data != NULL) memcpy(made->data, data, sizeof made->data);
  ++num_vectors;
  return made;
}
static void retain_vector(void* user, void* operand) {
  (void)user;
  ++((vector*)operand)->references;
}
static void release_vector(void* user, void* operand) {
  vector* of = operand;
  (void)user;
  if (--of->references != 0) return;
  --num_vectors;
  free(of);
}

/* The operations of the graphs of this test. */
static tidu_status compute(const char* name, const vector* a, const vector* b, vector* to) {
  int i;
  for (i = 0; i < 3; ++i) {
    const double p = a->data[i], q = b->data[i];
    if (strcmp(name, "sin") == 0) {
      to->data[i] = sin(p);
    } else if (strcmp(name, "cos") == 0) {
      to->data[i] = cos(p);
    } else if (strcmp(name, "neg") == 0) {
      to->data[i] = -p;
    } else if (strcmp(name, "mul") == 0) {
      to->data[i] = p * q;
    } else if (strcmp(name, "add") == 0) {
      to->data[i] = p + q;
    } else {
      tidu_set_error(name);
      return TIDU_EXECUTION;
    }
  }
  return TIDU_OK;
}

static tidu_status run_graph(void* user, const tidu_graph* graph, void* prepared, void* const* inputs,
                             size_t num_inputs, void** outputs, size_t num_outputs) {
  vector* values[64];
  const size_t count = tidu_graph_num_values(graph);
  tidu_operation operation;
  tidu_status status = TIDU_OK;
  size_t i;
  if (fail_here()) return TIDU_EXECUTION;
  if (count > 64 || (prepared != NULL && *(size_t*)prepared != count)) return TIDU_INTERNAL;
  memset(values, 0, sizeof values);
  for (i = 0; i < num_inputs; ++i) {
    values[tidu_graph_input(graph, i)] = inputs[i];
    retain_vector(user, inputs[i]);
  }
  for (i = 0; i < tidu_graph_num_operations(graph) && status == TIDU_OK; ++i) {
    status = tidu_graph_operation(graph, i, &operation);
    if (status != TIDU_OK) break;
    vector *a = values[operation.operands[0]], *b = values[operation.operands[operation.num_operands - 1]];
    values[operation.first_result] = new_vector(NULL);
    status = compute(operation.name, a, b, values[operation.first_result]);
  }
  for (i = 0; i < num_outputs && status == TIDU_OK; ++i) {
    outputs[i] = values[tidu_graph_output(graph, i)];
    retain_vector(user, outputs[i]);
  }
  if (status == TIDU_OK && fail_here()) status = TIDU_CANCELLED; /* with outputs that are set */
  for (i = 0; i < count; ++i)
    if (values[i] != NULL) release_vector(user, values[i]);
  return status;
}

static tidu_status add(void* user, const tidu_type* type, void* a, void* b, void** sum) {
  (void)user;
  if (fail_here()) return TIDU_EXECUTION;
  CHECK(type->dtype == TIDU_F64);
  *sum = new_vector(NULL);
  return compute("add", a, b, *sum);
}
static tidu_status prepare(void* user, const tidu_graph* graph, void** prepared) {
  size_t* made;
  (void)user;
  if (fail_here()) return TIDU_EXECUTION;
  made = malloc(sizeof *made);
  if (made == NULL) return TIDU_OUT_OF_MEMORY;
  *made = tidu_graph_num_values(graph);
  *prepared = made;
  ++num_prepared;
  return TIDU_OK;
}
static void discard(void* user, void* prepared) {
  (void)user;
  --num_prepared;
  free(prepared);
}
static tidu_status describe(void* user, void* operand, tidu_type* type) {
  (void)user;
  (void)operand;
  if (fail_here()) return TIDU_TYPE;
  *type = vector_type;
  return TIDU_OK;
}
static tidu_status ones_like(void* user, const tidu_type* type, void** ones) {
  static const double one[3] = {1, 1, 1};
  (void)user;
  if (fail_here()) return TIDU_EXECUTION;
  CHECK(type->rank == 1);
  *ones = new_vector(one);
  return TIDU_OK;
}
static tidu_status is_finite(void* user, void* operand, int32_t* finite) {
  const vector* of = operand;
  (void)user;
  if (fail_here()) return TIDU_EXECUTION;
  *finite = isfinite(of->data[0] + of->data[1] + of->data[2]) ? 1 : 0;
  return TIDU_OK;
}
static tidu_status version(void* user, void* operand, uint64_t* count) {
  (void)user;
  if (fail_here()) return TIDU_EXECUTION;
  *count = ((const vector*)operand)->version;
  return TIDU_OK;
}
static void destroy(void* user) {
  (void)user;
  ++num_destroyed;
}

static tidu_executor_functions functions_of(void) {
  tidu_executor_functions functions;
  memset(&functions, 0, sizeof functions);
  functions.struct_size = sizeof functions;
  functions.name = "vectors";
  functions.destroy = destroy;
  functions.retain = retain_vector;
  functions.release = release_vector;
  functions.execute_forward = run_graph;
  functions.add_operands = add;
  functions.prepare = prepare;
  functions.discard = discard;
  functions.describe = describe;
  functions.ones_like = ones_like;
  functions.is_finite = is_finite;
  functions.version = version;
  return functions;
}

typedef struct tape {
  tidu_executor* executor;
  tidu_recorder* recorder;
  tidu_graph* product;
  vector *x, *w, *y;
  tidu_variable *leaf_x, *leaf_w, *variable_y, *z;
} tape;

/* z = sin(x) w + x: cotangents of x meet. */
static tidu_status record(tape* to) {
  const tidu_executor_functions functions = functions_of();
  tidu_input inputs[2];
  tidu_retained retained;
  tidu_status status;
  void* outputs[1];
  memset(to, 0, sizeof *to);
  to->x = new_vector(x);
  to->w = new_vector(w);
  to->y = new_vector(NULL);
  compute("sin", to->x, to->x, to->y);
  TRY(make_product(&to->product));
  TRY(tidu_executor_create(&functions, &to->executor));
  TRY(tidu_recorder_create(to->executor, NULL, &to->recorder));
  TRY(tidu_recorder_leaf(to->recorder, &to->leaf_x));
  TRY(tidu_recorder_leaf(to->recorder, &to->leaf_w));
  inputs[0].variable = to->leaf_x;
  inputs[0].operand = to->x;
  inputs[1].variable = to->leaf_w;
  inputs[1].operand = to->w;
  retained.value = 2; /* sin(x) */
  retained.operand = to->y;
  TRY(tidu_record(to->recorder, to->product, inputs, 2, NULL, &retained, 1, &to->variable_y, 1));
  inputs[1].variable = to->variable_y;
  inputs[1].operand = to->y;
  outputs[0] = to->y;
  TRY(tidu_record_op(to->recorder, NULL, "add", NULL, inputs, NULL, 2, outputs, &to->z, 1));
done:
  return status;
}

static void release(tape* from) {
  tidu_recorder_release(from->recorder);
  tidu_graph_release(from->product);
  tidu_variable_release(from->leaf_x);
  tidu_variable_release(from->leaf_w);
  tidu_variable_release(from->variable_y);
  tidu_variable_release(from->z);
  tidu_executor_release(from->executor);
  if (from->x != NULL) release_vector(NULL, from->x);
  if (from->w != NULL) release_vector(NULL, from->w);
  if (from->y != NULL) release_vector(NULL, from->y);
}

static void check_gradients(const tape* t, const tidu_gradients* gradients) {
  const vector *dx = tidu_gradients_find(gradients, t->leaf_x),
               *dw = tidu_gradients_find(gradients, t->leaf_w);
  int i;
  CHECK(dx != NULL && dw != NULL);
  for (i = 0; i < 3 && dx != NULL && dw != NULL; ++i) {
    NEAR(dx->data[i], cos(x[i]) * w[i] + 1);
    NEAR(dw->data[i], sin(x[i]));
  }
}

tidu_status function_program(void) {
  tape t;
  vector* seed = NULL;
  tidu_root root = {NULL, NULL, NULL};
  tidu_backward_options options = {sizeof(tidu_backward_options), 1, 0, 1, 0};
  tidu_gradients* gradients = NULL;
  static const double one[3] = {1, 1, 1};
  tidu_status status;
  TRY(record(&t));
  seed = new_vector(one);
  root.variable = t.z;
  root.seed = seed;
  TRY(tidu_backward(t.recorder, &root, 1, NULL, 0, &options, &gradients));
  check_gradients(&t, gradients);
  tidu_gradients_release(gradients);
  gradients = NULL;
  options.anomaly = options.keep_graph = 0;
  options.create_graph = 1;
  TRY(tidu_backward(t.recorder, &root, 1, NULL, 0, &options, &gradients));
  check_gradients(&t, gradients);
done:
  tidu_gradients_release(gradients);
  if (seed != NULL) release_vector(NULL, seed);
  release(&t);
  return status;
}

static void test_failures(void) {
  tidu_executor_functions functions = functions_of();
  tidu_executor* executor = NULL;
  tidu_executable* executable = NULL;
  tidu_graph* graph = NULL;
  functions.discard = NULL;
  FAILS(tidu_executor_create(&functions, &executor), TIDU_INVALID_ARGUMENT,
        "functions->discard not to be NULL");
  functions = functions_of();
  functions.retain = NULL;
  FAILS(tidu_executor_create(&functions, &executor), TIDU_INVALID_ARGUMENT,
        "functions->retain not to be NULL");
  FAILS(tidu_executor_create(NULL, &executor), TIDU_INVALID_ARGUMENT, "functions not to be NULL");
  functions = functions_of();
  num_destroyed = 0;
  OK(tidu_executor_create(&functions, &executor));
  OK(make_product(&graph));
  FAILS(tidu_compile(executor, graph, &executable), TIDU_INVALID_ARGUMENT, "one written in C");
  tidu_graph_release(graph);
  tidu_executor_release(executor);
  CHECK(num_destroyed == 1);
}

/* A value that changed in place, and an executor without the optional functions. */
static void test_contract(void) {
  tape t;
  tidu_root root = {NULL, NULL, NULL};
  tidu_gradients* gradients = NULL;
  OK(record(&t));
  root.variable = t.z;
  ++t.w->version;
  root.seed = t.x;
  FAILS(tidu_backward(t.recorder, &root, 1, NULL, 0, NULL, &gradients), TIDU_TAPE, "");
  --t.w->version;
  OK(tidu_backward(t.recorder, &root, 1, NULL, 0, NULL, &gradients));
  tidu_gradients_release(gradients);
  release(&t);
}

void test_function_executors(void) {
  const long before = num_vectors;
  test_failures();
  test_contract();
  CHECK(num_prepared == 0);
  num_destroyed = 0;
  OK(function_program());
  CHECK(num_vectors == before);
  CHECK(num_prepared == 0);
  CHECK(num_destroyed == 1);
}
