// Conformance cases and their gradients on the platform: by the runtime's calls, plain, captured and
// replayed.
#include <doctest/doctest.h>

#include <algorithm>
#include <iostream>

#include "cuda/conformance_cases.hpp"
#include "cuda/platform/kernels.hpp"
#include "cuda/platform/platform.hpp"
#include "support/support.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/optimizer/optimize.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::test::platform {
namespace {

// Of each routine of cuSOLVER and cuBLAS some, with each width of numbers, one matrix and many.
constexpr std::string_view factorizations[] = {"cholesky_f32",
                                               "cholesky_plain",
                                               "cholesky_complex_batched",
                                               "lu_complex",
                                               "lu_batched",
                                               "lu_tall_complex",
                                               "qr_complex",
                                               "qr_batched",
                                               "eigh_complex",
                                               "eigh_batched",
                                               "svd_complex",
                                               "svd_batched",
                                               "triangular_solve_batched",
                                               "triangular_solve_flags_5",
                                               "triangular_solve_flags_22"};

}  // namespace

TEST_CASE(
    "[glue libraries] [glue captures] Conformance cases on this machine's platform, plain and replayed") {
  const std::vector<ConformanceCase> cases =
      sampled_conformance_cases(std::max<std::size_t>(1, 24 / scaled(12)), factorizations);
  std::vector<std::vector<cuda_detail::Node>> plans;
  for (const ConformanceCase& one : cases) {
    try {
      plans.push_back(cuda_detail::plan_nodes(optimize(with_control_flow_unrolled(one.graph))));
    } catch (const Error&) {  // said below
    }
  }
  compile_ahead(plans);
  std::size_t refused = 0;
  check_conformance(CudaExecutor(), cases, refused);
  CHECK(refused == 0);
  const std::vector<std::string> faults = take_faults();
  CHECK_MESSAGE(faults.empty(), detail::list(faults));
  std::cout << cases.size() << " programs\n";
}

}  // namespace tidu::test::platform
