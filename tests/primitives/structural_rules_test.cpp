// structural_rules_test.cpp - the derivative and batch rules of the structural primitives, checked with the
// reference interpreter: tangents against central differences, cotangents against tangents by the inner
// product, both again on the graph of the gradient (second order), and batched graphs against one run per
// example, for every choice of batched inputs.
#include <doctest/doctest.h>

#include <complex>
#include <functional>
#include <random>

#include "primitives/axes.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/linearize/transpose.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"

namespace structural_rules_cases {
namespace {

using namespace tidu;
using Complex = std::complex<double>;
using Tensors = std::vector<Tensor>;

Tensor filled(Type type, const std::function<Complex()>& next) {
  Tensor tensor = Tensor::zeros(type);
  for (std::int64_t k = 0; k < type.size(); ++k) {
    const auto at = static_cast<std::size_t>(k);
    const Complex value = next();
    if (type.dtype() == f64) tensor.mutable_elements<double>()[at] = value.real();
    if (type.dtype() == c128) tensor.mutable_elements<Complex>()[at] = value;
    if (type.dtype() == i32)
      tensor.mutable_elements<std::int32_t>()[at] = static_cast<std::int32_t>(value.real());
    if (type.dtype() == i64)
      tensor.mutable_elements<std::int64_t>()[at] = static_cast<std::int64_t>(value.real());
    if (type.dtype() == bool_) tensor.mutable_elements<bool>()[at] = value.real() > 0.0;
  }
  return tensor;
}

// Inexact values in [-2, 2], bools, integers in [-3, 6]: indices on both sides of the range of small axes.
Tensor random_tensor(Type type, std::mt19937& random) {
  std::uniform_real_distribution<double> real(-2.0, 2.0);
  std::uniform_int_distribution<int> integer(-3, 6);
  return filled(type, [&]() -> Complex {
    return is_integer(type.dtype()) ? Complex(integer(random)) : Complex(real(random), real(random));
  });
}

Tensors random_inputs(const Graph& graph, std::mt19937& random) {
  Tensors inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), random));
  return inputs;
}

Tensor moved(const Tensor& x, const Tensor& direction, double step) {
  std::int64_t k = 0;
  return filled(x.type(), [&] {
    const Complex value = x.at(k) + step * direction.at(k);
    ++k;
    return value;
  });
}

double inner(const Tensor& a, const Tensor& b) {
  double sum = 0.0;
  for (std::int64_t k = 0; k < a.size(); ++k) sum += (std::conj(a.at(k)) * b.at(k)).real();
  return sum;
}

void check_close(const Tensor& got, const Tensor& want, double tolerance) {
  REQUIRE(got.type() == want.type());
  double scale = 1.0;
  for (std::int64_t k = 0; k < want.size(); ++k) scale = std::max(scale, std::abs(want.at(k)));
  for (std::int64_t k = 0; k < want.size(); ++k) {
    CAPTURE(k);
    CAPTURE(got.at(k));
    CAPTURE(want.at(k));
    const bool close = std::abs(got.at(k) - want.at(k)) <= tolerance * scale;
    CHECK(close);
  }
}

Tensors run(const Graph& graph, const Tensors& inputs) {
  verify(graph);
  return reference().run(graph, std::span<const Tensor>(inputs));
}

std::vector<std::size_t> inexact_inputs(const Graph& graph) {
  std::vector<std::size_t> positions;
  for (std::size_t k = 0; k < graph.inputs().size(); ++k) {
    if (is_inexact(graph.type(graph.inputs()[k]).dtype())) positions.push_back(k);
  }
  return positions;
}

std::vector<std::size_t> inexact_outputs(const Graph& graph) {
  std::vector<std::size_t> positions;
  for (std::size_t k = 0; k < graph.outputs().size(); ++k) {
    if (is_inexact(graph.type(graph.outputs()[k]).dtype())) positions.push_back(k);
  }
  return positions;
}

