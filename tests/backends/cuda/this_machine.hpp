// The device of this machine, where there is one, for tests that are the same as on the fake device, or more.
#pragma once

#include <doctest/doctest.h>

#include <span>
#include <vector>

#include "tidu/cuda.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::test {

/// An executor for it, or null; the first who asks is told why. With TIDU_TEST_DEVICE=1 in the environment
/// there has to be one: throws Error (execution).
const CudaExecutor* this_machine();

/// With TIDU_TEST_DEVICE=1 in the environment the same for tests that run kernels on the host otherwise; else
/// null.
const CudaExecutor* chosen_device();

/// What the graph gives there, its operations fused or one by one.
std::vector<Tensor> run_there(const CudaExecutor& device, const Graph& graph, std::span<const Tensor> inputs,
                              bool fuse = true);

}  // namespace tidu::test
