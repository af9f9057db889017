// Tensors as JSON: the layout of numbers, exact round trips, and errors.
#include <doctest/doctest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "support/printable.hpp"
#include "tidu/tensor/json.hpp"

namespace {

using namespace tidu;

template <class T>
std::string number(T value) {
  std::string out;
  append_json_element(out, dtype_of<T>(), reinterpret_cast<const std::byte*>(&value));
  return out;
}

void refused(const std::string& text, const char* said) {
  CAPTURE(text);
  const auto result = try_tensor_from_json(text);
  REQUIRE_FALSE(result);
  CHECK(result.error().kind() == ErrorKind::dump);
  CHECK(std::string(result.error().what()).find(said) != std::string::npos);
}

template <class Bits, class T>
void round_trips(int count) {
  std::mt19937_64 random(3);
  std::vector<T> values;
  while (values.size() < static_cast<std::size_t>(count)) {
    const T value = std::bit_cast<T>(static_cast<Bits>(random()));
    if (std::isfinite(value)) values.push_back(value);
  }
  const Tensor tensor = Tensor::from<T>({count}, std::span<const T>(values));
  const Tensor read = tensor_from_json(to_json(tensor));
  CHECK(read.type() == tensor.type());
  CHECK(std::memcmp(read.bytes(), tensor.bytes(), tensor.num_bytes()) == 0);
}

}  // namespace

