/* c.h - tidu for C (C99) and for every language that calls C: graphs, their transforms, tensors, compiled
   programs, tapes, and executors and primitives that are written in C. Link tidu_c, a shared library that
   exports the names tidu_* only. c/base.h has the rules of ownership, threads and errors. */
#ifndef TIDU_C_H
#define TIDU_C_H

#include "tidu/c/base.h"
#include "tidu/c/executor.h"
#include "tidu/c/graph.h"
#include "tidu/c/primitive.h"
#include "tidu/c/tape.h"
#include "tidu/c/tensor.h"
#include "tidu/c/transforms.h"

#endif
