// Outputs in the memory of donated inputs: random graphs compared with runs that keep their inputs, inputs
// that are not donated, and the state after a failure.
#include "cpu/compare.hpp"
#include "cpu/vector_units.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

const Type square_matrix(f64, {136, 136});  // 144.5 KiB

class ReusedGraphs {
 public:
  explicit ReusedGraphs(std::uint64_t seed) : random_(seed) {}

  Graph make() {
    GraphBuilder builder("reused");
    for (int i = 0; i < 3; ++i) values_.push_back(builder.input(detail::str('x', i), square_matrix));
    const Value row = builder.input("row", Type(f64, {136})), index = builder.input("i", Type(i32, {3}));
    for (std::size_t i = 0, count = 2 + below(7); i < count; ++i)
      values_.push_back(operation(builder, row, index));
    std::vector<Value> outputs;
    for (std::size_t i = 0, count = 1 + below(4); i < count; ++i) outputs.push_back(recent());
    return builder.build(outputs);
  }

 private:
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(random_() % end); }
  Value any() { return values_[below(values_.size())]; }
  Value recent() { return values_[values_.size() - 1 - below(std::min<std::size_t>(5, values_.size()))]; }
  Value operation(GraphBuilder& builder, Value row, Value index) {
    const Value x = any(), y = any();
    const Value half = ops::full(builder, square_matrix, 0.5);
    switch (below(13)) {
      case 0: return ops::tanh(ops::mul(x, half));
      case 1: return ops::sub(x, ops::mul(half, y));
      case 2: return ops::transpose(x, {1, 0});
      case 3: return ops::matmul(ops::tanh(x), ops::mul(y, ops::full(builder, square_matrix, 0.1)));
      case 4: {
        const Value product = ops::matmul(x, ops::tanh(y));
        if (below(2) == 0) values_.push_back(product);
        return ops::sub(any(), ops::mul(ops::full(builder, square_matrix, 0.001), product));
      }
      case 5: return ops::add(x, ops::broadcast_in_dim(row, square_matrix.shape(), {1}));
      case 6:
        return ops::div(x,
                        ops::broadcast_in_dim(ops::reduce_max(ops::abs(x), {1}), square_matrix.shape(), {0}));
      case 7: return ops::scatter_add(x, index, ops::slice(y, {2, 0}, {5, 136}), 0);
      case 8: {
        const Value zero = ops::full(builder, Type(i32, {}), 7.0);
        return ops::dynamic_update_slice(x, ops::slice(y, {0, 0}, {4, 136}), std::vector{zero, zero});
      }
      case 9:
        return ops::concatenate(
            std::vector{ops::slice(x, {0, 0}, {40, 136}), ops::slice(y, {40, 0}, {136, 136})}, 0);
      // Which no code is generated for, alone or together.
      case 10: return ops::add(y, ops::lgamma(ops::add(ops::abs(x), half)));
      case 11: return ops::mul(x, ops::convert_element_type(ops::convert_element_type(y, f32), f64));
      default:
        return ops::reshape(ops::add(ops::reshape(x, {17, 1088}), ops::reshape(y, {17, 1088})),
                            square_matrix.shape());
    }
  }

  std::mt19937_64 random_;
  std::vector<Value> values_;
};

CpuExecutor reusing(int threads, VectorUnits units = VectorUnits::automatic) {
  CpuOptions options;
  options.threads = threads;
  options.vector_units = units;
  return CpuExecutor(options);
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.bytes(), b.bytes(), a.num_bytes()) == 0;
}

std::vector<const Tensor*> addresses(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> result;
  for (const Tensor& tensor : tensors) result.push_back(&tensor);
  return result;
}

// The inputs whose memory the output may take.
std::vector<std::uint32_t> reusable(const Executable& executable, std::uint32_t output) {
  for (const ReusableInputs& set : executable.reusable_inputs()) {
    if (std::find(set.outputs.begin(), set.outputs.end(), output) != set.outputs.end()) return set.inputs;
  }
  return {};
}

// One output by this function of x, of that type.
Executable of_one(Type type, const auto& body) {
  GraphBuilder builder("one");
  return cpu().compile(builder.build(body(builder, builder.input("x", type))));
}

}  // namespace

