// The simplify rules of the standard set, each on numbers on which an inexact one would show: the graph that
// it leaves, and the same bits as before on both executors.
#include "simplify_support.hpp"

#include <stdexcept>

#include "support/probe.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/simplify.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::test {
namespace {

using namespace simplify_rules;

Value number(Value x, double value) { return ops::full_like(x, value); }

}  // namespace

TEST_CASE("simplify: neutral elements") {
  rule(floats | integers, "", [](Value x, Value) { return x * number(x, 1); });
  rule(floats | integers, "", [](Value x, Value) { return number(x, 1) * x; });
  rule(floats | integers, "", [](Value x, Value) { return x / number(x, 1); });
  rule(floats | integers | complexes, "", [](Value x, Value) { return x - number(x, 0); });
  rule(floats | integers, "", [](Value x, Value) { return x + number(x, -0.0); });
  rule(floats | integers, "", [](Value x, Value) { return number(x, -0.0) + x; });
  rule(integers, "", [](Value x, Value) { return x + number(x, 0); });
  rule(integers, "full", [](Value x, Value) { return x * number(x, 0); });
  rule(integers, "full", [](Value x, Value) { return x - x; });
  no_rule(floats | complexes, [](Value x, Value) { return x + number(x, 0); });
  no_rule(floats, [](Value x, Value) { return x - number(x, -0.0); });
  no_rule(floats, [](Value x, Value) { return x * number(x, 0); });
  no_rule(floats, [](Value x, Value) { return x - x; });
  no_rule(floats, [](Value x, Value) { return x / x; });
  no_rule(complexes, [](Value x, Value) { return x * number(x, 1); });
  no_rule(complexes, [](Value x, Value) { return x / number(x, 1); });
}

TEST_CASE("simplify: signs") {
  rule(floats | integers | complexes, "", [](Value x, Value) { return -(-x); });
  rule(floats | integers, "neg", [](Value x, Value) { return x * number(x, -1); });
  rule(floats | integers, "neg", [](Value x, Value) { return x / number(x, -1); });
  rule(floats | integers, "neg", [](Value x, Value) { return number(x, -0.0) - x; });
  rule(floats | integers | complexes, "sub", [](Value x, Value y) { return x + -y; });
  rule(floats | integers | complexes, "sub", [](Value x, Value y) { return -x + y; });
  rule(floats | integers | complexes, "add", [](Value x, Value y) { return x - -y; });
  rule(floats | integers, "mul", [](Value x, Value y) { return -x * -y; });
  rule(floats, "div", [](Value x, Value y) { return -x / -y; });
  rule(floats | integers, "mul sub", [](Value x, Value y) { return x + -x * y; });
  rule(floats | integers, "mul sub", [](Value x, Value y) { return y + x * -y; });
  rule(floats, "div sub", [](Value x, Value y) { return x + -x / y; });
  rule(floats | integers, "full mul", [](Value x, Value) { return -x * number(x, 3); });
  rule(floats | integers, "full mul", [](Value x, Value) { return -(x * number(x, 3)); });
  rule(floats | integers | complexes, "square", [](Value x, Value) { return ops::square(-x); });
  rule(floats | integers, "square", [](Value x, Value) { return ops::square(ops::abs(x)); });
  rule(floats | integers | complexes, "abs", [](Value x, Value) { return ops::abs(-x); });
  rule(floats | integers, "abs", [](Value x, Value) { return ops::abs(ops::abs(x)); });
  no_rule(floats | complexes, [](Value x, Value y) { return -(x - y); });
  no_rule(floats, [](Value x, Value y) { return -(x + y); });
  no_rule(integers, [](Value x, Value y) { return -x / y; });
  no_rule(complexes, [](Value x, Value y) { return -x / y; });
  no_rule(floats, [](Value x, Value) { return ops::reduce_sum(-x, {0}); });
}

