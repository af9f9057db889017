// The element-wise kernels against the reference interpreter: every primitive, dtype and some shapes, empty
// ones and scalars among them.
#include "tidu/primitives/elementwise.hpp"
#include "cpu/compare.hpp"
#include "support/midpoints.hpp"
#include "support/support.hpp"
#include "tidu/primitives/structural.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

struct Row {
  const Primitive* primitive;
  Domain domain;
  Attributes attributes = {};
};

std::vector<Row> rows() {
  using namespace prim;
  return {{&neg, {}},
          {&prim::abs, {}},
          {&sign, {}},
          {&prim::floor, {}},
          {&prim::ceil, {}},
          {&prim::round, {}, {{"rounding_method", "to_nearest_even"}}},
          {&prim::round, {}, {{"rounding_method", "away_from_zero"}}},
          {&prim::exp, {}},
          {&prim::exp2, {}},
          {&prim::expm1, {}},
          {&prim::log, {0.01, 3}},
          {&prim::log1p, {-0.9, 3}},
          {&prim::sqrt, {0, 3}},
          {&rsqrt, {0.1, 3}},
          {&prim::cbrt, {}},
          {&prim::sin, {}},
          {&prim::cos, {}},
          {&prim::tan, {-1, 1}},
          {&prim::asin, {-0.9, 0.9}},
          {&prim::acos, {-0.9, 0.9}},
          {&prim::atan, {}},
          {&prim::sinh, {}},
          {&prim::cosh, {}},
          {&prim::tanh, {}},
          {&prim::asinh, {}},
          {&prim::acosh, {1.1, 3}},
          {&prim::atanh, {-0.9, 0.9}},
          {&logistic, {-9, 9}},
          {&prim::erf, {}},
          {&prim::erfc, {}},
          {&erf_inv, {-0.99, 0.99}},
          {&prim::lgamma, {0.1, 6}},
          {&digamma, {0.5, 6}},
          {&polygamma, {0.5, 6}, {{"m", 1}}},
          {&polygamma, {0.5, 6}, {{"m", 3}}},
          {&square, {}},
          {&reciprocal, {0.2, 2}},
          {&is_finite, {-2, 2, true}},
          {&not_, {}},
          {&integer_pow, {0.3, 2}, {{"y", 5}}},
          {&integer_pow, {0.5, 2}, {{"y", -3}}},
          {&integer_pow, {}, {{"y", 0}}},
          {&real, {}},
          {&imag, {}},
          {&conj, {}},
          {&prim::complex, {}},
          {&add, {}},
          {&sub, {}},
          {&mul, {}},
          {&prim::div, {0.2, 3}},
          {&multiply_no_nan, {}},
          {&divide_no_nan, {0.2, 3}},
          {&prim::pow, {0.2, 2}},
          {&max, {}},
          {&min, {}},
          {&prim::atan2, {}},
          {&rem, {0.5, 9}},
          {&prim::nextafter, {}},
          {&and_, {-9, 9}},
          {&or_, {-9, 9}},
          {&xor_, {-9, 9}},
          {&eq, {0, 2}},
          {&ne, {0, 2}},
          {&lt, {0, 2}},
          {&le, {0, 2}},
          {&gt, {0, 2}},
          {&ge, {0, 2}}};
}

// Does the type rule take operands of this dtype?
bool takes(const Op& op, DType dtype) {
  const std::vector<Type> operands(static_cast<std::size_t>(op.primitive().arity), Type(dtype, {2}));
  return detail::capture([&] { return infer_types(op, operands).size(); }).has_value();
}

}  // namespace

TEST_CASE("every element-wise kernel agrees with the reference") {
  std::mt19937_64 random(1);
  for (const Row& row : rows()) {
    const Op op = Op::make(*row.primitive, row.attributes);
    int dtypes = 0;
    for (const DType dtype : every_dtype) {
      if (!takes(op, dtype)) continue;
      ++dtypes;
      CHECK_MESSAGE(cpu().supports(*row.primitive, dtype), row.primitive->name, " ", to_string(dtype));
      for (const Shape& shape : some_shapes()) {
        const bool threads = shape == Shape{40000};
        if (shortened() && threads && dtype != f32) continue;
        const std::vector<Type> operands(static_cast<std::size_t>(op.primitive().arity), Type(dtype, shape));
        check_operation(op, operands, {row.domain}, random);
      }
    }
    CHECK_MESSAGE(dtypes > 0, row.primitive->name);
  }
  finish_checks();
}

