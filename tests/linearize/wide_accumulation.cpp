// wide_accumulation.cpp - graph transforms: cotangents of a value of 16 bits that is used many times are
// summed in f32 and rounded once. The oracle is the sum of the coefficients, which are numbers of the dtype,
// in double precision.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tidu/tidu.hpp"

namespace tidu::wide_accumulation_cases {
namespace {

/// One unit in the last place of the numbers of a dtype near x.
double ulp(DType dtype, double x) {
  const int digits = dtype == bf16 ? 8 : 11, least = dtype == bf16 ? -126 : -14;
  return std::ldexp(1.0, std::max(std::ilogb(x), least) - digits + 1);
}

Tensor as(const Tensor& x, DType dtype) {
  GraphBuilder g("as");
  const Graph graph = g.build({ops::convert_element_type(g.input("x", x.type()), dtype)});
  return reference().run(graph, {x})[0];
}

std::vector<double> numbers(const Tensor& x) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < x.size(); ++i) all.push_back(x.at(i).real());
  return all;
}

/// n numbers of the dtype in [0.5, 1.5).
std::vector<double> coefficients(DType dtype, std::int64_t n, unsigned seed = 1) {
  std::mt19937_64 engine(seed);
  std::vector<double> all;
  for (std::int64_t i = 0; i < n; ++i)
    all.push_back(0.5 + std::ldexp(static_cast<double>(engine() >> 12), -52));
  return numbers(as(Tensor::from<double>({n}, all), dtype));
}

double total(const std::vector<double>& all) {
  double sum = 0.0;
  for (const double x : all) sum += x;
  return sum;
}

/// The sum of c_i x, term by term.
Graph chain(DType dtype, const std::vector<double>& all) {
  GraphBuilder g("chain");
  const Value x = g.input("x", Type(dtype));
  Value sum = ops::full(g, Type(dtype), 0.0);
  for (const double c : all) sum = sum + x * ops::full(g, Type(dtype), c);
  return g.build({sum});
}

/// The same by a scan with x as a const; each step uses it `uses` times, with further coefficients.
Graph loop(DType dtype, const std::vector<double>& all, std::int64_t uses = 1) {
  const auto length = static_cast<std::int64_t>(all.size()) / uses;
  GraphBuilder b("step"), g("loop");
  const Value x = b.input("x", Type(dtype)), sum = b.input("sum", Type(dtype));
  const Value c = b.input("c", Type(dtype, {uses}));
  Value next = sum;
  for (std::int64_t k = 0; k < uses; ++k) next = next + x * ops::reshape(ops::slice(c, {k}, {k + 1}), {});
  const Graph step = b.build({next});
  const Value cs =
      ops::convert_element_type(ops::constant(g, Literal::of<double>(Type(f64, {length, uses}), all)), dtype);
  const std::vector<Value> operands{g.input("x", Type(dtype)), ops::full(g, Type(dtype), 0.0), cs};
  return g.build({ops::scan(step, operands, {.length = length, .num_consts = 1, .num_carry = 1})[0]});
}

/// By a while with a bound, which x does not change; c counts on from 0 in steps of 1/4.
Graph bounded(DType dtype, std::int64_t steps) {
  GraphBuilder u("until"), s("step"), g("bounded");
  (void)u.input("x", Type(dtype));
  const Value i = u.input("i", i32);
  (void)u.input("sum", Type(dtype));
  const Graph until = u.build({ops::lt(i, ops::full_like(i, static_cast<double>(steps)))});
  const Value x = s.input("x", Type(dtype)), at = s.input("i", i32), sum = s.input("sum", Type(dtype));
  const Graph step = s.build({at + ops::full_like(at, 1.0), sum + x * ops::full_like(x, 0.75)});
  const std::vector<Value> operands{g.input("x", Type(dtype)), ops::full(g, i32, 0.0),
                                    ops::full(g, Type(dtype), 0.0)};
  return g.build({ops::while_loop(until, step, operands, {1, steps + 10})[1]});
}

double gradient(const Graph& f, DType dtype, const DerivativeOptions& options = {}, double at = 1.0) {
  const std::vector<Tensor> inputs{as(Tensor::scalar(at), dtype)};
  const Graph made = grad(f, {}, options);
  const std::vector<Tensor> all{cpu().run(made, inputs)[0], reference().run(made, inputs)[0]};
  CHECK(all[0].type() == Type(dtype));
  CHECK(all[0].at(0) == all[1].at(0));
  return all[0].at(0).real();
}

std::size_t count(const Graph& graph, const Primitive& primitive) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < graph.num_operations(); ++i)
    if (&graph.operation(i).primitive() == &primitive) ++found;
  return found;
}

