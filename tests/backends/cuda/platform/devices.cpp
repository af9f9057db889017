// Several devices of the platform: executors on two of them in one thread, Arrays eagerly and lazily, and
// collectives of threads that drive a device each.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <functional>
#include <thread>

#include "cpu/compare.hpp"
#include "cuda/platform/platform.hpp"
#include "tensor/dlpack_structs.hpp"
#include "tidu/cuda.hpp"
#include "tidu/frontend/array.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/lazy.hpp"
#include "tidu/frontend/modes.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/collectives.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test::platform {
namespace {

void no_faults() {
  const std::vector<std::string> faults = take_faults();
  CHECK_MESSAGE(faults.empty(), detail::list(faults));
}

CudaExecutor on_device(int number) {
  CudaOptions options;
  options.device = number;
  return CudaExecutor(options);
}

Tensor numbers(double first) {
  std::vector<double> data(60);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = first + 0.01 * static_cast<double>(i);
  return Tensor::from<double>({6, 10}, data);
}

std::vector<double> elements(const Tensor& tensor) {
  const auto all = tensor.elements<double>();
  return {all.begin(), all.end()};
}
using Row = std::vector<double>;
Tensor row(double first) { return Tensor::from<double>({4}, {first, first + 1, first + 2, first + 3}); }

// f(rank, its executor) on a thread and a device for each rank. What one throws is thrown.
void on_ranks(int ranks, const std::function<void(int, const CudaExecutor&)>& f) {
  std::vector<CudaExecutor> executors;
  for (int rank = 0; rank < ranks; ++rank) executors.push_back(on_device(rank));
  const CudaCommunicatorId id = CudaCommunicatorId::make(executors[0]);
  std::vector<std::exception_ptr> failures(executors.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto k = static_cast<std::size_t>(rank);
      try {
        f(rank, with_axes(executors[k], {{"i", CudaCommunicator::join(executors[k], id, rank, ranks)}}));
      } catch (...) {
        failures[k] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace

TEST_CASE("Programs on two devices of one thread are captured and replayed on each") {
  GraphBuilder builder("program");
  const Value x = builder.input("x", Type(f64, {6, 10}));
  const Value p = ops::dot_general(x, x, {{1}, {1}, {}, {}});
  const Graph graph = builder.build({ops::reduce_sum(ops::sin(p), {0}), ops::exp(ops::neg(x))});
  const CudaExecutor first = on_device(0), second = on_device(1);
  const CudaExecutable there = first.compile(graph), other = second.compile(graph);
  const std::vector<Tensor> expected = reference().run(graph, std::vector<Tensor>{numbers(0)});
  const Tensor here = first.put(numbers(0)).value();
  for (int round = 0; round < 4; ++round) {
    const std::vector<Tensor> a = there.run({here}), b = other.run({here});
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(difference(a[i], expected[i], 40) == "");
      CHECK(difference(b[i], expected[i], 40) == "");
    }
  }
  CHECK(second.device_statistics().replays >= 1);
  no_faults();
}

TEST_CASE(
    "Arrays are differentiated on the platform, eagerly and lazily, and steps of training go on there") {
  const CudaExecutor cuda = on_device(1);
  const auto train = [](const std::function<Array(const Tensor&)>& put) {
    Array w = put(numbers(0.1));
    w.set_requires_grad();
    for (int step = 0; step < 5; ++step) {
      const Array x = put(numbers(0.05 * step));
      sum(square(tanh(matmul(x, transpose(w))))).backward();
      const NoGrad off;
      w -= *w.grad() * 0.01;
      w.zero_grad();
    }
    return w.detach().tensor();
  };
  const Tensor expected = train([](const Tensor& tensor) { return Array(tensor); });
  const auto put = [&](const Tensor& tensor) { return Array(tensor).to(cuda); };
  CHECK(difference(train(put), expected, 100) == "");
  {
    const Lazy lazy;
    CHECK(difference(train(put), expected, 100) == "");
  }
  no_faults();
}

TEST_CASE("Memory of who names no stream is read after CUDA's default stream has made it") {
  const CudaExecutor cuda = on_device(0);
  DLManagedTensorVersioned* const lent = cuda.to_dlpack(cuda.put(numbers(1)).value(), nullptr);
  CHECK(cudaMemsetAsync(lent->dl_tensor.data, 0, 60 * sizeof(double), nullptr) == cudaSuccess);
  const Tensor theirs = cuda.from_dlpack(lent, nullptr);
  GraphBuilder builder("theirs");
  const Graph graph = builder.build({ops::exp(builder.input("x", theirs.type()))});
  CHECK(cuda.compile(graph).run({theirs})[0].at(7) == 1.0);
  no_faults();
}

#ifdef TIDU_TEST_WITH_NCCL
TEST_CASE("Collectives of two and four devices, each driven by a thread") {
  for (const int ranks : {2, 4}) {
    GraphBuilder builder("all");
    const Value x = builder.input("x", Type(f64, {4}));
    const Value sum = ops::psum(x, "i", ranks), all = ops::all_gather(x, "i", ranks, 0, true);
    const Value part = ops::reduce_scatter(x, "i", ranks, 0, true),
                other = ops::ppermute(x, "i", ranks, {{0, 1}});
    const Graph graph = builder.build({sum, all, part, other});
    on_ranks(ranks, [&](int rank, const CudaExecutor& cuda) {
      const CudaExecutable program = cuda.compile(graph);
      for (int round = 0; round < 3; ++round) {
        const std::vector<Tensor> got = program.run({row(10 * rank)});
        const double tens = 5.0 * ranks * (ranks - 1);
        CHECK(elements(got[0]) == Row{tens, tens + ranks, tens + 2 * ranks, tens + 3 * ranks});
        CHECK(elements(got[1]).at(4) == 10);
        CHECK(elements(got[2])[0] == tens + (ranks == 2 ? 4.0 * rank : 1.0 * ranks * rank));
        CHECK(elements(got[3]) == (rank == 1 ? Row{0, 1, 2, 3} : Row{0, 0, 0, 0}));
      }
    });
  }
  no_faults();
}

TEST_CASE("A rank that fails in a collective is an error of every rank, which says whose, and no one waits") {
  GraphBuilder builder("sum");
  const Graph graph = builder.build({ops::psum(builder.input("x", Type(f64, {4})), "i", 2)});
  fail("ncclAllReduce", 1, cudaErrorUnknown);
  std::array<std::string, 2> messages, later;
  on_ranks(2, [&](int rank, const CudaExecutor& cuda) {
    const auto k = static_cast<std::size_t>(rank);
    const CudaExecutable program = cuda.compile(graph);
    const auto run = [&]() -> std::string {
      try {
        (void)program.run({row(rank)})[0].clone();
        return "no error";
      } catch (const Error& error) {
        return error.what();
      }
    };
    messages[k] = run();
    later[k] = run();
  });
  recover();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::string on = " on rank " + std::to_string(rank) + " of 2, got ";
    CHECK_MESSAGE(messages[rank].find(on) != std::string::npos, messages[rank]);
    CHECK_MESSAGE(later[rank].find("given up after an earlier failure") != std::string::npos, later[rank]);
  }
  no_faults();
}

TEST_CASE("A rank that never comes is an error when the others have waited long enough") {
  setenv("TIDU_NCCL_TIMEOUT", "0.2", 1);
  const CudaExecutor cuda = on_device(0);
  const CudaCommunicatorId id = CudaCommunicatorId::make(cuda);
  std::string message;
  try {
    (void)CudaCommunicator::join(cuda, id, 0, 2);
  } catch (const Error& error) {
    message = error.what();
  }
  unsetenv("TIDU_NCCL_TIMEOUT");
  CHECK(
      message ==
      "[cuda] expected ncclCommInitRankConfig of NCCL to succeed on rank 0 of 2, got no answer of the other "
      "ranks within 0.2 s ($TIDU_NCCL_TIMEOUT)");
  no_faults();
}
#endif

}  // namespace tidu::test::platform
