// sub_buffers.cpp - concatenation in place: operands that are computed in the result's buffer, compared with
// the reference bit by bit: where that is possible and where not, and the memory that it saves.
#include <array>

#include "cpu/compare.hpp"
#include "cpu/vector_units.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

// Exact in both executors: sums and products of one rounding.
Value made(Value x, std::uint64_t how) {
  switch (how % 4) {
    case 0: return ops::add(x, x);
    case 1: return ops::mul(x, ops::full_like(x, 0.75));
    case 2: return ops::neg(ops::abs(x));
    default: return ops::sub(ops::square(x), x);
  }
}

Value joined(const std::vector<Value>& parts, std::int64_t axis) { return ops::concatenate(parts, axis); }

struct Checked {
  std::size_t peak, outputs;
};
Checked check_bits(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
  const std::vector<Tensor> expected = reference().run(graph, inputs);
  Checked checked{0, 0};
  for (const Tensor& output : expected) checked.outputs += output.num_bytes();
  for (const int threads : {2, 1}) {
    const Executable executable = CpuExecutor({.threads = threads}).compile(graph);
    checked.peak = executable.peak_bytes();
    for (int time = 0; time < 2; ++time) {
      const std::vector<Tensor> got = executable.run(inputs);
      for (std::size_t i = 0; i < got.size(); ++i) {
        CHECK_MESSAGE(std::memcmp(got[i].bytes(), expected[i].bytes(), got[i].num_bytes()) == 0,
                      to_text(executable.program()));
      }
    }
  }
  return checked;
}

}  // namespace

TEST_CASE("[concat in place] a concatenate's operands are made in it, and take no memory of their own") {
  if (units().empty()) return;
  std::mt19937_64 random(5);
  for (const DType dtype : {f32, f64, i32}) {
    for (const bool stacked : {false, true}) {
      GraphBuilder g("parts");
      const Value x = g.input("x", {dtype, {1000, 64}});
      std::vector<Value> parts;
      for (std::uint64_t k = 0; k < 5; ++k) {
        const Value part = ops::add(made(x, k), ops::full_like(x, static_cast<double>(k)));
        parts.push_back(stacked ? ops::expand_dims(part, {0}) : part);
      }
      const Checked checked = check_bits(g.build({ops::concatenate(parts, 0)}), random);
      CHECK(checked.peak < checked.outputs + 8192);
    }
  }
}

TEST_CASE(
    "[concat in place] operands that have other readers, are outputs, repeated or not contiguous keep their "
    "buffer") {
  std::mt19937_64 random(6);
  const auto check = [&](const auto& body) {
    GraphBuilder g("f");
    const Value x = g.input("x", {f32, {60, 40}}), y = g.input("y", {f32, {60, 40}});
    check_bits(g.build(body(g, x, y)), random);
  };
  using Values = std::vector<Value>;
  check([](GraphBuilder&, Value x, Value y) {  // twice
    const Value a = made(x, 0);
    return Values{joined({a, y, a}, 0)};
  });
  check([](GraphBuilder&, Value x, Value y) {  // an output itself
    const Value a = made(x, 0);
    return Values{joined({a, made(y, 1)}, 0), a};
  });
  check([](GraphBuilder&, Value x, Value y) {  // read before and after
    const Value a = made(x, 0);
    const Value whole = joined({a, made(y, 1)}, 0);
    return Values{whole, ops::reduce_max(ops::mul(a, a), {0, 1}), ops::transpose(a, {1, 0})};
  });
  check([](GraphBuilder&, Value x, Value y) {  // in two concatenates
    const Value a = made(x, 0);
    return Values{joined({a, y}, 0), joined({y, a}, 0)};
  });
  check([](GraphBuilder&, Value x, Value y) {  // read as a whole again
    const Value whole = joined({made(x, 0), made(y, 3)}, 0);
    return Values{whole, ops::reduce_max(whole, {0}), made(whole, 1)};
  });
  check([](GraphBuilder& g, Value x, Value y) {  // nothing between, inputs, repeated numbers, an update
    const Value zero = ops::full(g, Type(i32, {}), 3);
    const Value changed =
        ops::dynamic_update_slice(made(x, 0), ops::slice(y, {0, 0}, {5, 7}, {1, 1}), std::vector{zero, zero});
    return Values{joined({x, ops::full(g, x.type(), 2), changed, made(y, 2)}, 0)};
  });
  check([](GraphBuilder&, Value x, Value y) {  // reshaped, and outputs of one memory
    const Value whole = joined({ops::reshape(made(x, 0), {2400}), ops::reshape(made(y, 1), {2400})}, 0);
    return Values{whole, ops::reshape(whole, {2, 60, 40}), whole};
  });
  check([](GraphBuilder&, Value x, Value y) {  // matmuls and reductions
    const Value a = ops::convert_element_type(x, i32), b = ops::convert_element_type(y, i32);
    const Value product = ops::dot_general(a, b, {{0}, {0}, {}, {}});
    return Values{joined({made(product, 0), product, ops::neg(product)}, 0)};
  });
}

TEST_CASE("[concat in place] random concatenates of random operands, also in loops") {
  if (units().empty()) return;
  std::mt19937_64 random(7);
  std::size_t spared = 0;
  for (int round = 0; round < 150; ++round) {
    GraphBuilder g("random");
    const std::array<DType, 3> dtypes = {f32, f64, i32};
    const DType dtype = dtypes[random() % 3];
    const auto width = static_cast<std::int64_t>(random() % 40 + 1);
    const bool of_loops = random() % 4 == 0;  // along the last axis, where blocks are rows
    std::vector<Value> parts, outputs;
    const Value base = g.input("base", {dtype, {300, width}});
    std::vector<Value> known{base};
    for (std::size_t k = random() % 6 + 1; k-- > 0;) {
      Value part = made(known[random() % known.size()], random());
      for (std::size_t more = random() % 3; more-- > 0;)
        part = ops::add(part, made(known[random() % known.size()], random()));
      if (random() % 2 == 0) known.push_back(part);
      if (random() % 5 == 0) outputs.push_back(part);
      if (!of_loops && random() % 3 == 0) {
        const auto rows = static_cast<std::int64_t>(random() % 300 + 1);
        part = ops::neg(ops::slice(part, {0, 0}, {rows, width}, {1, 1}));
      }
      parts.push_back(part);
      if (random() % 8 == 0) parts.push_back(parts[random() % parts.size()]);
    }
    const Value whole = ops::concatenate(parts, of_loops ? 1 : 0);
    outputs.insert(outputs.begin() + static_cast<std::ptrdiff_t>(random() % (outputs.size() + 1)), whole);
    if (random() % 3 == 0) outputs.push_back(made(whole, random()));
    const Checked checked = check_bits(g.build(outputs), random);
    spared += checked.peak < checked.outputs + 8192 ? 1 : 0;  // outputs end with pages
  }
  CHECK(spared > 20);
}
