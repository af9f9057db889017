// Matmul epilogues x + c p and x - c p for a matmul p, as one step: which are one, and that they have the
// bits of a matmul and later operations, on any number of threads, with any other readers and writers.
#include <doctest/doctest.h>

#include <array>
#include <memory>

#include "cpu/compare.hpp"
#include "cpu/matmul/gemm.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

CpuExecutor updating(int threads, bool fuse = true) {
  CpuOptions options;
  options.threads = threads;
  options.program.fuse = fuse;
  options.program.block = false;
  return CpuExecutor(options);
}

struct UpdateSizes {
  std::int64_t m, n, k;
  bool trans_a;
};

// The form of the epilogue, on a, b and x.
using UpdateForm = Value (*)(GraphBuilder& builder, Value matmul, Value x, Value c);
Value filled_like(GraphBuilder& builder, Value like, double value) {
  return ops::full(builder, like.type(), value);
}
constexpr std::array update_forms{
    UpdateForm{[](GraphBuilder& g, Value p, Value x, Value) {
      return ops::sub(x, ops::mul(filled_like(g, p, 0.3), p));
    }},
    UpdateForm{[](GraphBuilder& g, Value p, Value x, Value) {
      return ops::add(ops::mul(p, filled_like(g, p, -1.7)), x);
    }},
    UpdateForm{[](GraphBuilder&, Value p, Value x, Value c) {
      return ops::add(x, ops::mul(ops::broadcast_in_dim(c, {p.type().dim(0), p.type().dim(1)}, {}), p));
    }},
    UpdateForm{[](GraphBuilder&, Value p, Value x, Value c) {
      return ops::sub(x, ops::mul(p, ops::broadcast_in_dim(c, {p.type().dim(0), p.type().dim(1)}, {})));
    }}};

// Which of an epilogue's sum and matmul are outputs.
enum class Wanted : std::uint8_t { sum, both, matmul_first };

Graph update_graph(DType dtype, const UpdateSizes& s, UpdateForm form, Wanted wanted = Wanted::sum) {
  GraphBuilder builder("update");
  const Value a = builder.input("a", s.trans_a ? Type{dtype, {s.k, s.m}} : Type{dtype, {s.m, s.k}});
  const Value b = builder.input("b", {dtype, {s.k, s.n}});
  const Value x = builder.input("x", {dtype, {s.m, s.n}}), c = builder.input("c", {dtype, {}});
  const Value p = ops::dot_general(a, b, {{s.trans_a ? 0 : 1}, {0}, {}, {}});
  const Value sum = form(builder, p, x, c);
  if (wanted == Wanted::sum) return builder.build({sum});
  return builder.build(wanted == Wanted::both ? std::vector{sum, p} : std::vector{p, sum, p});
}

std::vector<Tensor> inputs_of_update(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
  return inputs;
}

void check_updated(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i].type() == expected[i].type());
    CHECK(std::memcmp(got[i].bytes(), expected[i].bytes(), got[i].num_bytes()) == 0);
  }
}

}  // namespace

TEST_CASE("[updates] a matmul that is added to something or subtracted from it is one step with it") {
  std::mt19937_64 random(11);
  for (const DType dtype : {f32, f64}) {
    for (const UpdateSizes& s :
         {UpdateSizes{160, 160, 40, false}, UpdateSizes{160, 160, 40, true}, UpdateSizes{77, 331, 33, true},
          UpdateSizes{1030, 67, 5, false}, UpdateSizes{129, 192, 160, true}, UpdateSizes{3, 9000, 2, true}}) {
      for (const UpdateForm form : update_forms) {
        for (const Wanted wanted : {Wanted::sum, Wanted::both, Wanted::matmul_first}) {
          const Graph graph = update_graph(dtype, s, form, wanted);
          const std::vector<Tensor> inputs = inputs_of_update(graph, random);
          const std::vector<Tensor> expected = updating(1, false).compile(graph).run(inputs);
          for (const int threads : {1, 2, 3}) {
            const Executable executable = updating(threads).compile(graph);
            CHECK(executable.num_instructions() == 1);
            check_updated(executable.run(inputs), expected);
          }
        }
      }
    }
  }
}

