// literal_json.cpp - writing and reading tensors as JSON. Numbers are written by std::to_chars, which finds
// the shortest digits, and laid out as Python's repr does; a number is read as f64 and must be in the range
// of its dtype.
#include "tidu/graph/literal_json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "graph/literal_json_impl.hpp"

namespace tidu {
namespace {

using nlohmann::json;

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

std::string shown(const json& element) {
  constexpr std::size_t longest = 60;
  std::string text = element.is_structured() ? element.type_name()
                                             : element.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > longest) text.resize(longest);
  return text;
}

std::int64_t integer(const json& element, DType dtype, std::int64_t least, std::int64_t most) {
  if (element.is_number_unsigned() ? element.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                                   : element.is_number_integer() && element.get<std::int64_t>() >= least &&
                                         element.get<std::int64_t>() <= most) {
    return element.get<std::int64_t>();
  }
  refuse(detail::str("expected an integer in the range of ", dtype, ", got ", shown(element)));
}

// `beyond` is the least number that is too large for the dtype.
double number(const json& element, DType dtype, double beyond) {
  if (element.is_string()) {
    const auto& text = element.get_ref<const std::string&>();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
  } else if (element.is_number()) {
    const double value = element.get<double>();
    if (std::abs(value) < beyond) return value;
    refuse(detail::str("expected a number in the range of ", dtype, ", got ", shown(element)));
  }
  refuse(
      detail::str("expected a number, \"nan\", \"inf\" or \"-inf\" for ", dtype, ", got ", shown(element)));
}

// Half an ulp above the largest finite number of each dtype: from there on a number rounds to infinity.
constexpr double beyond_f16 = 65520.0;
constexpr double beyond_bf16 = 0x1.ffp127;
constexpr double beyond_f32 = 0x1.ffffffp127;
constexpr double beyond_f64 = std::numeric_limits<double>::infinity();

// The T nearest to the decimal number that was read as `value`. Where `value` lies midway between two of f32,
// it may have been rounded there, and rounding it again could go the wrong way. Its shortest digits, which
// are those that stood in the text when that had at most 15, are then read as f32: 7.038531e-26 is such a
// number.
template <class T>
T nearest(double value) {
  const auto rounded = static_cast<T>(value);
  if constexpr (sizeof(T) < sizeof(double)) {
    const double error = value - static_cast<double>(rounded);
    const T other = std::nextafter(rounded, static_cast<T>(error > 0 ? INFINITY : -INFINITY));
    if (error != 0 && static_cast<double>(other) - value == error) {
      char text[32];
      const char* const end = std::to_chars(text, text + sizeof text, value).ptr;
      T read = rounded;
      if (std::from_chars(text, end, read).ec == std::errc()) return read;
    }
  }
  return rounded;
}

template <class T>
std::complex<T> complex_number(const json& element, DType dtype, double beyond) {
  if (!element.is_array() || element.size() != 2) {
    refuse(detail::str("expected [re, im] for ", dtype, ", got ", shown(element)));
  }
  return {nearest<T>(number(element[0], dtype, beyond)), nearest<T>(number(element[1], dtype, beyond))};
}

void read_element(const json& element, DType dtype, std::byte* out) {
  using I32 = std::numeric_limits<std::int32_t>;
  using I64 = std::numeric_limits<std::int64_t>;
  switch (dtype) {
    case DType::boolean:
      if (!element.is_boolean()) refuse(detail::str("expected true or false, got ", shown(element)));
      return store(out, static_cast<std::uint8_t>(element.get<bool>() ? 1 : 0));
    case DType::i32:
      return store(out, static_cast<std::int32_t>(integer(element, dtype, I32::min(), I32::max())));
    case DType::i64: return store(out, integer(element, dtype, I64::min(), I64::max()));
    case DType::f16: return store(out, float_to_half(static_cast<float>(number(element, dtype, beyond_f16))));
    case DType::bf16:
      return store(out, float_to_bfloat16(static_cast<float>(number(element, dtype, beyond_bf16))));
    case DType::f32: return store(out, nearest<float>(number(element, dtype, beyond_f32)));
    case DType::f64: return store(out, number(element, dtype, beyond_f64));
    case DType::c64: return store(out, complex_number<float>(element, dtype, beyond_f32));
    case DType::c128: return store(out, complex_number<double>(element, dtype, beyond_f64));
  }
}

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

json parse_json(std::string_view text) {
  // The names of the objects that are open, innermost last: nlohmann keeps the last of equal names, silently.
  std::vector<std::set<std::string>> names;
  const auto on_event = [&names](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second)
      refuse(str("expected every name of an object once, got ", shown(parsed), " twice"));
    return true;
  };
  try {
    return json::parse(text, on_event);
  } catch (const json::exception& error) {
    std::string_view said = error.what();  // "[json.exception...] parse error at line 1, column 2: what"
    if (const std::size_t at = said.find("] "); at != std::string_view::npos) said.remove_prefix(at + 2);
    refuse(str("expected JSON, got a ", said));
  }
}

