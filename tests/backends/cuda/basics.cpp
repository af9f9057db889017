// What everything else on this machine's device stands on, one thing a test, from copies to captures: whoever
// looks for what is wrong there begins with the first that fails. Where there is no device they say so.
#include <array>
#include <cstring>
#include <iostream>
#include <random>
#include <thread>

#include "cpu/compare.hpp"
#include "cuda/this_machine.hpp"
#include "support/support.hpp"
#include "tensor/dlpack_structs.hpp"
#include "tidu/eager/profile.hpp"
#include "tidu/frontend/array.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu::test {
namespace {

Tensor random_of(Type type, unsigned seed, const Domain& domain = {}) {
  std::mt19937_64 random(seed);
  return random_tensor(type, domain, random);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.num_bytes() == b.num_bytes() && std::memcmp(a.bytes(), b.bytes(), a.num_bytes()) == 0;
}

// Plainly, captured and replayed.
void agrees(const CudaExecutor& device, const Graph& graph, const std::vector<Tensor>& inputs,
            double factor = 4) {
  const std::vector<Tensor> expected = reference().run(graph, std::span<const Tensor>(inputs));
  const CudaExecutable program = device.compile(graph);
  std::vector<Tensor> there;
  for (const Tensor& input : inputs) there.push_back(device.put(input).value());
  for (int round = 0; round < 3; ++round) {
    const std::vector<Tensor> got = program.run(std::span<const Tensor>(there));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::string found = difference(got[i], expected[i], factor);
      CHECK_MESSAGE(found.empty(), "round ", round, ": ", found, "\n", to_text(graph));
    }
  }
}

Op dot(const Ints& lhs, const Ints& rhs, const Ints& lhs_batch = {}, const Ints& rhs_batch = {}) {
  return Op::make(prim::dot_general, {{"dimension_numbers", IntLists{lhs, rhs, lhs_batch, rhs_batch}}});
}

}  // namespace

TEST_CASE("this machine 01: copies there and back [glue memory]") {
  const CudaExecutor* const device = this_machine();
  if (device == nullptr) return;
  for (const std::int64_t count : {0, 1, 3, 1000, 1 << 20, (20 << 20) + 1}) {
    const Tensor host = random_of(Type(f32, {count}), 1);
    const Tensor there = device->put(host).value();
    CHECK(same_bits(there, host));
  }
  std::cout << device->device_statistics().memory_limit / (std::size_t{1} << 20) << " MiB\n";
}

TEST_CASE("this machine 02: a kernel for each dtype, of sizes that end within a vector") {
  const CudaExecutor* const device = this_machine();
  if (device == nullptr) return;
  for (const DType dtype : every_dtype) {
    for (const std::int64_t count : {1, 15, 257, 100003}) {
      const Type type(dtype, {count});
      const Op op = dtype == bool_ ? Op::make(prim::xor_, {}) : Op::make(prim::add, {});
      agrees(*device, graph_of(op, {type, type}), {random_of(type, 2), random_of(type, 3)});
    }
  }
}

TEST_CASE("this machine 03: reductions along rows, along columns, in parts") {
  const CudaExecutor* const device = this_machine();
  if (device == nullptr) return;
  for (const DType dtype : {i64, bf16, f32, f64, c128}) {
    for (const auto& [shape, axes] :
         {std::pair(Shape{shortened() ? 300000 : 3000000}, Ints{0}), std::pair(Shape{300, 70}, Ints{1}),
          std::pair(Shape{70, 300}, Ints{0}), std::pair(Shape{5, 20000}, Ints{1})}) {
      const Type type(dtype, shape);
      const Domain small = is_integer(dtype) ? Domain{-5, 5} : Domain{0, 0.001};
      agrees(*device, graph_of(Op::make(prim::reduce_sum, {{"axes", axes}}), {type}),
             {random_of(type, 4, small)});
    }
  }
}

