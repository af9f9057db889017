// writer.cpp - indices as text, and values written once for each.
#include <algorithm>
#include <cstring>

#include "cuda/kernels/body.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

std::string number(std::int64_t value) { return std::to_string(value) + "u"; }
bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789u") == std::string::npos;
}

std::string hexadecimal(std::uint64_t bits, int digits) {
  std::string text(static_cast<std::size_t>(digits), '0');
  for (std::size_t i = text.size(); i-- > 0; bits >>= 4U) text[i] = "0123456789abcdef"[bits & 15U];
  return "0x" + text;
}
std::string single(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return "bits_float(" + hexadecimal(bits, 8) + "u)";
}
std::string wide(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return "bits_double(" + hexadecimal(bits, 16) + "ull)";
}

}  // namespace

std::string times(const std::string& index, std::int64_t factor) {
  if (index == "0" || factor == 0) return "0";
  if (factor == 1) return index;
  return index + " * " + number(factor);
}
std::string plus(const std::string& a, const std::string& b) {
  if (a == "0") return b;
  if (b == "0") return a;
  return a + " + " + b;
}

std::uint32_t Body::add_operand(Type type) {
  Piece piece;
  piece.type = type;
  piece.operand = static_cast<std::uint32_t>(operands.size());
  operands.push_back(type);
  pieces.push_back(std::move(piece));
  return static_cast<std::uint32_t>(pieces.size() - 1);
}
std::uint32_t Body::add(const Op& op, std::vector<std::uint32_t> in, Type type) {
  Piece piece;
  piece.op = op;
  piece.in = std::move(in);
  piece.type = type;
  pieces.push_back(std::move(piece));
  return static_cast<std::uint32_t>(pieces.size() - 1);
}

std::string_view memory_name(DType dtype) { return is_bool(dtype) ? "boolean" : to_string(dtype); }
std::string_view value_name(DType dtype) {
  switch (dtype) {
    case DType::boolean: return "bool";
    case DType::f16:
    case DType::bf16:
    case DType::f32: return "float";
    case DType::f64: return "double";
    default: return to_string(dtype);
  }
}

std::string constant_text(const Literal& literal, std::int64_t element) {
  switch (literal.type().dtype()) {
    case DType::boolean: return literal.data<std::uint8_t>()[element] != 0 ? "true" : "false";
    case DType::i32:
      return "(i32)" + hexadecimal(static_cast<std::uint32_t>(literal.data<std::int32_t>()[element]), 8) +
             "u";
    case DType::i64:
      return "(i64)" + hexadecimal(static_cast<std::uint64_t>(literal.data<std::int64_t>()[element]), 16) +
             "ull";
    case DType::f16: return single(half_to_float(literal.data<std::uint16_t>()[element]));
    case DType::bf16: return single(bfloat16_to_float(literal.data<std::uint16_t>()[element]));
    case DType::f32: return single(literal.data<float>()[element]);
    case DType::f64: return wide(literal.data<double>()[element]);
    case DType::c64: {
      const auto z = literal.data<std::complex<float>>()[element];
      return "c64{" + single(z.real()) + ", " + single(z.imag()) + "}";
    }
    default: {
      const auto z = literal.data<std::complex<double>>()[element];
      return "c128{" + wide(z.real()) + ", " + wide(z.imag()) + "}";
    }
  }
}

Writer::Index Writer::intern(const std::string& key, Record record) {
  const auto [it, is_new] = known_.emplace(key, static_cast<Index>(records_.size()));
  if (is_new) {
    records_.push_back(std::move(record));
    undo_.emplace_back([this, key] { known_.erase(key); });
  }
  return it->second;
}

Writer::Index Writer::by_place(const Shape& shape, const std::string& place) {
  const std::string text = num_elements(shape) == 1 ? "0" : place;
  return intern(detail::str("p", detail::list(shape), ":", text), {shape, text, std::nullopt, std::nullopt});
}

Writer::Index Writer::by_axes(const Shape& shape, std::vector<std::string> axes) {
  bool all_zero = true;
  std::string key = detail::str("a", detail::list(shape));
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 1) axes[k] = "0";
    all_zero = all_zero && axes[k] == "0";
    key += ":" + axes[k];
  }
  Record record{shape, std::nullopt, std::move(axes), std::nullopt};
  if (all_zero) record.place = "0";
  return intern(key, std::move(record));
}

Writer::Index Writer::reshaped(Index index, const Shape& shape) {
  if (records_[index].shape == shape) return index;
  Record record{shape, records_[index].place, std::nullopt, index};
  if (record.place) {
    const std::string key = detail::str("p", detail::list(shape), ":", *record.place);
    return intern(key, std::move(record));
  }
  return intern(detail::str("r", index, ":", detail::list(shape)), std::move(record));
}

const std::string& Writer::place(Index index) {
  if (!records_[index].place) {
    std::string text = "0";
    if (records_[index].axes) {
      const Shape shape = records_[index].shape;
      std::int64_t stride = 1;
      for (std::size_t k = shape.size(); k-- > 0; stride *= shape[k])
        text = plus(times((*records_[index].axes)[k], stride), text);
      text = define_index(text);
    } else {
      text = place(*records_[index].origin);
    }
    records_[index].place = text;
    undo_.emplace_back([this, index] { records_[index].place.reset(); });
  }
  return *records_[index].place;
}

const std::vector<std::string>& Writer::axes(Index index) {
  if (!records_[index].axes) {
    if (records_[index].origin && records_[*records_[index].origin].axes) {
      split_from_origin(index);
    } else {
      std::vector<std::string> all = split(records_[index].shape, place(index));
      records_[index].axes = std::move(all);
    }
    undo_.emplace_back([this, index] { records_[index].axes.reset(); });
  }
  return *records_[index].axes;
}

