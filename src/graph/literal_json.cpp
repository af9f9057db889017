// literal_json.cpp - writing and reading tensors as JSON. Numbers are written by std::to_chars, which finds
// the shortest digits, and laid out as Python's repr does; a number must be in the range of its dtype.
#include "tidu/graph/literal_json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "graph/json_unknown.hpp"
#include "graph/literal_json_impl.hpp"
#include "graph/nearest.hpp"

namespace tidu {
namespace {

using detail::JsonTape;
using Index = JsonTape::Index;
using Kind = JsonTape::Kind;

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorKind::dump, message); }

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <class T>
void store(std::byte* bytes, T value) {
  std::memcpy(bytes, &value, sizeof(T));
}

template <class T>
void append_integer(std::string& out, T value) {
  char text[24];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

// "d.ddde±xx" as to_chars gives it becomes plain digits where -4 <= exponent < 16, as in Python.
template <class T>
void append_number(std::string& out, T value) {
  if (std::isnan(value)) {
    out += "\"nan\"";
    return;
  }
  if (std::isinf(value)) {
    out += value > 0 ? "\"inf\"" : "\"-inf\"";
    return;
  }
  char text[48];
  const char* const end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  const char* at = text;
  if (*at == '-') {
    out += '-';
    ++at;
  }
  const char* const mark = static_cast<const char*>(std::memchr(at, 'e', static_cast<std::size_t>(end - at)));
  int exponent = 0;
  std::from_chars(mark[1] == '+' ? mark + 2 : mark + 1, end, exponent);
  if (exponent < -4 || exponent >= 16) {
    out.append(at, end);
    return;
  }
  std::string digits(1, *at);
  if (mark - at > 2) digits.append(at + 2, mark);
  if (exponent < 0) {
    out += "0.";
    out.append(static_cast<std::size_t>(-exponent - 1), '0');
    out += digits;
    return;
  }
  const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() < whole + 1) digits.append(whole + 1 - digits.size(), '0');
  out.append(digits, 0, whole);
  out += '.';
  out.append(digits, whole);
}

template <class T>
void append_complex(std::string& out, std::complex<T> value) {
  out += '[';
  append_number(out, value.real());
  out += ", ";
  append_number(out, value.imag());
  out += ']';
}

std::int64_t integer(const JsonTape& tape, Index element, DType dtype, std::int64_t least,
                     std::int64_t most) {
  if (tape.kind(element) == Kind::integer && tape.integer(element) >= least &&
      tape.integer(element) <= most) {
    return tape.integer(element);
  }
  refuse(detail::str("expected an integer in the range of ", dtype, ", got ", tape.shown(element)));
}

template <class T>
T quiet_nan_or_infinity(const JsonTape& tape, Index element, DType dtype) {
  if (tape.kind(element) == Kind::string) {
    const std::string_view text = tape.string(element);
    if (text == "nan") return std::numeric_limits<T>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<T>::infinity();
    if (text == "-inf") return -std::numeric_limits<T>::infinity();
  }
  refuse(detail::str("expected a number, \"nan\", \"inf\" or \"-inf\" for ", dtype, ", got ",
                     tape.shown(element)));
}

// `beyond` is the least number that is too large for the dtype. f32 is parsed from the text: rounding to f64
// first can lead to the wrong side.
template <class T>
T number(const JsonTape& tape, Index element, DType dtype, double beyond) {
  if (!tape.is_number(element)) return quiet_nan_or_infinity<T>(tape, element, dtype);
  const double value = tape.as_double(element);
  if (std::abs(value) >= beyond)
    refuse(detail::str("expected a number in the range of ", dtype, ", got ", tape.shown(element)));
  if constexpr (std::is_same_v<T, float>) {
    return tape.as_float(element);
  } else {
    return value;
  }
}

// Half an ulp above the largest finite number of each dtype: from there on a number rounds to infinity.
constexpr double beyond_f16 = 65520.0;
constexpr double beyond_bf16 = 0x1.ffp127;
constexpr double beyond_f32 = 0x1.ffffffp127;
constexpr double beyond_f64 = std::numeric_limits<double>::infinity();

template <class T>
std::complex<T> complex_number(const JsonTape& tape, Index element, DType dtype, double beyond) {
  if (tape.kind(element) != Kind::array || tape.count(element) != 2) {
    refuse(detail::str("expected [re, im] for ", dtype, ", got ", tape.shown(element)));
  }
  const Index real = JsonTape::first(element);
  return {number<T>(tape, real, dtype, beyond), number<T>(tape, tape.next(real), dtype, beyond)};
}

