// Sums of a million terms, equal ones and such as alternate, along every axis: rounding must not grow with
// the number of terms as it does where they are added one after another, of which an f32 sum is 1% off. Every
// line that is summed has the same terms, so one exact sum is right for all results.
#include <functional>

#include "cpu/compare.hpp"
#include "support/support.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/convolution.hpp"
#include "tidu/primitives/linalg.hpp"

namespace long_sums {
namespace {

using namespace tidu;
using namespace tidu::test;

constexpr double max_off = 1e-5;  // relative, of sums in f32: 170 roundings

// Terms that f16 and bf16 have, too.
double term(int pattern, std::int64_t i) {
  switch (pattern) {
    case 0: return 0.30078125;
    case 1: return i % 2 == 0 ? 0.69921875 : 0.099609375;
    default: return i == 0 ? 1.703125 : 0.30078125;
  }
}
double sum_of(int pattern, std::int64_t n, const std::function<double(double)>& f) {
  long double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<long double>(f(term(pattern, i)));
  return static_cast<double>(sum);
}
double same(double x) { return x; }

// A tensor of shape [outer, n, inner], with the terms along n.
Tensor lines(DType dtype, Shape shape, std::int64_t outer, std::int64_t n, std::int64_t inner, int pattern) {
  Tensor t(Type(dtype, std::move(shape)));
  std::int64_t at = 0;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double value = term(pattern, i);
      for (std::int64_t j = 0; j < inner; ++j, ++at) {
        if (dtype == f32) t.mutable_data<float>()[at] = static_cast<float>(value);
        if (dtype == f64) t.mutable_data<double>()[at] = value;
        if (dtype == f16) reinterpret_cast<std::uint16_t*>(t.mutable_bytes())[at] = double_to_half(value);
        if (dtype == bf16)
          reinterpret_cast<std::uint16_t*>(t.mutable_bytes())[at] = double_to_bfloat16(value);
      }
    }
  }
  return t;
}

std::vector<CpuExecutor> executors() {
  std::vector<CpuExecutor> list;
  for (const auto& [threads, units] :
       {std::pair(1, VectorUnits::automatic), std::pair(2, VectorUnits::automatic),
        std::pair(1, VectorUnits::none)}) {
    CpuOptions options;
    options.threads = threads;
    options.vector_units = units;
    list.emplace_back(options);
  }
  return list;
}

double unit_of(DType dtype) { return dtype == f16 ? 0x1p-11 : dtype == bf16 ? 0x1p-8 : 0; }

void check_all(const Tensor& got, double want, const std::string& what) {
  const double allowed = (max_off + unit_of(got.dtype())) * std::fabs(want);
  double worst = 0;
  for (std::int64_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::fabs(got.at(i).real() - want));
  CHECK_MESSAGE(worst <= allowed, what, " of ", got.type(), ": ", worst / std::fabs(want), " off");
}

std::int64_t many() { return shortened() ? 100'000 : 1'000'000; }

// By axes of {outer, n, inner}; with `reduced`, n is two axes around a third, which is kept.
struct Layout {
  std::int64_t outer, inner;
  bool reduced = false;
};
constexpr Layout layouts[] = {{1, 1}, {1, 2}, {1, 4}, {1, 16}, {2, 1}, {2, 3}, {5, 1, true}};

// The graph that make(x, axes) is in, on every executor.
void check_reduction(const char* name, DType dtype, const std::function<Value(Value, const Ints&)>& make,
                     const std::function<double(int, std::int64_t)>& want) {
  for (const Layout& layout : layouts) {
    const std::int64_t n = many(), near = 100;
    const Shape shape =
        layout.reduced ? Shape{n / near, layout.outer, near} : Shape{layout.outer, n, layout.inner};
    const Ints axes = layout.reduced ? Ints{0, 2} : Ints{1};
    GraphBuilder builder("sum");
    const Value x = builder.input("x", Type(dtype, shape));
    const Graph graph = builder.build({make(x, axes)});
    for (int pattern = 0; pattern < 3; ++pattern) {
      if (layout.reduced && pattern == 2) continue;
      const Tensor in = layout.reduced ? lines(dtype, shape, n / near * layout.outer, near, 1, pattern)
                                       : lines(dtype, shape, layout.outer, n, layout.inner, pattern);
      for (const CpuExecutor& executor : executors())
        check_all(
            executor.run(graph, std::vector<Tensor>{in})[0], want(pattern, n),
            detail::str(name, ", outer ", layout.outer, ", inner ", layout.inner, ", pattern ", pattern));
    }
  }
}

}  // namespace

TEST_CASE("long sums over any axis round as short ones do") {
  check_reduction(
      "sum", f32, [](Value x, const Ints& axes) { return ops::reduce_sum(x, axes); },
      [](int pattern, std::int64_t n) { return sum_of(pattern, n, same); });
  check_reduction(
      "fused sum", f32,
      [](Value x, const Ints& axes) { return ops::reduce_sum(ops::exp(ops::square(x)), axes); },
      [](int pattern, std::int64_t n) {
        return sum_of(pattern, n, [](double x) { return std::exp(x * x); });
      });
  check_reduction(
      "logsumexp", f32, [](Value x, const Ints& axes) { return ops::exp(ops::logsumexp(x, axes)); },
      [](int pattern, std::int64_t n) { return sum_of(pattern, n, [](double x) { return std::exp(x); }); });
  check_reduction(
      "mean", f32,
      [](Value x, const Ints& axes) {
        const Value sum = ops::reduce_sum(x, axes);
        return ops::mul(sum, ops::full_like(sum, 1.0 / static_cast<double>(many())));
      },
      [](int pattern, std::int64_t n) { return sum_of(pattern, n, same) / static_cast<double>(n); });
}