// Coordinates of a place.
std::vector<std::string> Writer::split(const Shape& shape, std::string place) {
  std::vector<std::string> axes(shape.size(), "0");
  std::size_t first = 0;
  while (first < shape.size() && shape[first] == 1) ++first;
  for (std::size_t k = shape.size(); k-- > first;) {
    if (shape[k] == 1 || place == "0") continue;
    if (k == first) {
      axes[k] = place;
      break;
    }
    axes[k] = define_index("(" + place + ") % " + number(shape[k]));
    place = define_index("(" + place + ") / " + number(shape[k]));
  }
  return axes;
}

// Coordinates from those in the other shape: runs of axes with equal products go together.
void Writer::split_from_origin(Index index) {
  const Index origin = *records_[index].origin;
  const Shape from = records_[origin].shape, to = records_[index].shape;
  const std::vector<std::string> at = *records_[origin].axes;
  std::vector<std::string> axes(to.size(), "0");
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    std::size_t i_end = i, j_end = j;
    std::int64_t a = 1, b = 1;
    do {
      if (i_end < from.size() && (a <= b || j_end == to.size())) {
        a *= from[i_end++];
      } else {
        b *= to[j_end++];
      }
    } while (a != b && (i_end < from.size() || j_end < to.size()));
    std::string merged = "0";
    std::int64_t stride = 1;
    for (std::size_t k = i_end; k-- > i; stride *= from[k]) merged = plus(times(at[k], stride), merged);
    const Shape run(to.begin() + static_cast<std::ptrdiff_t>(j),
                    to.begin() + static_cast<std::ptrdiff_t>(j_end));
    if (std::count_if(run.begin(), run.end(), [](std::int64_t extent) { return extent != 1; }) > 0) {
      const std::vector<std::string> of_run = split(run, define_index(merged));
      std::copy(of_run.begin(), of_run.end(), axes.begin() + static_cast<std::ptrdiff_t>(j));
    }
    i = i_end;
    j = j_end;
  }
  records_[index].axes = std::move(axes);
}

void Writer::set_value(std::uint32_t piece, Index index, std::string name) {
  const auto key = std::pair(piece, index);
  if (values_.emplace(key, std::move(name)).second) undo_.emplace_back([this, key] { values_.erase(key); });
}

std::string Writer::value(std::uint32_t at, Index index) {
  const auto fixed = fixed_.find(at);
  if (fixed != fixed_.end()) return fixed->second;
  const auto known = values_.find({at, index});
  if (known != values_.end()) return known->second;
  const Piece& piece = body_.pieces[at];
  if (piece.type.shape() != records_[index].shape) index = reshaped(index, piece.type.shape());
  std::string text;
  if (!piece.op) {
    text = read(piece, index);
  } else {
    const ExpressionRule rule = find_expression(piece.op->name());
    if (rule == nullptr) {
      throw Error(ErrorKind::internal, detail::str("[", piece.op->name(),
                                                   "] expected an operation on elements in a kernel's body"));
    }
    text = rule(*this, piece, index);
  }
  set_value(at, index, text);
  return text;
}

std::string Writer::read(const Piece& piece, Index index) {
  const std::string name = std::to_string(piece.operand);
  const std::string& at = place(index);
  // What is read ahead is read for every element: of a part of a concatenation there may be fewer.
  const bool in_pack = at == packed_place_ && !is_number(at) && piece.type.size() >= packed_size_;
  if (in_pack) packed_[piece.operand] = true;
  return define(value_name(piece.type.dtype()),
                in_pack ? "value(x" + name + ")" : "value(p" + name + "[" + at + "])");
}

std::string Writer::parameter(std::int64_t value) {
  constexpr std::size_t most = 48;
  if (parameters_.size() == most) return "(index_t)" + number(value);
  parameters_.push_back(value);
  return "(index_t)g" + std::to_string(parameters_.size() - 1);
}
std::string Writer::parameter_list() const {
  std::string text;
  for (std::size_t i = 0; i < parameters_.size(); ++i) text += ", const u64 g" + std::to_string(i);
  return text;
}
std::string Writer::define(std::string_view type, const std::string& expression) {
  std::string name = fresh("v");
  line("const " + std::string(type) + " " + name + " = " + expression + ";");
  return name;
}

std::string Writer::define_index(const std::string& expression) {
  const bool simple = expression.find_first_of(" (") == std::string::npos;
  if (simple || is_number(expression)) return expression;
  std::string name = fresh("c");
  line("const index_t " + name + " = " + expression + ";");
  return name;
}

void Writer::line(const std::string& text) {
  text_.append(2 * (scopes_.size() + 1), ' ');
  text_ += text;
  text_ += '\n';
}

void Writer::open_scope() { scopes_.push_back(undo_.size()); }
void Writer::close_scope() {
  const std::size_t begin = scopes_.back();
  scopes_.pop_back();
  while (undo_.size() > begin) {
    const std::function<void()> last = std::move(undo_.back());
    undo_.pop_back();
    last();
  }
}

std::string Writer::choose(std::string_view type, const std::string& condition,
                           const std::function<std::string()>& yes, const std::function<std::string()>& no) {
  std::string name = fresh("v");
  line(std::string(type) + " " + name + ";");
  line("if (" + condition + ") {");
  open_scope();
  line(name + " = " + yes() + ";");
  close_scope();
  line("} else {");
  open_scope();
  line(name + " = " + no() + ";");
  close_scope();
  line("}");
  return name;
}

}  // namespace tidu::cuda_detail