void read_element(const JsonTape& tape, Index element, DType dtype, std::byte* out) {
  using I32 = std::numeric_limits<std::int32_t>;
  using I64 = std::numeric_limits<std::int64_t>;
  switch (dtype) {
    case DType::boolean:
      if (tape.kind(element) != Kind::boolean)
        refuse(detail::str("expected true or false, got ", tape.shown(element)));
      return store(out, static_cast<std::uint8_t>(tape.boolean(element) ? 1 : 0));
    case DType::i32:
      return store(out, static_cast<std::int32_t>(integer(tape, element, dtype, I32::min(), I32::max())));
    case DType::i64: return store(out, integer(tape, element, dtype, I64::min(), I64::max()));
    case DType::f16: return store(out, double_to_half(number<double>(tape, element, dtype, beyond_f16)));
    case DType::bf16:
      return store(out, double_to_bfloat16(number<double>(tape, element, dtype, beyond_bf16)));
    case DType::f32: return store(out, number<float>(tape, element, dtype, beyond_f32));
    case DType::f64: return store(out, number<double>(tape, element, dtype, beyond_f64));
    case DType::c64: return store(out, complex_number<float>(tape, element, dtype, beyond_f32));
    case DType::c128: return store(out, complex_number<double>(tape, element, dtype, beyond_f64));
  }
}

// Does the data hold arrays, other than those of two numbers that complex numbers are?
bool is_nested(const JsonTape& tape, const detail::TensorJson& tensor) {
  const Index element = JsonTape::first(tensor.data);
  if (tape.count(tensor.data) == 0 || tape.kind(element) != Kind::array) return false;
  if (!is_complex(tensor.type.dtype())) return true;
  return tape.count(element) == 0 || tape.kind(JsonTape::first(element)) == Kind::array;
}

using Path = std::vector<std::size_t>;

// "data[1][0]"
std::string shown(const Path& path) {
  std::string text = "data";
  for (const std::size_t index : path) text += detail::str('[', index, ']');
  return text;
}

// Data in arrays within arrays, as deep as the shape has axes.
class NestedData {
 public:
  NestedData(const JsonTape& tape, const detail::TensorJson& tensor) : tape_(tape), tensor_(tensor) {}
  // Visits the elements in row-major order; throws Error (dump) where the arrays have not the shape.
  template <class Visit>
  void each(Visit&& visit) {
    each(tensor_.data, visit);
  }

 private:
  template <class Visit>
  void each(Index node, Visit& visit) {
    const Type& type = tensor_.type;
    if (path_.size() == type.rank()) {
      if (is_list(node)) refuse_place("to be an element", node);
      return visit(node, path_);
    }
    const auto extent = static_cast<std::uint64_t>(type.dim(path_.size()));
    if (tape_.kind(node) != Kind::array || tape_.count(node) != extent)
      refuse_place(detail::str("to be an array of ", extent), node);
    path_.push_back(0);
    for (Index at = JsonTape::first(node); at != tape_.end(node); at = tape_.next(at), ++path_.back())
      each(at, visit);
    path_.pop_back();
  }
  bool is_list(Index node) const {
    if (tape_.kind(node) != Kind::array) return false;
    if (!is_complex(tensor_.type.dtype())) return true;
    return tape_.count(node) > 0 && tape_.kind(JsonTape::first(node)) == Kind::array;
  }
  [[noreturn]] void refuse_place(const std::string& expected, Index got) const {
    refuse(detail::str(
        "expected ", shown(path_), ' ', expected, " for shape ", detail::list(tensor_.type.shape()), ", got ",
        tape_.kind(got) == Kind::array ? detail::str("an array of ", tape_.count(got)) : tape_.shown(got)));
  }

  const JsonTape& tape_;
  const detail::TensorJson& tensor_;
  Path path_;
};

}  // namespace

void append_json_element(std::string& out, DType dtype, const std::byte* bytes) {
  switch (dtype) {
    case DType::boolean: out += bytes[0] == std::byte{0} ? "false" : "true"; return;
    case DType::i32: return append_integer(out, load<std::int32_t>(bytes));
    case DType::i64: return append_integer(out, load<std::int64_t>(bytes));
    case DType::f16: return append_number(out, half_to_float(load<std::uint16_t>(bytes)));
    case DType::bf16: return append_number(out, bfloat16_to_float(load<std::uint16_t>(bytes)));
    case DType::f32: return append_number(out, load<float>(bytes));
    case DType::f64: return append_number(out, load<double>(bytes));
    case DType::c64: return append_complex(out, load<std::complex<float>>(bytes));
    case DType::c128: return append_complex(out, load<std::complex<double>>(bytes));
  }
}