// The mean, since sums are beyond the range of f16.
TEST_CASE("long sums of 16 bits are accumulated in f32") {
  for (const DType dtype : {f16, bf16}) {
    check_reduction(
        "logsumexp", dtype, [](Value x, const Ints& axes) { return ops::logsumexp(x, axes); },
        [](int pattern, std::int64_t n) {
          return std::log(sum_of(pattern, n, [](double x) { return std::exp(x); }));
        });
  }
  check_reduction(
      "sum", bf16, [](Value x, const Ints& axes) { return ops::reduce_sum(x, axes); },
      [](int pattern, std::int64_t n) { return sum_of(pattern, n, same); });
}

TEST_CASE("matrix products of many terms round as those of few") {
  const std::int64_t n = many();
  for (const DType dtype : {f32, bf16}) {
    for (const std::int64_t rows : {1, 3, 17}) {
      for (const std::int64_t columns : {1, 4, 16}) {
        for (const bool left : {false, true}) {
          for (const bool right : {false, true}) {
            if (dtype == bf16 && (rows != 3 || columns != 4)) continue;
            GraphBuilder builder("product");
            const Shape a = left ? Shape{n, rows} : Shape{rows, n},
                        b = right ? Shape{columns, n} : Shape{n, columns};
            const Value x = builder.input("x", Type(dtype, a)), y = builder.input("y", Type(dtype, b));
            const Graph graph =
                builder.build({ops::dot_general(x, y, {{left ? 0 : 1}, {right ? 1 : 0}, {}, {}})});
            for (int pattern = 0; pattern < 2; ++pattern) {
              const std::vector<Tensor> in{
                  lines(dtype, a, left ? 1 : rows, n, left ? rows : 1, pattern),
                  lines(dtype, b, right ? columns : 1, n, right ? 1 : columns, pattern)};
              const double want = sum_of(pattern, n, [](double v) { return v * v; });
              std::vector<CpuExecutor> some = executors();
              if (rows != 3) some.resize(1);
              for (const CpuExecutor& executor : some)
                check_all(executor.run(graph, in)[0], want,
                          detail::str("product ", rows, " x ", columns, left ? ", A transposed" : "",
                                      right ? ", B transposed" : "", ", pattern ", pattern));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("long running sums and sums of long windows round as short ones do") {
  const std::int64_t n = many();
  for (const auto& [outer, inner] : {std::pair<std::int64_t, std::int64_t>(1, 1), {5, 1}, {1, 3}}) {
    const Shape shape{outer, n, inner};
    for (const bool reverse : {false, true}) {
      GraphBuilder builder("running");
      const Value x = builder.input("x", Type(f32, shape));
      const Graph graph = builder.build({ops::cumsum(x, 1, reverse)});
      const Tensor in = lines(f32, shape, outer, n, inner, 1);
      const Tensor got = CpuExecutor().run(graph, std::vector<Tensor>{in})[0];
      double worst = 0;
      bool grows = true;
      for (std::int64_t o = 0; o < outer; ++o) {
        for (std::int64_t j = 0; j < inner; ++j) {
          long double sum = 0;
          float before = 0;
          for (std::int64_t k = 0; k < n; ++k) {
            const std::int64_t i = reverse ? n - 1 - k : k;
            sum += static_cast<long double>(term(1, i));
            const float y = got.data<float>()[(o * n + i) * inner + j];
            worst = std::max(worst, static_cast<double>(std::fabs(static_cast<long double>(y) / sum - 1)));
            grows = grows && y >= before;
            before = y;
          }
        }
      }
      CHECK_MESSAGE(worst <= max_off, "cumsum of ", in.type(), reverse ? ", reverse" : "", ": ", worst,
                    " off");
      CHECK(grows);
    }
    GraphBuilder builder("window");
    const Value x = builder.input("x", Type(f32, shape));
    const Graph graph = builder.build({ops::reduce_window_sum(x, {1, n, 1})});
    for (int pattern = 0; pattern < 3; ++pattern)
      check_all(CpuExecutor().run(graph, std::vector<Tensor>{lines(f32, shape, outer, n, inner, pattern)})[0],
                sum_of(pattern, n, same), "window");
  }
}

// Gradients of w in sum log(1 + e^(x w)), x being n equal rows: tiled programs.
TEST_CASE("sums over the blocks of a program round as short ones do") {
  const std::int64_t n = many(), features = 8;
  GraphBuilder builder("loss");
  const Value x = builder.input("x", Type(f32, {n, features})), w = builder.input("w", Type(f32, {features}));
  const Value z = ops::dot_general(x, w, {{1}, {0}, {}, {}});
  const Graph graph = grad(builder.build({ops::reduce_sum(ops::log1p(ops::exp(z)), {0})}));
  const Tensor rows = lines(f32, {n, features}, 1, n, features, 0),
               weights = lines(f32, {features}, 1, features, 1, 0);
  const double t = term(0, 0), sum = t * t * static_cast<double>(features);
  const double want = static_cast<double>(n) * t / (1 + std::exp(-sum));
  for (const bool block : {false, true}) {
    ProgramOptions options;
    options.block = block;
    for (const CpuExecutor& executor : executors()) {
      const std::vector<Tensor> got =
          executor.compile(Program::make(graph, options)).run(std::vector<Tensor>{rows, weights});
      check_all(got.at(1), want, block ? "gradient in blocks" : "gradient");
    }
  }
}

}  // namespace long_sums
