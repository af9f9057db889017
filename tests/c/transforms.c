/* transforms.c - transforms, held against formulas: f(x, w) = sum(sin(x) w). */
#include <math.h>
#include <stddef.h>

#include "support.h"

static const double x[3] = {0.3, -1.2, 2.0}, w[3] = {0.5, 2.0, -0.7}, u[3] = {1.0, 0.25, -2.0};
static const size_t first_input[] = {0};

static tidu_executor* cpu;

/* The outputs of the transformed graph on x, w and up to two further inputs. */
static void run(tidu_graph* graph, const void* third, const void* fourth, void* const* outputs,
                size_t num_outputs) {
  const void* inputs[4] = {x, w, NULL, NULL};
  inputs[2] = third;
  inputs[3] = fourth;
  OK(evaluate(cpu, graph, inputs, tidu_graph_num_inputs(graph), outputs, num_outputs));
  tidu_graph_release(graph);
}

static double loss_value(void) {
  double sum = 0;
  int i;
  for (i = 0; i < 3; ++i) sum += sin(x[i]) * w[i];
  return sum;
}

static void test_modes(const tidu_graph* loss) {
  tidu_graph* graph = NULL;
  double value, tangent, expected = 0, dx[3], dw[3];
  const double two = 2;
  int i;
  void *jvp_out[2], *vjp_out[3];
  jvp_out[0] = &value;
  jvp_out[1] = &tangent;
  vjp_out[0] = &value;
  vjp_out[1] = dx;
  vjp_out[2] = dw;
  OK(tidu_jvp(loss, first_input, 1, NULL, &graph));
  run(graph, u, NULL, jvp_out, 2);
  for (i = 0; i < 3; ++i) expected += cos(x[i]) * w[i] * u[i];
  NEAR(value, loss_value());
  NEAR(tangent, expected);
  OK(tidu_vjp(loss, NULL, 0, NULL, &graph));
  run(graph, &two, NULL, vjp_out, 3);
  for (i = 0; i < 3; ++i) NEAR(dx[i], 2 * cos(x[i]) * w[i]);
  for (i = 0; i < 3; ++i) NEAR(dw[i], 2 * sin(x[i]));
  OK(tidu_value_and_grad(loss, NULL, 0, NULL, &graph));
  run(graph, NULL, NULL, vjp_out, 3);
  NEAR(value, loss_value());
  for (i = 0; i < 3; ++i) NEAR(dw[i], sin(x[i]));
  OK(tidu_grad(loss, first_input, 1, NULL, &graph));
  run(graph, NULL, NULL, vjp_out + 1, 1);
  for (i = 0; i < 3; ++i) NEAR(dx[i], cos(x[i]) * w[i]);
}

static void test_second_order(const tidu_graph* loss, const tidu_graph* product) {
  tidu_graph* graph = NULL;
  double value, dx[3], hv[3], y[3], block[9];
  int i, j;
  void *hvp_out[3], *jac_out[2];
  hvp_out[0] = &value;
  hvp_out[1] = dx;
  hvp_out[2] = hv;
  jac_out[0] = y;
  jac_out[1] = block;
  OK(tidu_hvp(loss, first_input, 1, NULL, &graph));
  run(graph, u, NULL, hvp_out, 3);
  for (i = 0; i < 3; ++i) NEAR(hv[i], -sin(x[i]) * w[i] * u[i]);
  OK(tidu_hessian(loss, first_input, 1, NULL, &graph));
  run(graph, NULL, NULL, jac_out + 1, 1);
  for (i = 0; i < 3; ++i)
    for (j = 0; j < 3; ++j) NEAR(block[3 * i + j], i == j ? -sin(x[i]) * w[i] : 0);
  OK(tidu_jacfwd(product, first_input, 1, NULL, &graph));
  run(graph, NULL, NULL, jac_out + 1, 1);
  for (i = 0; i < 3; ++i)
    for (j = 0; j < 3; ++j) NEAR(block[3 * i + j], i == j ? cos(x[i]) * w[i] : 0);
  OK(tidu_jacrev(product, first_input, 1, NULL, &graph));
  run(graph, NULL, NULL, jac_out + 1, 1);
  for (i = 0; i < 3; ++i) NEAR(block[4 * i], cos(x[i]) * w[i]);
}

