/* faults.c - each allocation and each callback of whole programs fails in turn: the program ends with a
   status, nothing leaks, and the next run is right. TIDU_TEST_SCALE below 1 takes a part of the allocations.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/allocations.h"
#include "support.h"

static const struct {
  const char* name;
  tidu_status (*run)(void);
} programs[] = {{"transforms", transform_program},
                {"tape", tape_program},
                {"functions", function_program},
                {"primitives", primitive_program}};

static long step(void) {
  const char* scale = getenv("TIDU_TEST_SCALE");
  const double part = scale != NULL ? atof(scale) : 1;
  return part > 0 && part < 1 ? (long)(1 / part) : 1;
}

/* For programs whose graphs are kept: derivatives are cached, or derived again if `fresh`. */
static void fail_allocations(size_t p, int fresh) {
  long k, failed = 0;
  for (k = 1;; k += step()) {
    if (fresh) OK(tidu_clear_caches());
    const int known = num_failures;
    fail_allocation(k);
    const tidu_status status = programs[p].run();
    const int struck = allocation_struck();
    fail_allocation(0);
    if (!struck) break;
    if (status != TIDU_OK) ++failed;
    if (status != TIDU_OK && status != TIDU_OUT_OF_MEMORY)
      printf("%s, allocation %ld: %s\n", programs[p].name, k, tidu_last_error());
    CHECK(status == TIDU_OK || status == TIDU_OUT_OF_MEMORY);
    OK(programs[p].run());
    if (num_failures > known) printf("after allocation %ld of %s, %d\n", k, programs[p].name, fresh);
    if (num_failures > 20) return;
  }
  CHECK(failed > 0);
}

/* Once the caches of the process are filled, a run that fails frees all memory that it allocated, except the
   memory that a successful run leaves, and an executor's entry in a graph that the thread keeps to add
   cotangents. */
static void check_balance(size_t p) {
  long k, before = 0, left = 0;
  int round;
  for (round = 0; round < 4; ++round) {
    before = allocation_balance();
    OK(programs[p].run());
    OK(tidu_clear_caches());
    left = allocation_balance() - before;
  }
  CHECK(left <= 8);
  before = allocation_balance();
  for (k = 1;; k += step()) {
    fail_allocation(k);
    (void)programs[p].run();
    const int struck = allocation_struck();
    fail_allocation(0);
    OK(tidu_clear_caches());
    if (allocation_balance() - before > left + 8)
      printf("%s, allocation %ld: %ld blocks more\n", programs[p].name, k, allocation_balance() - before);
    CHECK(allocation_balance() - before <= left + 8);
    before = allocation_balance();
    if (!struck || num_failures > 20) return;
  }
}

/* A kernel that fails where constants are folded is no error: it is called again when the program runs. */
static void fail_callbacks(size_t p, int kernels) {
  long k, folded = 0;
  for (k = 1;; ++k) {
    OK(tidu_clear_caches());
    callback_struck = 0;
    failing_callback = k;
    const tidu_status status = programs[p].run();
    failing_callback = 0;
    if (!callback_struck) break;
    if (status == TIDU_OK) {
      ++folded;
    } else {
      CHECK(strstr(tidu_last_error(), "planted fault") != NULL);
    }
    OK(programs[p].run());
  }
  CHECK(k > 10 && folded <= (kernels ? 2 : 0));
}

void test_faults(void) {
  size_t p;
  for (p = 0; p < sizeof programs / sizeof programs[0]; ++p) {
    OK(programs[p].run());
    fail_allocations(p, 0);
    fail_allocations(p, 1);
    check_balance(p);
  }
  fail_callbacks(2, 0);
  fail_callbacks(3, 1);
}