constexpr DerivativeOptions narrow{.wide_accumulation = false};

TEST_CASE("the gradient of a 16-bit value that is used thousands of times is rounded once") {
  for (const DType dtype : {f16, bf16}) {
    for (const std::int64_t n : {3, 30, 1000, 3000}) {
      CAPTURE(to_string(dtype));
      CAPTURE(n);
      const std::vector<double> c = coefficients(dtype, n);
      const double exact = total(c);
      const Graph f = chain(dtype, c);
      CHECK(std::abs(gradient(f, dtype) - exact) <= 0.501 * ulp(dtype, exact));
      CHECK(std::abs(gradient(loop(dtype, c), dtype) - exact) <= 0.501 * ulp(dtype, exact));
      if (n < 1000) continue;
      // The sum over the 10 uses in each step is rounded first.
      CHECK(std::abs(gradient(loop(dtype, c, 10), dtype) - exact) <= ulp(dtype, exact));
    }
    const double exact = 0.75 * 3000;
    const std::vector<double> c(3000, 0.75);
    for (const Graph& f : {loop(dtype, c), bounded(dtype, 3000)}) {
      CHECK(std::abs(gradient(f, dtype) - exact) <= 0.501 * ulp(dtype, exact));
      CHECK(std::abs(gradient(f, dtype, narrow) - exact) > 20 * ulp(dtype, exact));
    }
  }
}

TEST_CASE("partial sums beyond the range of f16 are none") {
  std::vector<double> c;
  for (int i = 0; i < 450; ++i) c.push_back(300.0 + i / 4.0);
  for (int i = 1; i < 450; ++i) c.push_back(-300.0 - i / 4.0);
  CHECK(gradient(chain(f16, c), f16) == 300.0);
  CHECK(gradient(loop(f16, c), f16) == 300.0);
  CHECK_FALSE(std::isfinite(gradient(chain(f16, c), f16, narrow)));
}

TEST_CASE("signs of cotangents are carried through sums in f32") {
  GraphBuilder g("signs");
  const Value x = g.input("x", bf16);
  Value sum = ops::full(g, bf16, 0.0);
  double exact = 0.0;
  const std::vector<double> c = coefficients(bf16, 1000);
  for (std::size_t i = 0; i < c.size(); ++i) {
    const Value term = x * ops::full(g, bf16, c[i]);
    sum = i % 3 == 0 ? sum - term : sum + term;
    exact += i % 3 == 0 ? -c[i] : c[i];
  }
  CHECK(std::abs(gradient(g.build({sum}), bf16) - exact) <= 0.501 * ulp(bf16, exact));
}

TEST_CASE("second order, Jacobians, pullbacks and mapped gradients accumulate alike") {
  const std::int64_t n = 1000;
  for (const DType dtype : {f16, bf16}) {
    const std::vector<double> c = coefficients(dtype, n);
    const double exact = 2 * total(c);
    GraphBuilder g("squares");
    const Value x = g.input("x", Type(dtype));
    Value sum = ops::full(g, Type(dtype), 0.0);
    for (const double factor : c) sum = sum + x * (x * ops::full(g, Type(dtype), factor));
    const Graph f = g.build({sum});
    const std::vector<Tensor> at{as(Tensor::scalar(1.0), dtype)};
    const auto close = [&](const Tensor& got, double bound) {
      CHECK(got.type().dtype() == dtype);
      for (const double value : numbers(got)) CHECK(std::abs(value - exact) <= bound * ulp(dtype, exact));
    };
    close(cpu().run(grad(f), at)[0], 0.501);
    close(cpu().run(jacrev(f), at)[0], 0.501);
    const Pullback both = pullback(f);
    std::vector<Tensor> residuals = cpu().run(both.forward, at);
    residuals.erase(residuals.begin());
    residuals.push_back(at[0]);
    close(cpu().run(both.backward, residuals)[0], 0.501);
    const Graph mapped = vmap(grad(f), 3);
    close(cpu().run(mapped, {as(Tensor::from<double>({3}, {1, 1, 1}), dtype)})[0], 0.501);
    // Reverse over reverse; forward over reverse; forward over forward rounds as f does.
    close(cpu().run(grad(grad(f)), at)[0], 1);
    close(cpu().run(hessian(f), at)[0], 1);
    CHECK(std::abs(cpu().run(grad(grad(f, {}, narrow), {}, narrow), at)[0].at(0).real() - exact) >
          4 * ulp(dtype, exact));
  }
}