TEST_CASE("simplify: quotients and powers") {
  rule(floats, "full mul", [](Value x, Value) { return x / number(x, 2); });
  rule(floats, "full mul", [](Value x, Value) { return x / number(x, -0.125); });
  no_rule(floats, [](Value x, Value) { return x / number(x, 3); });
  no_rule(floats, [](Value x, Value) { return x / number(x, 0); });
  no_rule(integers, [](Value x, Value) { return x / number(x, 2); });
  rule(floats, "full div",
       [](Value x, Value) { return x / ops::full(*x.emitter(), x.type(), special_number(x.dtype(), 12)); });
  rule(floats | integers, "", [](Value x, Value) { return ops::integer_pow(x, 1); });
  rule(floats | integers, "full", [](Value x, Value) { return ops::integer_pow(x, 0); });
  no_rule(floats, [](Value x, Value) { return ops::integer_pow(x, 2); });
}

TEST_CASE("simplify: numbers that are known are computed and compared") {
  const auto special = [](Value x, std::size_t i) {
    return ops::full(*x.emitter(), x.type(), special_number(x.dtype(), i));
  };
  const std::vector<DType> words{f64, f32};
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t j = 0; j < 20; ++j) {
      const auto on_both = [&](Value (*f)(Value, Value, Where)) {
        return [=](Value x, Value) { return f(special(x, i), special(x, j), Where()); };
      };
      INFO(i, " ", j);
      for (const auto f : {ops::add, ops::sub, ops::mul}) rule(words, "full", on_both(f));
      for (const auto f : {ops::eq, ops::ne, ops::lt, ops::le, ops::gt, ops::ge})
        rule(i + j < 20 ? words | std::vector<DType>{f16, i32} : words, "full", on_both(f));
    }
  }
}

TEST_CASE("simplify: conditions and bits") {
  rule(booleans | floats | integers, "", [](Value x, Value) { return ops::max(x, x); });
  rule(booleans | floats | integers, "", [](Value x, Value) { return ops::min(x, x); });
  rule(booleans | integers, "", [](Value x, Value) { return ops::logical_and(x, x); });
  rule(booleans, "", [](Value x, Value) { return ops::logical_and(x, number(x, 1)); });
  rule(integers, "", [](Value x, Value) { return ops::logical_and(x, number(x, -1)); });
  rule(booleans | integers, "full", [](Value x, Value) { return ops::logical_and(number(x, 0), x); });
  rule(booleans | integers, "", [](Value x, Value) { return ops::logical_or(x, number(x, 0)); });
  rule(booleans, "full", [](Value x, Value) { return ops::logical_or(x, number(x, 1)); });
  rule(integers, "full", [](Value x, Value) { return ops::logical_or(x, number(x, -1)); });
  rule(booleans | integers, "", [](Value x, Value) { return ops::logical_xor(x, number(x, 0)); });
  rule(booleans | integers, "full", [](Value x, Value) { return ops::logical_xor(x, x); });
  rule(booleans, "not", [](Value x, Value) { return ops::logical_xor(x, number(x, 1)); });
  rule(booleans | integers, "", [](Value x, Value) { return ops::logical_not(ops::logical_not(x)); });
  rule(floats | integers | complexes, "ne", [](Value x, Value y) { return ops::logical_not(ops::eq(x, y)); });
  rule(floats | integers | complexes, "eq", [](Value x, Value y) { return ops::logical_not(ops::ne(x, y)); });
  rule(integers, "ge", [](Value x, Value y) { return ops::logical_not(ops::lt(x, y)); });
  rule(integers, "gt", [](Value x, Value y) { return ops::logical_not(ops::le(x, y)); });
  no_rule(floats, [](Value x, Value y) { return ops::logical_not(ops::lt(x, y)); });
  no_rule(floats, [](Value x, Value) { return ops::eq(x, x); });
  rule(floats | integers, "", [](Value x, Value y) { return ops::select_n(ops::lt(x, y), x, x); });
  rule(floats | integers, "", [](Value x, Value y) { return ops::select_n(number(ops::eq(x, y), 1), y, x); });
  rule(floats | integers, "", [](Value x, Value y) {
    return ops::select_n(ops::full(*x.emitter(), {i32, {}}, 7), std::vector{y, y + y, x});
  });
  rule(floats, "lt select_n",
       [](Value x, Value y) { return ops::select_n(ops::logical_not(ops::lt(x, y)), x, y); });
  rule(floats, "lt add select_n", [](Value x, Value y) {
    const Value p = ops::lt(x, y);
    return ops::select_n(p, ops::select_n(p, x, y), ops::select_n(p, y, x + y));
  });
}

