// literal.cpp - scalars of every dtype from numbers.
#include "tidu/graph/literal.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string_view>

#include "tidu/graph/literal_json.hpp"
#include "tidu/primitives/elementwise.hpp"

using namespace tidu;

TEST_CASE("floating numbers as integers truncate and saturate, as convert_element_type does") {
  const auto as_i32 = [](double value) { return Literal::scalar(i32, value).data<std::int32_t>()[0]; };
  const auto as_i64 = [](double value) { return Literal::scalar(i64, value).data<std::int64_t>()[0]; };
  CHECK(as_i32(-7.9) == -7);
  CHECK(as_i32(2147483647.5) == 2147483647);
  CHECK(as_i32(2147483648.0) == 2147483647);
  CHECK(as_i32(-2147483648.5) == std::numeric_limits<std::int32_t>::min());
  CHECK(as_i32(-INFINITY) == std::numeric_limits<std::int32_t>::min());
  CHECK(as_i32(NAN) == 0);
  CHECK(as_i64(0x1p62) == std::int64_t{1} << 62);
  CHECK(as_i64(0x1p63) == std::numeric_limits<std::int64_t>::max());
  CHECK(as_i64(-1e300) == std::numeric_limits<std::int64_t>::min());
  CHECK(as_i64(NAN) == 0);
}

TEST_CASE("a whole number keeps its last bit, and shows it") {
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  const Literal scalar = Literal::scalar(i64, odd);
  CHECK(scalar.data<std::int64_t>()[0] == odd);
  std::ostringstream out;
  out << Op::make(prim::constant, {{"value", scalar}});
  CHECK(out.str().find("9007199254740993") != std::string::npos);
}

TEST_CASE("try_literal_from_json returns the tensor, or an error that names its fault") {
  const Result<Literal> read =
      try_literal_from_json(R"({"dtype": "f64", "shape": [2], "data": [1.5, "-inf"]})");
  REQUIRE(read.has_value());
  CHECK(read.value().type() == Type(f64, {2}));
  CHECK(read.value().at(0).real() == 1.5);
  CHECK(read.value().at(1).real() == -INFINITY);
  const auto refused = [](const char* text, const char* why) {
    const Result<Literal> result = try_literal_from_json(text);
    return !result.has_value() && result.error().kind() == ErrorKind::dump &&
           std::string_view(result.error().what()).find(why) != std::string_view::npos;
  };
  CHECK(refused("", "JSON"));
  CHECK(refused(R"({"dtype": "f64", "shape": [2], "data": [1.5]})", "2"));
  CHECK(refused(R"({"dtype": "f65", "shape": [], "data": [1.5]})", "f65"));
  CHECK(refused(R"({"dtype": "i32", "shape": [], "data": [1.5]})", "1.5"));
  CHECK(refused(R"({"dtype": "f64", "shape": []})", "data"));
}