TEST_CASE("[updates] a matmul that is kept is one step with its sum, whatever stands between them") {
  GraphBuilder builder("descent");
  const Value a = builder.input("a", {f32, {32, 160}}), w = builder.input("w", {f32, {160, 160}});
  const Value gradient = ops::dot_general(a, a, {{0}, {0}, {}, {}});
  const Value behind = ops::matmul(ops::matmul(a, w), w);
  const Value next = ops::sub(w, ops::mul(filled_like(builder, gradient, 0.3), gradient));
  const Graph graph = builder.build({behind, next, gradient});
  std::mt19937_64 random(13);
  const std::vector<Tensor> inputs = inputs_of_update(graph, random);
  const Executable executable = updating(2).compile(graph);
  CHECK(executable.num_instructions() == 3);
  check_updated(executable.run(inputs), updating(1, false).compile(graph).run(inputs));
}

TEST_CASE("[updates] matmuls of which more is wanted, or of other kinds, stay steps of their own") {
  std::mt19937_64 random(12);
  const auto check = [&](const Graph& graph, std::size_t instructions) {
    const std::vector<Tensor> inputs = inputs_of_update(graph, random);
    const std::vector<Tensor> expected = updating(1, false).compile(graph).run(inputs);
    for (const int threads : {1, 2}) {
      const Executable executable = updating(threads).compile(graph);
      CHECK(executable.num_instructions() == instructions);
      check_updated(executable.run(inputs), expected);
    }
  };
  const auto graph = [](const auto& results, DType dtype = f32, std::int64_t k = 32) {
    GraphBuilder builder("apart");
    const Value a = builder.input("a", {dtype, {160, k}}), b = builder.input("b", {dtype, {k, 160}});
    const Value x = builder.input("x", {dtype, {160, 160}});
    return builder.build(results(builder, ops::matmul(a, b), x));
  };
  using Values = std::vector<Value>;
  const auto half = [](GraphBuilder& g, Value p) { return ops::mul(p, filled_like(g, p, 0.5)); };
  // The matmul has another reader, is both terms, is the minuend.
  check(graph([&](GraphBuilder& g, Value p, Value x) {
          return Values{ops::sub(x, half(g, p)), ops::exp(p)};
        }),
        2);
  check(graph([&](GraphBuilder& g, Value p, Value) { return Values{ops::sub(p, half(g, p))}; }), 2);
  check(graph([&](GraphBuilder& g, Value p, Value x) { return Values{ops::sub(half(g, p), x)}; }), 2);
  check(
      graph([&](GraphBuilder& g, Value p, Value x) { return Values{ops::sub(ops::mul(p, x), half(g, x))}; }),
      2);
  check(graph([&](GraphBuilder&, Value p, Value x) { return Values{ops::add(ops::mul(p, x), x)}; }), 2);
  // Nothing is scaled; the scaled value is a result, too.
  check(graph([&](GraphBuilder&, Value p, Value x) { return Values{ops::add(p, x)}; }), 2);

  check(graph([&](GraphBuilder& g, Value p, Value x) {
          const Value scaled = half(g, p);
          return Values{ops::sub(x, scaled), scaled};
        }),
        2);
  // More terms than are summed at once, and complex numbers.
  check(graph([&](GraphBuilder& g, Value p, Value x) { return Values{ops::sub(x, half(g, p))}; }, f64, 400),
        2);
  check(graph([&](GraphBuilder&, Value p, Value x) { return Values{ops::sub(x, p)}; }, c64), 2);
}

