// linalg_edges.cpp - the edges of the domains of linear algebra's kernels (docs/matmul.md): no rows or
// columns, batches of none, one element, elements that are not finite, zeros alone, the smallest and the
// greatest numbers, for all dtypes on both executors; and derivatives at singular points, as
// docs/conventions.md has them.
#include "cpu/compare.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/linalg.hpp"
#include "tidu/frontend/trace.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/linalg.hpp"

namespace tidu::test::linalg_edges_cases {
namespace {

constexpr DType dtypes[] = {f16, bf16, f32, f64, c64, c128};
const std::vector<const Executor*>& executors() {
  static const std::vector<const Executor*> both{&cpu(), &reference()};
  return both;
}

struct Decomposition {
  const char* name;
  Values (*of)(Value);
  bool square;
};
Values solved(Value x) {  // both triangles, from both sides
  return {ops::triangular_solve(x, x, {.left_side = true, .lower = true}),
          ops::triangular_solve(x, x, {.left_side = false, .lower = false, .transpose_a = true})};
}
constexpr Decomposition decompositions[] = {
    {"svd", [](Value x) { return ops::svd(x); }, false},
    {"qr", [](Value x) { return ops::qr(x); }, false},
    {"lu", [](Value x) { return ops::lu(x); }, false},
    {"eigh", [](Value x) { return ops::eigh(x); }, true},
    {"cholesky", [](Value x) { return Values{ops::cholesky(x)}; }, true},
    {"triangular_solve", solved, true},
};

Graph graph_of(const Decomposition& d, Type type) {
  GraphBuilder g("f");
  return g.build(d.of(g.input("x", type)));
}
std::vector<Tensor> run(const Executor& executor, const Graph& graph, const Tensor& x) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) inputs.push_back(x);
  return executor.run(graph, std::span<const Tensor>(inputs));
}
Tensor filled(Type type, std::complex<double> value) {
  GraphBuilder g("filled");
  Value x = ops::constant(g, Tensor::from<std::complex<double>>({1}, {value}).to_literal(), Where::current());
  if (!is_complex(type.dtype())) x = ops::real(x);
  if (x.dtype() != type.dtype()) x = ops::convert_element_type(x, type.dtype());
  return reference().run(
      g.build({ops::broadcast_in_dim(x, type.shape(), {static_cast<std::int64_t>(type.rank()) - 1})}),
      std::vector<Tensor>())[0];
}
bool has_nan(const Tensor& x) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x.at(i).real()) || std::isnan(x.at(i).imag())) return true;
  }
  return false;
}
bool only_nan(const Tensor& x) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if (!std::isnan(x.at(i).real()) && !std::isnan(x.at(i).imag())) return false;
  }
  return true;
}
bool only_finite(const Tensor& x) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x.at(i).real()) || !std::isfinite(x.at(i).imag())) return false;
  }
  return true;
}

TEST_CASE("linear algebra: matrices without rows or columns, and batches of none, with derivatives") {
  for (const DType dtype : dtypes) {
    for (const Shape& shape : {Shape{0, 0}, Shape{0, 3}, Shape{3, 0}, Shape{0, 2, 2}, Shape{0, 3, 2},
                               Shape{2, 0, 0}, Shape{2, 0, 3}, Shape{2, 3, 0}, Shape{3, 0, 2, 2}}) {
      for (const Decomposition& d : decompositions) {
        if (d.square && shape[shape.size() - 1] != shape[shape.size() - 2]) continue;
        const Type type(dtype, shape);
        const std::string name = d.name;
        CAPTURE(name);
        CAPTURE(type);
        const Graph f = graph_of(d, type);
        const Graph pullback = vjp(f);
        for (const Executor* executor : executors()) {
          const std::vector<Tensor> results = run(*executor, f, Tensor(type));
          for (std::size_t i = 0; i < results.size(); ++i) CHECK(results[i].type() == f.type(f.outputs()[i]));
          std::vector<Tensor> inputs{Tensor(type)};
          for (const Tensor& result : results) {
            if (is_inexact(result.dtype())) inputs.push_back(result);
          }
          CHECK(executor->run(pullback, std::span<const Tensor>(inputs)).back().type() == type);
        }
      }
    }
  }
}