TEST_CASE("simplify: conversions") {
  const auto via = [](DType middle, DType to) {
    return
        [=](Value x, Value) { return ops::convert_element_type(ops::convert_element_type(x, middle), to); };
  };
  rule({f32}, "", via(f64, f32));
  rule({f16, bf16}, "convert_element_type", via(f32, f64));
  rule({f32}, "convert_element_type", via(f64, f16));
  rule({f32}, "convert_element_type", via(f64, i32));
  rule({i32}, "", via(f64, i32));
  rule({i32}, "", via(i64, i32));
  rule({i32}, "convert_element_type", via(i64, f32));
  rule({i32}, "convert_element_type", via(f64, f16));
  rule({bool_}, "convert_element_type", via(f16, i64));
  rule({bool_}, "", via(i32, bool_));
  no_rule({f64}, via(f32, f64));
  no_rule({i64}, via(f64, i64));
  no_rule({i32}, via(f32, i32));
  no_rule({f32}, via(i32, f32));
}

TEST_CASE("simplify: complex numbers") {
  rule(complexes, "", [](Value x, Value) { return ops::conj(ops::conj(x)); });
  rule(complexes, "", [](Value x, Value) { return ops::complex(ops::real(x), ops::imag(x)); });
  rule(complexes, "real", [](Value x, Value) { return ops::real(ops::conj(x)); });
  rule(complexes, "imag neg", [](Value x, Value) { return ops::imag(ops::conj(x)); });
  rule({f32, f64}, "", [](Value x, Value y) { return ops::real(ops::complex(x, y)); });
  rule({f32, f64}, "", [](Value x, Value y) { return ops::imag(ops::complex(x, y)); });
}