TEST_CASE(
    "[updates] updates one after another, of operands that live on, end or give their place to others") {
  std::mt19937_64 random(13);
  for (int round = 0; round < 60; ++round) {
    GraphBuilder builder("updates");
    const std::int64_t m = 130 + 8 * (round % 5), k = 20 + round;
    std::vector<Value> tall, square;
    for (int i = 0; i < 3; ++i) {
      tall.push_back(builder.input(detail::str('a', i), {f64, {k, m}}));
      square.push_back(builder.input(detail::str('x', i), {f64, {m, m}}));
    }
    const auto any = [&](const std::vector<Value>& of) {
      return of[std::uniform_int_distribution<std::size_t>(0, of.size() - 1)(random)];
    };
    for (int i = 0; i < 8; ++i) {
      const Value p = ops::dot_general(any(tall), any(tall), {{0}, {0}, {}, {}}), x = any(square);
      const Value scaled = ops::mul(p, filled_like(builder, p, 0.01));
      switch (std::uniform_int_distribution<int>(0, 4)(random)) {
        case 0: square.push_back(ops::sub(x, scaled)); break;
        case 1: square.push_back(ops::add(ops::tanh(x), scaled)); break;
        case 2: tall.push_back(ops::tanh(ops::matmul(any(tall), x))); [[fallthrough]];
        case 3: square.push_back(ops::sub(ops::tanh(x), p)); break;
        default:
          square.push_back(ops::add(ops::mul(p, filled_like(builder, p, 0.1)), ops::tanh(any(square))));
          break;
      }
    }
    const Graph graph = builder.build({square.back(), tall.back(), any(square)});
    const std::vector<Tensor> inputs = inputs_of_update(graph, random);
    const std::vector<Tensor> expected = updating(1, false).compile(graph).run(inputs);
    for (const int threads : {1, 2}) check_updated(updating(threads).compile(graph).run(inputs), expected);
  }
}

TEST_CASE("[updates] an operand of the matmul is not overwritten, and not rearranged") {
  std::mt19937_64 random(15);
  const auto check = [&](const Graph& graph) {
    const std::vector<Tensor> inputs = inputs_of_update(graph, random);
    const std::vector<Tensor> expected = updating(1, false).compile(graph).run(inputs);
    for (const int threads : {1, 2}) check_updated(updating(threads).compile(graph).run(inputs), expected);
  };
  for (const bool second : {false, true}) {
    GraphBuilder g("places");
    const Value x = g.input("x", {f64, {136, 136}}), y = g.input("y", {f64, {136, 136}});
    // One ends with the update, which is as large, and no result of the program.
    const Value ends = ops::tanh(x), p = second ? ops::matmul(y, ends) : ops::matmul(ends, y);
    const Value u = ops::sub(y, ops::mul(filled_like(g, p, 0.1), p));
    check(g.build({ops::matmul(u, y)}));
  }
  for (const bool second : {false, true}) {
    GraphBuilder g("apart");  // axes that are summed over have others between them
    const Value a = g.input("a", second ? Type(f64, {150, 6, 7}) : Type(f64, {6, 150, 7}));
    const Value b = g.input("b", second ? Type(f64, {6, 140, 7}) : Type(f64, {6, 7, 140}));
    const Value p = ops::dot_general(a, b, {{second ? 1 : 0, 2}, {0, second ? 2 : 1}, {}, {}});
    const Value x = g.input("x", p.type());
    check(g.build({ops::sub(x, ops::mul(filled_like(g, p, 0.1), p))}));
  }
}

TEST_CASE(
    "[updates] a step of gradient descent by large matmuls has the same bits on any number of threads") {
  std::mt19937_64 random(14);
  for (const UpdateSizes& s : {UpdateSizes{784, 512, 64, true}, UpdateSizes{512, 512, 64, true},
                               UpdateSizes{512, 768, 128, false}}) {
    const Graph graph = update_graph(f32, s, update_forms[0]);
    const std::vector<Tensor> inputs = inputs_of_update(graph, random);
    const std::vector<Tensor> expected = updating(1).compile(graph).run(inputs);
    for (const int threads : {2, 3}) check_updated(updating(threads).compile(graph).run(inputs), expected);
    CpuOptions plain;
    plain.program.fuse = false;
    CHECK(difference(expected[0], CpuExecutor(plain).run(graph, inputs)[0], 100) == "");
  }
}