static void test_linear_maps(const tidu_graph* product) {
  tidu_graph *augmented = NULL, *linear = NULL, *transposed = NULL;
  size_t num_residuals = 0, tangent = 0;
  uint32_t place = 9, back = 9;
  double y[3], residuals[3][3], out[3];
  const void* inputs[4];
  void* outputs[4];
  size_t i;
  OK(tidu_linearize(product, first_input, 1, &augmented, &linear, &num_residuals, &place));
  CHECK(place == 0 && num_residuals >= 1 && num_residuals <= 3);
  CHECK(tidu_graph_num_outputs(augmented) == 1 + num_residuals);
  CHECK(tidu_graph_num_inputs(linear) == num_residuals + 1);
  outputs[0] = y;
  for (i = 0; i < num_residuals; ++i) inputs[i] = outputs[1 + i] = residuals[i];
  {
    const void* primals[2] = {x, w};
    OK(evaluate(cpu, augmented, primals, 2, outputs, 1 + num_residuals));
  }
  inputs[num_residuals] = u;
  outputs[0] = out;
  OK(evaluate(cpu, linear, inputs, num_residuals + 1, outputs, 1));
  for (i = 0; i < 3; ++i) NEAR(out[i], cos(x[i]) * w[i] * u[i]);
  tangent = num_residuals;
  OK(tidu_linear_transpose(linear, &tangent, 1, &transposed, &back));
  CHECK(back == 0);
  OK(evaluate(cpu, transposed, inputs, num_residuals + 1, outputs, 1));
  for (i = 0; i < 3; ++i) NEAR(out[i], cos(x[i]) * w[i] * u[i]);
  tidu_graph_release(transposed);
  FAILS(tidu_linear_transpose(product, NULL, 0, &transposed, NULL), TIDU_AD_RULE, "linear");
  CHECK(transposed == NULL);
  tidu_graph_release(augmented);
  tidu_graph_release(linear);
  tangent = 5;
  FAILS(tidu_linearize(product, &tangent, 1, &augmented, &linear, &num_residuals, &place),
        TIDU_INVALID_ARGUMENT, "wrt to be below 2, got 5");
  CHECK(augmented == NULL && linear == NULL && num_residuals == 0 && place == TIDU_ABSENT);
}

static void test_vmap_and_optimize(const tidu_graph* loss) {
  static const uint8_t batched[] = {1, 0};
  tidu_graph* graph = NULL;
  double xs[6], values[2];
  const void* inputs[2];
  void* outputs[1];
  int i;
  for (i = 0; i < 6; ++i) xs[i] = i < 3 ? x[i] : u[i - 3];
  inputs[0] = xs;
  inputs[1] = w;
  outputs[0] = values;
  OK(tidu_vmap(loss, 2, batched, &graph));
  OK(evaluate(cpu, graph, inputs, 2, outputs, 1));
  NEAR(values[0], loss_value());
  NEAR(values[1], sin(u[0]) * w[0] + sin(u[1]) * w[1] + sin(u[2]) * w[2]);
  tidu_graph_release(graph);
  FAILS(tidu_vmap(loss, -1, NULL, &graph), TIDU_INVALID_ARGUMENT, "-1");
  OK(tidu_optimize(loss, &graph));
  run(graph, NULL, NULL, outputs, 1);
  NEAR(values[0], loss_value());
}