// Tangents against central differences, and <ct, J t> = <J^T ct, t>.
void check_first_order(const Graph& graph, std::mt19937& random) {
  const Tensors inputs = random_inputs(graph, random);
  const auto wrt = inexact_inputs(graph);
  const auto outputs = inexact_outputs(graph);
  const std::size_t count = graph.outputs().size();
  constexpr double step = 1e-5;
  Tensors tangents, ahead = inputs, behind = inputs;
  for (const std::size_t k : wrt) {
    tangents.push_back(random_tensor(inputs[k].type(), random));
    ahead[k] = moved(inputs[k], tangents.back(), step);
    behind[k] = moved(inputs[k], tangents.back(), -step);
  }
  Tensors with_tangents = inputs;
  with_tangents.insert(with_tangents.end(), tangents.begin(), tangents.end());
  const Tensors forward = run(jvp(graph), with_tangents);
  const Tensors after = run(graph, ahead);
  const Tensors before = run(graph, behind);
  Tensors with_cotangents = inputs;
  double by_tangents = 0.0;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Tensor difference = moved(after[outputs[k]], before[outputs[k]], -1.0);
    check_close(forward[count + k], moved(Tensor::zeros(difference.type()), difference, 0.5 / step), 1e-6);
    with_cotangents.push_back(random_tensor(difference.type(), random));
    by_tangents += inner(with_cotangents.back(), forward[count + k]);
  }
  const Tensors backward = run(vjp(graph), with_cotangents);
  double by_cotangents = 0.0;
  for (std::size_t k = 0; k < wrt.size(); ++k) by_cotangents += inner(backward[count + k], tangents[k]);
  CHECK(by_cotangents == doctest::Approx(by_tangents).epsilon(1e-9));
}

Tensor stacked(const Tensors& examples, Type type) {
  Shape shape{static_cast<std::int64_t>(examples.size())};
  shape.insert(shape.end(), type.shape().begin(), type.shape().end());
  std::vector<Complex> all;
  for (const Tensor& example : examples) {
    for (std::int64_t k = 0; k < example.size(); ++k) all.push_back(example.at(k));
  }
  std::size_t next = 0;
  return filled(type.with_shape(shape), [&] { return all[next++]; });
}

void check_batch(const Graph& graph, std::size_t size, const std::vector<bool>& batched,
                 std::mt19937& random) {
  const std::size_t count = graph.inputs().size();
  std::vector<Tensors> examples(size, random_inputs(graph, random));
  for (Tensors& example : examples) {
    for (std::size_t k = 0; k < count; ++k) {
      if (batched[k]) example[k] = random_tensor(example[k].type(), random);
    }
  }
  Tensors inputs;
  const Tensors shared = random_inputs(graph, random);
  for (std::size_t k = 0; k < count; ++k) {
    Tensors column;
    for (Tensors& example : examples) {
      if (!batched[k]) example[k] = shared[k];
      column.push_back(example[k]);
    }
    inputs.push_back(batched[k] ? stacked(column, shared[k].type()) : shared[k]);
  }
  BatchOptions options;
  options.inputs = batched;
  const Tensors got = run(batch(graph, static_cast<std::int64_t>(size), options).graph, inputs);
  std::vector<Tensors> each;
  for (const Tensors& example : examples) each.push_back(run(graph, example));
  for (std::size_t slot = 0; slot < graph.outputs().size(); ++slot) {
    Tensors column;
    for (const Tensors& outputs : each) column.push_back(outputs[slot]);
    check_close(got[slot], stacked(column, graph.type(graph.outputs()[slot])), 1e-12);
  }
}

// Every non-empty choice of batched inputs, with three examples; all of them with one and with none.
void check_batches(const Graph& graph, std::mt19937& random) {
  const std::size_t count = graph.inputs().size();
  for (std::size_t mask = 1; mask < (std::size_t{1} << count); ++mask) {
    std::vector<bool> batched;
    for (std::size_t k = 0; k < count; ++k) batched.push_back(((mask >> k) & 1U) != 0);
    CAPTURE(mask);
    check_batch(graph, 3, batched, random);
  }
  check_batch(graph, 1, std::vector<bool>(count, true), random);
  check_batch(graph, 0, std::vector<bool>(count, true), random);
}

