/* tapes.c - recording and backward with tidu's own executors, whose operands are tensors. */
#include <math.h>
#include <string.h>

#include "support.h"

static const double x[3] = {0.3, -1.2, 2.0}, w[3] = {0.5, 2.0, -0.7};

static const double* data_of(const void* tensor) {
  const void* data = NULL;
  OK(tidu_tensor_data((const tidu_tensor*)tensor, &data));
  return (const double*)data;
}

/* f(x, w) = sum(sin(x) w) on a tape: the product by a graph, the sum by a primitive. */
typedef struct tape {
  tidu_recorder* recorder;
  tidu_graph* product;
  tidu_executable* program;
  tidu_tensor *x, *w, *y;
  tidu_variable *leaf_x, *leaf_w, *variable_y, *loss;
} tape;

static tidu_status record(tape* to, const tidu_executor* executor, const tidu_recorder_options* options) {
  tidu_input inputs[2];
  tidu_tensor* both[2];
  void* outputs[1];
  tidu_status status;
  memset(to, 0, sizeof *to);
  TRY(make_product(&to->product));
  TRY(tidu_compile(executor, to->product, &to->program));
  TRY(tidu_recorder_create(executor, options, &to->recorder));
  TRY(tidu_tensor_copy(&vector_type, x, &to->x));
  TRY(tidu_tensor_copy(&vector_type, w, &to->w));
  TRY(tidu_recorder_leaf(to->recorder, &to->leaf_x));
  TRY(tidu_recorder_leaf(to->recorder, &to->leaf_w));
  both[0] = to->x;
  both[1] = to->w;
  TRY(tidu_run(to->program, (const tidu_tensor* const*)both, 2, &to->y, 1));
  inputs[0].variable = to->leaf_x;
  inputs[0].operand = to->x;
  inputs[1].variable = to->leaf_w;
  inputs[1].operand = to->w;
  outputs[0] = to->y;
  TRY(tidu_recorder_set_location(to->recorder, "model.f90", 7));
  TRY(tidu_record(to->recorder, to->product, inputs, 2, outputs, NULL, 0, &to->variable_y, 1));
  inputs[0].variable = to->variable_y;
  inputs[0].operand = to->y;
  TRY(tidu_record_op(to->recorder, NULL, "reduce_sum", "{\"axes\": [0]}", inputs, NULL, 1, NULL, &to->loss,
                     1));
done:
  return status;
}

static void release(tape* from) {
  tidu_recorder_release(from->recorder);
  tidu_graph_release(from->product);
  tidu_executable_release(from->program);
  tidu_tensor_release(from->x);
  tidu_tensor_release(from->w);
  tidu_tensor_release(from->y);
  tidu_variable_release(from->leaf_x);
  tidu_variable_release(from->leaf_w);
  tidu_variable_release(from->variable_y);
  tidu_variable_release(from->loss);
}

static void test_plain(const tidu_executor* executor) {
  tape t;
  tidu_root root = {NULL, NULL, NULL};
  tidu_gradients* gradients = NULL;
  const tidu_variable* wanted[2];
  uint64_t key[2] = {1, 1}, other[2];
  int i;
  OK(record(&t, executor, NULL));
  CHECK(tidu_variable_requires_grad(t.loss) == 1 && tidu_variable_requires_grad(NULL) == 0);
  tidu_variable_key(NULL, key);
  CHECK(key[0] == 0 && key[1] == 0);
  tidu_variable_key(t.leaf_x, key);
  tidu_variable_key(t.leaf_w, other);
  CHECK(key[0] != 0 && (key[0] != other[0] || key[1] != other[1]));
  root.variable = t.loss;
  OK(tidu_backward(t.recorder, &root, 1, NULL, 0, NULL, &gradients));
  for (i = 0; i < 3; ++i) NEAR(data_of(tidu_gradients_find(gradients, t.leaf_x))[i], cos(x[i]) * w[i]);
  for (i = 0; i < 3; ++i) NEAR(data_of(tidu_gradients_find(gradients, t.leaf_w))[i], sin(x[i]));
  CHECK(tidu_gradients_find(gradients, t.variable_y) == NULL && tidu_gradients_find(NULL, t.leaf_x) == NULL);
  tidu_gradients_release(gradients);
  FAILS(tidu_backward(t.recorder, &root, 1, NULL, 0, NULL, &gradients), TIDU_TAPE, "model.f90:7");
  CHECK(gradients == NULL);
  release(&t);

  OK(record(&t, executor, NULL));
  root.variable = t.loss;
  wanted[0] = t.variable_y;
  wanted[1] = t.leaf_x;
  OK(tidu_backward(t.recorder, &root, 1, wanted, 2, NULL, &gradients));
  for (i = 0; i < 3; ++i) NEAR(data_of(tidu_gradients_find(gradients, t.variable_y))[i], 1);
  CHECK(tidu_gradients_find(gradients, t.leaf_x) != NULL && tidu_gradients_find(gradients, t.leaf_w) == NULL);
  tidu_gradients_release(gradients);
  CHECK(tidu_variable_retain(t.loss) == t.loss);
  tidu_variable_release(t.loss);
  release(&t);
}