TEST_CASE("[updates] results that bypass the caches have the same bits, in place, aligned or not") {
  using namespace tidu::cpu_detail;
  std::mt19937_64 random(14);
  const auto check = [&](auto element, GemmType type, std::int64_t n, std::int64_t shift) {
    using T = decltype(element);
    GemmCall call;
    call.type = type;
    call.trans_a = true;
    call.m = call.lda = 45;
    call.n = call.ldb = call.ldc = n;
    call.k = 9;
    const GemmPlan plan(call, 1, GemmIsa::avx512);
    REQUIRE(plan.can_update());
    const auto some = [&](std::int64_t count) {
      std::vector<T> result(static_cast<std::size_t>(count));
      for (T& x : result) x = static_cast<T>(std::uniform_real_distribution<double>(-1, 1)(random));
      return result;
    };
    const std::vector<T> a = some(call.m * call.k), b = some(n * call.k), x = some(call.m * n + 16);
    std::vector<T> expected(x.size()), scratch(x.size() + 64);
    // At a line's begin, or `shift` elements after it.
    void* begin = scratch.data();
    std::size_t space = scratch.size() * sizeof(T);
    T* const c = static_cast<T*>(std::align(64, x.size() * sizeof(T), begin, space)) + shift;
    const T scale = T(0.3);
    plan.update(1, a.data(), b.data(), {x.data(), &scale, true}, expected.data());
    std::copy(x.begin(), x.begin() + call.m * n, c);
    plan.update(2, a.data(), b.data(), {c, &scale, true, true}, c);
    const auto bytes = static_cast<std::size_t>(call.m * n) * sizeof(T);
    CHECK(std::memcmp(c, expected.data(), bytes) == 0);
    // The matmul, too, at a line's begin when c is not, and the other way round.
    std::vector<T> matmul(x.size() + 64), alone(x.size());
    plan.run(a.data(), b.data(), alone.data());
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{3}}) {
      begin = matmul.data();
      space = matmul.size() * sizeof(T);
      T* const kept = static_cast<T*>(std::align(64, x.size() * sizeof(T), begin, space)) + at;
      std::copy(x.begin(), x.begin() + call.m * n, c);
      plan.update(2, a.data(), b.data(), {c, &scale, true, shift == 0 && at == 0, kept}, c);
      CHECK(std::memcmp(c, expected.data(), bytes) == 0);
      CHECK(std::memcmp(kept, alone.data(), bytes) == 0);
    }
  };
  for (const std::int64_t n : {64, 128, 176, 200, 1024}) {
    for (const std::int64_t shift : {0, 1, 8}) {
      check(0.0f, GemmType::f32, n, shift);
      check(0.0, GemmType::f64, n, shift);
    }
  }
}

// oneDNN computes them if it is available: one rounding of the scaled and added value may be missing.
TEST_CASE("[updates] large matmuls of many terms change arrays where they are, or elsewhere, alike") {
  std::mt19937_64 random(16);
  const UpdateSizes sizes{200, 331, 200, true};
  for (const UpdateForm form : update_forms) {
    for (const Wanted wanted : {Wanted::sum, Wanted::both}) {
      const Graph graph = update_graph(f32, sizes, form, wanted);
      for (const double scale : {0.7, -1e-30, 0.0, HUGE_VAL, std::nan("")}) {
        std::vector<Tensor> inputs = inputs_of_update(graph, random);
        inputs[3] = Tensor::scalar(f32, scale);
        const std::vector<Tensor> expected = updating(1, false).compile(graph).run(inputs);
        std::vector<Tensor> first;
        for (const int threads : {1, 2}) {
          const Executable executable = updating(threads).compile(graph);
          CHECK(executable.num_instructions() == 1);
          const std::vector<Tensor> got = executable.run(inputs);
          for (std::size_t i = 0; i < got.size(); ++i) {
            const auto x = inputs[2].elements<float>(), a = got[i].elements<float>(),
                       b = expected[i].elements<float>();
            int wrong = 0;
            for (std::size_t k = 0; k < a.size(); ++k) {
              const float bound = 1e-6f * (std::abs(x[k]) + std::abs(b[k])) + 2e-5f;
              const bool same = a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k]));
              wrong += same || (std::isfinite(b[k]) && std::abs(a[k] - b[k]) <= bound) ? 0 : 1;
            }
            CHECK(wrong == 0);
          }
          if (first.empty()) first = got;
          check_updated(got, first);
          // x is donated, so that the sum is computed in place.
          std::vector<Tensor> outputs(got.size());
          outputs.back() = inputs[2].clone();
          const void* const place = outputs.back().bytes();
          REQUIRE(executable.reusable_inputs().size() == 1);
          const Tensor* const from[] = {&inputs[0], &inputs[1], &outputs.back(), &inputs[3]};
          executable.run_into(from, outputs);
          CHECK(outputs[0].bytes() == place);
          check_updated(outputs, first);
        }
      }
    }
  }
}