using Body = std::function<Value(std::span<const Value>)>;

Graph graph_of(const std::vector<Type>& types, const Body& body) {
  GraphBuilder builder("f");
  std::vector<Value> inputs;
  for (std::size_t k = 0; k < types.size(); ++k)
    inputs.push_back(builder.input("x" + std::to_string(k), types[k]));
  return builder.build({body(inputs)});
}

void check_rules(const Graph& graph) {
  std::mt19937 random(20240607);
  check_batches(graph, random);
  if (inexact_inputs(graph).empty() || inexact_outputs(graph).empty()) return;
  check_first_order(graph, random);
  const Graph gradient = vjp(graph);
  check_first_order(gradient, random);
  check_batches(gradient, random);
}

// Its gradient is taken with a constant for a seed.
Value sum_of_squares(Value y) {
  return ops::reduce_sum(ops::square(y), prim::range(0, static_cast<std::int64_t>(y.rank())));
}

// The operation alone (linear ones show nothing in second order), after a square, which gives it residuals,
// and within a scalar function.
void check_rules(const char* name, const std::vector<Type>& types, const Body& body) {
  CAPTURE(std::string(name));
  check_rules(graph_of(types, body));
  check_rules(graph_of(types, [&](std::span<const Value> x) {
    std::vector<Value> squared;
    for (const Value& value : x) squared.push_back(is_inexact(value.dtype()) ? ops::square(value) : value);
    return body(squared);
  }));
  const Graph plain = graph_of(types, body);
  if (inexact_inputs(plain).empty() || plain.type(plain.outputs()[0]).dtype() != f64) return;
  std::mt19937 random(20240608);
  check_first_order(
      value_and_grad(graph_of(types, [&](std::span<const Value> x) { return sum_of_squares(body(x)); })),
      random);
}

Type f(Shape shape) { return Type(f64, shape); }
Type z(Shape shape) { return Type(c128, shape); }
Type i(Shape shape) { return Type(i32, shape); }
using Args = std::span<const Value>;

TEST_CASE("shapes") {
  check_rules("reshape", {f({2, 6})}, [](Args x) { return ops::reshape(x[0], {3, 4}); });
  check_rules("transpose", {z({2, 3, 4})}, [](Args x) { return ops::transpose(x[0], {2, 0, 1}); });
  check_rules("broadcast", {f({1, 3})}, [](Args x) {
    return ops::broadcast_in_dim(x[0], {4, 2, 3}, {1, 2});
  });
  check_rules("broadcast of a scalar", {f({})}, [](Args x) { return ops::broadcast_scalar(x[0], {2, 3}); });
  check_rules("broadcast to ones", {f({3})}, [](Args x) {
    return ops::broadcast_in_dim(x[0], {1, 3, 1}, {1});
  });
  check_rules("squeeze", {f({1, 3, 1})}, [](Args x) { return ops::squeeze(x[0], {0, 2}); });
  check_rules("expand_dims", {f({3, 2})}, [](Args x) { return ops::expand_dims(x[0], {0, 3}); });
  check_rules("rev", {f({3, 4})}, [](Args x) { return ops::rev(x[0], {0, 1}); });
  check_rules("real to complex", {f({3})}, [](Args x) { return ops::convert_element_type(x[0], c128); });
  check_rules("to integer", {f({3})}, [](Args x) { return ops::convert_element_type(x[0], i32); });
  check_rules("barrier", {f({3}), f({3})}, [](Args x) {
    const Values passed = ops::optimization_barrier(x, 5);
    return ops::mul(passed[0], passed[1]);
  });
  check_rules("barrier, one result", {f({3}), i({2})},
              [](Args x) { return ops::optimization_barrier(x, 5)[0]; });
}

