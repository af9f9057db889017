/* executors.c - tensors and DLPack, compiled programs on tensors and memory, stateless derivatives. */
#include <math.h>
#include <string.h>

#include "support.h"

static const double x[3] = {0.3, -1.2, 2.0}, w[3] = {0.5, 2.0, -0.7}, u[3] = {1.0, 0.25, -2.0};

static int num_deleted;
static void count_deleted(void* user) { *(int*)user += 1; }

static tidu_tensor* tensor_of(const double* data) {
  tidu_tensor* tensor = NULL;
  OK(tidu_tensor_copy(&vector_type, data, &tensor));
  return tensor;
}
static const double* data_of(const tidu_tensor* tensor) {
  const void* data = NULL;
  OK(tidu_tensor_data(tensor, &data));
  return (const double*)data;
}

static void test_dlpack(tidu_tensor* tensor, const tidu_tensor* borrowed) {
  void* managed = NULL;
  tidu_tensor* taken = NULL;
  OK(tidu_tensor_to_dlpack(tensor, &managed));
  OK(tidu_tensor_from_dlpack(managed, 0, &taken));
  CHECK(data_of(taken) == data_of(tensor));
  tidu_tensor_release(taken);
  OK(tidu_tensor_to_dlpack_versioned(tensor, &managed));
  OK(tidu_tensor_from_dlpack_versioned(managed, 1, &taken));
  CHECK(data_of(taken)[1] == x[1]);
  tidu_tensor_release(taken);
  FAILS(tidu_tensor_to_dlpack(borrowed, &managed), TIDU_INVALID_ARGUMENT, "read-only");
  CHECK(managed == NULL);
  FAILS(tidu_tensor_from_dlpack(NULL, 0, &taken), TIDU_INVALID_ARGUMENT, "null");
  FAILS(tidu_tensor_to_dlpack(tensor, NULL), TIDU_INVALID_ARGUMENT, "managed not to be NULL");
  FAILS(tidu_tensor_to_dlpack_versioned(NULL, &managed), TIDU_INVALID_ARGUMENT, "tensor not to be NULL");
  OK(tidu_tensor_to_dlpack(tensor, &managed)); /* consumed even so */
  FAILS(tidu_tensor_from_dlpack(managed, 0, NULL), TIDU_INVALID_ARGUMENT, "tensor not to be NULL");
}

void test_tensors(void) {
  tidu_tensor *tensor = tensor_of(x), *borrowed = NULL, *empty = NULL;
  const int64_t none[] = {2, 0};
  const tidu_type empty_type = {TIDU_F32, 2, none};
  tidu_type type;
  double out[3];
  OK(tidu_tensor_type(tensor, &type));
  CHECK(type.dtype == TIDU_F64 && type.rank == 1 && type.dims[0] == 3);
  CHECK(data_of(tensor) != x && memcmp(data_of(tensor), x, sizeof x) == 0);
  OK(tidu_tensor_read(tensor, out, sizeof out));
  CHECK(memcmp(out, x, sizeof x) == 0);
  FAILS(tidu_tensor_read(tensor, out, 8), TIDU_INVALID_ARGUMENT, "size to be 24, got 8");
  FAILS(tidu_tensor_copy(&vector_type, NULL, &borrowed), TIDU_INVALID_ARGUMENT, "data not to be NULL");
  OK(tidu_tensor_copy(&empty_type, NULL, &empty));
  tidu_tensor_release(empty);
  num_deleted = 0;
  OK(tidu_tensor_borrow(&vector_type, x, count_deleted, &num_deleted, &borrowed));
  CHECK(data_of(borrowed) == x);
  test_dlpack(tensor, borrowed);
  CHECK(tidu_tensor_retain(borrowed) == borrowed && tidu_tensor_retain(NULL) == NULL);
  tidu_tensor_release(borrowed);
  CHECK(num_deleted == 0);
  tidu_tensor_release(borrowed);
  CHECK(num_deleted == 1);
  FAILS(tidu_tensor_borrow(&vector_type, (const char*)x + 1, count_deleted, &num_deleted, &borrowed),
        TIDU_INVALID_ARGUMENT, "aligned");
  CHECK(num_deleted == 1 && borrowed == NULL);
  tidu_tensor_release(tensor);
  tidu_tensor_release(NULL);
}