TEST_CASE("NaN, infinities, zeros of either sign and extreme integers") {
  std::mt19937_64 random(2);
  using namespace prim;
  for (const Primitive* primitive : {&neg,
                                     &prim::abs,
                                     &sign,
                                     &prim::floor,
                                     &prim::ceil,
                                     &prim::exp,
                                     &prim::log,
                                     &prim::sqrt,
                                     &prim::sin,
                                     &prim::tanh,
                                     &logistic,
                                     &add,
                                     &sub,
                                     &mul,
                                     &prim::div,
                                     &max,
                                     &min,
                                     &rem,
                                     &prim::atan2,
                                     &eq,
                                     &ne,
                                     &lt,
                                     &ge,
                                     &square,
                                     &reciprocal,
                                     &prim::nextafter,
                                     &multiply_no_nan,
                                     &divide_no_nan}) {
    const Op op = Op::make(*primitive);
    for (const DType dtype : {i32, i64, f32, f64}) {
      if (!takes(op, dtype)) continue;
      for (const Shape& shape : {Shape{}, Shape{300}}) {
        for (int repeat = 0; repeat < (shape.empty() ? 30 : 1); ++repeat) {
          check_operation(op,
                          std::vector<Type>(static_cast<std::size_t>(primitive->arity), Type(dtype, shape)),
                          {{-2, 2, true}}, random);
        }
      }
    }
  }
  finish_checks();
}

TEST_CASE("conversions between all dtypes, saturating") {
  std::mt19937_64 random(3);
  for (const DType from : every_dtype) {
    for (const DType to : every_dtype) {
      const Op op = Op::make(prim::convert_element_type, {{"new_dtype", to}});
      if (!takes(op, from)) continue;
      for (const Shape& shape : {Shape{}, Shape{9}, Shape{0}})
        check_operation(op, {Type(from, shape)}, {{-300, 300}}, random);
      if (is_floating(from)) check_operation(op, {Type(from, {200})}, {{-1e20, 1e20, true}}, random);
    }
  }
  finish_checks();
}

TEST_CASE("numbers that become 16 bits are rounded once") {
  const auto check = [](DType dtype, const Midpoints& all) {
    GraphBuilder g("narrow");
    const Value x = g.input("x", all.numbers.type());
    const Graph graph = g.build({ops::convert_element_type(x, dtype)});
    for (const bool vectors : {true, false}) {
      CpuOptions options;
      if (!vectors) options.vector_units = VectorUnits::none;
      CHECK(count_wrong(cpu().with_options(options).run(graph, std::span(&all.numbers, 1))[0], all.bits) ==
            0);
    }
    CHECK(count_wrong(reference().run(graph, std::span(&all.numbers, 1))[0], all.bits) == 0);
  };
  for (const DType dtype : {f16, bf16}) {
    const Midpoints real = midpoints_of<double>(dtype);
    REQUIRE(real.bits.size() > 180000);
    check(dtype, real);
    check(dtype, midpoints_of<std::int32_t>(dtype));
    check(dtype, midpoints_of<std::int64_t>(dtype));
  }
  GraphBuilder g("count");
  constexpr std::int64_t beyond = (1 << 24) + (1 << 16) + 1;  // the middle of two, and one more
  const Value counted = ops::iota(g, Type(bf16, {beyond + 1}), 0);
  const Graph graph = g.build({ops::slice(counted, {beyond}, {beyond + 1}, {1})});
  CHECK(cpu().run(graph, std::span<const Tensor>{})[0].at(0) == 16908288.0);
}

TEST_CASE("select_n and clamp") {
  std::mt19937_64 random(4);
  for (const DType dtype : every_dtype) {
    for (const Shape& shape : some_shapes()) {
      const Type type(dtype, shape);
      for (const Shape& which : {Shape{}, shape}) {
        check_operation(Op::make(prim::select_n), {Type(bool_, which), type, type}, {{}}, random);
        check_operation(Op::make(prim::select_n), {Type(i32, which), type, type, type}, {{0, 2}}, random);
        check_operation(Op::make(prim::select_n), {Type(i32, which), type}, {{0, 0}}, random);
        if (is_complex(dtype) || is_bool(dtype)) continue;
        for (const Shape& high : {Shape{}, shape}) {
          check_operation(Op::make(prim::clamp), {Type(dtype, which), type, Type(dtype, high)},
                          {{-3, -1}, {-4, 4}, {1, 3}}, random);
        }
      }
    }
  }
  finish_checks();
}

TEST_CASE("constants") {
  std::mt19937_64 random(5);
  for (const DType dtype : every_dtype) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0}, Shape{2, 3, 4}, Shape{30000}}) {
      const Type type(dtype, shape);
      const Literal literal = random_tensor(type, {}, random).to_literal();
      check_operation(Op::make(prim::constant, {{"value", literal}}), {}, {{}}, random);
      const Literal scalar = Literal::scalar(dtype, is_bool(dtype) || is_integer(dtype) ? 1.0 : -1.5);
      check_operation(Op::make(prim::full, {{"value", scalar}, {"dtype", dtype}, {"shape", shape}}), {}, {{}},
                      random);
      for (std::size_t axis = 0; axis < shape.size() && !is_bool(dtype); ++axis) {
        if (shape == Shape{30000} && size_of(dtype) == 2) continue;
        check_operation(
            Op::make(prim::iota, {{"dtype", dtype}, {"shape", shape}, {"dimension", static_cast<int>(axis)}}),
            {}, {{}}, random);
      }
    }
  }
  finish_checks();
}