TEST_CASE("a barrier in a linear call, of whose results that of a parameter is read, gives no cotangent") {
  const Type v{f64, {2}};
  GraphBuilder of_function("f"), of_rule("rule"), g("g");
  const std::vector<Value> a{of_function.input("a", v), of_function.input("b", v)};
  const Graph function = of_function.build({ops::optimization_barrier(a, 1)[0]});
  const std::vector<Value> p{of_rule.input("a", v), of_rule.input("b", v)};
  const std::vector<Value> t{of_rule.input("da", v), of_rule.input("db", v)};
  const Graph rule = of_rule.build({ops::optimization_barrier(p, 1)[0], ops::optimization_barrier(t, 2)[0]});
  const std::vector<Value> x{g.input("x", v), g.input("y", v)};
  const Graph linear = g.build({ops::custom_jvp_call(function, rule, x)[0], ops::neg(x[1])});
  TransposeOptions options;
  options.linear_inputs = {1};
  options.seeded = {true, true};
  const Transposition transposed = linear_transpose(linear, options);
  REQUIRE(transposed.cotangent_of_input[0].has_value());
  const Tensor one = Tensor::from<double>({2}, {1, 1}), three = Tensor::from<double>({2}, {3, 3});
  const std::vector<Tensor> made = reference().run(transposed.graph, {three, one, three});
  CHECK(made[0].at(0) == -3.0);
}

TEST_CASE("slices, pads, concatenation") {
  check_rules("slice", {f({7, 3})}, [](Args x) { return ops::slice(x[0], {1, 0}, {6, 2}, {2, 1}); });
  check_rules("slice, stride past the end", {f({7})}, [](Args x) { return ops::slice(x[0], {1}, {7}, {4}); });
  check_rules("empty slice", {f({7})}, [](Args x) { return ops::slice(x[0], {3}, {3}, {2}); });
  check_rules("pad", {f({3, 4}), f({})}, [](Args x) { return ops::pad(x[0], x[1], {{1, 2, 1}, {0, 1, 2}}); });
  check_rules("negative pad", {f({5, 4}), f({})}, [](Args x) {
    return ops::pad(x[0], x[1], {{-1, 2, 0}, {1, -2, 1}});
  });
  check_rules("pad of nothing", {f({0}), z({})}, [](Args x) {
    return ops::pad(ops::convert_element_type(x[0], c128), x[1], {{1, 2, 3}});
  });
  check_rules("cut all", {f({3}), f({})}, [](Args x) { return ops::pad(x[0], x[1], {{-4, 3, 1}}); });
  check_rules("pad integers", {i({3}), i({})}, [](Args x) { return ops::pad(x[0], x[1], {{1, 0, 1}}); });
  check_rules("concatenate", {f({2, 3}), f({2, 1}), f({2, 2})},
              [](Args x) { return ops::concatenate(x, 1); });
  check_rules("concatenate, constants among", {f({2, 3}), f({1, 3})}, [](Args x) {
    const std::vector<Value> rows{ops::floor(x[0]), x[1], x[0], ops::floor(x[1])};
    return ops::concatenate(rows, 0);
  });
  check_rules("concatenate, one active", {f({2}), f({3})}, [](Args x) {
    const std::vector<Value> rows{ops::floor(x[1]), x[0], ops::floor(x[0])};
    return ops::concatenate(rows, 0);
  });
}