TEST_CASE("linear algebra: functions of LU factors of matrices without elements") {
  const auto f = [](const Array& x) {
    const auto [sign, logarithm] = linalg::slogdet(x);
    return std::vector<Array>{linalg::inv(x), linalg::solve(x, x), linalg::det(x), sign, logarithm};
  };
  for (const DType dtype : {f32, f64, c64, c128}) {
    for (const Shape& shape : {Shape{0, 0}, Shape{2, 0, 0}, Shape{0, 2, 2}, Shape{0, 4, 4}}) {
      const Type type(dtype, shape);
      CAPTURE(type);
      const Graph graph = trace(f, type);
      for (const Executor* executor : executors()) {
        const std::vector<Tensor> got = run(*executor, graph, Tensor(type));
        for (std::int64_t i = 0; i < got[2].size(); ++i) {  // of nothing
          CHECK(got[2].at(i) == 1.0);
          CHECK(got[3].at(i) == 1.0);
          CHECK(got[4].at(i) == 0.0);
        }
      }
      const Graph total = trace(
          [](const Array& x) {
            return real(tidu::sum(linalg::det(x))) + tidu::sum(linalg::slogdet(x).second);
          },
          type);
      CHECK(run(cpu(), grad(total), Tensor(type))[0].type() == type);
    }
  }
}

// Alone or in a batch: exact up to signs.
TEST_CASE("linear algebra: matrices of one element") {
  for (const DType dtype : dtypes) {
    for (const double x : {4.0, -4.0, 0.0, 0x1p-14, 0x1p14}) {
      for (const Shape& shape : {Shape{1, 1}, Shape{3, 1, 1}}) {
        const Tensor at = filled({dtype, shape}, x);
        CAPTURE(dtype);
        CAPTURE(x);
        for (const Executor* executor : executors()) {
          const auto results = [&](std::size_t k) {
            return run(*executor, graph_of(decompositions[k], at.type()), at);
          };
          const std::vector<Tensor> usv = results(0), q_r = results(1), factors = results(2),
                                    v_w = results(3);
          CHECK(usv[1].at(0) == std::abs(x));
          CHECK(usv[0].at(0) * usv[1].at(0) * usv[2].at(0) == x);
          CHECK(std::abs(usv[0].at(0)) == 1);
          CHECK(q_r[0].at(0) * q_r[1].at(0) == x);
          CHECK(std::abs(q_r[0].at(0)) == 1);
          CHECK(factors[0].at(0) == x);
          CHECK(v_w[1].at(0) == x);
          CHECK(std::abs(v_w[0].at(0)) == 1);
          const std::complex<double> l = results(4)[0].at(0), one = results(5)[0].at(0);
          if (x > 0) CHECK(l == std::sqrt(x));
          if (x < 0) CHECK(std::isnan(l.real()));
          if (x != 0) CHECK(one == 1.0);
        }
      }
    }
  }
}

