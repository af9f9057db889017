// Executable::run_into: programs of scalar steps alone, of few small values and of many, which run on
// different paths, compared with the reference executor; inputs that are outputs; errors.
#include "cpu/compare.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

// Every kind of buffer: constants, an unused input, an input, a constant and one value twice as outputs.
Graph everything(const Shape& shape) {
  GraphBuilder builder("everything");
  const Type type(f64, shape);
  const Value x = builder.input("x", type), y = builder.input("y", type);
  builder.input("unused", f32);
  const Value s = builder.input("s", f64);
  const Value two = ops::full(builder, type, 2.0);
  const Value z =
      ops::add(ops::mul(ops::sin(x), y), ops::mul(two, ops::broadcast_scalar(ops::exp(s), shape)));
  const Value w = ops::select_n(ops::lt(x, y), z, ops::cos(z));
  const Value zero = ops::full(builder, Type(f64, {0}), 1.0);
  std::vector<Value> outputs{w, z, z, x, two, s, ops::lt(x, y)};
  if (!shape.empty()) outputs.push_back(zero);
  return builder.build(outputs);
}

std::vector<const Tensor*> pointers_to(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  return pointers;
}

Graph product(Type type) {
  GraphBuilder builder("product");
  return builder.build({ops::mul(builder.input("x", type), builder.input("y", type))});
}

ErrorKind kind_of(const auto& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::internal;
}

}  // namespace

TEST_CASE("run_into has the results of the reference executor, time after time, and shares no memory") {
  std::mt19937_64 random(1);
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3}, Shape{16, 8}, Shape{32, 16}, Shape{40, 50}}) {
    const Graph graph = everything(shape);
    const Executable executable = cpu().compile(graph);
    std::vector<Tensor> outputs(graph.outputs().size());
    for (int repeat = 0; repeat < 4; ++repeat) {
      std::vector<Tensor> inputs;
      for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
      const std::vector<Tensor> before = outputs;
      std::vector<Tensor> kept;
      for (const Tensor& tensor : before) kept.push_back(tensor.clone());
      executable.run_into(pointers_to(inputs), outputs);
      const std::vector<Tensor> expected = reference().run(graph, std::span<const Tensor>(inputs));
      const std::vector<Tensor> run = executable.run(std::span<const Tensor>(inputs));
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        CHECK(difference(outputs[i], expected[i]) == "");
        CHECK(difference(run[i], expected[i]) == "");
        CHECK(difference(before[i], kept[i]) == "");
        CHECK(outputs[i].exclusive());
        for (const Tensor& input : inputs) CHECK_FALSE(outputs[i].shares_storage_with(input));
      }
    }
  }
}

TEST_CASE("outputs of run_into are overwritten if they have no other reference, and only then") {
  std::mt19937_64 random(2);
  for (const Shape& shape : {Shape{4}, Shape{33}, Shape{300}, Shape{30000}}) {
    const Type type(f64, shape);
    const Executable executable = cpu().compile(product(type));
    const std::vector<Tensor> inputs{random_tensor(type, {}, random), random_tensor(type, {}, random)};
    const std::vector<Tensor> expected = executable.run(std::span<const Tensor>(inputs));
    const auto run_over = [&](Tensor output) {
      std::vector<Tensor> outputs{std::move(output)};
      executable.run_into(pointers_to(inputs), outputs);
      CHECK(difference(outputs[0], expected[0]) == "");
      return outputs[0];
    };
    Tensor own = random_tensor(type, {}, random);
    const std::byte* const place = own.bytes();
    CHECK(run_over(std::move(own)).bytes() == place);
    // With another reference, read-only, borrowed, an input's memory, of another type, less aligned.
    const Tensor held = random_tensor(type, {}, random), kept = held.clone();
    CHECK(run_over(held).bytes() != held.bytes());
    CHECK(difference(held, kept) == "");
    const Literal literal = kept.to_literal();
    CHECK(run_over(Tensor(literal)).writable());
    CHECK(difference(Tensor(literal), kept) == "");
    Tensor lent = kept.clone();
    CHECK_FALSE(run_over(Tensor::borrow(type, lent.mutable_bytes(), nullptr)).borrowed());
    CHECK(difference(lent, kept) == "");
    CHECK_FALSE(run_over(inputs[0]).shares_storage_with(inputs[0]));
    CHECK(run_over(Tensor::zeros(Type(i64, shape))).type() == type);
    Tensor wide = Tensor::zeros(Type(f64, {shape[0] + 1}));
    Tensor part = wide.view(type, sizeof(double));
    wide = Tensor();
    const std::byte* const behind = part.bytes();
    CHECK(run_over(std::move(part)).bytes() != behind);
    // Memory of the caller's own.
    std::vector<double> given(static_cast<std::size_t>(type.size()), 7);
    CHECK(run_over(Tensor::wrap(type, static_cast<void*>(given.data()), nullptr)).bytes() !=
          reinterpret_cast<const std::byte*>(given.data()));
    CHECK(given == std::vector<double>(given.size(), 7));
  }
}

