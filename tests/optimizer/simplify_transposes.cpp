// Transposes sink towards the outputs, if the transposed value has no other reader and moving it costs no
// more.
#include "simplify_support.hpp"

namespace tidu::test {
namespace {

using namespace simplify_rules;

const std::vector<DType> any = floats | integers | complexes;
Value t(Value x) { return ops::transpose(x, {1, 0}); }
Value split(Value x) { return ops::reshape(x, {4, 5, n}); }
Value rows(Value x, std::int64_t axis, std::int64_t count, std::int64_t step = 7) {
  std::vector<std::int32_t> which;
  for (std::int64_t i = 0; i < count; ++i) which.push_back(static_cast<std::int32_t>(i * step % 19));
  return ops::take(x, ops::constant(*x.emitter(), Literal::of<std::int32_t>(Type(i32, {count}), which)),
                   axis);
}

}  // namespace

TEST_CASE("simplify: transposes sink past element-wise operations with repeated operands") {
  const auto repeated = [](Value x) {
    return ops::broadcast_in_dim(ops::reshape(ops::slice(x, {0, 3}, {n, 4}), {n}), {n, n}, {0});
  };
  rule(any, "slice reshape broadcast_in_dim add transpose",
       [&](Value x, Value y) { return t(x) + repeated(y); });
  rule(any, "slice reshape broadcast_in_dim add", [&](Value x, Value y) { return t(t(x) + repeated(y)); });
  // A value that is not broadcast keeps its layout, and so does the other operand.
  no_rule(any, [](Value x, Value y) { return t(x) + y; });
  // A value with another reader.
  no_rule(floats | integers, [](Value x, Value) {
    const Value transposed = t(x);
    return ops::concatenate(std::vector{ops::reshape(-transposed, {n * n}), ops::reduce_max(transposed, {0})},
                            0);
  });
}

TEST_CASE("simplify: transposes that several operations read go past all of them") {
  rule(any, "slice slice mul sub transpose", [](Value x, Value y) {
    const Value a = t(ops::slice(x, {0, 0}, {9, n})), b = t(ops::slice(y, {3, 0}, {12, n}));
    return a * a - b;
  });
}

TEST_CASE("simplify: transposes sink past layout operations") {
  rule(any, "concatenate transpose", [](Value x, Value y) {
    return ops::concatenate(std::vector{t(x), t(y)}, 0);
  });
  no_rule(any, [](Value x, Value y) { return ops::concatenate(std::vector{t(x), y}, 0); });
  rule(any, "slice transpose", [](Value x, Value) { return ops::slice(t(x), {2, 0}, {19, 7}, {3, 1}); });
  rule(any, "full pad transpose", [](Value x, Value) {
    return ops::pad(t(x), ops::full(*x.emitter(), Type(x.dtype(), {}), 1.0), {{1, 2, 0}, {0, -3, 1}});
  });
  no_rule(any, [](Value x, Value) {  // three that each copy a part
    const Value transposed = ops::transpose(split(x), {2, 0, 1});
    return ops::reduce_sum(ops::slice(transposed, {0, 0, 0}, {7, 4, 5}), {0, 1, 2}) +
           ops::reduce_sum(ops::slice(transposed, {7, 0, 0}, {14, 4, 5}), {0, 1, 2});
  });
}

TEST_CASE("simplify: rows of transposed values are gathered if they are long") {
  rule(any, "reshape constant take transpose", [](Value x, Value) {
    return rows(ops::transpose(split(x), {1, 0, 2}), 1, 9);
  });
  rule(any, "constant take constant take add transpose",
       [](Value x, Value) { return rows(t(x), 1, 30) + rows(t(x), 1, 30, 3); });
  // Rows that become shorter; more of them than is worth while.
  no_rule(any, [](Value x, Value) { return rows(t(x), 0, 9); });
  no_rule(any, [](Value x, Value) { return rows(t(x), 1, 161); });
}

TEST_CASE("simplify: rows are gathered before one row for all is added") {
  const std::vector<DType> numbers{f64, f32};
  const auto repeated = [](Value x, std::int64_t axis) {
    return ops::broadcast_in_dim(ops::reshape(ops::slice(x, {0, 3}, {n, 4}), {n}), {n, n}, {axis});
  };
  for (const std::int64_t count : {9, 30}) {  // fewer, and more
    rule(numbers, "slice reshape constant take broadcast_in_dim add",
         [&](Value x, Value y) { return rows(x + repeated(y, 1), 0, count); });
    rule(numbers, "slice reshape constant take broadcast_in_dim sub",
         [&](Value x, Value y) { return rows(repeated(y, 1) - x, 0, count); });
    rule(numbers, "slice reshape slice reshape constant take broadcast_in_dim mul broadcast_in_dim add",
         [&](Value x, Value y) { return rows(x * repeated(y, 1) + repeated(x, 1), 0, count); });
  }
  // Not one row for all, two arrays, another axis, many more rows, another reader, other indices.
  no_rule(numbers, [&](Value x, Value y) { return rows(x + repeated(y, 0), 0, 9); });
  no_rule(numbers, [&](Value x, Value y) { return rows(x + y, 0, 9); });
  no_rule(numbers, [&](Value x, Value y) { return rows(x + repeated(y, 0), 1, 9); });
  no_rule(numbers, [&](Value x, Value y) { return rows(x + repeated(y, 1), 0, 41); });
  no_rule(numbers, [&](Value x, Value y) {
    const Value sum = x + repeated(y, 1);
    return ops::concatenate(std::vector{rows(sum, 0, 9), sum}, 0);
  });
  no_rule(numbers, [&](Value x, Value y) {
    const std::vector<std::int32_t> places{1, 25, -3};
    const Value which = ops::constant(*x.emitter(), Literal::of<std::int32_t>(Type(i32, {3}), places));
    return ops::take(x + repeated(y, 1), which, 0, "drop");
  });
}

TEST_CASE("simplify: transposes go past products whose axes change places") {
  const std::vector<DType> numbers{f64, f32, i32, i64, c64, c128};
  const auto square = [](Value y) { return ops::slice(y, {0, 0}, {4, 4}); };
  // [4,5,20]: the matmul's result for each of the 5 times 20 columns has their layout.
  rule(numbers, "reshape slice dot_general transpose", [&](Value x, Value y) {
    const Value a = ops::transpose(split(x), {2, 1, 0}), b = square(y);
    return ops::dot_general(a, b, {{2}, {0}, {}, {}});
  });
  rule(numbers, "reshape slice dot_general transpose", [&](Value x, Value y) {
    const Value a = ops::transpose(split(x), {2, 1, 0}), b = square(y);
    return ops::dot_general(b, a, {{1}, {2}, {}, {}});
  });
  // The result is larger than the transposed operand.
  no_rule(numbers, [&](Value x, Value y) {
    return ops::dot_general(ops::transpose(split(x), {2, 1, 0}), ops::slice(y, {0, 0}, {4, 9}),
                            {{2}, {0}, {}, {}});
  });
}

TEST_CASE("simplify: long filled stretches are repeated in one step") {
  rule(any, "slice reshape broadcast_in_dim", [](Value x, Value) {
    const Value column = ops::reshape(ops::slice(x, {0, 3}, {n, 4}), {n});
    return ops::broadcast_in_dim(ops::broadcast_in_dim(column, {n, 3}, {0}), {n, 30, 3}, {0, 2});
  });
}

}  // namespace tidu::test
