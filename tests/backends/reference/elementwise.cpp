// Element-wise kernels where two readings are possible, and against the C++ library and closed forms.
#include "reference/run.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;
using C = std::complex<double>;

constexpr std::int32_t least32 = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t least64 = std::numeric_limits<std::int64_t>::min();

}  // namespace

TEST_CASE("integers wrap") {
  CHECK(data_of("add", {row({2147483647, 5}), row({1, 6})}) == "[-2147483648, 11]");
  CHECK(data_of("sub", {row({least64}), row({std::int64_t{1}})}) == "[9223372036854775807]");
  CHECK(data_of("mul", {row({65537, -3}), row({65537, 4})}) == "[131073, -12]");
  CHECK(data_of("mul", {row({least64}), row({std::int64_t{-1}})}) == "[-9223372036854775808]");
  CHECK(data_of("neg", {row({least32, 4})}) == "[-2147483648, -4]");
  CHECK(data_of("abs", {row({least64, std::int64_t{-4}})}) == "[-9223372036854775808, 4]");
  CHECK(data_of("square", {row({65536, -7})}) == "[0, 49]");
  CHECK(data_of("integer_pow", {row({3, -2, 0})}, {{"y", 21}}) == "[1870418611, -2097152, 0]");
  CHECK(data_of("integer_pow", {row({3, 0})}, {{"y", 0}}) == "[1, 1]");
  CHECK(data_of("reduce_sum", {row({2147483647, 1})}, {{"axes", Ints{0}}}) == "[-2147483648]");
  CHECK(data_of("reduce_prod", {row({65536, 65537})}, {{"axes", Ints{0}}}) == "[65536]");
  CHECK(data_of("cumsum", {row({2147483647, 1})}, {{"axis", 0}, {"reverse", false}}) ==
        "[2147483647, -2147483648]");
}

TEST_CASE("integer division by zero gives -1, and the remainder the dividend") {
  CHECK(data_of("div", {row({7, -7, 7, least32, 5}), row({2, 2, -2, -1, 0})}) ==
        "[3, -3, -3, -2147483648, -1]");
  CHECK(data_of("rem", {row({7, -7, 7, least32, 5}), row({2, 2, -2, -1, 0})}) == "[1, -1, 1, 0, 5]");
  CHECK(data_of("div", {row({least64}), row({std::int64_t{-1}})}) == "[-9223372036854775808]");
  CHECK(data_of("rem", {row({7.5, -7.5, 1.0}), row({2.0, 2.0, 0.0})}) == "[1.5, -1.5, \"nan\"]");
}

