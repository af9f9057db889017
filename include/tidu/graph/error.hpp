// error.hpp - the typed errors of every public function, and Result<T>, which holds a value or an error that
// was not thrown. Messages have one shape: "[op] expected …, got …", then "\n  in operation N of "graph",
// file:line". They show text of the user as printable() escapes it.
#pragma once

#include <cxxabi.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tidu {

/// The kind of an error; the message has the details.
enum class ErrorKind : std::uint8_t {
  invalid_argument,   ///< a misuse of a function: unknown name, duplicate, missing or surplus argument
  type,               ///< dtypes or shapes that do not fit an operation
  attribute,          ///< an attribute that is missing, unknown, or out of range
  unknown_primitive,  ///< a primitive that is not in the set
  ad_rule,            ///< a rule that is missing, or that broke its contract (ADRuleError)
  dump,               ///< a dump that cannot be read
  execution,          ///< a kernel that is missing or that failed
  out_of_memory,      ///< an allocation failed
  tape,               ///< a tensor or graph that a tape kept for backward was freed or changed
  non_finite,         ///< anomaly mode met a value that is not finite (NonFiniteError)
  cancelled,          ///< the caller asked to stop
  internal            ///< a defect of tidu, or a rule or executor threw an exception that is no Error
};
/// The name in words.

constexpr std::string_view to_string(ErrorKind kind) {
  constexpr std::string_view names[] = {
      "invalid argument", "type",          "attribute", "unknown primitive", "ad rule",   "dump",
      "execution",        "out of memory", "tape",      "non finite",        "cancelled", "internal"};
  return names[static_cast<std::size_t>(kind)];
}

/// Base of all exceptions of tidu. A derived class overrides with_message and raise, as ADRuleError does, so
/// that it keeps its type when a location is added to its message. If it does not, backward rethrows it
/// unchanged when a hook or an executor threw it, and as Error when a rule or a kernel did.
class Error : public std::runtime_error {
 public:
  /// With the whole message.
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }
  /// The same error (of the same dynamic type) with another message, usually a longer one.
  virtual std::shared_ptr<Error> with_message(const std::string& message) const {
    return std::make_shared<Error>(kind_, message);
  }
  virtual std::shared_ptr<Error> clone() const { return with_message(what()); }
  /// Throws a copy of this error by its dynamic type.
  [[noreturn]] virtual void raise() const { throw Error(*this); }

 private:
  ErrorKind kind_;
};

/// A differentiation or batching rule is missing or broke its contract.
class ADRuleError : public Error {
 public:
  /// Which rule.
  enum class Rule : std::uint8_t { jvp, transpose, batch };
  /// `operation`: its index in the graph that is transformed, when there is one.
  ADRuleError(Rule rule, std::string primitive, std::optional<std::uint32_t> operation,
              const std::string& message)
      : Error(ErrorKind::ad_rule, message),
        rule_(rule),
        primitive_(std::move(primitive)),
        operation_(operation) {}
  Rule rule() const noexcept { return rule_; }
  const std::string& primitive() const noexcept { return primitive_; }
  /// Index of the operation in the graph that was being transformed.
  std::optional<std::uint32_t> operation() const noexcept { return operation_; }
  std::shared_ptr<Error> with_message(const std::string& message) const override {
    return std::make_shared<ADRuleError>(rule_, primitive_, operation_, message);
  }
  [[noreturn]] void raise() const override { throw ADRuleError(*this); }

 private:
  Rule rule_;
  std::string primitive_;
  std::optional<std::uint32_t> operation_;
};

/// "jvp", "transpose", "batch".
constexpr std::string_view to_string(ADRuleError::Rule rule) {
  constexpr std::string_view names[] = {"jvp", "transpose", "batch"};
  return names[static_cast<std::size_t>(rule)];
}

namespace detail {

/// Throws the error that a Result holds by its dynamic type; an Error of kind internal if it holds none.
[[noreturn]] void raise_held(const Error* error);

}  // namespace detail

/// A T, or the error that kept it from being made. A small type of our own: no third-party type in public
/// headers.
template <class T>
class [[nodiscard]] Result {
 public:
  /// The value.
  Result(T value) : value_(std::move(value)) {}
  /// A shared error; for a null pointer value() throws an Error of kind internal.
  Result(std::shared_ptr<const Error> error) : error_(std::move(error)) {}
  /// A copy of that error.
  Result(const Error& error) : error_(error.clone()) {}