TEST_CASE("simplify: shapes") {
  const auto any = floats | integers | complexes | booleans;
  rule(any, "", [](Value x, Value) { return ops::reshape(ops::reshape(x, {n * n}), {n, n}); });
  rule(any, "reshape", [](Value x, Value) {
    return ops::squeeze(ops::expand_dims(ops::reshape(x, {4, 5, n}), {1}), {1});
  });
  rule(any, "", [](Value x, Value) { return ops::squeeze(ops::expand_dims(x, {0, 2}), {0, 2}); });
  rule(any, "", [](Value x, Value) { return ops::stop_gradient(x); });
  rule(any, "", [](Value x, Value) { return ops::device_put(x, "cuda:0", "cpu"); });
  rule(any, "", [](Value x, Value) { return ops::transpose(ops::transpose(x, {1, 0}), {1, 0}); });
  rule(any, "reshape", [](Value x, Value) { return ops::transpose(ops::expand_dims(x, {0}), {1, 0, 2}); });
  rule(any, "reshape transpose", [](Value x, Value) {
    return ops::transpose(ops::transpose(ops::reshape(x, {4, 5, n}), {2, 0, 1}), {1, 0, 2});
  });
  rule(any, "slice reshape broadcast_in_dim", [](Value x, Value) {
    const Value row = ops::reshape(ops::slice(x, {3, 0}, {4, n}), {n});
    return ops::broadcast_in_dim(ops::broadcast_in_dim(row, {3, n}, {1}), {2, 3, n}, {1, 2});
  });
  no_rule(any, [](Value x, Value) {  // few elements are repeated, long stretches are copied
    return ops::broadcast_in_dim(ops::broadcast_in_dim(x, {n, n, 3}, {0, 1}), {9, n, n, 3}, {1, 2, 3});
  });
  rule(any, "reshape", [](Value x, Value) { return ops::broadcast_in_dim(x, {1, n, n}, {1, 2}); });
  rule(any, "slice reshape broadcast_in_dim", [](Value x, Value) {
    return ops::transpose(ops::broadcast_in_dim(ops::slice(x, {0, 0}, {1, n}), {5, n}, {0, 1}), {1, 0});
  });
  rule(any, "broadcast_in_dim", [](Value x, Value) {
    return ops::reshape(ops::broadcast_in_dim(x, {3, n, 5, n}, {1, 3}), {3, n, 1, 5, n});
  });
  rule(any, "transpose broadcast_in_dim", [](Value x, Value) {
    return ops::transpose(ops::broadcast_in_dim(x, {3, n, n}, {1, 2}), {2, 0, 1});
  });
  rule(any, "broadcast_in_dim", [](Value x, Value) {
    return ops::slice(ops::broadcast_in_dim(x, {9, n, n}, {1, 2}), {1, 0, 0}, {8, n, n}, {3, 1, 1});
  });
  rule(any, "broadcast_in_dim", [](Value x, Value) {
    return ops::broadcast_in_dim(ops::expand_dims(x, {1}), {n, 3, n}, {0, 1, 2});
  });
  rule(any, "", [](Value x, Value) { return ops::rev(ops::rev(x, {1}), {1}); });
  rule(any, "", [](Value x, Value y) {
    return ops::slice(ops::concatenate(std::vector{x, y}, 0), {n, 0}, {2 * n, n});
  });
  rule(any, "slice", [](Value x, Value y) {
    return ops::slice(ops::concatenate(std::vector{x, y}, 1), {0, n + 2}, {n, n + 9}, {2, 3});
  });
  rule(any, "slice", [](Value x, Value) {
    return ops::slice(ops::slice(x, {1, 2}, {n, n}, {2, 3}), {1, 0}, {9, 6}, {4, 2});
  });
  rule(any, "", [](Value x, Value) { return ops::concatenate(std::vector{x}, 0); });
  rule(any, "", [](Value x, Value) {
    return ops::pad(x, ops::full(*x.emitter(), Type(x.dtype()), 1), {{0, 0, 0}, {0, 0, 0}});
  });
  rule(any, "full", [](Value x, Value) {
    return ops::transpose(ops::reshape(number(x, 1), {2, n * n / 2}), {1, 0});
  });
  rule(any, "full", [](Value x, Value) {
    return ops::concatenate(std::vector{number(x, 1), ops::rev(number(x, 1), {0})}, 0);
  });
}

TEST_CASE("simplify: element-wise operations before broadcasts and transposes") {
  const auto any = floats | integers;
  const auto column = [](Value x) { return ops::reshape(ops::slice(x, {0, 7}, {n, 8}), {n}); };
  const auto wide = [](Value v) { return ops::broadcast_in_dim(v, {n, 3}, {0}); };
  rule(any, "slice reshape slice reshape mul broadcast_in_dim",
       [&](Value x, Value y) { return wide(column(x)) * wide(column(y)); });
  rule(any, "slice reshape full sub broadcast_in_dim", [&](Value x, Value) {
    const Value spread = wide(column(x));
    return number(spread, 3) - spread;
  });
  rule(
      any, "transpose",
      [](Value x, Value y) {
        return ops::transpose(x, {1, 0}) * number(x, 1) + ops::transpose(y, {1, 0}) * number(y, -0.0) -
               ops::transpose(y, {1, 0}) * number(y, -0.0);
      },
      true);
  rule(any, "mul transpose", [](Value x, Value y) {
    return ops::transpose(x, {1, 0}) * ops::transpose(y, {1, 0});
  });
  rule(any, "mul", [](Value x, Value y) {
    return ops::transpose(ops::transpose(x, {1, 0}) * ops::transpose(y, {1, 0}), {1, 0});
  });
}

