// What belongs to others on a fake device: their streams, which end sooner than memory that was used there,
// and their memory, which they have again; and libraries that are not installed.
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cpu/compare.hpp"
#include "cuda/dynamic_library.hpp"
#include "cuda/fuse.hpp"
#include "cuda/machine.hpp"
#include "cuda/runtime.hpp"
#include "tensor/dlpack_structs.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/optimizer/cache.hpp"

namespace tidu::test::foreign_cases {
namespace {

Tensor numbers(std::int64_t count) { return Tensor::zeros(Type(f32, {count})); }

Graph exponential(std::int64_t count) {
  GraphBuilder builder("exponential");
  return builder.build({ops::exp(builder.input("x", Type(f32, {count})))});
}

TEST_CASE("a stream of the caller's may end before memory that was used on it is used again") {
  const Machine machine;
  const cuda_detail::Stream raw = machine.device->create_stream();
  const std::array inputs{numbers(1 << 20)};
  {
    const CudaStream stream = CudaStream::of(machine.cuda, raw.handle);
    const CudaExecutable program = machine.cuda.compile(exponential(1 << 20));
    const Tensor first = program.run(inputs, stream)[0];
    const std::size_t held = machine.cuda.device_statistics().memory_held;
    for (int round = 0; round < 4; ++round) (void)program.run(inputs, stream);
    CHECK(machine.cuda.device_statistics().memory_held <= held + (std::size_t{8} << 20));
    stream.synchronize();
  }
  machine.device->destroy_stream(raw);
  const std::size_t allocations = machine.cuda.device_statistics().allocations;
  const Tensor there = machine.put(inputs[0]);
  CHECK(machine.cuda.device_statistics().allocations == allocations);  // memory of that stream
  CHECK(difference(there, inputs[0]) == "");
}

// e^x times numbers that the program keeps.
Graph scaled(std::int64_t count) {
  GraphBuilder builder("scaled");
  const Tensor factors =
      Tensor::from<float>({count}, std::vector<float>(static_cast<std::size_t>(count), 3.0F));
  return builder.build({ops::mul(ops::exp(builder.input("x", Type(f32, {count}))),
                                 ops::constant(builder, factors.to_literal()))});
}

TEST_CASE("streams of the caller's may end before the programs that ran on them") {
  const Machine machine;
  machine.device->recycle_streams();
  const std::array inputs{numbers(1000)};
  {
    std::optional<CudaExecutable> program(machine.cuda.compile(scaled(1000)));
    for (int round = 0; round < 20; ++round) {
      // All at once, then one after another, which have the handle of the one before.
      std::vector<cuda_detail::Stream> raw;
      for (int k = 0; k < (round == 0 ? 12 : 1); ++k) raw.push_back(machine.device->create_stream());
      for (const cuda_detail::Stream one : raw) {
        const CudaStream stream = CudaStream::of(machine.cuda, one.handle);
        for (int run = 0; run < 2; ++run) CHECK(program->run(inputs, stream)[0].at(7) == 3.0);
      }
      for (const cuda_detail::Stream one : raw) machine.device->destroy_stream(one);
    }
    compile_cache().clear();
    const std::size_t allocations = machine.cuda.device_statistics().allocations;
    program.reset();
    (void)machine.put(numbers(1000)).at(0);  // where the numbers were
    CHECK(machine.cuda.device_statistics().allocations == allocations);
  }
}

TEST_CASE("memory that is given back on a stream is not another's of the same handle") {
  const Machine machine;
  machine.device->recycle_streams();
  const std::array inputs{numbers(1 << 20)};
  const CudaExecutable program = machine.cuda.compile(exponential(1 << 20));
  for (int round = 0; round < 3; ++round) {
    const cuda_detail::Stream raw = machine.device->create_stream();
    (void)program.run(inputs, CudaStream::of(machine.cuda, raw.handle));
    machine.device->destroy_stream(raw);
  }
  CHECK(machine.waits() == 0);
}

TEST_CASE("a stream may end before anyone asks whether what was made on it is finite") {
  const Machine machine;
  const cuda_detail::Stream raw = machine.device->create_stream();
  bool is_told = false;
  {
    const CudaStreamGuard on(CudaStream::of(machine.cuda, raw.handle));
    const Tensor odd = machine.put(
        Tensor::from<double>({3}, std::vector<double>(3, std::numeric_limits<double>::infinity())));
    for (int k = 0; k < 2; ++k) CHECK(machine.cuda.watch_finite(odd, [&is_told] { is_told = true; }));
  }
  compile_cache().clear();
  machine.device->destroy_stream(raw);
  machine.cuda.check_watched();
  CHECK(is_told);
  CHECK(machine.waits() == 1);
}

TEST_CASE("the stream that is another on each thread is refused") {
  const Machine machine;
  void* const each = reinterpret_cast<void*>(std::uintptr_t{2});
  const Tensor x = machine.put(numbers(3));
  const auto refuses = [&](const auto& call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains("expected a stream that is the same on every thread"),
                         Error);
  };
  refuses([&] { (void)CudaStream::of(machine.cuda, each); });
  refuses([&] { (void)machine.cuda.to_dlpack(x, each); });
  DLManagedTensorVersioned* const out = machine.cuda.to_dlpack(x, nullptr);
  refuses([&] { (void)machine.cuda.from_dlpack(out, each); });
}

// Device memory of somebody's, who notes when it comes back.
struct Lender {
  explicit Lender(const Machine& on) : machine(on), at(on.device->allocate(64 * 4)) {
    managed.version = {1, 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      static_cast<Lender*>(self->manager_ctx)->is_back = true;
    };
    managed.dl_tensor.data = at;
    managed.dl_tensor.device = {2, 0};
    managed.dl_tensor.ndim = 1;
    managed.dl_tensor.dtype = {2, 32, 1};
    managed.dl_tensor.shape = &extent;
  }
  Lender(const Lender&) = delete;
  Lender& operator=(const Lender&) = delete;
  ~Lender() { machine.device->deallocate(at, 64 * 4); }
  const Machine& machine;
  std::byte* at;
  std::int64_t extent = 64;
  DLManagedTensorVersioned managed{};
  bool is_back = false;
};

TEST_CASE("memory of others is theirs again when all work on it is done") {
  for (const bool says_stream : {true, false}) {
    const Machine machine;
    Lender lender(machine);
    const cuda_detail::Stream raw = machine.device->create_stream();
    machine.device->clear(lender.at, 64 * 4, raw);
    if (!says_stream) machine.device->synchronize(raw);
    const std::size_t waits = machine.waits();
    const CudaStream other = CudaStream::make(machine.cuda);
    {
      const Tensor theirs = machine.cuda.from_dlpack(&lender.managed, says_stream ? raw.handle : nullptr);
      const CudaExecutable program = machine.cuda.compile(exponential(64));
      CHECK(program.run(std::span(&theirs, 1), other)[0].at(5) == 1.0);
      (void)program.run(std::span(&theirs, 1), other);
      CHECK_FALSE(lender.is_back);
    }
    CHECK(lender.is_back);
    CHECK(machine.waits() == waits + 1 + (says_stream ? 0 : 1));  // one for the element
    machine.device->clear(lender.at, 64 * 4, raw);
    machine.device->synchronize(raw);
    machine.device->destroy_stream(raw);
  }
}

TEST_CASE("memory of who names no stream is read after CUDA's default stream has made it") {
  const Machine machine;
  Lender lender(machine);
  machine.device->clear(lender.at, 64 * 4, FakeDevice::legacy_stream());
  const Tensor theirs = machine.cuda.from_dlpack(&lender.managed, nullptr);
  const Tensor made = machine.cuda.compile(exponential(64)).run({theirs})[0];
  CHECK(machine.waits() == 0);
  // Work on that stream comes after tidu's own where it is the thread's.
  const CudaStream stream = CudaStream::of(machine.cuda, nullptr);
  stream.wait(CudaStream::current(machine.cuda));
  CHECK(machine.cuda.compile(exponential(64)).run(std::span(&made, 1), stream)[0].at(5).real() ==
        doctest::Approx(2.718281828));
}

TEST_CASE("memory lent to who names no stream is used again when all work on the device is done") {
  const Machine machine;
  const cuda_detail::Stream raw = machine.device->create_stream();
  Lender lender(machine);
  for (const bool says_stream : {true, false}) {
    Tensor x = machine.put(numbers(64));
    DLManagedTensorVersioned* const out = machine.cuda.to_dlpack(x, says_stream ? raw.handle : nullptr);
    x = Tensor();
    machine.device->copy(lender.at, static_cast<const std::byte*>(out->dl_tensor.data), 64 * 4, raw);
    const std::size_t waits = machine.waits();
    out->deleter(out);
    CHECK(machine.waits() == waits + (says_stream ? 0 : 1));
    CHECK(difference(machine.put(numbers(64)), numbers(64)) == "");  // where x was
  }
  machine.device->destroy_stream(raw);
}

TEST_CASE("memory lent to who names no stream comes back while other threads capture") {
  const Machine machine;
  std::atomic<bool> over{false};
  std::thread lends([&] {
    while (!over) {
      DLManagedTensorVersioned* const out = machine.cuda.to_dlpack(machine.put(numbers(64)), nullptr);
      out->deleter(out);
    }
  });
  for (int k = 0; k < 40; ++k) {
    GraphBuilder builder("steps");
    Value x = builder.input("x", Type(f32, {64}));
    for (int step = 0; step < 4; ++step) x = ops::cumsum(x + ops::full_like(x, k), 0);
    const CudaExecutable program = machine.cuda.compile(builder.build({x}));
    const Tensor input = machine.put(numbers(64));
    for (int run = 0; run < 4; ++run) (void)program.run({input});
  }
  over = true;
  lends.join();
  CHECK(machine.device->count("capture") >= 40);
}

TEST_CASE("a tensor of somebody's without elements is on the device") {
  const Machine machine;
  Lender lender(machine);
  lender.extent = 0;
  lender.managed.dl_tensor.data = nullptr;
  const Tensor empty = machine.cuda.from_dlpack(&lender.managed, nullptr);
  CHECK(lender.is_back);
  CHECK(machine.cuda.device_of(empty) == std::optional<std::uint32_t>(1));
  CHECK(difference(empty, numbers(0)) == "");
}

TEST_CASE("bools of others that are any bytes are copied as bools") {
  for (const bool says_stream : {true, false}) {
    const Machine machine;
    Lender lender(machine);
    lender.extent = 5;
    lender.managed.dl_tensor.dtype = {6, 8, 1};
    const cuda_detail::Stream raw = machine.device->create_stream();
    const unsigned char bytes[] = {0, 1, 2, 255, 0};
    std::memcpy(lender.at, bytes, sizeof bytes);
    const Tensor ours = machine.cuda.from_dlpack(&lender.managed, says_stream ? raw.handle : nullptr);
    CHECK(lender.is_back);
    machine.device->clear(lender.at, sizeof bytes, raw);
    CHECK(machine.waits() == (says_stream ? 0 : 1));
    for (std::size_t i = 0; i < 5; ++i)
      CHECK(ours.bytes()[i] == (bytes[i] != 0 ? std::byte{1} : std::byte{0}));
    machine.device->destroy_stream(raw);
  }
}

TEST_CASE("a call that is placed on another device goes to the thread's stream of this one") {
  const Machine machine, far(1);
  const CudaStream there = CudaStream::make(far.cuda);
  const Tensor x = machine.put(numbers(3));
  const Tensor* const inputs[] = {&x};
  const eager::Placement placement{2, reinterpret_cast<std::uintptr_t>(there.handle())};
  const auto graph = eager::RecordedGraph::of(plain_op<prim::exp>(), std::array{x.type()});
  const auto values = machine.cuda.execute_forward({graph.graph(), graph.slot(), placement}, inputs);
  CHECK(values.value()[0].at(2) == 1.0);
  CHECK(machine.cuda.add_operands({x.type(), nullptr, placement}, x, x).value().at(1) == 0.0);
}

TEST_CASE("large tensors are uploaded by way of little pinned memory") {
  const Machine machine({}, std::size_t{1} << 30);
  const Tensor large = numbers(std::int64_t{40} << 20);  // 160 MiB
  const Tensor there = machine.put(large);
  CHECK(machine.device->count("upload") == 3);
  CHECK(machine.device->count("pin") == 2);  // of 64 MiB each, although nothing was waited for before
  CHECK(machine.waits() == 1);
  CHECK(there.at((std::int64_t{40} << 20) - 1) == 0.0);
}

TEST_CASE("a kernel may leave many results") {
  const Machine machine;
  GraphBuilder builder("many");
  const Value x = builder.input("x", Type(f32, {100}));
  std::vector<Value> results;
  for (std::int64_t k = 0; k < 45; ++k) {
    // A parameter of the kernel each.
    const Value part = ops::slice(x, {k + 1}, {k + 41}, {1});
    results.push_back(ops::sin(part));
  }
  const Graph graph = builder.build(results);
  std::size_t most = 0;
  for (const cuda_detail::Node& node : cuda_detail::plan_nodes(graph)) {
    for (const cuda_detail::Step& step : node.plan.steps)
      if (const auto* launch = std::get_if<cuda_detail::Launch>(&step))
        most = std::max(most, launch->arguments.size());
  }
  CHECK(most > 64);
  CHECK(most <= cuda_detail::max_arguments);
  const std::array inputs{Tensor::zeros(Type(f32, {100}))};
  const std::vector<Tensor> got = machine.cuda.run(graph, inputs);
  CHECK(difference(got[44], Tensor::zeros(Type(f32, {40}))) == "");
}

TEST_CASE("a choice among more cases than a kernel has parameters") {
  for (const std::int64_t count : {2, 64, 65, 130, 300}) {
    for (const bool moved : {false, true}) {
      INFO(count, moved ? " cases that are moved" : " cases in memory");
      const Machine machine;
      GraphBuilder builder("choice");
      std::vector<Value> cases;
      std::vector<std::int32_t> chosen;  // also below the first one and behind the last one
      for (std::int64_t i = -1; i <= count; ++i) chosen.push_back(static_cast<std::int32_t>(i));
      std::vector<Tensor> inputs{Tensor::from<std::int32_t>({count + 2}, chosen)};
      const Value which = builder.input("which", inputs[0].type());
      for (std::int64_t k = 0; k < count; ++k) {
        const Type type(f32, moved ? Shape{} : Shape{count + 2});
        const Value x = builder.input("x" + std::to_string(k), type);
        cases.push_back(moved ? ops::broadcast_in_dim(x, {count + 2}, {}) : x);
        const std::vector<float> all(static_cast<std::size_t>(type.size()), static_cast<float>(k));
        inputs.push_back(Tensor::from<float>(type.shape(), all));
      }
      const Value sum = ops::add(ops::select_n(which, cases), ops::select_n(which, cases));
      const Graph graph = builder.build({sum});
      CHECK(difference(machine.cuda.run(graph, inputs)[0], reference().run(graph, inputs)[0]) == "");
    }
  }
  // One number for all elements.
  GraphBuilder builder("branch");
  const Value which = builder.input("which", Type(i32, {}));
  const std::vector<Value> cases(100, builder.input("x", Type(f32, {3})));
  const Graph graph = builder.build({ops::select_n(which, cases)});
  const Machine machine;
  const std::array inputs{Tensor::from<std::int32_t>({}, {70}), Tensor::from<float>({3}, {1, 2, 3})};
  CHECK(difference(machine.cuda.run(graph, inputs)[0], inputs[1]) == "");
}

TEST_CASE("a library that is not installed is an error in one line that names it") {
  const auto load = [] {
    const cuda_detail::DynamicLibrary library("NCCL", {"libnccl.so.none", "libnone.so"});
  };
  CHECK_THROWS_WITH_AS(
      load(), doctest::Contains("[cuda] expected NCCL to be installed, got: libnccl.so.none"), Error);
  try {
    load();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::execution);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
  }
}

}  // namespace
}  // namespace tidu::test::foreign_cases