TEST_CASE("outputs that are no inputs are written over beside others that are") {
  std::mt19937_64 random(4);
  const Type type(f64, {700});
  GraphBuilder builder("step");
  const Value x = builder.input("x", type), y = builder.input("y", type);
  const Executable executable = cpu().compile(builder.build({ops::sub(x, y), ops::mul(x, y)}));
  std::vector<Tensor> outputs{random_tensor(type, {}, random), random_tensor(type, {}, random)};
  const std::vector<Tensor> given{outputs[0].clone(), random_tensor(type, {}, random)};
  const std::vector<Tensor> expected = executable.run(std::span<const Tensor>(given));
  const std::byte* const place = outputs[1].bytes();
  const std::vector<const Tensor*> inputs{&outputs[0], &given[1]};
  executable.run_into(inputs, outputs);
  CHECK(outputs[1].bytes() == place);
  for (std::size_t i = 0; i < 2; ++i) CHECK(difference(outputs[i], expected[i]) == "");
}

TEST_CASE("an input of run_into may be one of its outputs") {
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{5000}}) {
    const Type type(f64, shape);
    GraphBuilder builder("swap");
    const Value x = builder.input("x", type), y = builder.input("y", type);
    const Executable executable = cpu().compile(builder.build({ops::sub(y, x), x}));
    std::vector<double> ones(static_cast<std::size_t>(type.size()), 1.0), fives(ones.size(), 5.0);
    Tensor values[2] = {Tensor::from(shape, std::span<const double>(ones)),
                        Tensor::from(shape, std::span<const double>(fives))};
    const Tensor first = values[0];
    const Tensor* const inputs[] = {&values[0], &values[1]};
    executable.run_into(inputs, values);
    CHECK(values[0].at(type.size() - 1) == 4.0);
    CHECK(values[1].at(type.size() - 1) == 1.0);
    CHECK(first.at(0) == 1.0);
    CHECK_FALSE(values[1].shares_storage_with(first));
  }
}

TEST_CASE("run_into refuses other numbers and types, and null") {
  for (const Shape& shape : {Shape{}, Shape{3}}) {
    const Type type(f64, shape);
    const Executable executable = cpu().compile(product(type));
    const Tensor x = Tensor::zeros(type), other = Tensor::zeros(type.with_dtype(f32));
    Tensor outputs[2];
    const auto run = [&](std::vector<const Tensor*> inputs, std::size_t num_outputs) {
      return kind_of([&] { executable.run_into(inputs, {outputs, num_outputs}); });
    };
    CHECK(run({&x}, 1) == ErrorKind::invalid_argument);
    CHECK(run({&x, &x, &x}, 1) == ErrorKind::invalid_argument);
    CHECK(run({&x, nullptr}, 1) == ErrorKind::invalid_argument);
    CHECK(run({&x, &x}, 0) == ErrorKind::invalid_argument);
    CHECK(run({&x, &x}, 2) == ErrorKind::invalid_argument);
    CHECK(run({&x, &other}, 1) == ErrorKind::type);
    executable.run_into(std::vector{&x, &x}, {outputs, 1});
    CHECK(outputs[0].type() == type);
  }
}

TEST_CASE("inputs at addresses that only the dtype is aligned to") {
  alignas(16) std::byte memory[128]{};
  for (const DType dtype : {bool_, i32, f16, f32, f64, c64, c128}) {
    const std::size_t offset = size_of(real_dtype(dtype));
    for (const Shape& shape : {Shape{}, Shape{3}}) {
      const Type type(dtype, shape);
      GraphBuilder builder("eq");
      const Value x = builder.input("x", type);
      const Executable executable = cpu().compile(builder.build({ops::eq(x, x), x}));
      const Tensor tensor = Tensor::wrap(type, static_cast<const void*>(memory + offset), nullptr);
      const Tensor* const input = &tensor;
      Tensor outputs[2];
      executable.run_into({&input, 1}, outputs);
      CHECK(outputs[0].at(type.size() - 1) == 1.0);
      CHECK(difference(outputs[1], tensor) == "");
    }
  }
}
