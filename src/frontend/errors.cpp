// errors.cpp - errors of the frontend, whose messages name the function, the types and the user's source
// location; and checks of axes.
#include <algorithm>

#include "frontend/context.hpp"

namespace tidu {

Axes::Axes(std::span<const std::int64_t> axes) : all_(false), count_(axes.size()) {
  if (count_ > most) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("[Axes] expected at most ", most, " axes, got ", count_));
  }
  std::copy(axes.begin(), axes.end(), axes_.begin());
}

namespace frontend_detail {
namespace {

constexpr std::string_view without_value =
    "expected Arrays with a value, got a default-constructed or moved-from one";

}  // namespace

// If the caller is a header, as for `if (x)`, the user's location is not known.
std::string at_place(Where where) {
  if (where.file == nullptr ||
      std::string_view(where.file).find("tidu/frontend/array.hpp") != std::string_view::npos)
    return {};
  return detail::str(", ", where.file, ':', where.line);
}

void refuse(ErrorKind kind, std::string_view function, const std::string& message, Where where) {
  throw Error(kind, detail::str('[', function, "] ", message, "\n  in ", function, at_place(where)));
}

namespace {

[[noreturn]] void raise_with(const Error& error, std::string_view function, const std::string& operands,
                             Where where) {
  const std::shared_ptr<Error> located =
      error.with_message(detail::str(error.what(), "\n  in ", function, '(', operands, ')', at_place(where)));
  located->raise();
  __builtin_unreachable();  // raise() throws, which g++ 12 does not see through the pointer
}

// `"w" f64[3]`
std::string shown(const Input& operand) {
  const Body* body = operand.body;
  const bool traced = body != nullptr && is_traced(*body);
  const Type type = traced ? body->extra->type : operand.tensor->type();
  const std::string name = body != nullptr && !traced && body->trace && body->key
                               ? eager::name_of(body->trace, body->key)
                               : std::string();
  return name.empty() ? detail::str(type) : detail::str(detail::in_quotes(name), ' ', type);
}

}  // namespace

void raise_located(const Error& error, std::string_view function, std::span<const Type> types, Where where) {
  std::string operands;
  for (const Type& type : types) operands += detail::str(operands.empty() ? "" : ", ", type);
  raise_with(error, function, operands, where);
}

void raise_located(const Error& error, std::string_view function, std::span<const Input> inputs,
                   Where where) {
  std::string operands;
  for (const Input& input : inputs) operands += (operands.empty() ? "" : ", ") + shown(input);
  raise_with(error, function, operands, where);
}

void raise_located(const Error& error, std::string_view function, std::span<const Array> arguments,
                   Where where) {
  const std::vector<Input> inputs(arguments.begin(), arguments.end());
  raise_located(error, function, std::span<const Input>(inputs), where);
}

const Body& no_value() {
  static const Body& body = []() -> const Body& {
    Body& made = *new Body;  // outlives every static Array
    made.traced = true;
    return made;
  }();
  return body;
}

void require_values(std::span<const Input> operands, std::string_view function, Where where) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].body != &no_value()) continue;
    refuse(ErrorKind::invalid_argument, function, detail::str(without_value, " as operand ", i), where);
  }
}

void refuse_no_value(std::string_view function, Where where) {
  refuse(ErrorKind::invalid_argument, function, std::string(without_value), where);
}

void require_arrays(std::span<const Array> arguments, std::string_view name, Where where,
                    std::string_view which) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].empty_handle()) continue;
    refuse(ErrorKind::invalid_argument, name, detail::str(without_value, " as Array ", i, " of the ", which),
           where);
  }
}

void refuse_empty() {
  throw Error(ErrorKind::invalid_argument,
              "[Array] expected an Array with a value, got a default-constructed or moved-from one");
}

void BlockedOperations::add(std::string_view name, Where where) {
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.where.line == where.line && entry.where.file == where.file && entry.name == name;
  });
  if (known != entries_.end()) {
    std::rotate(known, known + 1, entries_.end());
    return;
  }
  if (entries_.size() == max_operations) entries_.erase(entries_.begin());
  entries_.push_back({std::string(name), where});
}

std::string BlockedOperations::text() const {
  std::string text;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    text += detail::str(i == 0                     ? ""
                        : i + 1 == entries_.size() ? " and "
                                                   : ", ",
                        detail::printable(entry.name));
    if (entry.where.file != nullptr)
      text += detail::str(" (", detail::printable(entry.where.file), ':', entry.where.line, ')');
  }
  return text;
}

std::int64_t normal_axis(std::int64_t axis, std::size_t rank, std::string_view function, Where where) {
  const auto ndim = static_cast<std::int64_t>(rank);
  if (axis < -ndim || axis >= ndim) {
    refuse(ErrorKind::invalid_argument, function,
           detail::str("expected an axis of an Array with ", ndim, " dimensions, got ", axis), where);
  }
  return axis < 0 ? axis + ndim : axis;
}

Ints normal_axes(const Axes& axes, std::size_t rank, std::string_view function, Where where) {
  Ints normal;
  if (axes.all()) {
    for (std::size_t i = 0; i < rank; ++i) normal.push_back(static_cast<std::int64_t>(i));
    return normal;
  }
  for (const std::int64_t axis : axes.list()) normal.push_back(normal_axis(axis, rank, function, where));
  std::sort(normal.begin(), normal.end());
  if (std::adjacent_find(normal.begin(), normal.end()) != normal.end()) {
    refuse(ErrorKind::invalid_argument, function,
           detail::str("expected different axes, got ", detail::list(axes.list())), where);
  }
  return normal;
}

}  // namespace frontend_detail
}  // namespace tidu