TEST_CASE(
    "this machine 04: products of every dtype, either way round, in batches, with a vector added [glue "
    "libraries]") {
  const CudaExecutor* const device = this_machine();
  if (device == nullptr) return;
  for (const DType dtype : {f16, bf16, f32, f64, c64, c128, i32}) {
    INFO(to_string(dtype));
    for (const std::int64_t n : {3, 64, 129}) {
      const Type a(dtype, {n, 40}), b(dtype, {40, n + 1}), at(dtype, {40, n}), bt(dtype, {n + 1, 40});
      agrees(*device, graph_of(dot({1}, {0}), {a, b}), {random_of(a, 5), random_of(b, 6)}, 20);
      agrees(*device, graph_of(dot({0}, {0}), {at, b}), {random_of(at, 5), random_of(b, 6)}, 20);
      agrees(*device, graph_of(dot({1}, {1}), {a, bt}), {random_of(a, 5), random_of(bt, 6)}, 20);
    }
    const Type x(dtype, {7, 5, 6}), y(dtype, {7, 6, 4}), vector(dtype, {6}), row(dtype, {1, 6});
    agrees(*device, graph_of(dot({2}, {1}, {0}, {0}), {x, y}), {random_of(x, 7), random_of(y, 8)}, 20);
    agrees(*device, graph_of(dot({0}, {1}), {vector, row}), {random_of(vector, 7), random_of(row, 8)}, 20);
    for (const std::int64_t n : {5, 32}) {
      GraphBuilder builder("biased");
      const Value p = builder.input("p", Type(dtype, {9, 16})), q = builder.input("q", Type(dtype, {16, n})),
                  r = builder.input("r", Type(dtype, {n}));
      const Value pq = ops::dot_general(p, q, {{1}, {0}, {}, {}});
      const Value wide = ops::broadcast_in_dim(r, pq.type().shape(), {1});
      const std::vector<Tensor> inputs{random_of(p.type(), 9), random_of(q.type(), 10),
                                       random_of(r.type(), 11)};
      agrees(*device, builder.build({ops::add(pq, wide)}), inputs, 20);
    }
  }
  const Type many(f32, {70000, 2, 3}), other(f32, {70000, 3, 2});
  agrees(*device, graph_of(dot({2}, {1}, {0}, {0}), {many, other}),
         {random_of(many, 12), random_of(other, 13)}, 20);
}

TEST_CASE("this machine 05: sorts of every width of key, one line and many, and places in order") {
  const CudaExecutor* const device = this_machine();
  if (device == nullptr) return;
  for (const DType dtype : {bool_, f16, f32, f64, i64}) {
    for (const Shape& shape : {Shape{100000}, Shape{50, 33}, Shape{3, 5000}}) {
      const Type type(dtype, shape);
      const auto last = static_cast<std::int64_t>(shape.size()) - 1;
      const Op sort = Op::make(prim::sort, {{"dimension", last}, {"num_keys", 1}});
      agrees(*device, graph_of(sort, {type}), {random_of(type, 14)});
      agrees(*device, graph_of(Op::make(prim::top_k, {{"k", 5}}), {type}), {random_of(type, 15)});
    }
  }
  const Type x(f32, {1000}), updates(f32, {5000}), places(i32, {5000});
  agrees(*device,
         graph_of(Op::make(prim::scatter_add, {{"axis", 0}, {"mode", "drop"}}), {x, places, updates}),
         {random_of(x, 16), random_of(places, 17, {-3, 1005}), random_of(updates, 18)});
}