TEST_CASE("[donation] random graphs with donated inputs have the results of kept inputs") {
  const std::size_t count = scaled(400);
  std::size_t taken = 0, kept = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    CAPTURE(seed);
    const Graph graph = ReusedGraphs(seed).make();
    std::mt19937_64 random(seed);
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs())
      inputs.push_back(random_tensor(graph.type(id), {.low = 0, .high = 2}, random));
    for (const int threads : {0, 1, 2}) {
      const Executable executable =
          (threads == 0 ? reusing(1, VectorUnits::none) : reusing(threads)).compile(graph);
      const std::vector<Tensor> expected = executable.run(inputs);
      // Inputs are donated in the tensors of outputs, one of them shared.
      std::vector<Tensor> outputs(expected.size()), all = inputs;
      std::vector<const Tensor*> from = addresses(all);
      std::vector<const std::byte*> places(all.size(), nullptr);
      const std::size_t shift = seed % 3;
      for (std::size_t k = 0; k < std::min<std::size_t>(3, outputs.size()); ++k) {
        const std::size_t input = (k + shift) % 3;
        outputs[k] = all[input].clone();
        from[input] = &outputs[k];
        places[input] = outputs[k].bytes();
      }
      const Tensor shared = seed % 4 == 0 ? outputs[0] : Tensor();
      const Tensor before = shared.clone();
      executable.run_into(from, outputs);
      CHECK(same_bytes(shared, before));
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        CHECK(same_bytes(outputs[i], expected[i]));
        const bool takes = std::find(places.begin(), places.end(), outputs[i].bytes()) != places.end();
        CHECK_FALSE((takes && outputs[i].bytes() == shared.bytes()));
        ++(takes ? taken : kept);
      }
      // As many as possible: of each set the smaller number of outputs and of donated inputs.
      for (const ReusableInputs& set : executable.reusable_inputs()) {
        std::size_t given = 0, took = 0;
        for (const std::uint32_t input : set.inputs)
          given += places[input] != nullptr && places[input] != shared.bytes() ? 1 : 0;
        for (const std::uint32_t output : set.outputs)
          took += std::find(places.begin(), places.end(), outputs[output].bytes()) != places.end() ? 1 : 0;
        CHECK(took == std::min(given, set.outputs.size()));
      }
      for (std::size_t i = 0; i < inputs.size(); ++i) CHECK(same_bytes(all[i], inputs[i]));
    }
  }
  CHECK(taken > count / 4);
  CHECK(kept > count / 16);
}

TEST_CASE("[donation] parameters are written over time after time") {
  if (units().empty()) return;
  GraphBuilder builder("descent");
  const Value w = builder.input("w", square_matrix), m = builder.input("m", square_matrix),
              g = builder.input("g", square_matrix);
  const auto times = [&](double factor, Value x) {
    return ops::mul(ops::full(builder, square_matrix, factor), x);
  };
  const Value next = ops::add(times(0.9, m), ops::tanh(ops::mul(g, w)));
  const Executable executable = cpu().compile(builder.build({ops::sub(w, times(0.1, next)), next}));
  for (const ReusableInputs& set : executable.reusable_inputs()) CHECK(set.safe);
  std::mt19937_64 random(3);
  Tensor state[2] = {random_tensor(square_matrix, {}, random), random_tensor(square_matrix, {}, random)};
  const Tensor given = random_tensor(square_matrix, {}, random);
  const std::byte* const places[2] = {state[0].bytes(), state[1].bytes()};
  const Tensor* const inputs[] = {&state[0], &state[1], &given};
  std::vector<Tensor> expected{state[0].clone(), state[1].clone()};
  for (int step = 0; step < 5; ++step) {
    expected = executable.run({expected[0], expected[1], given});
    executable.run_into(inputs, state);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(state[i].bytes() == places[i]);
      CHECK(same_bytes(state[i], expected[i]));
    }
  }
}

TEST_CASE("[donation] inputs that are read later, are outputs, small or of another type keep their memory") {
  if (units().empty()) return;
  using Values = std::vector<Value>;
  const auto reused = [](Type type, const auto& body) {
    return !of_one(type, body).reusable_inputs().empty();
  };
  const auto doubled = [](Value x) { return ops::add(x, x); };
  CHECK(reused(square_matrix, [&](GraphBuilder&, Value x) { return Values{doubled(x)}; }));
  CHECK_FALSE(reused(square_matrix, [&](GraphBuilder&, Value x) { return Values{doubled(x), x}; }));
  CHECK_FALSE(reused(square_matrix, [&](GraphBuilder&, Value x) { return Values{ops::matmul(x, x)}; }));
  CHECK_FALSE(reused(square_matrix, [&](GraphBuilder&, Value x) {
    return Values{ops::transpose(x, {1, 0})};
  }));
  CHECK_FALSE(reused(Type(f64, {90, 90}), [&](GraphBuilder&, Value x) { return Values{doubled(x)}; }));
  CHECK_FALSE(reused(square_matrix,
                     [&](GraphBuilder&, Value x) { return Values{ops::reshape(doubled(x), {136 * 136})}; }));
  CHECK_FALSE(reused(square_matrix, [&](GraphBuilder& g, Value x) {
    return Values{ops::convert_element_type(ops::lt(x, ops::full(g, square_matrix, 0.0)), i64)};
  }));
  // Of two outputs that both could have it, one has it.
  const Executable both = of_one(square_matrix, [&](GraphBuilder&, Value x) {
    return Values{doubled(x), ops::sin(x)};
  });
  REQUIRE(both.reusable_inputs().size() == 1);
  CHECK(both.reusable_inputs()[0].inputs == std::vector<std::uint32_t>{0});

  GraphBuilder builder("twice");
  const Value x = builder.input("x", square_matrix), y = builder.input("y", square_matrix);
  const Executable executable = cpu().compile(builder.build({ops::sub(ops::sin(x), y)}));
  REQUIRE(reusable(executable, 0).size() == 2);
  std::mt19937_64 random(4);
  Tensor state = random_tensor(square_matrix, {}, random);
  const Tensor expected = executable.run({state, state})[0];
  const std::byte* const place = state.bytes();
  const Tensor* const twice[] = {&state, &state};
  executable.run_into(twice, std::span(&state, 1));
  CHECK(same_bytes(state, expected));
  CHECK(state.bytes() != place);
  // Foreign memory with another alignment than results.
  std::vector<double> memory(static_cast<std::size_t>(square_matrix.size()) + 16, 0.25);
  const auto offset = reinterpret_cast<std::uintptr_t>(memory.data()) % 64 == 0 ? 1 : 0;
  state = Tensor::wrap(square_matrix, static_cast<void*>(memory.data() + offset), std::shared_ptr<void>());
  const Tensor other = random_tensor(square_matrix, {}, random);
  const Tensor of_other = executable.run({state, other})[0];
  const Tensor* const apart[] = {&state, &other};
  executable.run_into(apart, std::span(&state, 1));
  CHECK(same_bytes(state, of_other));
  CHECK(memory[32] == 0.25);
}