TEST_CASE("linear algebra: an element that is not finite is never decomposed into finite factors") {
  for (const DType dtype : dtypes) {
    for (const double odd : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      for (std::int64_t place = 0; place < 9; ++place) {
        GraphBuilder g("matrix");
        std::vector<double> elements{4, 1, 0.5, 1, 5, 2, 0.5, 2, 6};
        elements[static_cast<std::size_t>(place)] = odd;
        const Tensor wide = Tensor::from<double>({3, 3}, elements);
        const Value x = g.input("x", wide.type());
        const Tensor at = reference().run(
            g.build({dtype == f64 ? ops::neg(ops::neg(x)) : ops::convert_element_type(x, dtype)}), {wide})[0];
        CAPTURE(dtype);
        CAPTURE(odd);
        CAPTURE(place);
        for (const Executor* executor : executors()) {
          CAPTURE(executor == &cpu());
          for (const Decomposition& d : decompositions) {
            const std::string name = d.name;
            CAPTURE(name);
            const std::vector<Tensor> results = run(*executor, graph_of(d, at.type()), at);
            if (name == "svd" || name == "eigh") {
              for (const Tensor& result : results) CHECK(only_nan(result));
            } else if (name == "lu") {
              CHECK_FALSE(only_finite(results[0]));
            } else if (name == "qr") {
              CHECK_FALSE((only_finite(results[0]) && only_finite(results[1])));
            } else if (name == "cholesky") {
              CHECK_FALSE(only_finite(results[0]));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("linear algebra: matrices of zeros") {
  for (const DType dtype : dtypes) {
    for (const Shape& shape : {Shape{3, 3}, Shape{4, 2}, Shape{2, 4}, Shape{2, 3, 3}}) {
      const Tensor zero = filled({dtype, shape}, 0);
      const std::int64_t m = shape[shape.size() - 2], n = shape.back(), k = std::min(m, n);
      CAPTURE(zero.type());
      for (const Executor* executor : executors()) {
        const std::vector<Tensor> usv = run(*executor, graph_of(decompositions[0], zero.type()), zero),
                                  q_r = run(*executor, graph_of(decompositions[1], zero.type()), zero),
                                  factors = run(*executor, graph_of(decompositions[2], zero.type()), zero);
        for (std::int64_t i = 0; i < usv[1].size(); ++i) CHECK(usv[1].at(i) == 0.0);
        for (std::int64_t i = 0; i < q_r[1].size(); ++i) CHECK(q_r[1].at(i) == 0.0);
        for (std::int64_t i = 0; i < factors[0].size(); ++i) CHECK(factors[0].at(i) == 0.0);
        for (std::int64_t i = 0; i < factors[2].size(); ++i)
          CHECK(factors[2].at(i) == static_cast<double>(i % m));
        for (const Tensor& columns : {usv[0], q_r[0]}) {  // unit vectors
          for (std::int64_t j = 0; j < k; ++j) {
            double size = 0;
            for (std::int64_t i = 0; i < m; ++i) size += std::norm(columns.at(i * k + j));
            CHECK(size == doctest::Approx(1).epsilon(1e-2));
          }
        }
        if (m != n) continue;
        const std::vector<Tensor> v_w = run(*executor, graph_of(decompositions[3], zero.type()), zero);
        CHECK(only_finite(v_w[0]));
        for (std::int64_t i = 0; i < v_w[1].size(); ++i) CHECK(v_w[1].at(i) == 0.0);
        CHECK(has_nan(run(*executor, graph_of(decompositions[4], zero.type()), zero)[0]));
      }
    }
  }
}

// All of one number, near both ends of the range: a singular value and an eigenvalue of n times that, where
// that is in the range.
TEST_CASE("linear algebra: the smallest and the greatest numbers") {
  const auto check = [](DType dtype, double x, double relative) {
    const Tensor at = filled({dtype, {3, 3}}, x);
    CAPTURE(dtype);
    CAPTURE(x);
    for (const Executor* executor : executors()) {
      CAPTURE(executor == &cpu());
      const double s = run(*executor, graph_of(decompositions[0], at.type()), at)[1].at(0).real(),
                   r = std::abs(run(*executor, graph_of(decompositions[1], at.type()), at)[1].at(0)),
                   w = run(*executor, graph_of(decompositions[3], at.type()), at)[1].at(2).real();
      CHECK(std::abs(s / x / 3 - 1) <= relative);
      CHECK(std::abs(w / x / 3 - 1) <= relative);
      CHECK(std::abs(r / x / std::sqrt(3) - 1) <= relative);
      CHECK(run(*executor, graph_of(decompositions[2], at.type()), at)[0].at(0) == x);
    }
  };
  for (const DType dtype : {f64, c128}) {
    for (const double x : {0x1p-1060, 0x1p-1022, 0x1p-600, 0x1p600, 0x1p1020}) check(dtype, x, 1e-4);
  }
  for (const DType dtype : {f32, c64}) {
    for (const double x : {0x1p-140, 0x1p-126, 0x1p-70, 0x1p70, 0x1p125}) check(dtype, x, 1e-2);
  }
  for (const double x : {0x1p-18, 0x1p-14, 0x1p13}) check(f16, x, 1e-1);
  for (const double x : {0x1p-130, 0x1p-126, 0x1p125}) check(bf16, x, 1e-1);
}

// The points at which docs/conventions.md says that a first derivative is not finite.
TEST_CASE("linear algebra: derivatives at singular points are not finite") {
  const auto gradient = [](const std::string& name, const std::function<Array(const Array&)>& f,
                           const Tensor& x) {
    CAPTURE(name);
    const Graph graph = grad(trace(f, x.type()));
    for (const Executor* executor : executors()) CHECK_FALSE(only_finite(run(*executor, graph, x)[0]));
  };
  const Tensor singular = Tensor::from<double>({2, 2}, {1, 1, 1, 1}),
               semidefinite = Tensor::from<double>({2, 2}, {1, 0, 0, 0}),
               indefinite = Tensor::from<double>({2, 2}, {1, 2, 2, 1});
  gradient(
      "cholesky", [](const Array& x) { return tidu::sum(linalg::cholesky(x)); }, semidefinite);
  gradient(
      "cholesky", [](const Array& x) { return tidu::sum(linalg::cholesky(x)); }, indefinite);
  gradient(
      "qr",
      [](const Array& x) {
        return tidu::sum(linalg::qr(x).first[{{}, 1}]);
      },
      Tensor::from<double>({3, 2}, {1, 1, 0, 0, 0, 0}));
  gradient(
      "lu", [](const Array& x) { return tidu::sum(std::get<0>(linalg::lu(x))); },
      Tensor::from<double>({3, 3}, {0, 1, 2, 0, 3, 5, 0, 1, 7}));
  gradient(
      "inv", [](const Array& x) { return tidu::sum(linalg::inv(x)); }, singular);
  gradient(
      "slogdet", [](const Array& x) { return linalg::slogdet(x).second; }, singular);
  gradient(
      "det", [](const Array& x) { return linalg::det(x); }, filled({f64, {4, 4}}, 1));
}

}  // namespace
}  // namespace tidu::test::linalg_edges_cases