TEST_CASE("indexing, with indices out of range, in both modes") {
  for (const char* mode : {"clip", "drop"}) {
    CAPTURE(std::string(mode));
    for (const std::int64_t axis : {0, 1, 2}) {
      CAPTURE(axis);
      Shape updates{2, 4, 3};
      updates.erase(updates.begin() + axis);
      const Shape indices{2, 2};
      updates.insert(updates.begin() + axis, indices.begin(), indices.end());
      Shape along{2, 4, 3};
      along[static_cast<std::size_t>(axis)] = 5;
      check_rules("take", {f({2, 4, 3}), i(indices)},
                  [&](Args x) { return ops::take(x[0], x[1], axis, mode); });
      check_rules("scatter_add", {f({2, 4, 3}), i(indices), f(updates)},
                  [&](Args x) { return ops::scatter_add(x[0], x[1], x[2], axis, mode); });
      check_rules("take_along_axis", {f({2, 4, 3}), i(along)},
                  [&](Args x) { return ops::take_along_axis(x[0], x[1], axis, mode); });
      check_rules("scatter_add_along_axis", {f({2, 4, 3}), i(along), f(along)},
                  [&](Args x) { return ops::scatter_add_along_axis(x[0], x[1], x[2], axis, mode); });
    }
    check_rules("take one", {z({4}), Type(i64)}, [&](Args x) { return ops::take(x[0], x[1], 0, mode); });
    check_rules("scatter into a constant", {f({4}), i({3}), f({3})},
                [&](Args x) { return ops::scatter_add(ops::floor(x[0]), x[1], x[2], 0, mode); });
    check_rules("scatter a constant", {f({4}), i({3}), f({3})},
                [&](Args x) { return ops::scatter_add(x[0], x[1], ops::floor(x[2]), 0, mode); });
  }
}

TEST_CASE("reductions") {
  for (const Ints& axes : {Ints{0}, Ints{1}, Ints{0, 2}, Ints{0, 1, 2}, Ints{}}) {
    check_rules("reduce_sum", {z({2, 3, 4})}, [&](Args x) { return ops::reduce_sum(x[0], axes); });
    check_rules("reduce_prod", {f({2, 3, 4})}, [&](Args x) { return ops::reduce_prod(x[0], axes); });
    check_rules("reduce_max", {f({2, 3, 4})}, [&](Args x) { return ops::reduce_max(x[0], axes); });
    check_rules("reduce_min", {f({2, 3, 4})}, [&](Args x) { return ops::reduce_min(x[0], axes); });
    check_rules("logsumexp", {f({2, 3, 4})}, [&](Args x) { return ops::logsumexp(x[0], axes); });
    check_rules("reduce_and", {Type(bool_, {2, 3, 4})}, [&](Args x) { return ops::reduce_and(x[0], axes); });
    check_rules("reduce_or", {Type(bool_, {2, 3, 4})}, [&](Args x) { return ops::reduce_or(x[0], axes); });
    check_rules("greatest bool", {Type(bool_, {2, 3, 4})},
                [&](Args x) { return ops::reduce_max(x[0], axes); });
    check_rules("least bool", {Type(bool_, {2, 3, 4})}, [&](Args x) { return ops::reduce_min(x[0], axes); });
  }
  check_rules("complex product", {z({3, 2})}, [](Args x) { return ops::reduce_prod(x[0], {0}); });
  for (const std::int64_t n : {0, 1, 2, 5, 7, 8, 9}) {
    CAPTURE(n);
    check_rules("reduce_prod", {f({n, 2})}, [](Args x) { return ops::reduce_prod(x[0], {0}); });
    check_rules("reduce_prod with zeros", {f({n, 2})}, [](Args x) {
      const Value mask = ops::convert_element_type(ops::gt(x[0], ops::full_like(x[0], -1.0)), f64);
      return ops::reduce_prod(ops::mul(x[0], ops::floor(mask)), {0});
    });
    check_rules("empty sum", {f({n, 2})}, [](Args x) { return ops::reduce_sum(x[0], {0}); });
  }
  for (const std::int64_t axis : {0, 1}) {
    check_rules("argmax", {f({3, 5})}, [&](Args x) { return ops::argmax(x[0], axis); });
    check_rules("argmin", {i({3, 5})}, [&](Args x) { return ops::argmin(x[0], axis, i64); });
    check_rules("first true", {Type(bool_, {3, 5})}, [&](Args x) { return ops::argmax(x[0], axis); });
    for (const bool reverse : {false, true}) {
      check_rules("cumsum", {f({3, 5})}, [&](Args x) { return ops::cumsum(x[0], axis, reverse); });
    }
  }
}