TEST_CASE("simplify: reductions") {
  rule(floats | complexes, "full add", [](Value x, Value) {
    return ops::reduce_sum(ops::reshape(x, {n, 1, n}), {1});
  });
  rule(integers, "", [](Value x, Value) { return ops::reduce_sum(ops::reshape(x, {n, 1, n}), {1}); });
  rule(floats | integers, "", [](Value x, Value) {
    return ops::reduce_max(ops::reshape(x, {n, 1, n}), {1});
  });
  rule(floats | integers, "", [](Value x, Value) {
    return ops::reduce_min(ops::broadcast_in_dim(x, {n, 3, n}, {0, 2}), {1});
  });
  rule(booleans, "", [](Value x, Value) {
    return ops::reduce_and(ops::broadcast_in_dim(x, {n, n, 4}, {0, 1}), {2});
  });
  no_rule(floats, [](Value x, Value) {
    return ops::reduce_sum(ops::broadcast_in_dim(x, {n, 3, n}, {0, 2}), {1});
  });
  no_rule(floats, [](Value x, Value) { return ops::reduce_sum(ops::reduce_sum(x, {0}), {0}); });
}

TEST_CASE("simplify: products") {
  const std::vector<DType> any{f64, f32, i32, i64, c64, c128};
  const auto t = [](Value x) { return ops::transpose(x, {1, 0}); };
  rule(any, "dot_general", [&](Value x, Value y) { return ops::matmul(t(x), y); });
  rule(any, "dot_general", [&](Value x, Value y) { return ops::matmul(x, t(y)); });
  rule(any, "dot_general", [&](Value x, Value y) { return t(ops::matmul(x, y)); });
  rule(any, "dot_general", [&](Value x, Value y) { return t(ops::matmul(t(x), t(y))); });
  rule(any, "reshape reshape dot_general", [](Value x, Value y) {
    const Value a = ops::transpose(ops::reshape(x, {4, 5, n}), {0, 2, 1}), b = ops::reshape(y, {4, n, 5});
    return ops::transpose(ops::dot_general(a, b, {{2}, {2}, {0}, {0}}), {0, 2, 1});
  });
  // A transpose that something else reads: matrices are read where they lie.
  rule(any, "reshape transpose dot_general reshape reshape concatenate", [](Value x, Value) {
    const Value a = ops::reshape(x, {4, 5, n}), b = ops::transpose(a, {0, 2, 1});
    const Value product = ops::dot_general(a, b, {{2}, {1}, {0}, {0}});
    return ops::concatenate(std::vector{ops::reshape(product, {4 * 25}), ops::reshape(b, {n * n})}, 0);
  });
  // By ones, of the left and of the right, in a batch, over two axes. Sums of rows have the order of
  // reduce_sum instead of the matmul's, which does not matter for integers.
  const std::vector<DType> real{f64, f32, f16, bf16, i32, i64};
  const auto ones = [](Value x, const Shape& shape) {
    return ops::full(*x.emitter(), Type(x.dtype(), shape), 1.0);
  };
  rule(real, "reduce_sum broadcast_in_dim", [&](Value x, Value) { return ops::matmul(ones(x, {7, n}), x); });
  rule(integers, "reduce_sum broadcast_in_dim", [&](Value x, Value) {
    return ops::matmul(x, ones(x, {n, 7}));
  });
  rule(real, "reshape reduce_sum broadcast_in_dim", [&](Value x, Value) {
    return ops::dot_general(ones(x, {4, 3, n}), ops::reshape(x, {4, n, 5}), {{2}, {1}, {0}, {0}});
  });
  rule(real, "reshape reduce_sum broadcast_in_dim", [&](Value x, Value) {
    return ops::dot_general(ops::reshape(x, {4, n, 5}), ones(x, {4, 3, n}), {{1}, {2}, {0}, {0}});
  });
  rule(real, "reshape reduce_sum broadcast_in_dim", [&](Value x, Value) {
    return ops::dot_general(ops::reshape(x, {4, n, 5}), ones(x, {4, n, 3}), {{0, 1}, {0, 1}, {}, {}});
  });
  // Two contracted axes whose order would change.
  no_rule(any, [](Value x, Value y) {
    const Value a = ops::transpose(ops::reshape(x, {4, 5, n}), {1, 0, 2}), b = ops::reshape(y, {5, 4, n});
    return ops::dot_general(a, b, {{0, 1}, {0, 1}, {}, {}});
  });
}