TEST_CASE("sums in f32 cost conversions, where three cotangents of 16 bits or more meet, and nothing else") {
  const auto sizes = [](DType dtype, std::int64_t n, bool wide) {
    std::vector<double> c;
    for (std::int64_t i = 1; i <= n; ++i) c.push_back(1.0 + std::ldexp(static_cast<double>(i), -7));
    const Graph made = grad(chain(dtype, c), {}, {.wide_accumulation = wide});
    return std::pair(made.num_operations(), count(made, prim::convert_element_type));
  };
  for (const DType dtype : {f16, bf16}) {
    for (const std::int64_t n : {1, 2}) CHECK(sizes(dtype, n, true) == sizes(dtype, n, false));
    const auto [operations, conversions] = sizes(dtype, 20, true);
    CHECK(conversions == 21);
    CHECK(operations == sizes(dtype, 20, false).first + 21);
  }
  for (const DType dtype : {f32, f64}) {
    const std::vector<double> c = coefficients(bf16, 20);
    for (const Graph& f : {chain(dtype, c), loop(dtype, c), loop(dtype, c, 5), bounded(dtype, 20)})
      CHECK(to_text(grad(f, {}, {.named_inputs = true})) ==
            to_text(grad(f, {}, {.named_inputs = true, .wide_accumulation = false})));
  }
}

TEST_CASE("two cotangents of 16 bits are added in the place where the second came") {
  GraphBuilder g("diamond");
  const Value x = g.input("x", bf16), y = ops::exp(x);
  const Graph f = g.build({ops::sin(y) * ops::cos(y)});
  const std::vector<Tensor> at{as(Tensor::scalar(0.3), bf16)};
  const Graph wide = grad(f), plain = grad(f, {}, narrow);
  CHECK(cpu().run(wide, at)[0].at(0) == cpu().run(plain, at)[0].at(0));
  const auto places = [](const Graph& graph) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < graph.num_operations(); ++i)
      if (graph.operation(i).primitive().name == std::string_view("add"))
        all.push_back(std::to_string(graph.operation(i).origin()));
    return all;
  };
  CHECK(places(wide) == places(plain));
}

TEST_CASE("derivatives of many slices and elements of 16 bits are joined as those of f32 are") {
  for (const DType dtype : {bf16, f16, f32}) {
    GraphBuilder g("slices"), e("elements");
    const Value x = g.input("x", Type(dtype, {12, 4})), y = e.input("y", Type(dtype, {12}));
    Value sum = ops::full(g, Type(dtype, {3, 4}), 0.0), all = ops::full(e, Type(dtype, {1}), 0.0);
    for (std::int64_t i = 0; i < 4; ++i) sum = sum * ops::slice(x, {3 * i, 0}, {3 * i + 3, 4}) + sum;
    for (std::int64_t i = 0; i < 4; ++i)
      all = all + ops::exp(ops::take(y, ops::full(e, Type(i32, {1}), static_cast<double>(i * i)), 0, "clip"));
    const Graph slices = passes::simplify(vjp(g.build({sum})), false);
    CHECK(count(slices, prim::concatenate) == 1);
    CHECK(count(slices, prim::pad) == 0);
    const Graph elements = passes::simplify(vjp(e.build({all})), false);
    CHECK(count(elements, prim::scatter_add) == 4);
    std::size_t of_all = 0;  // sums of arrays as large as y: nothing but zeros that are added
    for (std::size_t i = 0; i < elements.num_operations(); ++i) {
      const Operation operation = elements.operation(i);
      if (&operation.primitive() == &prim::add && elements.type(operation.output()).size() == 12) ++of_all;
    }
    CHECK(of_all == 2);
    CHECK(count(elements, prim::convert_element_type) == (dtype == f32 ? 0 : 5));
  }
}

TEST_CASE("a set without a word for conversions adds in 16 bits") {
  PrimitiveSet::TransformOps transform_ops = standard_primitives().transform_ops();
  transform_ops.convert = nullptr;
  const PrimitiveSet set(standard_primitives().primitives(), transform_ops);
  const std::vector<double> c = coefficients(bf16, 20);
  GraphBuilder g("chain", set);
  const Value x = g.input("x", bf16);
  Value sum = ops::full(g, bf16, 0.0);
  for (const double factor : c) sum = sum + x * ops::full(g, bf16, factor);
  const Graph made = grad(g.build({sum}));
  CHECK(count(made, prim::convert_element_type) == 0);
  CHECK(made.num_operations() == grad(chain(bf16, c), {}, narrow).num_operations());
}

}  // namespace
}  // namespace tidu::wide_accumulation_cases