TEST_CASE("dot_general") {
  const auto check = [](Type lhs, Type rhs, const ops::DotDimensionNumbers& numbers) {
    check_rules("dot_general", {lhs, rhs}, [&](Args x) { return ops::dot_general(x[0], x[1], numbers); });
  };
  check(f({3, 4}), f({4, 5}), {{1}, {0}, {}, {}});
  check(f({4, 3}), f({4, 5}), {{0}, {0}, {}, {}});
  check(f({3, 4}), f({5, 4}), {{1}, {1}, {}, {}});
  check(f({4}), f({4}), {{0}, {0}, {}, {}});
  check(f({3}), f({4}), {{}, {}, {}, {}});
  check(f({2, 3, 4}), f({2, 4, 5}), {{2}, {1}, {0}, {0}});
  check(f({3, 2, 4, 5}), f({2, 3, 6, 5}), {{3}, {3}, {0, 1}, {1, 0}});
  check(f({2, 3, 4}), f({4, 5, 3}), {{1, 2}, {2, 0}, {}, {}});
  check(f({4, 2, 3, 2}), f({3, 5, 4}), {{2, 0}, {0, 2}, {}, {}});
  check(f({3, 4, 2}), f({4, 5, 2}), {{1}, {0}, {2}, {2}});
  check(z({3, 4}), z({4, 2}), {{1}, {0}, {}, {}});
  check(f({3, 0}), f({0, 2}), {{1}, {0}, {}, {}});
}

TEST_CASE("call, and a call within a call") {
  const Graph inner = graph_of({f({3}), f({3})}, [](Args x) { return ops::mul(ops::sin(x[0]), x[1]); });
  GraphBuilder builder("middle");
  const Value a = builder.input("a", f({3}));
  const Value b = builder.input("b", f({3}));
  const Value index = builder.input("k", i({}));
  const Value y = ops::call(inner, std::vector<Value>{a, ops::square(b)})[0];
  const Graph middle = builder.build({index, ops::reduce_sum(ops::mul(y, a), {0}), y, ops::floor(b)});
  for (std::size_t slot = 1; slot < 4; ++slot) {
    check_rules("call", {f({3}), f({3}), i({})}, [&](Args x) { return ops::call(middle, x)[slot]; });
  }
  check_rules("call of one argument twice", {f({3}), i({})}, [&](Args x) {
    return ops::call(middle, std::vector<Value>{x[0], x[0], x[1]})[2];
  });
  check_rules("call with a constant", {f({3}), i({})}, [&](Args x) {
    return ops::call(middle, std::vector<Value>{ops::floor(x[0]), x[0], x[1]})[1];
  });
}

std::vector<std::string> operations(const Graph& graph) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < graph.num_operations(); ++k) names.emplace_back(graph.operation(k).name());
  return names;
}

// Operations that linearize's transposed graph is made of.
std::vector<std::string> transposed(const std::vector<Type>& types, const Body& body,
                                    std::vector<std::size_t> wrt) {
  LinearizeOptions options;
  options.wrt = std::move(wrt);
  return operations(linear_transpose(linearize(graph_of(types, body), options).linear).graph);
}