TEST_CASE("conversions truncate, saturate, and turn NaN into 0") {
  const Tensor x = row({1.9, -1.9, 3e9, -3e9, not_a_number, inf, -inf});
  CHECK(data_of("convert_element_type", {x}, {{"new_dtype", i32}}) ==
        "[1, -1, 2147483647, -2147483648, 0, 2147483647, -2147483648]");
  CHECK(data_of("convert_element_type", {row({1e19, -1e19, not_a_number})}, {{"new_dtype", i64}}) ==
        "[9223372036854775807, -9223372036854775808, 0]");
  CHECK(data_of("convert_element_type", {row({0.0, -0.0, 0.5, not_a_number})}, {{"new_dtype", bool_}}) ==
        "[false, false, true, true]");
  CHECK(data_of("convert_element_type", {row({std::int64_t{4294967297}, least64})}, {{"new_dtype", i32}}) ==
        "[1, 0]");
  CHECK(data_of("convert_element_type", {row({true, false})}, {{"new_dtype", c64}}) ==
        "[[1.0, 0.0], [0.0, 0.0]]");
  CHECK(data_of("convert_element_type", {row({1e300, 1.0 / 3})}, {{"new_dtype", f32}}) ==
        "[\"inf\", 0.33333334]");
  CHECK(data_of("convert_element_type", {row({1.0 / 3, 65520.0})}, {{"new_dtype", f16}}) ==
        "[0.33325195, \"inf\"]");
  CHECK(data_of("convert_element_type", {row({1.0 / 3})}, {{"new_dtype", bf16}}) == "[0.33398438]");
  // To 16 bits once, too, not by way of f32.
  CHECK(data_of("convert_element_type", {row({65519.9999, 1 + 0x1p-11 + 0x1p-40})}, {{"new_dtype", f16}}) ==
        "[65504.0, 1.0009766]");
  // 2^60 + 2^36 + 1 lies just above the middle of two f32 numbers
  CHECK(data_of("convert_element_type", {row({(std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1})},
                {{"new_dtype", f32}}) == "[1.1529216e+18]");
}

TEST_CASE("max and min take NaN, clamp keeps within its bounds") {
  CHECK(data_of("max", {row({1.0, not_a_number, 3.0}), row({2.0, 1.0, not_a_number})}) ==
        "[2.0, \"nan\", \"nan\"]");
  CHECK(data_of("min", {row({1.0, not_a_number, 3.0}), row({2.0, 1.0, not_a_number})}) ==
        "[1.0, \"nan\", \"nan\"]");
  CHECK(data_of("max", {row({true, false}), row({false, false})}) == "[true, false]");
  CHECK(data_of("clamp", {Tensor::scalar(-1.0), row({-2.0, 0.5, 7.0, not_a_number}), Tensor::scalar(1.0)}) ==
        "[-1.0, 0.5, 1.0, \"nan\"]");
  CHECK(data_of("clamp", {row({0, 3}), row({5, 1}), row({4, 9})}) == "[4, 3]");
}

TEST_CASE("rounding") {
  const Tensor x = row({0.5, 1.5, -0.5, -2.5, 2.4});
  CHECK(data_of("round", {x}) == "[0.0, 2.0, -0.0, -2.0, 2.0]");
  CHECK(data_of("round", {x}, {{"rounding_method", "away_from_zero"}}) == "[1.0, 2.0, -1.0, -3.0, 2.0]");
  CHECK(data_of("floor", {x}) == "[0.0, 1.0, -1.0, -3.0, 2.0]");
  CHECK(data_of("ceil", {x}) == "[1.0, 2.0, -0.0, -2.0, 3.0]");
}

TEST_CASE("predicates, logic and comparisons") {
  CHECK(data_of("is_finite", {row({1.0, not_a_number, -inf})}) == "[true, false, false]");
  CHECK(data_of("not", {row({true, false})}) == "[false, true]");
  CHECK(data_of("not", {row({0, 5})}) == "[-1, -6]");
  CHECK(data_of("xor", {row({6, -1}), row({3, 1})}) == "[5, -2]");
  CHECK(data_of("and", {row({true, true}), row({true, false})}) == "[true, false]");
  CHECK(data_of("or", {row({4}), row({1})}) == "[5]");
  CHECK(data_of("eq", {row({not_a_number, 0.0}), row({not_a_number, -0.0})}) == "[false, true]");
  CHECK(data_of("ne", {row({C(1, 2), C(1, 2)}), row({C(1, 2), C(1, 3)})}) == "[false, true]");
  CHECK(data_of("lt", {row({1, 2, 3}), row({2, 2, 2})}) == "[true, false, false]");
  CHECK(data_of("le", {row({1, 2, 3}), row({2, 2, 2})}) == "[true, true, false]");
  CHECK(data_of("gt", {row({1.0, 2.0, not_a_number}), row({2.0, 1.0, 2.0})}) == "[false, true, false]");
  CHECK(data_of("ge", {row({true, false}), row({true, true})}) == "[true, false]");
}

TEST_CASE("select_n chooses by bool or by number") {
  CHECK(data_of("select_n", {row({true, false}), row({1.0, 2.0}), row({3.0, 4.0})}) == "[3.0, 2.0]");
  CHECK(data_of("select_n", {Tensor::scalar(false), row({1, 2}), row({3, 4})}) == "[1, 2]");
  CHECK(data_of("select_n", {row({2, 0, 1, 9, -9}), row({0, 1, 2, 3, 4}), row({10, 11, 12, 13, 14}),
                             row({20, 21, 22, 23, 24})}) == "[20, 1, 12, 23, 4]");
}

TEST_CASE("sign and abs") {
  CHECK(data_of("sign", {row({-0.0, 0.0, -7.0, inf, not_a_number})}) == "[-0.0, 0.0, -1.0, 1.0, \"nan\"]");
  CHECK(data_of("sign", {row({-3, 0, 3})}) == "[-1, 0, 1]");
  CHECK(data_of("sign", {row({C(3, -4), C(0, 0)})}) == "[[0.6, -0.8], [0.0, 0.0]]");
  CHECK(data_of("sign", {row({C(3e307, -4e307), C(3e-320, 0)})}) == "[[0.6, -0.8], [1.0, 0.0]]");
  CHECK(data_of("abs", {row({C(3, -4)})}) == "[5.0]");
  CHECK(data_of("abs", {row({-0.0})}) == "[0.0]");
}

TEST_CASE("nextafter steps by one unit of the dtype") {
  const float x32[] = {1.0F, -1.0F, 0.0F, 3.0F, std::numeric_limits<float>::max(), -1.0F, std::nanf("")};
  const float y32[] = {2.0F, 2.0F, -1.0F, 3.0F, std::numeric_limits<float>::infinity(), -2.0F, 1.0F};
  const Tensor got = run_op("nextafter", {Tensor::from<float>({7}, std::span<const float>(x32)),
                                          Tensor::from<float>({7}, std::span<const float>(y32))})[0];
  for (std::size_t i = 0; i < 6; ++i) CHECK(got.data<float>()[i] == std::nextafter(x32[i], y32[i]));
  CHECK(std::isnan(got.at(6).real()));
  const Tensor f64s = run_op("nextafter", {row({1.0, 0.5, -0.0}), row({0.0, 7.0, 0.0})})[0];
  CHECK(f64s.at(0) == std::nextafter(1.0, 0.0));
  CHECK(f64s.at(1) == std::nextafter(0.5, 7.0));
  CHECK_FALSE(std::signbit(f64s.at(2).real()));
  CHECK(run_op("nextafter", {Tensor::scalar(f16, 1.0), Tensor::scalar(f16, 2.0)})[0].at(0) ==
        1.0 + 1.0 / 1024);
  CHECK(run_op("nextafter", {Tensor::scalar(bf16, 1.0), Tensor::scalar(bf16, 0.0)})[0].at(0) ==
        1.0 - 1.0 / 256);
}

TEST_CASE("pow") {
  CHECK(data_of("pow", {row({0.0, 2.0, -8.0, -2.0}), row({0.0, 0.5, 1.0 / 3, 3.0})}) ==
        "[1.0, 1.4142135623730951, \"nan\", -8.0]");
  const Tensor z = run_op(
      "pow", {row({C(0, 0), C(0, 0), C(1, 2), C(-1, 0)}), row({C(0, 0), C(2, 1), C(3, 0), C(0.5, 0)})})[0];
  CHECK(z.at(0) == C(1));
  CHECK(z.at(1) == C(0));
  CHECK(close(z.at(2), C(-11, -2)));
  CHECK(close(z.at(3), C(0, 1)));
  CHECK(data_of("integer_pow", {row({2.0, -0.5, 0.0})}, {{"y", -2}}) == "[0.25, 4.0, \"inf\"]");
  CHECK(close(run_op("integer_pow", {row({C(1, 2)})}, {{"y", -3}})[0].at(0), 1.0 / C(-11, -2)));
}

TEST_CASE("complex numbers multiply by the formula, non-finite values included") {
  CHECK(data_of("mul", {row({C(1, 2)}), row({C(3, 4)})}) == "[[-5.0, 10.0]]");
  CHECK(data_of("mul", {row({C(inf, 0)}), row({C(1, 0)})}) == "[[\"inf\", \"nan\"]]");
  CHECK(data_of("conj", {row({C(1, 2)})}) == "[[1.0, -2.0]]");
  CHECK(data_of("real", {row({C(1, 2)})}) == "[1.0]");
  CHECK(data_of("imag", {row({std::complex<float>(1, 2)})}) == "[2.0]");
  CHECK(data_of("complex", {row({1.0F}), row({2.0F})}) == "[[1.0, 2.0]]");
}

TEST_CASE("16-bit numbers are computed in wider ones and rounded") {
  CHECK(data_of("add", {Tensor::scalar(f16, 1.0), Tensor::scalar(f16, 1.0 / 4096)}) == "[1.0]");
  CHECK(data_of("mul", {Tensor::scalar(bf16, 3.0), Tensor::scalar(bf16, 1.5)}) == "[4.5]");
  CHECK(data_of("exp", {Tensor::scalar(f16, 12.0)}) == "[\"inf\"]");
}

TEST_CASE("constants") {
  const double values[] = {1.5, not_a_number};
  CHECK(data_of("constant", {}, {{"value", Literal::of(Type(f64, {2}), std::span<const double>(values))}}) ==
        "[1.5, \"nan\"]");
  CHECK(data_of("full", {},
                {{"value", Literal::scalar(i32, std::int64_t{7})}, {"dtype", i32}, {"shape", Ints{3}}}) ==
        "[7, 7, 7]");
  CHECK(data_of("iota", {}, {{"dtype", i32}, {"shape", Ints{2, 2}}, {"dimension", 0}}) == "[0, 0, 1, 1]");
  CHECK(data_of("iota", {}, {{"dtype", c64}, {"shape", Ints{2, 2}}, {"dimension", 1}}) ==
        "[[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]");
}
