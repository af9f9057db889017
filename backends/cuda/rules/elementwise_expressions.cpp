// elementwise_expressions.cpp - operations whose element i depends on elements i of the operands, as calls of
// the prelude's functions.
#include <algorithm>
#include <string_view>

#include "cuda/kernels/body.hpp"

namespace tidu::cuda_detail {
namespace {

using Index = Writer::Index;

// An operand that is a scalar beside arrays stands for all elements.
std::string operand(Writer& writer, const Piece& piece, std::size_t i, Index index) {
  const Type type = writer.body().pieces[piece.in[i]].type;
  if (type.rank() == 0 && !writer.shape(index).empty())
    return writer.value(piece.in[i], writer.by_axes({}, {}));
  return writer.value(piece.in[i], index);
}

// 16-bit types are computed as floats; results are rounded as they would be in memory.
std::string result(Writer& writer, const Piece& piece, std::string expression) {
  const DType dtype = piece.type.dtype();
  if (dtype == f16 || dtype == bf16)
    expression = "rounded<" + std::string(memory_name(dtype)) + ">::of(" + expression + ")";
  return writer.define(value_name(dtype), expression);
}

std::string call(Writer& writer, const Piece& piece, Index index, const std::string& function,
                 const std::string& more = "") {
  std::string arguments;
  for (std::size_t i = 0; i < piece.in.size(); ++i) {
    const std::string value = operand(writer, piece, i, index);
    arguments += (i == 0 ? "" : ", ") + value;
  }
  return result(writer, piece, function + "(" + arguments + more + ")");
}

// By the name of the primitive.
std::string by_name(Writer& writer, const Piece& piece, Index index) {
  return call(writer, piece, index, "op::" + std::string(piece.op->name()));
}
std::string special(Writer& writer, const Piece& piece, Index index) {
  return call(writer, piece, index, "special::" + std::string(piece.op->name()));
}
std::string with_of(Writer& writer, const Piece& piece, Index index) {
  return call(writer, piece, index, "op::" + std::string(piece.op->name()) + "_of");
}
std::string round(Writer& writer, const Piece& piece, Index index) {
  const bool away = piece.op->string("rounding_method") == "away_from_zero";
  return call(writer, piece, index, away ? "op::round_away" : "op::round_even");
}
std::string integer_pow(Writer& writer, const Piece& piece, Index index) {
  const auto bits = static_cast<std::uint64_t>(piece.op->integer("y"));
  return call(writer, piece, index, "op::integer_pow", ", (i64)" + std::to_string(bits) + "ull");
}
std::string multiply_no_nan(Writer& writer, const Piece& piece, Index index) {
  const bool both = piece.op->boolean("both");
  return call(writer, piece, index, both ? "op::multiply_no_nan_of_both" : "op::multiply_no_nan");
}
std::string polygamma(Writer& writer, const Piece& piece, Index index) {
  return call(writer, piece, index, "special::polygamma", ", " + std::to_string(piece.op->integer("m")));
}
std::string nextafter(Writer& writer, const Piece& piece, Index index) {
  return call(writer, piece, index, "op::nextafter<" + std::string(memory_name(piece.type.dtype())) + ">");
}
// Where the body needs both of an argument, they are made together: their argument is reduced once.
std::string sin_or_cos(Writer& writer, const Piece& piece, Index index) {
  const std::vector<Piece>& pieces = writer.body().pieces;
  const DType dtype = piece.type.dtype();
  const std::string_view name = piece.op->name(), other = name == "sin" ? "cos" : "sin";
  const auto it = std::find_if(pieces.begin(), pieces.end(), [&](const Piece& p) {
    return p.op && p.op->name() == other && p.in == piece.in && p.type == piece.type;
  });
  if (it == pieces.end() || (dtype != f32 && dtype != f64)) return by_name(writer, piece, index);
  const std::string x = operand(writer, piece, 0, index), s = writer.fresh("v"), c = writer.fresh("v");
  writer.line(std::string(value_name(dtype)) + " " + s + ", " + c + ";");
  writer.line("sin_cos(" + x + ", " + s + ", " + c + ");");
  writer.set_value(static_cast<std::uint32_t>(it - pieces.begin()), index, name == "sin" ? c : s);
  return name == "sin" ? s : c;
}
std::string convert(Writer& writer, const Piece& piece, Index index) {
  if (writer.body().pieces[piece.in[0]].type.dtype() == piece.type.dtype())
    return operand(writer, piece, 0, index);
  if (piece.type.dtype() == f16 || piece.type.dtype() == bf16)
    return call(writer, piece, index, "op::narrow");
  return call(writer, piece, index, "op::convert<" + std::string(value_name(piece.type.dtype())) + ">");
}
std::string select_n(Writer& writer, const Piece& piece, Index index) {
  const std::string which = operand(writer, piece, 0, index);
  std::vector<std::string> cases;
  for (std::size_t i = 1; i < piece.in.size(); ++i) cases.push_back(operand(writer, piece, i, index));
  if (cases.size() == 1) return cases[0];
  std::string text = cases.back();
  for (std::size_t i = cases.size() - 1; i-- > 0;)
    text = which + " <= " + std::to_string(i) + " ? " + cases[i] + " : (" + text + ")";
  return writer.define(value_name(piece.type.dtype()), text);
}
std::string same(Writer& writer, const Piece& piece, Index index) { return operand(writer, piece, 0, index); }

}  // namespace

std::vector<ExpressionEntry> elementwise_expressions() {
  std::vector<ExpressionEntry> rows{
      {"not", with_of},         {"and", with_of},
      {"or", with_of},          {"xor", with_of},
      {"round", round},         {"integer_pow", integer_pow},
      {"erf_inv", special},     {"lgamma", special},
      {"digamma", special},     {"polygamma", polygamma},
      {"nextafter", nextafter}, {"convert_element_type", convert},
      {"select_n", select_n},   {"multiply_no_nan", multiply_no_nan},
      {"stop_gradient", same},  {"device_put", same},
      {"sin", sin_or_cos},      {"cos", sin_or_cos},
  };
  for (const std::string_view name :
       {"divide_no_nan", "neg",      "abs",      "sign",   "floor",      "ceil",  "exp",   "exp2",
        "expm1",         "log",      "log1p",    "sqrt",   "rsqrt",      "cbrt",  "tan",   "asin",
        "acos",          "atan",     "sinh",     "cosh",   "tanh",       "asinh", "acosh", "atanh",
        "erf",           "erfc",     "logistic", "square", "reciprocal", "real",  "imag",  "conj",
        "complex",       "add",      "sub",      "mul",    "div",        "pow",   "max",   "min",
        "atan2",         "rem",      "eq",       "ne",     "lt",         "le",    "gt",    "ge",
        "clamp",         "is_finite"}) {
    rows.push_back({name, by_name});
  }
  return rows;
}

}  // namespace tidu::cuda_detail
