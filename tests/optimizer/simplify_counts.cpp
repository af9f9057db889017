// simplify_counts.cpp - comparisons of positions along axes, and outer products: the rewritten graphs, and
// the same bits as before on both executors.
#include "simplify_support.hpp"

namespace tidu::test {
namespace {

using Compare = Value (*)(Value, Value);
constexpr Compare comparisons[] = {
    [](Value a, Value b) { return ops::eq(a, b); }, [](Value a, Value b) { return ops::ne(a, b); },
    [](Value a, Value b) { return ops::lt(a, b); }, [](Value a, Value b) { return ops::le(a, b); },
    [](Value a, Value b) { return ops::gt(a, b); }, [](Value a, Value b) { return ops::ge(a, b); }};

constexpr std::int64_t num_rows = 33, num_columns = 40;

// Are the operands of the comparison floating numbers?
bool compares_floats(const Graph& graph) {
  bool any = false;
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    if (operation.num_inputs() == 2 && is_bool(graph.type(operation.output()).dtype()))
      any = any || is_inexact(graph.type(operation.inputs()[0]).dtype());
  }
  return any;
}

Value counted(GraphBuilder& g, DType dtype, std::int64_t axis, std::int64_t shift) {
  const Value count = ops::iota(g, Type(dtype, {num_rows, num_columns}), axis);
  return shift == 0 ? count : count + ops::full_like(count, static_cast<double>(shift));
}

void check_mask(const std::function<Value(GraphBuilder&)>& mask, DType chosen, bool fires,
                const std::vector<Tensor>& indices = {}) {
  GraphBuilder g("masked");
  std::vector<Tensor> inputs = indices;
  const Value m = mask(g);
  const Type type(chosen, {num_rows, num_columns});
  const Value x = g.input("x", type);
  inputs.push_back(special_tensor(type, [](std::size_t i) { return i; }));
  const Graph graph =
      g.build({ops::select_n(m, ops::full_like(x, 0.0), x), ops::convert_element_type(m, chosen)});
  const Graph simplified = passes::simplify(graph, false);
  verify(simplified);
  CHECK_MESSAGE(compares_floats(simplified) == fires, to_text(simplified));
  CHECK(differences(graph, simplified, inputs) == "");
}

TEST_CASE("simplify: masks of counted places are compared in the numbers that they choose") {
  for (const DType integers : {i32, i64}) {
    for (const DType chosen : {f32, f64, f16, bf16}) {
      for (const Compare compare : comparisons) {
        for (const std::int64_t shift : {0, 3, -5, 50, -50}) {
          check_mask(
              [&](GraphBuilder& g) {
                return compare(counted(g, integers, 0, shift), counted(g, integers, 1, 0));
              },
              chosen, true);
          check_mask(
              [&](GraphBuilder& g) {
                return compare(counted(g, integers, 1, 0), counted(g, integers, 0, shift));
              },
              chosen, true);
        }
      }
    }
    // Chosen integers, and complex numbers.
    for (const DType chosen : {i32, i64, c64}) {
      check_mask(
          [&](GraphBuilder& g) { return ops::le(counted(g, integers, 0, 0), counted(g, integers, 1, 0)); },
          chosen, false);
    }
  }
}

TEST_CASE("simplify: indices are compared with counted places in floating numbers") {
  for (const DType integers : {i32, i64}) {
    // Integers around those that are counted, and such as no f32 and no f64 is.
    const std::int64_t most = integers == i32 ? INT32_MAX : INT64_MAX;
    std::vector<std::int64_t> numbers{
        0, 1, 39, 40, -1, 1 << 24, (1 << 24) + 1, -(1 << 24) - 1, most, -most - 1, most - 1};
    while (numbers.size() < num_rows)
      numbers.push_back(static_cast<std::int64_t>(numbers.size()) % num_columns);
    Tensor tensor(Type(integers, {num_rows}));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const Literal number = Literal::scalar(integers, numbers[i]);
      std::memcpy(tensor.mutable_bytes() + i * size_of(integers), number.bytes(), size_of(integers));
    }
    for (const Compare compare : comparisons) {
      for (const DType chosen : {f32, f64}) {
        check_mask(
            [&](GraphBuilder& g) {
              const Value index = g.input("index", Type(integers, {num_rows}));
              return compare(ops::broadcast_in_dim(index, {num_rows, num_columns}, {0}),
                             counted(g, integers, 1, 0));
            },
            chosen, true, {tensor});
      }
    }
  }
}

TEST_CASE("simplify: counted places that no floating number of the size is stay integers") {
  const auto shifted = [](std::int64_t shift) {
    return [shift](GraphBuilder& g) { return ops::le(counted(g, i64, 0, shift), counted(g, i64, 1, 0)); };
  };
  check_mask(shifted((std::int64_t{1} << 24) - num_rows - 2), f32, true);
  check_mask(shifted((std::int64_t{1} << 24) - num_rows - 1), f32, false);
  check_mask(shifted((std::int64_t{1} << 24) - num_rows - 1), f64, true);
  check_mask(shifted(-(std::int64_t{1} << 24)), f32, false);
  check_mask(shifted(std::int64_t{1} << 49), f64, true);
  check_mask(shifted(std::int64_t{1} << 53), f64, false);
  const auto narrow = [](std::int64_t shift) {
    return [shift](GraphBuilder& g) { return ops::le(counted(g, i32, 0, shift), counted(g, i32, 1, 0)); };
  };
  check_mask(narrow((std::int64_t{1} << 31) - num_rows - 2), f64, true);
  check_mask(narrow((std::int64_t{1} << 31) - 7), f64, false);  // some begin anew at the other end
  check_mask(narrow(-(std::int64_t{1} << 31) + 7), f64, true);
}

TEST_CASE("simplify: products that sum nothing are products of broadcasts") {
  for (const DType dtype : {f64, f32, f16, bf16, i32, i64, c64}) {
    for (const std::int64_t wide : {std::int64_t{64}, std::int64_t{63}}) {
      GraphBuilder g("outer");
      const Type a(dtype, {20}), b(dtype, {wide});
      const Value x = g.input("x", a), y = g.input("y", b);
      const Graph graph = g.build({ops::dot_general(x, y, {})});
      const Graph simplified = passes::simplify(graph, false);
      CHECK(has_products(simplified) == (wide == 63 || is_complex(dtype)));
      const auto all = [](std::size_t i) { return i; };
      // On the CPU a matmul makes zeros of either sign 0.0.
      CHECK(differences(reference(), graph, simplified, {special_tensor(a, all), special_tensor(b, all)}) ==
            "");
    }
  }
}

TEST_CASE("simplify: products of batches that sum nothing, too") {
  for (const DType dtype : {f64, f32, i32, c64}) {
    for (const std::int64_t wide : {16, 15}) {
      for (const bool in_front : {true, false}) {  // the batch axis of the right operand
        GraphBuilder g("outer");
        const Type a(dtype, {5, 3}), b(dtype, in_front ? Shape{5, wide} : Shape{wide, 5});
        const Value x = g.input("x", a), y = g.input("y", b);
        const Graph graph =
            g.build({ops::dot_general(x, y, {.lhs_batch = {0}, .rhs_batch = {in_front ? 0 : 1}})});
        const Graph simplified = passes::simplify(graph, false);
        CHECK(has_products(simplified) == (wide == 15 || is_complex(dtype) || !in_front));
        const auto all = [](std::size_t i) { return i; };
        CHECK(differences(reference(), graph, simplified, {special_tensor(a, all), special_tensor(b, all)}) ==
              "");
      }
    }
  }
}

}  // namespace
}  // namespace tidu::test
