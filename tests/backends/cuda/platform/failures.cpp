// Each call of CUDA and its libraries fails in turns: what runs then is right or an error that names the
// call, the next run is right, and everything is given back.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "cpu/compare.hpp"
#include "cuda/platform/kernels.hpp"
#include "cuda/platform/platform.hpp"
#include "support/support.hpp"
#include "tidu/cuda.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/optimizer/cache.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/linalg.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test::platform {
namespace {

// Two branches with a matmul each, which a capture has on two streams, a sort, and a solver.
Graph branches() {
  GraphBuilder builder("branches");
  const Type square(f32, {16, 16});
  const Value x = builder.input("x", square), y = builder.input("y", square);
  const Value p = ops::dot_general(x, y, {{1}, {0}, {}, {}}), q = ops::dot_general(y, x, {{1}, {0}, {}, {}});
  const Value s = ops::reduce_sum(ops::sin(p), {0}), t = ops::reduce_max(ops::cos(q), {1});
  const Value sorted = emit1(Op::make(prim::sort, {{"dimension", 0}, {"num_keys", 1}}), {s});
  return builder.build({ops::add(sorted, t), ops::mul(p, q)});
}

Tensor numbers() {
  std::vector<float> data(256);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::sin(static_cast<float>(i));
  return Tensor::from<float>({16, 16}, data);
}

// On a device that no other test uses, so that all of its memory and handles go with the executor.
CudaExecutor executor() {
  CudaOptions options;
  options.device = num_devices - 1;
  return CudaExecutor(options);
}

struct Outcome {
  int errors = 0, wrong = 0;
  std::string message;
};

// Runs plain, captured and replayed, on new streams and at new addresses.
Outcome run_rounds(const Graph& graph, const std::vector<Tensor>& expected, const Tensor& x, int rounds) {
  const CudaExecutor cuda = executor();
  std::vector<Tensor> kept;
  Outcome outcome;
  for (int round = 0; round < rounds; ++round) {
    try {
      const CudaStream stream = CudaStream::make(cuda);
      const CudaExecutable program = cuda.compile(graph);
      if (round % 2 == 0) kept.push_back(cuda.put(x).value());
      const std::vector<Tensor> inputs{kept.empty() ? x : kept.back(), x};
      const std::vector<Tensor> got = program.run(inputs, stream);
      for (std::size_t i = 0; i < got.size(); ++i)
        outcome.wrong += difference(got[i], expected[i], 40).empty() ? 0 : 1;
    } catch (const Error& error) {
      ++outcome.errors;
      outcome.message = error.what();
    }
  }
  return outcome;
}

constexpr const char* functions[] = {"cudaMalloc",
                                     "cudaHostAlloc",
                                     "cudaMemcpyAsync",
                                     "cudaSetDevice",
                                     "cudaStreamCreateWithFlags",
                                     "cudaEventCreateWithFlags",
                                     "cudaEventRecord",
                                     "cudaStreamWaitEvent",
                                     "cudaEventQuery",
                                     "cudaStreamSynchronize",
                                     "cudaStreamBeginCapture",
                                     "cudaStreamEndCapture",
                                     "cudaGraphInstantiate",
                                     "cudaGraphExecUpdate",
                                     "cudaGraphLaunch",
                                     "cudaLibraryLoadData",
                                     "cudaLibraryGetKernel",
                                     "cudaLaunchKernel",
                                     "sort_by_radix",
                                     "nvrtcCreateProgram",
                                     "nvrtcCompileProgram",
                                     "nvrtcGetCUBINSize",
                                     "cublasLtCreate",
                                     "cublasLtMatmulDescCreate",
                                     "cublasLtMatrixLayoutCreate",
                                     "cublasLtMatmulPreferenceCreate",
                                     "cublasLtMatmulAlgoGetHeuristic",
                                     "cublasLtMatmul"};

bool is_allocation(const std::string& function) {
  return function == "cudaMalloc" || function == "cudaHostAlloc" || function == "cudaGraphInstantiate";
}

}  // namespace

TEST_CASE(
    "[glue errors] [glue captures] Each call of CUDA that fails once is one error at most, and leaves "
    "nothing behind") {
  const Graph graph = branches();
  const Tensor x = numbers();
  const std::vector<Tensor> expected = reference().run(graph, std::vector<Tensor>{x, x});
  compile_cache().clear();
  const Held before = held();
  int failed = 0;
  for (const char* const function : functions) {
    for (int nth = 1; nth <= 12; nth += shortened() ? 3 : 1) {
      INFO(function, " ", nth);
      fail(function, nth, is_allocation(function) ? cudaErrorMemoryAllocation : cudaErrorLaunchFailure);
      const Outcome outcome = run_rounds(graph, expected, x, 8);
      failed += failures();
      recover();
      compile_cache().clear();
      CHECK(outcome.wrong == 0);
      CHECK_MESSAGE(outcome.errors <= 1, outcome.message);
      CHECK_MESSAGE(held() == before, to_string(held()));
    }
  }
  CHECK(failed > 50);
  for (const std::string& fault : take_faults()) {  // a capture that is given up may end so
    CHECK_MESSAGE(fault.find("a capture ends with work") == 0, fault);
  }
}

TEST_CASE("After an error of CUDA that stays, every run says what it was, and nothing is left behind") {
  const Graph graph = branches();
  const Tensor x = numbers();
  const std::vector<Tensor> expected = reference().run(graph, std::vector<Tensor>{x, x});
  compile_cache().clear();
  const Held before = held();
  for (const char* const function :
       {"cudaMemcpyAsync", "cudaEventRecord", "cudaStreamWaitEvent", "cudaStreamSynchronize",
        "cudaGraphLaunch", "cudaLaunchKernel", "cudaStreamEndCapture", "cudaGraphInstantiate"}) {
    for (const int nth : {1, 4}) {
      INFO(function, " ", nth);
      fail(function, nth, cudaErrorIllegalAddress, true);
      const Outcome outcome = run_rounds(graph, expected, x, 8);
      const bool came = failures() != 0;
      recover();
      compile_cache().clear();
      CHECK(outcome.wrong == 0);
      if (came) {
        CHECK(outcome.errors >= 1);
        CHECK_MESSAGE(outcome.message.find("cudaErrorIllegalAddress") != std::string::npos, outcome.message);
      }
      CHECK_MESSAGE(held() == before, to_string(held()));
    }
  }
  (void)take_faults();
}

}  // namespace tidu::test::platform
