// Convolutions and their gradients by cuDNN's calls: layers of all kinds and dtypes, plain, captured and
// replayed, on a stream of their own; what cuDNN does not offer, and calls that fail.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "cpu/compare.hpp"
#include "cuda/convolution_layers.hpp"
#include "cuda/platform/platform.hpp"
#include "support/support.hpp"
#include "tidu/cuda.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/optimizer/cache.hpp"
#include "tidu/reference/executor.hpp"

#ifdef TIDU_TEST_WITH_CUDNN

namespace tidu::test::platform {
namespace {

// While it lives programs are compiled with cuDNN's convolutions.
struct WithCudnn {
  WithCudnn() {
    setenv("TIDU_CONVOLUTIONS", "cudnn", 1);
    compile_cache().clear();
  }
  ~WithCudnn() {
    unsetenv("TIDU_CONVOLUTIONS");
    compile_cache().clear();
  }
  WithCudnn(const WithCudnn&) = delete;
  WithCudnn& operator=(const WithCudnn&) = delete;
};

struct Case {
  Graph graph;
  std::vector<Tensor> inputs, expected;
};
Case case_of(const Graph& graph) {
  std::mt19937_64 random(11);
  Case made{graph, {}, {}};
  for (const ValueId id : graph.inputs()) made.inputs.push_back(random_tensor(graph.type(id), {}, random));
  made.expected = reference().run(graph, made.inputs);
  return made;
}

// A device that no other test uses, so that its handles and memory go with the executor.
CudaOptions device_of_convolutions() {
  CudaOptions options;
  options.device = num_devices - 1;
  return options;
}

// Plain, captured and replayed. Gives the first difference, or nothing.
std::string run(const CudaExecutor& cuda, const Case& one, double tolerance) {
  const CudaStream stream = CudaStream::make(cuda);
  const CudaStreamGuard guard(stream);
  const CudaExecutable program = cuda.compile(one.graph);
  std::vector<Tensor> there;
  for (const Tensor& input : one.inputs) there.push_back(cuda.put(input).value());
  for (int round = 0; round < 4; ++round) {
    const std::vector<Tensor> got = program.run(std::span<const Tensor>(there));
    for (std::size_t i = 0; i < got.size(); ++i)
      if (const std::string found = difference(got[i], one.expected[i], tolerance); !found.empty())
        return found;
  }
  return {};
}

std::size_t library_calls() {
  return calls("cudnnConvolutionForward") + calls("cudnnConvolutionBackwardData") +
         calls("cudnnConvolutionBackwardFilter");
}

ConvolutionLayer strided() {
  return {{2, 3, 7, 7}, {4, 3, 3, 3}, {2, 2}, {1, 1}, {{1, 1}, {1, 1}}, 1, false};
}

}  // namespace

TEST_CASE(
    "[glue convolutions] Convolutions of layers and their gradients by cuDNN, plain, captured and replayed") {
  const WithCudnn cudnn;
  const CudaExecutor cuda(device_of_convolutions());
  for (const ConvolutionLayer& layer : convolution_layers()) {
    for (const DType dtype : {f32, f64, f16, bf16}) {
      const Graph graph = graph_of(layer, dtype);
      for (const Graph& one : {graph, vjp(graph)}) {
        INFO(to_text(one));
        CHECK(run(cuda, case_of(one), 10) == "");
      }
    }
  }
  for (const char* const function :
       {"cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"})
    CHECK(calls(function) > 0);
  const std::vector<std::string> faults = take_faults();
  CHECK_MESSAGE(faults.empty(), detail::list(faults));
  CHECK(cuda.device_statistics().refused_captures == 0);
}

TEST_CASE(
    "[glue convolutions] Operands of convolutions are rounded to tf32 where that is allowed, and nowhere "
    "else") {
  const WithCudnn cudnn;
  CudaOptions options = device_of_convolutions();
  const Case one = case_of(graph_of(strided(), f32));
  CHECK(run(CudaExecutor(options), one, 10) == "");
  options.tf32 = true;
  const CudaExecutor rounding(options);
  CHECK(run(rounding, one, 10) != "");
  CHECK(run(rounding, one, 5000) == "");
  CHECK(take_faults().empty());
}

TEST_CASE("A convolution that cuDNN offers no algorithm for is an error that says what to do") {
  const WithCudnn cudnn;
  const CudaExecutor cuda(device_of_convolutions());
  const Case one = case_of(vjp(graph_of(strided(), f32)));
  always_fail("no algorithm of cuDNN");
  std::string message;
  try {
    (void)run(cuda, one, 10);
  } catch (const Error& error) {
    message = error.what();
  }
  recover();
  CHECK_MESSAGE(message.find("to have an algorithm for a convolution of 2 x 3 by 4 features in f32") !=
                    std::string::npos,
                message);
  CHECK_MESSAGE(message.find("leave TIDU_CONVOLUTIONS at own") != std::string::npos, message);
  const std::size_t before = library_calls();
  CHECK(run(cuda, one, 10) == "");
  CHECK(library_calls() > before);
  CHECK(take_faults().empty());
}

TEST_CASE("Each call of cuDNN that fails once is one error, and leaves nothing behind") {
  const WithCudnn cudnn;
  const Case one = case_of(vjp(graph_of(strided(), f32)));
  const Held before = held();
  for (const char* const function :
       {"cudnnCreate", "cudnnCreateTensorDescriptor", "cudnnCreateFilterDescriptor",
        "cudnnCreateConvolutionDescriptor", "cudnnGetConvolutionForwardAlgorithm_v7",
        "cudnnGetConvolutionBackwardDataAlgorithm_v7", "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
        "cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"}) {
    INFO(function);
    std::string message;
    {
      const CudaExecutor cuda(device_of_convolutions());
      fail(function, 1, cudaErrorLaunchFailure);
      try {
        (void)run(cuda, one, 10);
      } catch (const Error& error) {
        message = error.what();
      }
      CHECK(failures() == 1);
      recover();
      CHECK_MESSAGE(message.find(function) != std::string::npos, message);
      CHECK(run(cuda, one, 10) == "");
    }
    compile_cache().clear();
    CHECK_MESSAGE(held() == before, to_string(held()));
  }
  CHECK(take_faults().empty());
}

}  // namespace tidu::test::platform

#endif
