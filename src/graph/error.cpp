// error.cpp - the text of messages, and errors of users' own types in a Result.
#include "tidu/graph/error.hpp"

#include <exception>
#include <typeinfo>

namespace tidu::detail {
namespace {

// Of a type that does not copy itself: what was thrown, kept as it is.
class HeldError final : public Error {
 public:
  HeldError(const Error& error, std::exception_ptr thrown)
      : Error(error.kind(), error.what()), thrown_(std::move(thrown)) {}
  std::shared_ptr<Error> with_message(const std::string&) const override { return clone(); }
  std::shared_ptr<Error> clone() const override { return std::make_shared<HeldError>(*this); }
  [[noreturn]] void raise() const override { std::rethrow_exception(thrown_); }

 private:
  std::exception_ptr thrown_;
};

}  // namespace

std::shared_ptr<const Error> held_error(const Error& error) {
  std::shared_ptr<const Error> copy = error.clone();
  const Error& made = *copy;
  if (typeid(made) != typeid(error)) return std::make_shared<HeldError>(error, std::current_exception());
  return copy;
}

void TextPart::write_text(std::ostream& to, const void* text) { to << static_cast<const char*>(text); }

std::string text_of(std::initializer_list<TextPart> parts) {
  std::ostringstream out;
  for (const TextPart& part : parts) part.write(out);
  return std::move(out).str();
}

}  // namespace tidu::detail
