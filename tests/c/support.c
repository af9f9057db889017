/* support.c - checks, types and graphs of the tests. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int num_failures = 0;
long failing_callback = 0;
int callback_struck = 0;

static const int64_t three[] = {3};
const tidu_type scalar_type = {TIDU_F64, 0, NULL};
const tidu_type vector_type = {TIDU_F64, 1, three};
const tidu_type integer_type = {TIDU_I32, 1, three};

void check(int holds, const char* text, const char* file, int line) {
  if (holds) return;
  ++num_failures;
  printf("%s:%d: expected %s\n", file, line, text);
}

void check_ok(tidu_status status, const char* text, const char* file, int line) {
  if (status == TIDU_OK) return;
  ++num_failures;
  printf("%s:%d: %s: %s: %s\n", file, line, text, tidu_status_text(status), tidu_last_error());
}

void check_fails(tidu_status status, tidu_status expected, const char* words, const char* text,
                 const char* file, int line) {
  if (status == expected && strstr(tidu_last_error(), words) != NULL) return;
  ++num_failures;
  printf("%s:%d: %s: expected %s with \"%s\", got %s: %s\n", file, line, text, tidu_status_text(expected),
         words, tidu_status_text(status), tidu_last_error());
}

void check_near(double got, double expected, const char* text, const char* file, int line) {
  if (fabs(got - expected) <= 1e-12 * (1 + fabs(expected))) return;
  ++num_failures;
  printf("%s:%d: %s: expected %.17g, got %.17g\n", file, line, text, expected, got);
}

int fail_here(void) {
  if (failing_callback == 0 || --failing_callback != 0) return 0;
  callback_struck = 1;
  tidu_set_error("planted fault");
  return 1;
}

static tidu_status make(const char* name, int sum, tidu_graph** graph) {
  tidu_builder* builder = NULL;
  tidu_emitter* emitter;
  uint32_t in[2], value;
  tidu_status status;
  *graph = NULL;
  TRY(tidu_builder_create(name, NULL, &builder));
  emitter = tidu_builder_emitter(builder);
  TRY(tidu_builder_input(builder, "x", &vector_type, &in[0]));
  TRY(tidu_builder_input(builder, "w", &vector_type, &in[1]));
  TRY(tidu_emit1(emitter, "sin", &in[0], 1, NULL, &in[0]));
  TRY(tidu_emit1(emitter, "mul", in, 2, NULL, &value));
  if (sum) TRY(tidu_emit1(emitter, "reduce_sum", &value, 1, "{\"axes\": [0]}", &value));
  TRY(tidu_builder_build(builder, &value, 1, graph));
done:
  tidu_builder_release(builder);
  return status;
}

tidu_status make_loss(tidu_graph** graph) { return make("loss", 1, graph); }
tidu_status make_product(tidu_graph** graph) { return make("product", 0, graph); }

tidu_status evaluate(const tidu_executor* executor, const tidu_graph* graph, const void* const* inputs,
                     size_t num_inputs, void* const* outputs, size_t num_outputs) {
  tidu_executable* executable = NULL;
  tidu_status status;
  TRY(tidu_compile(executor, graph, &executable));
  TRY(tidu_run_memory(executable, inputs, num_inputs, outputs, num_outputs));
done:
  tidu_executable_release(executable);
  return status;
}