static void test_program(const tidu_executor* executor, const tidu_graph* product) {
  tidu_executable* executable = NULL;
  tidu_tensor *inputs[2], *output = NULL, *wrong = NULL;
  const void* memory[2];
  double y[4] = {0, 0, 0, 7};
  unsigned char bytes[25], odd[25];
  void* results[1];
  int i, round;
  inputs[0] = tensor_of(x);
  inputs[1] = tensor_of(w);
  OK(tidu_compile(executor, product, &executable));
  OK(tidu_run(executable, (const tidu_tensor* const*)inputs, 2, &output, 1));
  for (i = 0; i < 3; ++i) NEAR(data_of(output)[i], sin(x[i]) * w[i]);
  tidu_tensor_release(output);
  memcpy(odd + 1, w, sizeof w);
  memory[0] = x;
  memory[1] = odd + 1;
  for (round = 0; round < 3; ++round) {
    results[0] = round == 2 ? (void*)(bytes + 1) : (void*)y;
    OK(tidu_run_memory(executable, memory, 2, results, 1));
  }
  CHECK(memcmp(bytes + 1, y, sizeof x) == 0 && y[3] == 7);
  for (i = 0; i < 3; ++i) NEAR(y[i], sin(x[i]) * w[i]);
  memory[1] = NULL;
  FAILS(tidu_run_memory(executable, memory, 2, results, 1), TIDU_INVALID_ARGUMENT,
        "inputs[1] not to be NULL");
  results[0] = NULL;
  FAILS(tidu_run_memory(executable, memory, 2, results, 1), TIDU_INVALID_ARGUMENT,
        "outputs[0] not to be NULL");
  FAILS(tidu_run_memory(executable, memory, 1, results, 1), TIDU_INVALID_ARGUMENT,
        "num_inputs to be 2, got 1");
  FAILS(tidu_run(executable, (const tidu_tensor* const*)inputs, 2, &output, 0), TIDU_INVALID_ARGUMENT,
        "num_outputs");
  OK(tidu_tensor_copy(&scalar_type, x, &wrong));
  tidu_tensor_release(inputs[1]);
  inputs[1] = wrong;
  FAILS(tidu_run(executable, (const tidu_tensor* const*)inputs, 2, &output, 1), TIDU_TYPE, "f64[]");
  CHECK(output == NULL);
  CHECK(tidu_executable_retain(executable) == executable);
  tidu_executable_release(executable);
  tidu_executable_release(executable);
  tidu_executable_release(NULL);
  tidu_tensor_release(inputs[0]);
  tidu_tensor_release(inputs[1]);
}

/* Larger than inputs that are copied and kept between runs. */
static void test_large(const tidu_executor* executor) {
  static double large[200000], out[200001];
  static const int64_t dims[] = {200000};
  const tidu_type type = {TIDU_F64, 1, dims};
  tidu_builder* builder = NULL;
  tidu_graph* graph = NULL;
  tidu_executable* executable = NULL;
  const void* inputs[1];
  void* outputs[1];
  uint32_t value;
  int i, round;
  OK(tidu_builder_create("large", NULL, &builder));
  OK(tidu_builder_input(builder, "x", &type, &value));
  OK(tidu_emit1(tidu_builder_emitter(builder), "neg", &value, 1, NULL, &value));
  OK(tidu_builder_build(builder, &value, 1, &graph));
  OK(tidu_compile(executor, graph, &executable));
  for (i = 0; i < 200000; ++i) large[i] = i;
  for (round = 0; round < 2; ++round) {
    inputs[0] = large;
    outputs[0] = (char*)out + 8 * round;
    OK(tidu_run_memory(executable, inputs, 1, outputs, 1));
    CHECK(out[199999 + round] == -199999.0);
  }
  tidu_executable_release(executable);
  tidu_graph_release(graph);
  tidu_builder_release(builder);
}

