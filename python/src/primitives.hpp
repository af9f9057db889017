// primitives.hpp - the primitives that were defined in Python, with the standard ones, and the executor that
// has their kernels. Functions need the interpreter lock.
#pragma once

#include "core.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::python {

/// The standard primitives and those defined so far.
const PrimitiveSet& primitives();
/// The CPU executor with their kernels.
const CpuExecutor& executor();
/// The attributes of an op as a dict; graphs among them as Graphs.
nb::dict attributes_dict(const Op& op);

}  // namespace tidu::python
