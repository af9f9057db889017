/* allocations.h - allocations of C++ that fail when they are told to, and their balance. */
#ifndef TIDU_TESTS_C_ALLOCATIONS_H
#define TIDU_TESTS_C_ALLOCATIONS_H

#ifdef __cplusplus
extern "C" {
#endif

/* From now on the k-th allocation of this thread fails; 0: none does. */
void fail_allocation(long k);
/* Did one fail since? */
int allocation_struck(void);
/* Blocks of this thread that were not given back. */
long allocation_balance(void);

#ifdef __cplusplus
}
#endif
#endif