TEST_CASE("[donation] a matmul that is kept is not written where its sum has yet to read") {
  GraphBuilder builder("kept");
  const Value a = builder.input("a", square_matrix), b = builder.input("b", square_matrix),
              x = builder.input("x", square_matrix);
  const Value product = ops::matmul(a, b);
  const Value sum = ops::sub(x, ops::mul(ops::full(builder, square_matrix, 0.1), product));
  const Executable executable = cpu().compile(builder.build({product, ops::matmul(sum, a)}));
  std::mt19937_64 random(6);
  const Tensor given[] = {random_tensor(square_matrix, {}, random), random_tensor(square_matrix, {}, random)};
  Tensor state[2] = {random_tensor(square_matrix, {}, random), Tensor()};
  const std::vector<Tensor> expected = executable.run({given[0], given[1], state[0]});
  const Tensor* const inputs[] = {&given[0], &given[1], &state[0]};
  executable.run_into(inputs, state);
  for (std::size_t i = 0; i < 2; ++i) CHECK(same_bytes(state[i], expected[i]));
}

TEST_CASE("[donation] inputs are written over safely from the last step on that may fail") {
  GraphBuilder builder("before and behind");
  const Value x = builder.input("x", square_matrix), y = builder.input("y", square_matrix),
              z = builder.input("z", Type(f64, {136, 4}));
  const Value before = ops::tanh(x), product = ops::matmul(before, before), behind = ops::mul(y, product);
  // Operations that read only nearby elements do not fail: a sum, repetitions, few elements in several
  // passes.
  const Value sum = ops::reduce_sum(z, {1});
  const Value wide = ops::broadcast_in_dim(ops::lgamma(ops::sin(sum)), square_matrix.shape(), {1});
  const Executable executable = cpu().compile(builder.build({before, behind, wide}));
  REQUIRE(executable.reusable_inputs().size() == 2);
  for (const ReusableInputs& set : executable.reusable_inputs()) {
    REQUIRE(set.inputs.size() == 1);
    CHECK(set.safe == (set.inputs[0] == 1));
  }
}

TEST_CASE("[donation] after a failure donated inputs are unchanged, where that is guaranteed") {
  if (units().empty()) return;
  CpuOptions options;
  options.check_indices = true;
  const CpuExecutor executor(options);
  std::mt19937_64 random(5);
  const Tensor given = random_tensor(square_matrix, {}, random),
               bad = Tensor::from<std::int32_t>({2}, {0, 999});
  const Tensor good = Tensor::from<std::int32_t>({2}, {0, 5});
  // The index is read before anything is written to x, or after that.
  for (const bool before : {true, false}) {
    GraphBuilder builder("fails");
    const Value x = builder.input("x", square_matrix), i = builder.input("i", Type(i32, {2}));
    const Value y = builder.input("y", square_matrix);
    const auto taken = [&](Value of) {
      return ops::reshape(ops::reduce_sum(ops::take(of, i, 0), {0, 1}), {});
    };
    const auto wide = [&](Value of) { return ops::broadcast_in_dim(of, square_matrix.shape(), {}); };
    const Value first = before ? wide(taken(y)) : x;
    const Value next = before ? ops::mul(ops::tanh(x), first) : ops::tanh(x);
    const Executable executable =
        executor.compile(builder.build(before ? std::vector{next} : std::vector{next, taken(next)}));
    REQUIRE(reusable(executable, 0) == std::vector<std::uint32_t>{0});
    CHECK(executable.reusable_inputs()[0].safe == before);
    std::vector<Tensor> state(before ? 1 : 2);
    state[0] = given.clone();
    std::vector<const Tensor*> inputs{&state[0], &bad, &given};
    CHECK_THROWS_AS(executable.run_into(inputs, state), Error);
    if (before) CHECK(same_bytes(state[0], given));
    state[0] = given.clone();
    inputs[1] = &good;
    executable.run_into(inputs, state);
    CHECK(same_bytes(state[0], executable.run({given, good, given})[0]));
  }
}