Type tensor_type_from_json(const json& tensor) {
  if (!tensor.is_object())
    refuse(str("expected a tensor, {\"dtype\", \"shape\", \"data\"}, got ", shown(tensor)));
  for (const char* member : {"dtype", "shape", "data"}) {
    if (!tensor.contains(member)) refuse(str("expected a tensor to have \"", member, "\", got none"));
  }
  if (tensor.size() != 3) {
    for (const auto& item : tensor.items()) {
      if (item.key() != "dtype" && item.key() != "shape" && item.key() != "data") {
        refuse(
            str("expected a tensor to have \"dtype\", \"shape\" and \"data\", got \"", item.key(), "\" too"));
      }
    }
  }
  const json& name = tensor["dtype"];
  const auto dtype = name.is_string() ? parse_dtype(name.get_ref<const std::string&>()) : std::nullopt;
  if (!dtype) refuse(str("expected a dtype, got ", shown(name)));
  const json& extents = tensor["shape"];
  if (!extents.is_array()) refuse(str("expected \"shape\" to be an array, got ", shown(extents)));
  Shape shape;
  for (const json& extent : extents) {
    shape.push_back(integer(extent, DType::i64, 0, std::numeric_limits<std::int64_t>::max()));
  }
  const json& data = tensor["data"];
  if (!data.is_array()) refuse(str("expected \"data\" to be an array, got ", shown(data)));
  std::int64_t size = 0;
  try {
    size = num_elements(shape);
  } catch (const Error& error) {
    refuse(error.what());
  }
  if (static_cast<std::uint64_t>(size) != data.size()) {
    refuse(str("expected ", size, " elements for shape ", list(shape), ", got ", data.size()));
  }
  return Type(*dtype, shape);
}

void tensor_data_from_json(const json& data, Type type, std::byte* out) {
  const std::size_t stride = size_of(type.dtype());
  std::size_t index = 0;
  try {
    for (const json& element : data) {
      read_element(element, type.dtype(), out + index * stride);
      ++index;
    }
  } catch (const Error& error) {
    refuse(str("element ", index, " of the data: ", error.what()));
  }
}

Literal literal_from_json(const json& tensor) {
  const Type type = tensor_type_from_json(tensor);
  std::vector<std::byte> bytes(type.bytes());
  tensor_data_from_json(tensor["data"], type, bytes.data());
  return Literal(type, bytes);
}

Literal scalar_from_json(const json& element, DType dtype) {
  std::byte bytes[16];
  read_element(element, dtype, bytes);
  return Literal(Type(dtype), std::span<const std::byte>(bytes, size_of(dtype)));
}

}  // namespace detail

Literal literal_from_json(std::string_view text) {
  return detail::literal_from_json(detail::parse_json(text));
}

Result<Literal> try_literal_from_json(std::string_view text) {
  return detail::capture([&] { return literal_from_json(text); });
}

}  // namespace tidu