TEST_CASE("a matrix product transposes to one product for each operand") {
  using Names = std::vector<std::string>;
  const std::vector<ops::DotDimensionNumbers> layouts{{{1}, {0}, {}, {}}, {{2}, {1}, {0}, {0}}};
  const std::vector<std::vector<Type>> types{{f({3, 4}), f({4, 5})}, {f({2, 3, 4}), f({2, 4, 5})}};
  for (std::size_t k = 0; k < layouts.size(); ++k) {
    const auto product = [&](Args x) { return ops::dot_general(x[0], x[1], layouts[k]); };
    CHECK(transposed(types[k], product, {0}) == Names{"dot_general"});
    CHECK(transposed(types[k], product, {1}) == Names{"dot_general"});
  }
  for (const ops::DotDimensionNumbers& layout :
       {ops::DotDimensionNumbers{{1}, {1}, {}, {}}, {{0}, {0}, {}, {}}, {{0}, {1}, {}, {}}}) {
    const auto product = [&](Args x) { return ops::dot_general(x[0], x[1], layout); };
    CHECK(transposed({f({4, 4}), f({4, 4})}, product, {0}) == Names{"dot_general"});
    CHECK(transposed({f({4, 4}), f({4, 4})}, product, {1}) == Names{"dot_general"});
  }
  CHECK(transposed({f({3})}, [](Args x) { return ops::reduce_sum(x[0], {0}); }, {0}) ==
        Names{"broadcast_in_dim"});
  CHECK(transposed({f({3})},
                   [](Args x) {
                     return ops::broadcast_in_dim(x[0], {2, 3}, {1});
                   },
                   {0}) == Names{"reduce_sum"});
  CHECK(transposed({f({3})},
                   [](Args x) {
                     return ops::broadcast_in_dim(x[0], {1, 3}, {1});
                   },
                   {0}) == Names{"reshape"});
  CHECK(transposed({f({3}), f({})},
                   [](Args x) {
                     return ops::pad(x[0], x[1], {{1, 1, 0}});
                   },
                   {0}) == Names{"slice"});
  CHECK(transposed({f({3})}, [](Args x) { return ops::reduce_max(x[0], {0}); }, {0}) ==
        Names{"broadcast_in_dim", "mul"});
}

TEST_CASE("a value without derivative has no tangent, not a zero one") {
  const auto tangents = [](Type type, const Body& body) {
    return linearize(graph_of({type}, body)).linear.outputs().size();
  };
  CHECK(tangents(f({3}), [](Args x) { return ops::stop_gradient(x[0]); }) == 0);
  CHECK(tangents(f({3}), [](Args x) { return ops::argmax(x[0], 0); }) == 0);
  CHECK(tangents(f({3}), [](Args x) { return ops::convert_element_type(x[0], i64); }) == 0);
}

TEST_CASE("ties of reduce_max share the tangent evenly") {
  const Graph graph = graph_of({f({4})}, [](Args x) { return ops::reduce_max(x[0], {0}); });
  const Tensors results =
      run(vjp(graph), {Tensor::from<double>({4}, {1.0, 3.0, 3.0, 2.0}), Tensor::scalar(5.0)});
  check_close(results[1], Tensor::from<double>({4}, {0.0, 2.5, 2.5, 0.0}), 0.0);
}

TEST_CASE("reduce_prod is right with any number of zeros") {
  const Graph graph = graph_of({f({4})}, [](Args x) { return ops::reduce_prod(x[0], {0}); });
  const auto gradient = [&](std::initializer_list<double> x) {
    return run(vjp(graph), {Tensor::from<double>({4}, x), Tensor::scalar(5.0)})[1];
  };
  check_close(gradient({2.0, 0.0, 3.0, 7.0}), Tensor::from<double>({4}, {0.0, 210.0, 0.0, 0.0}), 0.0);
  check_close(gradient({2.0, 0.0, 3.0, 0.0}), Tensor::from<double>({4}, {0.0, 0.0, 0.0, 0.0}), 0.0);
  const Tensors second = run(hvp(graph), {Tensor::from<double>({4}, {2.0, 0.0, 3.0, 0.0}),
                                          Tensor::from<double>({4}, {1.0, 10.0, 100.0, 1000.0})});
  check_close(second.back(), Tensor::from<double>({4}, {0.0, 6000.0, 0.0, 60.0}), 0.0);
}

}  // namespace
}  // namespace structural_rules_cases
