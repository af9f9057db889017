// conformance_cases.hpp - cases of tests/data/conformance as graphs for a device, each with its gradients,
// and what the reference executor gives for them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidu/cuda.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::test {

struct ConformanceCase {
  std::string name;
  Graph graph;
  std::vector<Tensor> inputs, expected;
};

/// Those of every so many files, all with arrays without elements, and those named; of them this process's
/// share.
std::vector<ConformanceCase> sampled_conformance_cases(std::size_t stride,
                                                       std::span<const std::string_view> named = {});

/// Checks each, put on a stream plainly, captured, and replayed. Those without a kernel are counted.
void check_conformance(const CudaExecutor& cuda, const std::vector<ConformanceCase>& cases,
                       std::size_t& refused);

}  // namespace tidu::test
