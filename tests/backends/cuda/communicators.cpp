// Collectives between devices, each of which a thread drives: communicators, executors that are bound to
// them, and the gradient of data that is spread over devices.
#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <thread>

#include "cpu/compare.hpp"
#include "cuda/machine.hpp"
#include "tidu/frontend/array.hpp"
#include "tidu/frontend/collectives.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/modes.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/collectives.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::test {
namespace {

// f(rank, its executor, its communicator) on a thread and a device for each rank. What one throws is thrown.
void on_ranks(int ranks, const std::function<void(int, const Machine&, const CudaCommunicator&)>& f) {
  std::vector<std::unique_ptr<Machine>> machines;
  for (int rank = 0; rank < ranks; ++rank) machines.push_back(std::make_unique<Machine>(10 + rank));
  const CudaCommunicatorId id = CudaCommunicatorId::make(machines[0]->cuda);
  std::vector<std::exception_ptr> failures(machines.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const Machine& machine = *machines[static_cast<std::size_t>(rank)];
        f(rank, machine, CudaCommunicator::join(machine.cuda, id, rank, ranks));
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure != nullptr) std::rethrow_exception(failure);
}

Tensor row(double first) { return Tensor::from<double>({4}, {first, first + 1, first + 2, first + 3}); }
std::vector<double> elements(const Tensor& tensor) {
  const auto all = tensor.elements<double>();
  return {all.begin(), all.end()};
}
using Row = std::vector<double>;

TEST_CASE("collectives between devices") {
  GraphBuilder builder("all");
  const Value x = builder.input("x", Type(f64, {4}));
  const Value sum = ops::psum(x, "i", 2);
  const Value all = ops::all_gather(x, "i", 2, 0, true);
  const Value part = ops::reduce_scatter(x, "i", 2, 0, true);
  const Value other = ops::ppermute(x, "i", 2, {{0, 1}});
  const Graph graph = builder.build({sum, all, part, other});
  on_ranks(2, [&](int rank, const Machine& machine, const CudaCommunicator& communicator) {
    CHECK(communicator.rank() == rank);
    CHECK(communicator.size() == 2);
    const CudaExecutor executor = with_axes(machine.cuda, {{"i", communicator}});
    const CudaExecutable program = executor.compile(graph);
    for (int round = 0; round < 3; ++round) {  // none is captured
      const std::vector<Tensor> got = program.run({row(10 * rank)});
      CHECK(elements(got[0]) == Row{10, 12, 14, 16});
      CHECK(elements(got[1]) == Row{0, 1, 2, 3, 10, 11, 12, 13});
      CHECK(elements(got[2]) == (rank == 0 ? Row{10, 12} : Row{14, 16}));
      CHECK(elements(got[3]) == (rank == 0 ? Row{0, 0, 0, 0} : Row{0, 1, 2, 3}));
    }
    CHECK(machine.device->count("capture") == 0);
  });
}

TEST_CASE("sums of 16-bit numbers between devices are taken in f32") {
  for (const DType dtype : {f16, bf16}) {
    GraphBuilder builder("sums");
    const Value x = builder.input("x", Type(dtype, {3, 3}));
    const Value sum = ops::psum(x, "i", 3), part = ops::reduce_scatter(x, "i", 3, 1, true);
    const Graph graph = builder.build({sum, part});
    on_ranks(3, [&](int rank, const Machine& machine, const CudaCommunicator& communicator) {
      const CudaExecutor executor = with_axes(machine.cuda, {{"i", communicator}});
      const auto filled = [dtype](float value) {
        Tensor made(Type(dtype, {3, 3}));
        std::ranges::fill(made.mutable_elements<std::uint16_t>(),
                          dtype == f16 ? float_to_half(value) : float_to_bfloat16(value));
        return made;
      };
      const CudaExecutable program = executor.compile(graph);
      for (const Tensor& got : program.run({filled(rank == 2 ? -40000.0F : 40000.0F)}))
        CHECK(got.at(2) == filled(40000.0F).at(0));
      const double both = dtype == f16 ? 257.5 : 258.0;  // in bf16 one by one 256
      for (const Tensor& got : program.run({filled(rank == 0 ? 256.0F : 0.75F)})) CHECK(got.at(2) == both);
    });
  }
}

TEST_CASE("a data-parallel gradient is that of all the data") {
  const auto loss = [](const Array& w, const Array& x) { return sum(square(tanh(w * x))); };
  const Array w_host(row(0.1));
  Array whole = w_host.copy();
  whole.set_requires_grad();
  (loss(whole, Array(row(0))) + loss(whole, Array(row(10))) + loss(whole, Array(row(20)))).backward();
  on_ranks(3, [&](int rank, const Machine& machine, const CudaCommunicator& communicator) {
    const CudaExecutor executor = with_axes(machine.cuda, {{"data", communicator}});
    Array w = w_host.to(executor);
    w.set_requires_grad();
    loss(w, Array(row(10 * rank)).to(executor)).backward();
    const Array gradient = psum(*w.grad(), "data", 3);
    CHECK(machine.waits() == 0);
    CHECK(difference(gradient.tensor(), whole.grad()->tensor()) == "");
  });
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "no error";
}

TEST_CASE("axes that are not bound, or do not fit, are errors in one line") {
  const auto graph_over = [](const char* axis, std::int64_t size) {
    GraphBuilder builder("sum");
    return builder.build({ops::psum(builder.input("x", Type(f64, {4})), axis, size)});
  };
  const Machine machine, other(1);
  CHECK(elements(machine.cuda.run(graph_over("i", 1), {row(0)})[0]) == Row{0, 1, 2, 3});
  CHECK(message_of([&] { (void)machine.cuda.compile(graph_over("i", 2)); }) ==
        "[psum] expected the axis \"i\" of 2 ranks to be bound to a communicator, got none");
  const CudaCommunicatorId id = CudaCommunicatorId::make(machine.cuda);
  CHECK(message_of([&] { (void)CudaCommunicator::join(machine.cuda, id, 1, 1); }) ==
        "[cuda] expected a rank of at least 0 and below the communicator's size, got 1 of 1");
  const CudaCommunicator alone = CudaCommunicator::join(machine.cuda, id, 0, 1);
  const CudaExecutor bound = with_axes(machine.cuda, {{"i", alone}});
  CHECK(elements(bound.run(graph_over("i", 1), {row(0)})[0]) == Row{0, 1, 2, 3});
  CHECK(message_of([&] { (void)bound.compile(graph_over("i", 4)); }) ==
        "[psum] expected a communicator of 4 ranks for axis \"i\", got one of 1");
  CHECK(message_of([&] {
          (void)with_axes(machine.cuda, {{"", alone}});
        }).find("got an empty one") != std::string::npos);
  CHECK(message_of([&] {
          (void)with_axes(machine.cuda, {{"i", alone}, {"i", alone}});
        }).find("got \"i\" twice") != std::string::npos);
  CHECK(message_of([&] {
          (void)with_axes(other.cuda, {{"i", alone}});
        }).find("got one of another") != std::string::npos);
}

TEST_CASE("a communicator is left with the last program that uses it") {
  auto machine = std::make_unique<Machine>();
  const std::shared_ptr<FakeDevice> device = machine->device;
  std::optional<CudaCommunicator> alone =
      CudaCommunicator::join(machine->cuda, CudaCommunicatorId::make(machine->cuda), 0, 1);
  GraphBuilder builder("left");
  const Graph graph = builder.build({ops::psum(builder.input("x", Type(f64, {4})), "i", 1)});
  std::optional<CudaExecutable> program =
      with_axes(machine->cuda, {{"i", *alone}}).compile(graph, CudaCompileOptions{});
  alone.reset();
  CHECK(elements(program->run({row(1)})[0]) == Row{1, 2, 3, 4});
  const std::size_t before = device->handles();
  program.reset();
  CHECK(device->handles() == before - 1);
}

}  // namespace
}  // namespace tidu::test
