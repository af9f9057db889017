/* c_interface.c - the C interface as a program in C gets it: d/dx of x squared at 3. */
#include <stdio.h>
#include <tidu/c.h>

int main(void) {
  const tidu_type scalar = {TIDU_F64, 0, NULL};
  const double three = 3;
  const void* inputs[1];
  void* outputs[1];
  double slope = 0;
  uint32_t x;
  tidu_builder* builder = NULL;
  tidu_graph *square = NULL, *gradient = NULL;
  tidu_executor* cpu = NULL;
  tidu_executable* program = NULL;
  inputs[0] = &three;
  outputs[0] = &slope;
  if (tidu_builder_create("square", NULL, &builder) != TIDU_OK ||
      tidu_builder_input(builder, "x", &scalar, &x) != TIDU_OK ||
      tidu_emit1(tidu_builder_emitter(builder), "square", &x, 1, NULL, &x) != TIDU_OK ||
      tidu_builder_build(builder, &x, 1, &square) != TIDU_OK ||
      tidu_grad(square, NULL, 0, NULL, &gradient) != TIDU_OK || tidu_cpu_create(NULL, &cpu) != TIDU_OK ||
      tidu_compile(cpu, gradient, &program) != TIDU_OK ||
      tidu_run_memory(program, inputs, 1, outputs, 1) != TIDU_OK) {
    printf("%s\n", tidu_last_error());
    return 1;
  }
  tidu_executable_release(program);
  tidu_executor_release(cpu);
  tidu_graph_release(gradient);
  tidu_graph_release(square);
  tidu_builder_release(builder);
  return slope == 6 ? 0 : 1;
}