void append_json(std::string& out, Type type, const std::byte* bytes) {
  detail::append_json(out, type, bytes, type.size());
}

void detail::append_json(std::string& out, Type type, const std::byte* bytes, std::int64_t max_elements) {
  out += "{\"dtype\": \"";
  out += to_string(type.dtype());
  out += "\", \"shape\": [";
  for (std::size_t axis = 0; axis < type.rank(); ++axis) {
    if (axis != 0) out += ", ";
    append_integer(out, type.dim(axis));
  }
  out += "], \"data\": [";
  const std::size_t stride = size_of(type.dtype());
  const std::int64_t count = std::min(type.size(), max_elements);
  for (std::int64_t i = 0; i < count; ++i) {
    if (i != 0) out += ", ";
    append_json_element(out, type.dtype(), bytes + static_cast<std::size_t>(i) * stride);
  }
  out += ']';
  if (count < type.size()) {
    out += ", \"elided\": ";
    append_integer(out, type.size() - count);
  }
  out += '}';
}

std::string to_json(const Literal& literal) {
  std::string out;
  append_json(out, literal.type(), literal.bytes());
  return out;
}

namespace detail {

TensorJson tensor_json(const JsonTape& tape, Index tensor) {
  if (tape.kind(tensor) != Kind::object)
    refuse(str("expected a tensor, {\"dtype\", \"shape\", \"data\"}, got ", tape.shown(tensor)));
  static constexpr std::string_view names[] = {"dtype", "shape", "data"};
  std::array<Index, 3> members{};
  tape.members(tensor, names, members, "a tensor");
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] == 0) refuse(str("expected a tensor to have \"", names[i], "\", got none"));
  }
  const auto [name, extents, data] = members;
  const auto dtype = tape.kind(name) == Kind::string ? parse_dtype(tape.string(name)) : std::nullopt;
  if (!dtype) {
    const std::string_view text = tape.kind(name) == Kind::string ? tape.string(name) : std::string_view();
    throw UnknownName(ErrorKind::dump, str("expected a dtype, got ", tape.shown(name), nearest_dtype(text),
                                           "; the dtypes are ", all_dtypes()));
  }
  tape.expect(extents, Kind::array, "\"shape\"");
  Shape shape;
  for (Index at = JsonTape::first(extents); at != tape.end(extents); at = tape.next(at))
    shape.push_back(tape.expect_integer(at, "an extent"));
  tape.expect(data, Kind::array, "\"data\"");
  std::int64_t size = 0;
  try {
    size = num_elements(shape);
  } catch (const Error& error) {
    refuse(error.what());
  }
  const TensorJson read{Type(*dtype, shape), data};
  if (is_nested(tape, read)) {
    NestedData(tape, read).each([](Index, const Path&) {});
  } else if (size != static_cast<std::int64_t>(tape.count(data))) {
    refuse(str("expected ", size, " elements for shape ", list(shape), ", got ", tape.count(data)));
  }
  return read;
}

void tensor_data_from_json(const JsonTape& tape, const TensorJson& tensor, std::byte* out) {
  const std::size_t stride = size_of(tensor.type.dtype());
  if (is_nested(tape, tensor)) {
    return NestedData(tape, tensor).each([&](Index at, const Path& path) {
      try {
        read_element(tape, at, tensor.type.dtype(), out);
      } catch (const Error& error) {
        refuse(str(shown(path), ": ", error.what()));
      }
      out += stride;
    });
  }
  std::size_t index = 0;
  try {
    for (Index at = JsonTape::first(tensor.data); at != tape.end(tensor.data); at = tape.next(at), ++index)
      read_element(tape, at, tensor.type.dtype(), out + index * stride);
  } catch (const Error& error) {
    refuse(str("element ", index, " of the data: ", error.what()));
  }
}

Literal literal_from_json(const JsonTape& tape, Index tensor) {
  const TensorJson read = tensor_json(tape, tensor);
  std::vector<std::byte> bytes(read.type.bytes());
  tensor_data_from_json(tape, read, bytes.data());
  return Literal(read.type, bytes);
}

Literal scalar_from_json(const JsonTape& tape, Index element, DType dtype) {
  std::byte bytes[16];
  read_element(tape, element, dtype, bytes);
  return Literal(Type(dtype), std::span<const std::byte>(bytes, size_of(dtype)));
}

}  // namespace detail

Literal literal_from_json(std::string_view text) {
  return detail::literal_from_json(detail::JsonTape(text), detail::JsonTape::root);
}

Result<Literal> try_literal_from_json(std::string_view text) {
  return detail::capture([&] { return literal_from_json(text); });
}

}  // namespace tidu