  bool has_value() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  /// The value; throws the error when there is none.
  T& value() & {
    if (!value_) detail::raise_held(error_.get());
    return *value_;
  }
  const T& value() const& {
    if (!value_) detail::raise_held(error_.get());
    return *value_;
  }
  T&& value() && {
    if (!value_) detail::raise_held(error_.get());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  /// The error; only when there is no value.
  const Error& error() const {
    if (!error_) throw Error(ErrorKind::invalid_argument, "Result::error: expected an error, got a value");
    return *error_;
  }

 private:
  std::optional<T> value_;
  std::shared_ptr<const Error> error_;
};

namespace detail {

/// Something that can be streamed, whatever its type. It refers to that, which must be there when it is
/// written.
class TextPart {
 public:
  template <class T>
  explicit TextPart(const T& value) : value_(std::addressof(value)), write_(&write_value<T>) {}
  explicit TextPart(const char* text) : value_(text), write_(&write_text) {}
  void write(std::ostream& to) const { write_(to, value_); }

 private:
  template <class T>
  static void write_value(std::ostream& to, const void* value) {
    to << *static_cast<const T*>(value);
  }
  static void write_text(std::ostream& to, const void* text);

  const void* value_;
  void (*write_)(std::ostream& to, const void* value);
};

/// The parts, one after another, as text.
std::string text_of(std::initializer_list<TextPart> parts);

/// All arguments, one after another, as text. Messages are many: each costs its call of text_of, and no
/// stream of its own.
template <class... Parts>
std::string str(const Parts&... parts) {
  return text_of({TextPart(parts)...});
}

/// See printable() and in_quotes().
class Printable {
 public:
  Printable(std::string_view text, std::size_t longest, bool quotes)
      : text_(text), longest_(longest), quotes_(quotes) {}
  friend std::ostream& operator<<(std::ostream& to, const Printable& printable);
  operator std::string() const { return str(*this); }

 private:
  std::string_view text_;
  std::size_t longest_;
  bool quotes_;
};

/// User text as a message shows it, formatted when it is written: valid UTF-8 without control characters for
/// any text. Control characters are escaped as \n, \t or \u001b, a byte that is not UTF-8 as \xff. Text of
/// more than `longest` bytes is cut after the last character that lies within them, and "..." follows. The
/// text must outlive it.
inline Printable printable(std::string_view text, std::size_t longest = std::string_view::npos) {
  return {text, longest, false};
}

/// The same in double quotes, with \" and \\ for those that are in the text.
inline Printable in_quotes(std::string_view text, std::size_t longest = std::string_view::npos) {
  return {text, longest, true};
}

/// See list().
template <class Range>
class List {
 public:
  explicit List(const Range& range) : range_(range) {}
  friend std::ostream& operator<<(std::ostream& to, const List& list) {
    to << '[';
    const char* separator = "";
    for (const auto& item : list.range_) {
      to << separator;
      if constexpr (std::is_convertible_v<decltype(item), std::string_view>) {
        to << printable(item);
      } else {
        to << item;
      }
      separator = ",";
    }
    return to << ']';
  }
  operator std::string() const { return str(*this); }

 private:
  const Range& range_;
};

/// "[a,b,c]" of anything that can be streamed, text as printable(), made when it is written: a check that
/// holds costs no text.
template <class Range>
List<Range> list(const Range& range) {
  return List<Range>(range);
}

/// An error that is being handled, to be kept in a Result, which throws it by its own type.
std::shared_ptr<const Error> held_error(const Error& error);

/// Runs `body` and turns its exceptions into a Result; every `try_` function is implemented by it.
template <class Body>
auto capture(Body&& body) -> Result<std::invoke_result_t<Body>> {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    return held_error(error);
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::out_of_memory, "out of memory");
  } catch (const std::exception& error) {
    return Error(ErrorKind::internal, error.what());
  }
#ifdef __GLIBCXX__
  catch (const abi::__forced_unwind&) {  // a thread that is cancelled
    throw;
  }
#endif
  catch (...) {
    return Error(ErrorKind::internal, "something was thrown that is no std::exception");
  }
}

}  // namespace detail
}  // namespace tidu
