// Fusions compared with the same operations one by one, bit for bit: random graphs of all dtypes, sizes
// around blocks and vectors, with and without generated code, for one thread and for two.
#include "cpu/compare.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

constexpr DType all_dtypes[] = {bool_, i32, i64, f32, f64, c64, c128};

// A random graph of element-wise operations on `size` elements, reductions, and others between.
Graph random_graph(std::int64_t size, int operations, std::mt19937_64& random) {
  GraphBuilder builder("random");
  std::vector<Value> values;
  for (const DType dtype : {f32, f64, f32, f64, i32, bool_, c128})
    values.push_back(builder.input(detail::str('x', values.size()), Type(dtype, {size})));
  std::vector<Value> scalars = {builder.input("s", f32), builder.input("t", f64)};
  std::vector<Value> outputs;
  const auto pick = [&](const auto& accept) {
    for (;;) {
      const Value value = values[random() % values.size()];
      if (accept(value.dtype())) return value;
    }
  };
  const auto real = [](DType dtype) { return dtype == f32 || dtype == f64; };
  for (int i = 0; i < operations; ++i) {
    const Value a = pick(real);
    const Value b = pick([&](DType dtype) { return dtype == a.dtype(); });
    const Value mask = pick([](DType dtype) { return dtype == bool_; });
    switch (random() % 19) {
      case 16: {
        const Values both = ops::optimization_barrier(std::vector{a, ops::full_like(b, 0.75)}, i);
        values.insert(values.end(), both.begin(), both.end());
        break;
      }
      case 17:
        values.push_back(ops::broadcast_in_dim(ops::full(builder, Type(a.dtype(), {1}), 0.5), {size}, {0}));
        break;
      case 18: values.push_back(ops::pow(ops::abs(a), ops::full_like(a, 1.5))); break;
      case 0: values.push_back(ops::sin(a)); break;
      case 1: values.push_back(ops::mul(a, b)); break;
      case 2: values.push_back(ops::add(a, b)); break;
      case 3: values.push_back(ops::tanh(a)); break;
      case 4: values.push_back(ops::lt(a, b)); break;
      case 5: values.push_back(ops::select_n(mask, a, b)); break;
      case 6: values.push_back(ops::convert_element_type(a, all_dtypes[random() % 5])); break;
      case 7:
        values.push_back(ops::convert_element_type(pick([](DType dtype) { return dtype != c128; }), bool_));
        break;
      case 8: values.push_back(ops::mul(a, ops::full_like(a, 0.25))); break;
      case 9:
        values.push_back(ops::sub(a, ops::broadcast_scalar(scalars[a.dtype() == f64 ? 1 : 0], {size})));
        break;
      case 10: outputs.push_back(ops::reduce_sum(a, {0})); break;
      case 11: values.push_back(ops::erf_inv(ops::mul(ops::tanh(a), ops::full_like(a, 0.5)))); break;
      case 12: {
        const Value n = pick([](DType dtype) { return dtype == i32; });
        values.push_back(ops::add(n, n));
        break;
      }
      case 13: {
        const Value z = pick([](DType dtype) { return dtype == c128; });
        values.push_back(ops::mul(z, ops::conj(z)));
        break;
      }
      case 14:
        outputs.push_back(ops::reduce_or(mask, {0}));
        outputs.push_back(ops::reduce_max(ops::logical_not(mask), {0}));
        break;
      default: values.push_back(size > 1 && random() % 4 == 0 ? ops::rev(a, {0}) : ops::max(a, b)); break;
    }
  }
  for (int i = 0; i < 3; ++i) outputs.push_back(values[values.size() - 1 - random() % 6]);
  return builder.build(outputs);
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    for (std::int64_t i = 0; i < a[k].size(); ++i) {
      const std::complex<double> x = a[k].at(i), y = b[k].at(i);
      const auto equal = [](double p, double q) { return p == q || (std::isnan(p) && std::isnan(q)); };
      if (!equal(x.real(), y.real()) || !equal(x.imag(), y.imag())) return false;
    }
  }
  return a.size() == b.size();
}

}  // namespace

TEST_CASE("fusions have the bits of their operations one by one") {
  std::mt19937_64 random(1);
  for (const VectorUnits units : {VectorUnits::automatic, VectorUnits::avx2, VectorUnits::none}) {
    CpuOptions fused;
    fused.vector_units = units;
    CpuOptions alone = fused;
    alone.program.fuse = false;
    alone.threads = 1;
    for (const std::int64_t size : {2, 7, 100, 1023, 1024, 1025, 4097, 5000, 40001}) {
      for (int repeat = 0; repeat < (size < 2000 ? 12 : 3); ++repeat) {
        const Graph graph = random_graph(size, 10 + 10 * (repeat % 5), random);
        std::vector<Tensor> inputs;
        for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
        const auto expected = cpu().with_options(alone).run(graph, std::span<const Tensor>(inputs));
        for (const int threads : {1, 2}) {
          fused.threads = threads;
          const auto got = cpu().with_options(fused).run(graph, std::span<const Tensor>(inputs));
          CHECK_MESSAGE(same(got, expected), "size ", size, ", repeat ", repeat, ", threads ", threads);
        }
      }
    }
  }
}