/* d/dx of sum over (dL/dx)_i is -sin(x) w. */
static void test_second_order(const tidu_executor* executor) {
  tape t;
  tidu_backward_options options = {sizeof(tidu_backward_options), 0, 1, 0, 0};
  tidu_root root = {NULL, NULL, NULL};
  tidu_gradients *first = NULL, *second = NULL;
  tidu_variable* dx = NULL;
  tidu_tensor* ones = NULL;
  const double one[3] = {1, 1, 1};
  int i;
  OK(record(&t, executor, NULL));
  root.variable = t.loss;
  OK(tidu_backward(t.recorder, &root, 1, NULL, 0, &options, &first));
  OK(tidu_gradients_variable(first, t.leaf_x, &dx));
  CHECK(tidu_variable_requires_grad(dx) == 1);
  OK(tidu_tensor_copy(&vector_type, one, &ones));
  root.variable = dx;
  root.seed = ones;
  options.create_graph = 0;
  options.keep_graph = options.more_workers = 1;
  OK(tidu_backward(t.recorder, &root, 1, NULL, 0, &options, &second));
  for (i = 0; i < 3; ++i) NEAR(data_of(tidu_gradients_find(second, t.leaf_x))[i], -sin(x[i]) * w[i]);
  tidu_gradients_release(second);
  OK(tidu_backward(t.recorder, &root, 1, NULL, 0, &options, &second));
  tidu_gradients_release(second);
  tidu_variable_release(dx);
  OK(tidu_gradients_variable(first, t.variable_y, &dx));
  CHECK(dx == NULL);
  options.more_workers = -1;
  FAILS(tidu_backward(t.recorder, &root, 1, NULL, 0, &options, &second), TIDU_INVALID_ARGUMENT,
        "more_workers");
  tidu_gradients_release(first);
  tidu_gradients_release(NULL);
  tidu_tensor_release(ones);
  release(&t);
}

static void test_misuse(const tidu_executor* executor) {
  tape t;
  tidu_root root = {NULL, NULL, NULL};
  tidu_input inputs[2] = {{NULL, NULL}, {NULL, NULL}};
  tidu_gradients* gradients = NULL;
  tidu_variable* made = NULL;
  void* outputs[1] = {NULL};
  tidu_recorder_options options = {sizeof(tidu_recorder_options), 1, 1};
  const tidu_retained retained = {2, NULL};
  OK(record(&t, executor, &options));
  FAILS(tidu_backward(t.recorder, &root, 1, NULL, 0, NULL, &gradients), TIDU_INVALID_ARGUMENT,
        "roots->variable");
  root.variable = t.variable_y;
  FAILS(tidu_backward(t.recorder, &root, 1, NULL, 0, NULL, &gradients), TIDU_INVALID_ARGUMENT, "seed");
  FAILS(tidu_backward(NULL, &root, 1, NULL, 0, NULL, &gradients), TIDU_INVALID_ARGUMENT, "recorder");
  FAILS(tidu_record(t.recorder, t.product, inputs, 1, NULL, NULL, 0, &made, 1), TIDU_INVALID_ARGUMENT,
        "2 inputs");
  FAILS(tidu_record(t.recorder, t.product, inputs, 2, NULL, NULL, 0, &made, 2), TIDU_INVALID_ARGUMENT,
        "num_outputs");
  FAILS(tidu_record(t.recorder, t.product, inputs, 2, outputs, NULL, 0, &made, 1), TIDU_INVALID_ARGUMENT,
        "outputs[0] not to be NULL");
  FAILS(tidu_record(t.recorder, t.product, inputs, 2, NULL, &retained, 1, &made, 1), TIDU_INVALID_ARGUMENT,
        "retained->operand");
  FAILS(tidu_record_op(t.recorder, NULL, "sine", NULL, inputs, NULL, 1, NULL, &made, 1),
        TIDU_UNKNOWN_PRIMITIVE, "sine");
  FAILS(tidu_record_op(t.recorder, NULL, "sin", NULL, inputs, NULL, 1, NULL, &made, 1), TIDU_INVALID_ARGUMENT,
        "expected types");
  CHECK(made == NULL);
  inputs[0].operand = t.x; /* a constant: nothing is recorded */
  OK(tidu_record_op(t.recorder, NULL, "sin", NULL, inputs, &vector_type, 1, NULL, &made, 1));
  CHECK(tidu_variable_requires_grad(made) == 0);
  root.variable = made;
  root.seed = t.x;
  FAILS(tidu_backward(t.recorder, &root, 1, NULL, 0, NULL, &gradients), TIDU_INVALID_ARGUMENT, "");
  tidu_variable_release(made);
  release(&t);
  tidu_recorder_release(NULL);
}

void test_tapes(void) {
  tidu_executor* executors[2] = {NULL, NULL};
  int i;
  OK(tidu_cpu_create(NULL, &executors[0]));
  OK(tidu_reference_create(NULL, &executors[1]));
  for (i = 0; i < 2; ++i) {
    test_plain(executors[i]);
    test_second_order(executors[i]);
    test_misuse(executors[i]);
    tidu_executor_release(executors[i]);
  }
}

tidu_status tape_program(void) {
  tidu_executor* executor = NULL;
  tape t;
  tidu_root root = {NULL, NULL, NULL};
  tidu_gradients* gradients = NULL;
  tidu_status status;
  memset(&t, 0, sizeof t);
  TRY(tidu_cpu_create(NULL, &executor));
  TRY(record(&t, executor, NULL));
  root.variable = t.loss;
  TRY(tidu_backward(t.recorder, &root, 1, NULL, 0, NULL, &gradients));
  NEAR(data_of(tidu_gradients_find(gradients, t.leaf_w))[1], sin(x[1]));
done:
  tidu_gradients_release(gradients);
  release(&t);
  tidu_executor_release(executor);
  return status;
}