static void test_options(const tidu_graph* loss, const tidu_graph* product) {
  tidu_derivative_options options = {sizeof(tidu_derivative_options), 1, 0, 1};
  tidu_graph* graph = NULL;
  tidu_string* name = NULL;
  const size_t wrong = 2;
  struct {
    tidu_derivative_options known;
    size_t more;
  } newer = {{sizeof newer, 0, 1, 0}, 0};
  OK(tidu_jvp(loss, first_input, 1, &options, &graph));
  OK(tidu_graph_input_name(graph, 2, &name));
  CHECK(tidu_string_data(name)[0] == 'x' && tidu_string_data(name)[1] == '.');
  tidu_string_release(name);
  tidu_graph_release(graph);
  OK(tidu_value_and_grad(loss, NULL, 0, &newer.known, &graph));
  tidu_graph_release(graph);
  newer.more = 1;
  FAILS(tidu_value_and_grad(loss, NULL, 0, &newer.known, &graph), TIDU_INVALID_ARGUMENT, "this version has");
  options.struct_size = 0;
  FAILS(tidu_jvp(loss, NULL, 0, &options, &graph), TIDU_INVALID_ARGUMENT, "struct_size");
  FAILS(tidu_grad(loss, &wrong, 1, NULL, &graph), TIDU_INVALID_ARGUMENT, "wrt to be below 2, got 2");
  FAILS(tidu_grad(product, NULL, 0, NULL, &graph), TIDU_INVALID_ARGUMENT, "scalar");
  FAILS(tidu_grad(NULL, NULL, 0, NULL, &graph), TIDU_INVALID_ARGUMENT,
        "[tidu_grad] expected graph not to be NULL");
  FAILS(tidu_grad(loss, NULL, 0, NULL, NULL), TIDU_INVALID_ARGUMENT, "result not to be NULL");
  CHECK(graph == NULL);
}

void test_transforms(void) {
  tidu_graph *loss = NULL, *product = NULL;
  OK(tidu_cpu_create(NULL, &cpu));
  OK(make_loss(&loss));
  OK(make_product(&product));
  test_modes(loss);
  test_second_order(loss, product);
  test_linear_maps(product);
  test_vmap_and_optimize(loss);
  test_options(loss, product);
  tidu_graph_release(loss);
  tidu_graph_release(product);
  tidu_executor_release(cpu);
}

tidu_status transform_program(void) {
  static const double two[2] = {1, 2};
  tidu_graph *loss = NULL, *grad = NULL, *hessian = NULL, *augmented = NULL, *linear = NULL, *batched = NULL,
             *transposed = NULL, *copy = NULL;
  tidu_string* json = NULL;
  tidu_executor* executor = NULL;
  tidu_tensor *primals[2] = {NULL, NULL}, *gradients[2] = {NULL, NULL}, *seed = NULL, *value = NULL;
  size_t num_residuals = 0;
  tidu_status status;
  TRY(make_loss(&loss));
  TRY(tidu_grad(loss, NULL, 0, NULL, &grad));
  TRY(tidu_hessian(loss, first_input, 1, NULL, &hessian));
  TRY(tidu_linearize(loss, NULL, 0, &augmented, &linear, &num_residuals, NULL));
  TRY(tidu_vmap(grad, 2, NULL, &batched));
  TRY(tidu_graph_to_json(batched, &json));
  TRY(tidu_graph_from_json(tidu_string_data(json), tidu_string_size(json), NULL, &copy));
  TRY(tidu_cpu_create(NULL, &executor));
  TRY(tidu_tensor_copy(&vector_type, x, &primals[0]));
  TRY(tidu_tensor_copy(&vector_type, w, &primals[1]));
  TRY(tidu_tensor_copy(&scalar_type, two, &seed));
  TRY(tidu_vjp_run(executor, loss, (const tidu_tensor* const*)primals, NULL, 2,
                   (const tidu_tensor* const*)&seed, &value, 1, gradients));
done:
  tidu_graph_release(loss);
  tidu_graph_release(grad);
  tidu_graph_release(hessian);
  tidu_graph_release(augmented);
  tidu_graph_release(linear);
  tidu_graph_release(batched);
  tidu_graph_release(transposed);
  tidu_graph_release(copy);
  tidu_string_release(json);
  tidu_executor_release(executor);
  tidu_tensor_release(primals[0]);
  tidu_tensor_release(primals[1]);
  tidu_tensor_release(gradients[0]);
  tidu_tensor_release(gradients[1]);
  tidu_tensor_release(seed);
  tidu_tensor_release(value);
  return status;
}