TEST_CASE(
    "this machine 06: captures are taken, replayed on several streams, and refused by nothing [glue "
    "captures]") {
  const CudaExecutor* const device = this_machine();
  if (device == nullptr) return;
  GraphBuilder builder("branches");
  const Type square(f32, {64, 64});
  const Value x = builder.input("x", square), y = builder.input("y", square);
  const Value a = ops::dot_general(x, y, {{1}, {0}, {}, {}}), b = ops::dot_general(y, x, {{1}, {0}, {}, {}});
  const Value s = ops::reduce_sum(ops::sin(a), {0}), t = ops::reduce_max(ops::cos(b), {1});
  const Value sorted = emit1(Op::make(prim::sort, {{"dimension", 0}, {"num_keys", 1}}), {s});
  const Graph graph = builder.build({ops::add(sorted, t), ops::mul(a, b)});
  const std::vector<Tensor> inputs{random_of(square, 19), random_of(square, 20)};
  const std::vector<Tensor> expected = reference().run(graph, std::span<const Tensor>(inputs));
  const CudaExecutable program = device->compile(graph);
  const std::vector<Tensor> there{device->put(inputs[0]).value(), device->put(inputs[1]).value()};
  const CudaStatistics before = device->device_statistics();
  std::vector<Tensor> first;
  for (int round = 0; round < 20; ++round) {
    const std::vector<Tensor> got = program.run(std::span<const Tensor>(there));
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], expected[i], 20) == "");
    if (first.empty()) first = got;
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(same_bits(got[i], first[i]));
  }
  const CudaStatistics after = device->device_statistics();
  CHECK(after.captures > before.captures);
  CHECK(after.replays >= before.replays + 15);
  CHECK_MESSAGE(after.refused_captures == before.refused_captures, after.last_refusal);
}

TEST_CASE("this machine 07: streams wait for each other, the host for nothing [glue streams]") {
  const CudaExecutor* const device = this_machine();
  if (device == nullptr) return;
  GraphBuilder builder("long");
  const Type type(f32, {shortened() ? 1 << 16 : 1 << 22});
  const Value x = builder.input("x", type);
  Value y = x;
  for (int k = 0; k < 4; ++k) y = ops::add(ops::sin(y), ops::rev(y, {0}));
  const CudaExecutable program = device->compile(builder.build({y}));
  const Tensor start = random_of(type, 21);
  const auto run = [&](bool on_many) {
    std::vector<CudaStream> streams;
    for (int k = 0; k < 3; ++k) streams.push_back(CudaStream::make(*device));
    Tensor at = device->put(start).value();
    const std::uint64_t waits = device->device_statistics().synchronizations;
    for (std::size_t round = 0; round < 30; ++round) {
      const CudaStream& stream = streams[on_many ? round % 3 : 0];
      const Tensor noise = program.run(std::span(&at, 1), streams[2])[0];  // whose memory is used again
      at = program.run(std::span(&at, 1), stream)[0];
    }
    CHECK(device->device_statistics().synchronizations == waits);
    return at.clone();
  };
  CHECK(same_bits(run(false), run(true)));
}

