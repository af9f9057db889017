/* main.c - the tests of the C interface, in C. */
#include <stdio.h>
#include <string.h>

#include "support.h"

static const struct {
  const char* name;
  void (*test)(void);
} tests[] = {{"base", test_base},
             {"graphs", test_graphs},
             {"emit", test_emit},
             {"transforms", test_transforms},
             {"tensors", test_tensors},
             {"executors", test_executors},
             {"tapes", test_tapes},
             {"function executors", test_function_executors},
             {"primitives", test_primitives},
             {"faults", test_faults}};

int main(int argc, char** argv) {
  size_t i;
  for (i = 0; i < sizeof tests / sizeof tests[0]; ++i) {
    if (argc > 1 && strcmp(argv[1], tests[i].name) != 0) continue;
    const int before = num_failures;
    tests[i].test();
    printf("%s: %s\n", tests[i].name, num_failures == before ? "right" : "WRONG");
    fflush(stdout);
  }
  printf("%d failures\n", num_failures);
  return num_failures == 0 ? 0 : 1;
}