static void test_stateless(const tidu_executor* executor, const tidu_graph* loss) {
  const tidu_tensor *primals[2], *tangents[2] = {NULL, NULL}, *cotangents[1] = {NULL};
  tidu_tensor *value = NULL, *tangent = NULL, *gradients[2] = {NULL, NULL}, *a = tensor_of(x),
              *b = tensor_of(w), *c = tensor_of(u), *two = NULL;
  static const uint8_t second[] = {0, 1};
  const double seed = 2;
  double expected = 0;
  int i, round;
  primals[0] = a;
  primals[1] = b;
  OK(tidu_jvp_run(executor, loss, primals, tangents, 2, &value, &tangent, 1));
  CHECK(value != NULL && tangent == NULL);
  tidu_tensor_release(value);
  tangents[0] = c;
  for (i = 0; i < 3; ++i) expected += cos(x[i]) * w[i] * u[i];
  for (round = 0; round < 2; ++round) {
    OK(tidu_jvp_run(executor, loss, primals, tangents, 2, &value, &tangent, 1));
    NEAR(*data_of(tangent), expected);
    NEAR(*data_of(value), sin(x[0]) * w[0] + sin(x[1]) * w[1] + sin(x[2]) * w[2]);
    tidu_tensor_release(value);
    tidu_tensor_release(tangent);
  }
  OK(tidu_tensor_copy(&scalar_type, &seed, &two));
  cotangents[0] = two;
  OK(tidu_vjp_run(executor, loss, primals, NULL, 2, cotangents, &value, 1, gradients));
  for (i = 0; i < 3; ++i) NEAR(data_of(gradients[0])[i], 2 * cos(x[i]) * w[i]);
  tidu_tensor_release(value);
  tidu_tensor_release(gradients[0]);
  tidu_tensor_release(gradients[1]);
  OK(tidu_vjp_run(executor, loss, primals, second, 2, cotangents, NULL, 1, gradients));
  CHECK(gradients[0] == NULL);
  for (i = 0; i < 3; ++i) NEAR(data_of(gradients[1])[i], 2 * sin(x[i]));
  tidu_tensor_release(gradients[1]);
  tangents[0] = two;
  FAILS(tidu_jvp_run(executor, loss, primals, tangents, 2, &value, &tangent, 1), TIDU_TYPE, "f64[]");
  CHECK(value == NULL && tangent == NULL);
  FAILS(tidu_vjp_run(executor, loss, primals, NULL, 1, cotangents, NULL, 1, gradients), TIDU_INVALID_ARGUMENT,
        "num_inputs to be 2, got 1");
  FAILS(tidu_vjp_run(NULL, loss, primals, NULL, 2, cotangents, NULL, 1, gradients), TIDU_INVALID_ARGUMENT,
        "executor not to be NULL");
  primals[1] = NULL;
  FAILS(tidu_vjp_run(executor, loss, primals, NULL, 2, cotangents, NULL, 1, gradients), TIDU_INVALID_ARGUMENT,
        "primals[1] not to be NULL");
  CHECK(gradients[0] == NULL && gradients[1] == NULL);
  tidu_tensor_release(a);
  tidu_tensor_release(b);
  tidu_tensor_release(c);
  tidu_tensor_release(two);
}

void test_executors(void) {
  tidu_cpu_options options;
  tidu_executor *cpu = NULL, *again = NULL, *reference = NULL;
  tidu_graph *loss = NULL, *product = NULL;
  tidu_executable* executable = NULL;
  OK(make_loss(&loss));
  OK(make_product(&product));
  OK(tidu_cpu_create(NULL, &cpu));
  OK(tidu_cpu_create(NULL, &again));
  CHECK(cpu == again);
  tidu_executor_release(again);
  OK(tidu_reference_create(NULL, &reference));
  test_program(cpu, product);
  test_program(reference, product);
  test_large(cpu);
  test_large(reference);
  test_stateless(cpu, loss);
  test_stateless(reference, loss);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.threads = 1;
  options.check_indices = options.generate_no_code = 1;
  options.cached_bytes = 1 << 20;
  OK(tidu_cpu_create(&options, &again));
  CHECK(again != cpu);
  test_program(again, product);
  tidu_executor_release(again);
  options.threads = -1;
  FAILS(tidu_cpu_create(&options, &again), TIDU_INVALID_ARGUMENT, "threads from 0 on, got -1");
  FAILS(tidu_cpu_create(NULL, NULL), TIDU_INVALID_ARGUMENT, "executor not to be NULL");
  FAILS(tidu_compile(cpu, NULL, &executable), TIDU_INVALID_ARGUMENT, "graph not to be NULL");
  CHECK(tidu_executor_retain(cpu) == cpu);
  tidu_executor_release(cpu);
  tidu_executor_release(cpu);
  tidu_executor_release(reference);
  tidu_executor_release(NULL);
  tidu_graph_release(loss);
  tidu_graph_release(product);
}