TEST_CASE("this machine 08: several threads at once [glue streams]") {
  const CudaExecutor* const device = this_machine();
  if (device == nullptr) return;
  GraphBuilder builder("threads");
  const Type type(f32, {100, 100});
  const Value x = builder.input("x", type);
  const Value y = ops::dot_general(x, x, {{1}, {0}, {}, {}});
  const Graph graph = builder.build({ops::tanh(y), ops::reduce_sum(y, {0})});
  const CudaExecutable program = device->compile(graph);
  std::array<std::string, 4> found;
  std::vector<std::thread> threads;
  for (unsigned k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      try {
        const CudaStream stream = CudaStream::make(*device);
        const std::vector<Tensor> inputs{random_of(type, 30 + k)};
        const std::vector<Tensor> expected = reference().run(graph, std::span<const Tensor>(inputs));
        for (int round = 0; round < 20 && found[k].empty(); ++round)
          found[k] = difference(program.run(inputs, stream)[0], expected[0], 20);
      } catch (const std::exception& error) {
        found[k] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& one : found) CHECK(one == "");
}

TEST_CASE("this machine 09: more memory than there is is an error, and everything is usable then") {
  const CudaExecutor* const device = this_machine();
  if (device == nullptr) return;
  GraphBuilder builder("huge");
  const Value x = builder.input("x", Type(f32, {1}));
  const Graph graph = builder.build({ops::broadcast_in_dim(x, {std::int64_t{1} << 40}, {0})});
  const std::vector<Tensor> inputs{random_of(Type(f32, {1}), 22)};
  const Result<std::vector<Tensor>> failed = device->try_run(graph, inputs);
  REQUIRE(!failed);
  CHECK(failed.error().kind() == ErrorKind::out_of_memory);
  const Type small(f32, {100});
  agrees(*device, graph_of(Op::make(prim::exp, {}), {small}), {random_of(small, 23)});
}

TEST_CASE("this machine 10: memory shared by DLPack, at an address that vectors do not fit") {
  const CudaExecutor* const device = this_machine();
  if (device == nullptr) return;
  const Tensor whole = device->put(random_of(Type(f32, {1001}), 24)).value();
  DLManagedTensorVersioned* const out = device->to_dlpack(whole, nullptr);
  std::int64_t extent = 1000;
  out->dl_tensor.shape = &extent;
  out->dl_tensor.strides = nullptr;
  out->dl_tensor.byte_offset = 4;
  const Tensor part = device->from_dlpack(out, nullptr);
  const Tensor host = part.clone();
  CHECK(host.at(0) == whole.at(1));
  agrees(*device, graph_of(Op::make(prim::exp, {}), {part.type()}), {host});
  GraphBuilder builder("offset");
  const Value x = builder.input("x", part.type());
  const Value m = ops::reshape(x, {25, 40});
  const Value p = ops::dot_general(m, m, {{1}, {1}, {}, {}});
  const Graph graph = builder.build({ops::exp(x), p, ops::reduce_sum(m, {0})});
  const std::vector<Tensor> expected = reference().run(graph, {host}), got = device->run(graph, {part});
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], expected[i], 20) == "");
}

TEST_CASE("this machine 11: more elements than 32 bits count") {
  const CudaExecutor* const device = this_machine();
  if (device == nullptr || shortened()) return;
  constexpr std::int64_t count = (std::int64_t{1} << 32) + 5;
  GraphBuilder builder("wide");
  const Value x = builder.input("x", Type(i32, {}));
  const Value all = ops::add(ops::iota(builder, Type(i32, {count}), 0),
                             ops::broadcast_in_dim(x, {count}, {}));  // 16 GiB, which wrap around
  const Value kept = ops::optimization_barrier(std::span(&all, 1), 1)[0];
  const Value last = ops::slice(kept, {count - 3}, {count});
  const Value sum = ops::reduce_sum(kept, {0});
  Result<std::vector<Tensor>> got =
      device->try_run(builder.build({last, sum}), std::vector<Tensor>{Tensor::from<std::int32_t>({}, {7})});
  if (!got) {
    CHECK_MESSAGE(got.error().kind() == ErrorKind::out_of_memory, got.error().what());
    return;
  }
  const std::vector<Tensor>& results = got.value();
  CHECK(results[0].data<std::int32_t>()[2] == 11);
  CHECK(results[1].data<std::int32_t>()[0] == -2147483603);  // count (count - 1) / 2 + 7 count
  device->trim();
}

TEST_CASE("this machine 12: Arrays, their gradients, and a profile") {
  const CudaExecutor* const device = this_machine();
  if (device == nullptr) return;
  const Tensor host = random_of(Type(f32, {50, 30}), 25);
  const auto loss = [](const Array& x) { return sum(tanh(matmul(x, transpose(x))) * 0.5); };
  Array here(host);
  here.set_requires_grad();
  loss(here).backward();
  eager::Profile profile;
  {
    const auto watch = device->profile_device(profile);
    Array there = Array(host).to(*device);
    there.set_requires_grad();
    loss(there).backward();
    CHECK(there.grad()->device() == "cuda:0");
    CHECK(difference(there.grad()->tensor(), here.grad()->tensor(), 40) == "");
    device->synchronize();
  }
  std::size_t on_device = 0;
  for (const eager::ProfileEvent& event : profile.events()) {
    if (event.phase != eager::ProfilePhase::device) continue;
    ++on_device;
    CHECK(event.end >= event.begin);
  }
  CHECK(on_device >= 4);
}

}  // namespace tidu::test