TEST_CASE("simplify: few rows of a product") {
  const std::vector<DType> any{f64, f32};
  const auto rows = [](Value x, std::int64_t axis, std::vector<std::int32_t> which) {
    const Type type(i32, {static_cast<std::int64_t>(which.size())});
    return ops::take(x, ops::constant(*x.emitter(), Literal::of<std::int32_t>(type, which)), axis);
  };
  const auto wide = [](Value x) {  // of few elements, which are repeated
    return ops::broadcast_in_dim(ops::reshape(ops::slice(x, {0, 1}, {n, 2}), {n}), {n, n}, {1});
  };
  rule(any, "constant take dot_general", [&](Value x, Value y) {
    return rows(ops::matmul(x, y), 0, {7, 1, 7, 19});
  });
  rule(any, "constant take dot_general", [&](Value x, Value y) {
    return rows(ops::matmul(x, y), 1, {3, -1, 40});
  });  // clamped to the range
  rule(any, "slice reshape constant take dot_general broadcast_in_dim add transpose", [&](Value x, Value y) {
    const Value transposed = ops::transpose(ops::matmul(x, y) + wide(y), {1, 0});
    return rows(transposed, 1, {0, 4, 11});
  });
  // Along repeated axes, and of the same matmul at two positions.
  rule(any, "slice reshape constant take dot_general broadcast_in_dim mul constant take dot_general mul add",
       [&](Value x, Value y) {
         const Value both = ops::matmul(x, y) * wide(x);
         return rows(both, 0, {2, 3, 5}) + rows(both, 0, {1, 6, 0});
       });
  // An operand with another reader; all rows; too few columns; indices that read zeros.
  no_rule(any, [&](Value x, Value y) {
    const Value product = ops::matmul(x, y);
    return rows(product, 0, {1, 2, 3}) + ops::slice(product, {0, 0}, {3, n});
  });
  no_rule(any, [&](Value x, Value y) {
    std::vector<std::int32_t> all(n);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(n - 1 - i);
    return rows(ops::matmul(x, y), 0, all);
  });
  no_rule(any, [&](Value x, Value y) {
    return rows(ops::matmul(x, ops::slice(y, {0, 0}, {n, 1})), 0, {1, 2, 3});
  });
  no_rule(any, [&](Value x, Value y) {
    const std::array<std::int32_t, 3> last{1, 2, 20};
    const Value which = ops::constant(*x.emitter(), Literal::of<std::int32_t>(Type(i32, {3}), last));
    return ops::take(ops::matmul(x, y), which, 0, "drop");
  });
}

TEST_CASE("simplify: fast_math") {
  rule(
      floats, "", [](Value x, Value) { return x + number(x, 0); }, true);
  rule(
      floats, "sub", [](Value x, Value y) { return -(x - y); }, true);
  rule(
      floats, "full mul", [](Value x, Value) { return x / number(x, 3); }, true);
  rule(
      floats, "full mul", [](Value x, Value) { return x * number(x, 3) * number(x, 5); }, true);
  rule(
      floats, "", [](Value x, Value) { return (x + x) * number(x, 0.5); }, true);
  rule(
      floats, "mul", [](Value x, Value y) { return (x * number(x, 0.5)) * (y + y); }, true);
  rule(
      floats, "mul", [](Value x, Value y) { return (x * number(x, 0.5)) * (y + y); }, true);
}

