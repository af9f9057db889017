// Code that is generated for integers: against the reference interpreter, exactly, with extreme numbers
// and ends of arrays; conversions where they round or leave the range; chains of several dtypes.
#include <array>
#include <bit>

#include "cpu/compare.hpp"
#include "cpu/vector_units.hpp"

using namespace tidu;
using namespace tidu::test;

namespace vector_integers_cases {
namespace {

struct Case {
  const Primitive* primitive;
  std::size_t operands;
  Attributes attributes = {};
};

CpuExecutor executor(VectorUnits units, int threads = 1) {
  CpuOptions options;
  options.vector_units = units;
  options.threads = threads;
  return cpu().with_options(options);
}

// All bits random in some, few in others, and extremes: so operands are equal at times.
Tensor integer_tensor(Type type, std::mt19937_64& random) {
  Tensor tensor = random_tensor(type, {-3, 3, true}, random);
  if (!is_integer(type.dtype())) return tensor;
  const std::size_t size = size_of(type.dtype());
  for (std::int64_t i = 0; i < type.size(); i += 2) {
    const std::uint64_t bits = random() >> (random() % 64);
    std::memcpy(tensor.mutable_bytes() + static_cast<std::size_t>(i) * size, &bits, size);
  }
  return tensor;
}

void check(const CpuExecutor& lanes, const Op& op, const std::vector<Type>& types, std::mt19937_64& random) {
  const Graph graph = graph_of(op, types);
  std::vector<Tensor> inputs;
  for (const Type type : types) inputs.push_back(integer_tensor(type, random));
  const Tensor got = lanes.run(graph, inputs)[0], expected = reference().run(graph, inputs)[0];
  CHECK_MESSAGE(std::memcmp(got.bytes(), expected.bytes(), got.type().bytes()) == 0, op.name(), " ",
                types.back());
}

constexpr std::int64_t sizes[] = {2, 7, 8, 17, 64, 333, 1001, 20003};

}  // namespace

TEST_CASE("[integer vectors] every operation is the reference's") {
  using namespace prim;
  std::mt19937_64 random(1);
  std::vector<Case> cases;
  for (const Primitive* binary : {&add, &sub, &mul, &max, &min, &and_, &or_, &xor_, &eq, &ne, &lt, &le, &gt,
                                  &ge, &prim::div, &prim::rem})
    cases.push_back({binary, 2});
  for (const Primitive* unary : {&neg, &prim::abs, &sign, &square, &not_}) cases.push_back({unary, 1});
  cases.push_back({&clamp, 3});
  for (const std::int64_t y : {0, 1, 2, 5, 13, 64, 65}) cases.push_back({&integer_pow, 1, {{"y", y}}});
  for (const DType to : {bool_, i32, i64, f32, f64})
    cases.push_back({&prim::convert_element_type, 1, {{"new_dtype", to}}});
  for (const VectorUnits each : units()) {
    const CpuExecutor lanes = executor(each);
    for (const DType dtype : {i32, i64}) {
      for (const std::int64_t size : sizes) {
        const Type type(dtype, {size}), one(dtype, {}), masks(bool_, {size});
        for (const Case& c : cases)
          check(lanes, Op::make(*c.primitive, c.attributes), std::vector<Type>(c.operands, type), random);
        check(lanes, Op::make(clamp), {one, type, one}, random);
        check(lanes, Op::make(select_n), {masks, type, type}, random);
        if (dtype == i32) check(lanes, Op::make(select_n), {type, type, type}, random);
        check(lanes, Op::make(convert_element_type, {{"new_dtype", dtype}}), {masks}, random);
      }
    }
  }
}

TEST_CASE("[integer vectors] floating numbers that are no integers are cut to the nearest there are") {
  const std::array<float, 17> odd = {
      NAN,      -NAN,  INFINITY, -INFINITY, 0x1p31F, 0x1.fffffep30F, -0x1p31F,  -0x1.000002p31F, 0x1p40F,
      -0x1p40F, 0.99F, -0.99F,   -0.0F,     1.5F,    -2.5F,          0x1p-140F, 0x1.fffffep127F};
  const std::array<std::int32_t, 17> expected = {
      0,         0, INT32_MAX, INT32_MIN, INT32_MAX, 0x7fffff80, INT32_MIN, INT32_MIN, INT32_MAX,
      INT32_MIN, 0, 0,         0,         1,         -2,         0,         INT32_MAX};
  std::vector<float> values;
  for (int i = 0; i < 17; ++i) values.insert(values.end(), odd.begin(), odd.end());
  const Tensor x = Tensor::from({static_cast<std::int64_t>(values.size())}, std::span<const float>(values));
  const Graph graph = graph_of(Op::make(prim::convert_element_type, {{"new_dtype", i32}}), {x.type()});
  for (const VectorUnits each : units()) {
    const Tensor got = executor(each).run(graph, {x})[0];
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK_MESSAGE(got.data<std::int32_t>()[i] == expected[i % 17], values[i]);
  }
}

TEST_CASE("[integer vectors] large integers become the nearest floating numbers") {
  std::vector<std::int64_t> values;
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t power = std::int64_t{1} << bit;
    for (const std::int64_t near : {-1, 0, 1}) {
      for (const std::int64_t half : {std::int64_t{0}, power >> 53, power >> 54, (power >> 53) * 3}) {
        values.push_back(power + near + half);
        values.push_back(-(power + near + half));
      }
    }
  }
  values.insert(values.end(), {INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX - 511, INT64_MAX - 512});
  const Tensor x =
      Tensor::from({static_cast<std::int64_t>(values.size())}, std::span<const std::int64_t>(values));
  const Graph graph = graph_of(Op::make(prim::convert_element_type, {{"new_dtype", f64}}), {x.type()});
  for (const VectorUnits each : units()) {
    const Tensor got = executor(each).run(graph, {x})[0];
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK_MESSAGE(got.data<double>()[i] == static_cast<double>(values[i]), values[i]);
  }
}

TEST_CASE("[integer vectors] a chain of several dtypes is the reference's on any number of threads") {
  std::mt19937_64 random(2);
  for (const std::int64_t size : {5000, 70001}) {
    GraphBuilder g("chain");
    const Value x = g.input("x", {i32, {size}}), w = g.input("w", {i64, {size}});
    const Value y = g.input("y", {f32, {size}});
    const Value factor = ops::full(g, {i32, {size}}, Literal::scalar(i32, std::int64_t{-1640531527}));
    const Value hash = ops::logical_xor(ops::mul(x, factor), x);
    const Value scaled = ops::mul(ops::convert_element_type(ops::abs(hash), f32), y);
    const Value back = ops::convert_element_type(scaled, i32);
    const Value is_less = ops::lt(back, hash);
    const Value wide = ops::select_n(is_less, ops::neg(w), ops::mul(w, w));
    const Value far = ops::convert_element_type(wide, f64);
    const Graph graph = g.build({hash, scaled, back, is_less, wide, far});
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs()) inputs.push_back(integer_tensor(graph.type(id), random));
    const std::vector<Tensor> expected = reference().run(graph, inputs);
    for (const VectorUnits each : units()) {
      for (const int threads : {1, 2}) {
        const std::vector<Tensor> got = executor(each, threads).run(graph, inputs);
        for (std::size_t i = 0; i < got.size(); ++i)
          CHECK_MESSAGE(difference(got[i], expected[i], 0).empty(), i, " ",
                        difference(got[i], expected[i], 0));
      }
    }
  }
}

}  // namespace vector_integers_cases