TEST_CASE("a fused chain against the reference") {
  std::mt19937_64 random(2);
  for (const DType dtype : {f32, f64}) {
    GraphBuilder builder("chain");
    const Value x = builder.input("x", Type(dtype, {3, 700}));
    const Value c = ops::square(x);
    const Value inner = ops::add(ops::mul(ops::sin(x), x), ops::exp(ops::neg(c)));
    const Value y = ops::mul(ops::tanh(inner), ops::sqrt(ops::add(c, ops::full_like(c, 1.0))));
    const Graph graph = builder.build({y, ops::reduce_max(y, {0, 1})});
    const std::vector<Tensor> inputs = {random_tensor(Type(dtype, {3, 700}), {}, random)};
    CHECK(differences(graph, inputs, cpu()).empty());
    CHECK(cpu().compile(graph).num_instructions() == 1);
  }
}

TEST_CASE("reductions without readers, and repeated elements after barriers, run") {
  GraphBuilder builder("f");
  const Type type(f64, {1000});
  const Value x = builder.input("x", type);
  const Value y = ops::exp(x);
  const Values first = ops::optimization_barrier(std::vector{ops::reduce_sum(y, {0}), y}, 1);
  const Values second = ops::optimization_barrier(std::vector{ops::full(builder, type, 2.0), x}, 2);
  const Value row = ops::full(builder, Type(f64, {10}), 3.0);
  const Graph graph =
      builder.build({first[1], ops::mul(second[0], second[1]), ops::broadcast_in_dim(row, {10, 5}, {0})});
  std::mt19937_64 random(3);
  CHECK(differences(graph, {random_tensor(type, {}, random)}, cpu()).empty());
}

TEST_CASE("kernels of other projects see whole operations, in graphs that their kernels run too") {
  const Type type(f32, {5000});
  GraphBuilder inner("inner");
  const Graph chain = inner.build({ops::exp(ops::sin(inner.input("a", type)))});
  GraphBuilder outer("outer");
  const Graph whole = outer.build({ops::neg(ops::tan(ops::sin(outer.input("x", type))))});
  std::vector<Type> seen;
  const CpuExecutor mine = cpu()
                               .with_kernel("sin",
                                            [&](const KernelCall& call) {
                                              seen.push_back(call.input(0).type());
                                              call.output() = call.input(0).clone();
                                            })
                               .with_kernel("tan", [&](const KernelCall& call) {
                                 call.output() = call.run(chain, call.inputs())[0];
                               });
  std::mt19937_64 random(4);
  const std::vector<Tensor> inputs = {random_tensor(type, {}, random)};
  const Tensor got = mine.run(whole, std::span<const Tensor>(inputs))[0];
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] == type);
  CHECK(seen[1] == type);
  for (std::int64_t i = 0; i < got.size(); ++i)
    REQUIRE(std::abs(got.at(i).real() + std::exp(inputs[0].at(i).real())) < 1e-5);
}

TEST_CASE("selections of integers keep their bits in generated code") {
  std::mt19937_64 random(4);
  for (const auto& [whole, real] : {std::pair{i32, f32}, std::pair{i64, f64}, std::pair{i32, f64}}) {
    const Type numbers(whole, {5001}), reals(real, {5001});
    GraphBuilder builder("selections");
    const Value x = builder.input("x", reals), y = builder.input("y", reals);
    const Value n = builder.input("n", numbers), m = builder.input("m", numbers);
    const Value later = ops::lt(x, y);
    const Value chosen = ops::select_n(later, n, ops::full_like(m, 7.0));
    const Value again = ops::select_n(ops::lt(ops::max(x, y), ops::full_like(x, 1.0)), chosen, m);
    const Graph graph = builder.build({again, ops::select_n(later, x, y), ops::add(again, chosen)});
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs())
      inputs.push_back(random_tensor(graph.type(id), {-2, 2, is_integer(graph.type(id).dtype())}, random));
    // Signalling NaNs, were they floating.
    for (std::size_t k = 2; k < 4; ++k) {
      std::byte* const bytes = inputs[k].mutable_bytes();
      const std::int64_t odd = whole == i32 ? 0x7f800001 : 0x7ff0000000000001;
      for (std::size_t i = 0; i < 5001; i += 3) std::memcpy(bytes + i * size_of(whole), &odd, size_of(whole));
    }
    for (const VectorUnits units : {VectorUnits::automatic, VectorUnits::avx2, VectorUnits::none}) {
      CpuOptions options;
      options.vector_units = units;
      CHECK(differences(graph, inputs, cpu().with_options(options)).empty());
    }
  }
}