TEST_CASE("simplify: barriers, impure operations, and outputs of a graph") {
  GraphBuilder builder("f");
  const Value x = builder.input("x", Type(f64, {3})), unused = builder.input("unused", f64);
  const Value behind = ops::optimization_barrier(std::vector{ops::neg(x)}, 1)[0];
  const Graph graph = builder.build({ops::neg(behind), ops::neg(ops::neg(x)), x, x * number(x, 1)});
  const Graph simplified = passes::simplify(graph, false);
  (void)unused;
  CHECK(simplified.inputs().size() == 2);
  CHECK(simplified.input_name(1) == "unused");
  CHECK(simplified.num_operations() == 3);  // neg, barrier, neg
  CHECK(simplified.outputs()[1] == simplified.inputs()[0]);
  CHECK(simplified.outputs()[3] == simplified.inputs()[0]);
  CHECK(structurally_equal(passes::simplify(simplified, false), simplified));
}

TEST_CASE("simplify: source locations and keys of operations that stay") {
  GraphBuilder builder("f");
  const Value x = builder.input("x", Type(f64, {3}));
  const Value y = ops::sin(x, {"there.cpp", 7});
  const Value z = ops::add(y, ops::neg(ops::cos(x)), {"there.cpp", 9});
  const Graph graph = builder.build({ops::exp(z), y});
  const Graph simplified = passes::simplify(graph, false);
  CHECK(simplified.key(simplified.outputs()[1]) == graph.key(graph.outputs()[1]));
  bool found = false;
  for (std::size_t i = 0; i < simplified.num_operations(); ++i) {
    const Operation operation = simplified.operation(i);
    if (operation.name() == "sub") CHECK(operation.where() == "there.cpp:9");
    found = found || operation.where() == "there.cpp:7";
  }
  CHECK(found);
}

TEST_CASE("simplify: the branch that is taken is not inlined if it is too large") {
  const auto cond_of = [](std::uint32_t depth) {
    GraphBuilder innermost("g0", standard_primitives());
    Graph graph = innermost.build({ops::sin(innermost.input("x", f64))});
    for (std::uint32_t i = 0; i < depth; ++i) {
      GraphBuilder builder(detail::str("g", i + 1), standard_primitives());
      const Value once = ops::call(graph, std::vector{builder.input("x", f64)})[0];
      graph = builder.build({ops::call(graph, std::vector{once})[0]});
    }
    GraphBuilder builder("f");
    const Value x = builder.input("x", f64), taken = ops::full(builder, Type(i32), 1.0);
    return builder.build({ops::cond(taken, std::vector{graph, graph}, std::vector{x})[0]});
  };
  const Graph few = passes::simplify(cond_of(5), false), many = passes::simplify(cond_of(40), false);
  CHECK(test::count(few, "sin") == 32);
  CHECK(test::count(few, "cond") == 0);
  CHECK(test::count(many, "cond") == 1);
}

TEST_CASE("an exception of a simplify rule that is no Error becomes one") {
  static constexpr Primitive broken{
      .name = "test.broken_simplify",
      .infer = [](InferContext& c) { c.result(c.operand(0)); },
      .simplify = [](SimplifyContext&) -> Values { throw std::runtime_error("bent"); }};
  GraphBuilder builder("f", standard_primitives().with({&broken}));
  const Graph graph = builder.build({emit1(Op::make(broken), {builder.input("x", f64)})});
  try {
    (void)passes::simplify(graph, false);
    FAIL("expected an error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::internal);
    CHECK(std::string(error.what()) == "[test.broken_simplify] expected its simplify rule to run, got bent");
  }
}

}  // namespace tidu::test