TEST_CASE("numbers are laid out as Python's repr lays them out") {
  CHECK(number(1.0) == "1.0");
  CHECK(number(-0.0) == "-0.0");
  CHECK(number(0.1) == "0.1");
  CHECK(number(1e-4) == "0.0001");
  CHECK(number(1.25e-4) == "0.000125");
  CHECK(number(1e-5) == "1e-05");
  CHECK(number(-1.5e-300) == "-1.5e-300");
  CHECK(number(1e15) == "1000000000000000.0");
  CHECK(number(123456789012345680.0) == "1.2345678901234568e+17");
  CHECK(number(1e16) == "1e+16");
  CHECK(number(9007199254740993.0) == "9007199254740992.0");
  CHECK(number(12.5) == "12.5");
  CHECK(number(5e-324) == "5e-324");
  CHECK(number(0.1F) == "0.1");
  CHECK(number(16777216.0F) == "16777216.0");
  CHECK(number(std::numeric_limits<float>::max()) == "3.4028235e+38");
  CHECK(number(std::numeric_limits<double>::infinity()) == "\"inf\"");
  CHECK(number(-std::numeric_limits<float>::infinity()) == "\"-inf\"");
  CHECK(number(std::nan("")) == "\"nan\"");
  CHECK(number(std::complex<double>(1.0, -0.0)) == "[1.0, -0.0]");
  CHECK(number(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
  CHECK(number(true) == "true");
}

TEST_CASE("tensors of every dtype are written on one line and read back") {
  CHECK(to_json(Tensor::from<double>({2, 1}, {1.5, std::nan("")})) ==
        R"({"dtype": "f64", "shape": [2, 1], "data": [1.5, "nan"]})");
  CHECK(to_json(Tensor::scalar(7)) == R"({"dtype": "i32", "shape": [], "data": [7]})");
  for (const char* text : {
           R"({"dtype": "bool", "shape": [2], "data": [true, false]})",
           R"({"dtype": "i32", "shape": [2], "data": [-2147483648, 2147483647]})",
           R"({"dtype": "i64", "shape": [2], "data": [-9223372036854775808, 9223372036854775807]})",
           R"({"dtype": "f16", "shape": [4], "data": [0.5, -65504.0, "inf", 5.9604645e-08]})",
           R"({"dtype": "bf16", "shape": [2], "data": [-3.3895314e+38, "nan"]})",
           R"({"dtype": "f32", "shape": [1, 3], "data": [0.1, 1e-45, "-inf"]})",
           R"({"dtype": "f64", "shape": [0, 3], "data": []})",
           R"({"dtype": "c64", "shape": [1], "data": [[0.1, "nan"]]})",
           R"({"dtype": "c128", "shape": [], "data": [["-inf", -0.0]]})",
       }) {
    CHECK(to_json(tensor_from_json(text)) == text);
    CHECK(to_json(literal_from_json(text)) == text);
  }
  CHECK(tensor_from_json("{\"shape\":[ ],\n \"data\":[3],\"dtype\":\"f64\"}").at(0) == 3.0);
}

TEST_CASE("floating numbers round-trip exactly") {
  round_trips<std::uint64_t, double>(20000);
  round_trips<std::uint32_t, float>(200000);
  // decimals that lie between two f32 numbers once they are rounded to f64
  for (const char* text : {"7.038531e-26", "-7.038531e-26"}) {
    float want = 0;
    std::from_chars(text, text + std::strlen(text), want);
    CHECK(tensor_from_json(std::string(R"({"dtype": "f32", "shape": [], "data": [)") + text + "]}")
              .item<float>() == want);
    CHECK(number(want) == text);
  }
}

TEST_CASE("a number between two of f32 is read as the nearest one, the even one of two that are as near") {
  const auto read = [](const char* text) {
    return tensor_from_json(std::string(R"({"dtype": "f32", "shape": [1], "data": [)") + text + "]}")
        .at(0)
        .real();
  };
  CHECK(read("1.000000059604644775390625") == 1.0);
  CHECK(read("1.00000005960464477539062500000000000001") == 1.0 + 0x1p-23);
  CHECK(read("1.000000059604644775390624999999999999") == 1.0);
  CHECK(read("1.000000178813934326171875") == 1.0 + 0x1p-22);
  CHECK(read("1.00000017881393432617187499999999999") == 1.0 + 0x1p-23);
  CHECK(read("-1.000000059604644775390625") == -1.0);
  CHECK(read("9007199791611905") == 0x1p53 + 0x1p30);  // its f64 is midway
}

TEST_CASE("numbers of 16 bits are rounded once") {
  const auto read = [](const char* dtype, const char* text) {
    return tensor_from_json(std::string(R"({"dtype": ")") + dtype + R"(", "shape": [1], "data": [)" + text +
                            "]}")
        .at(0)
        .real();
  };
  CHECK(read("f16", "65519.9999") == 65504.0);
  CHECK(read("f16", "-65519.99999999999") == -65504.0);
  CHECK(read("f16", "1.000488282185") == 1.0 + 0x1p-10);
  CHECK(read("f16", "1.00048828125") == 1.0);
  CHECK(read("f16", "1.00146484375") == 1.0 + 0x1p-9);
  CHECK(read("f16", "2.9802322387695316e-08") == 0x1p-24);  // beside half the least subnormal
  CHECK(read("f16", "2.9802322387695312e-08") == 0.0);
  CHECK(read("bf16", "1.00390625000001") == 1.0 + 0x1p-7);
  CHECK(read("bf16", "1.00390625") == 1.0);
  CHECK(read("bf16", "1e-60") == 0.0);
  CHECK(Literal::scalar(DType::f16, 65519.9999).at(0) == 65504.0);
  CHECK(Literal::scalar(DType::f16, 1e300).at(0) == std::numeric_limits<double>::infinity());
  CHECK(Literal::scalar(DType::bf16, -1.00390625000001).at(0) == -1.0 - 0x1p-7);
  CHECK(std::isnan(Literal::scalar(DType::bf16, std::nan("")).at(0).real()));
}

TEST_CASE("a zero keeps its sign in floating data, and has none in integers") {
  for (const char* dtype : {"f16", "bf16", "f32", "f64"}) {
    CAPTURE(dtype);
    const Tensor read = tensor_from_json(std::string(R"({"dtype": ")") + dtype +
                                         R"(", "shape": [4], "data": [-0, -0.0, 0, 0.0]})");
    for (std::int64_t i = 0; i < 4; ++i) CHECK(std::signbit(read.at(i).real()) == (i < 2));
  }
  const auto z = tensor_from_json(R"({"dtype": "c64", "shape": [], "data": [[-0, 0]]})").at(0);
  CHECK(std::signbit(z.real()));
  CHECK_FALSE(std::signbit(z.imag()));
  CHECK(to_json(tensor_from_json(R"({"dtype": "i32", "shape": [], "data": [-0]})")) ==
        R"({"dtype": "i32", "shape": [], "data": [0]})");
}

TEST_CASE("data in nested arrays is read as its flat form") {
  const auto same = [](const std::string& dtype, const std::string& shape, const std::string& nested,
                       const std::string& flat) {
    const auto read = [&](const std::string& data) {
      return to_json(tensor_from_json("{\"dtype\": \"" + dtype + "\", \"shape\": " + shape +
                                      ", \"data\": " + data + "}"));
    };
    CHECK(read(nested) == read(flat));
  };
  same("f64", "[2, 2]", "[[1, 2], [3, 4]]", "[1, 2, 3, 4]");
  same("f32", "[2, 1, 3]", "[[[1, \"nan\", 3]], [[4, 5, \"-inf\"]]]", "[1, \"nan\", 3, 4, 5, \"-inf\"]");
  same("bool", "[1, 2]", "[[true, false]]", "[true, false]");
  same("i64", "[2, 0]", "[[], []]", "[]");
  same("c128", "[2, 2]", "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]", "[[1, 2], [3, 4], [5, 6], [7, 8]]");
  same("c64", "[2, 0]", "[[], []]", "[]");
  // Two complex numbers, which are no nested arrays.
  CHECK(tensor_from_json(R"({"dtype": "c128", "shape": [2], "data": [[1, 2], [3, 4]]})").at(1) ==
        std::complex<double>(3, 4));
}

TEST_CASE("nested data that is ragged or of another shape is refused") {
  const auto says = [](const std::string& dtype, const std::string& shape, const std::string& data,
                       const std::string& message) {
    const auto result = try_tensor_from_json("{\"dtype\": \"" + dtype + "\", \"shape\": " + shape +
                                             ", \"data\": " + data + "}");
    REQUIRE_FALSE(result);
    CHECK(result.error().kind() == ErrorKind::dump);
    CHECK(std::string(result.error().what()) == message);
  };
  says("f64", "[2, 2]", "[[1, 2], [3]]",
       "expected data[1] to be an array of 2 for shape [2,2], got an array of 1");
  says("f64", "[2, 2]", "[[1, 2], 3]", "expected data[1] to be an array of 2 for shape [2,2], got 3");
  says("f64", "[3, 2]", "[[1, 2, 3], [4, 5, 6]]",
       "expected data to be an array of 3 for shape [3,2], got an array of 2");
  says("f64", "[2, 3]", "[[1, 2], [3, 4], [5, 6]]",
       "expected data to be an array of 2 for shape [2,3], got an array of 3");
  says("f64", "[4]", "[[1, 2], [3, 4]]",
       "expected data to be an array of 4 for shape [4], got an array of 2");
  says("f64", "[2]", "[[1, 2], [3, 4]]",
       "expected data[0] to be an element for shape [2], got an array of 2");
  says("f64", "[]", "[[1]]", "expected data to be an element for shape [], got an array of 1");
  says("c64", "[2]", "[[[1, 2]], [[3, 4]]]",
       "expected data[0] to be an element for shape [2], got an array of 1");
  says("f64", "[1, 2]", "[[1, \"x\"]]",
       "data[0][1]: expected a number, \"nan\", \"inf\" or \"-inf\" for f64, got \"x\"");
  says("i32", "[1, 2]", "[[1, 2.5]]", "data[0][1]: expected an integer in the range of i32, got 2.5");
}

TEST_CASE("tensors that do not fit are refused with a typed error") {
  std::string many_characters = "\"";
  for (int i = 0; i < 100; ++i) many_characters += "\xe6\xa2\xaf";
  many_characters += '"';
  refused("{", "expected JSON");
  refused("{\n\"a\": 1,}", "in line 2, column 8");
  refused(R"({"dtype": "f64", "shape": [], "data": [1], "data": [2]})",
          "\"data\" of a tensor is given twice");
  const std::string good = R"({"dtype": "f64", "shape": [], "data": [1]})";
  refused((good + std::string("\0{}", 3)), "in line 1, column 43: a NUL byte");
  refused((good + std::string("\0", 1)), "a NUL byte");
  refused("[1]", "expected a tensor");
  refused(R"({"dtype": "f64", "shape": []})", "\"data\"");
  refused(R"({"dtype": "f64", "shape": [], "data": [1], "name": "x"})", "\"name\"");
  refused(R"({"dtype": "f80", "shape": [], "data": [1]})", "expected a dtype, got \"f80\"");
  refused(R"({"dtype": 3, "shape": [], "data": [1]})", "expected a dtype, got 3");
  refused(R"({"dtype": "f64", "shape": [2], "data": [1]})", "expected 2 elements");
  refused(R"({"dtype": "f64", "shape": [-2], "data": [1]})", "expected extents >= 0, got shape [-2]");
  refused(R"({"dtype": "f64", "shape": [2.0], "data": [1, 2]})", "an extent to be an integer, got 2.0");
  refused(R"({"dtype": "i32", "shape": [1], "data": [1e3]})", "range of i32, got 1000.0");
  // Messages are short, and cut between characters.
  refused(R"({"dtype": "f64", "shape": [1], "data": [1e400]})", "in line 1, column 45: number overflow");
  for (const std::string& text :
       {R"({"dtype": "f64", "shape": [1], "data": [)" + std::string(100000, '9') + "]}",
        "\"" + std::string(1000, 'x') + "\xc3\xa4\xff",
        R"({"dtype": "f64", "shape": [1], "data": [)" + many_characters + "]}"}) {
    const auto result = try_tensor_from_json(text);
    REQUIRE_FALSE(result);
    const std::string said = result.error().what();
    CHECK(said.size() < 400);
    CHECK_NOTHROW((void)nlohmann::json(said).dump());
  }
  refused(R"({"dtype": "f64", "shape": [4611686018427387904, 4611686018427387904], "data": []})", "2^62");
  refused(R"({"dtype": "f64", "shape": [9223372036854775807], "data": []})", "2^62");
  refused(R"({"dtype": "f64", "shape": 2, "data": [1, 2]})", "\"shape\"");
  refused(R"({"dtype": "f64", "shape": [2], "data": [1, true]})", "element 1");
  refused(R"({"dtype": "f64", "shape": [1], "data": ["infinity"]})", "infinity");
  refused(R"({"dtype": "f64", "shape": [1], "data": [[1, 2]]})", "array");
  refused(R"({"dtype": "f64", "shape": [1], "data": [1e999]})", "expected JSON");
  refused(R"({"dtype": "f32", "shape": [1], "data": [1e39]})", "range of f32");
  refused(R"({"dtype": "f16", "shape": [1], "data": [1e5]})", "range of f16");
  refused(R"({"dtype": "i32", "shape": [1], "data": [2147483648]})", "range of i32");
  refused(R"({"dtype": "i32", "shape": [1], "data": [1.0]})", "range of i32");
  refused(R"({"dtype": "i64", "shape": [1], "data": [9223372036854775808]})", "range of i64");
  refused(R"({"dtype": "bool", "shape": [1], "data": [1]})", "true or false");
  refused(R"({"dtype": "c128", "shape": [1], "data": [1]})", "[re, im]");
  refused(R"({"dtype": "c128", "shape": [1], "data": [[1, 2, 3]]})", "[re, im]");
}

TEST_CASE("messages of refused tensors are printable, whatever stands in any place of them") {
  constexpr std::string_view places[] = {"@",
                                         "{@: 1}",
                                         R"({"dtype": @, "shape": [], "data": [1]})",
                                         R"({"dtype": "f64", "shape": @, "data": [1]})",
                                         R"({"dtype": "f64", "shape": [@], "data": [1]})",
                                         R"({"dtype": "f64", "shape": [], "data": @})",
                                         R"({"dtype": "f64", "shape": [], "data": [@]})",
                                         R"({"dtype": "i32", "shape": [], "data": [@]})",
                                         R"({"dtype": "bool", "shape": [], "data": [@]})",
                                         R"({"dtype": "c64", "shape": [], "data": [@]})",
                                         R"({"dtype": "c64", "shape": [], "data": [[1, @]]})"};
  const auto refused_printably = [](const std::string& text) {
    const auto result = try_tensor_from_json(text);
    REQUIRE_FALSE(result);
    CHECK_MESSAGE(test::is_printable(result.error().what()), text);
  };
  for (const std::string_view place : places) {
    const std::size_t at = place.find('@');
    for (const std::string& text : test::awkward_texts(50, 62)) {
      std::string dump(place);
      refused_printably(dump.replace(
          at, 1, nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
      refused_printably(std::string(place).replace(at, 1, '"' + text));  // as it is, and not closed
    }
  }
}
