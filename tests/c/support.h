/* support.h - what the tests of the C interface share: checks that count failures, a few types and graphs,
   and running a graph on memory. */
#ifndef TIDU_TESTS_C_SUPPORT_H
#define TIDU_TESTS_C_SUPPORT_H

#include <tidu/c.h>

extern int num_failures;

/* Reports a condition that does not hold, and goes on. */
void check(int holds, const char* text, const char* file, int line);
#define CHECK(condition) check((condition) != 0, #condition, __FILE__, __LINE__)
/* A call that succeeds; one that fails with that status and an error text that has these words. */
void check_ok(tidu_status status, const char* text, const char* file, int line);
#define OK(call) check_ok(call, #call, __FILE__, __LINE__)
void check_fails(tidu_status status, tidu_status expected, const char* words, const char* text,
                 const char* file, int line);
#define FAILS(call, status, words) check_fails(call, status, words, #call, __FILE__, __LINE__)
/* Equal up to 1e-12 of the size. */
void check_near(double got, double expected, const char* text, const char* file, int line);
#define NEAR(got, expected) check_near(got, expected, #got, __FILE__, __LINE__)
/* Goes to `done` when the call fails, with its status in `status`. */
#define TRY(call)                     \
  do {                                \
    status = (call);                  \
    if (status != TIDU_OK) goto done; \
  } while (0)

extern const tidu_type scalar_type;  /* f64[] */
extern const tidu_type vector_type;  /* f64[3] */
extern const tidu_type integer_type; /* i32[3] */

/* f(x, w) = sum(sin(x) * w), x and w of f64[3]; and the same without the sum. */
tidu_status make_loss(tidu_graph** graph);
tidu_status make_product(tidu_graph** graph);
/* The graph on memory by that executor. */
tidu_status evaluate(const tidu_executor* executor, const tidu_graph* graph, const void* const* inputs,
                     size_t num_inputs, void* const* outputs, size_t num_outputs);

/* What each file tests. */
void test_base(void);
void test_graphs(void);
void test_emit(void);
void test_transforms(void);
void test_tensors(void);
void test_executors(void);
void test_tapes(void);
void test_function_executors(void);
void test_primitives(void);
void test_faults(void);

/* Whole programs for faults: all that they make is released, whatever fails. */
tidu_status transform_program(void);
tidu_status tape_program(void);
tidu_status function_program(void);
tidu_status primitive_program(void);
/* The callback whose number this is fails, of those that function_program and primitive_program have called
   since it was set; 0: none. `callback_struck` says whether there was one. */
extern long failing_callback;
extern int callback_struck;
/* 1 when it is that callback's turn to fail, with its error set. */
int fail_here(void);

#endif
