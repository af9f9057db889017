// result.cpp - Result<T>: the value, the error with its type, and neither of the two.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <tidu/graph/error.hpp>

namespace tidu {
namespace {

// The kind and text of the exception of value(), and whether it is an ADRuleError.
struct Thrown {
  ErrorKind kind = ErrorKind::cancelled;
  std::string text;
  bool is_rule_error = false;
};

Thrown thrown_by(const Result<std::string>& result) {
  try {
    return {ErrorKind::cancelled, result.value()};
  } catch (const Error& error) {
    return {error.kind(), error.what(), dynamic_cast<const ADRuleError*>(&error) != nullptr};
  }
}

TEST_CASE("a Result gives its value, however it is asked") {
  Result<std::string> result(std::string("x"));
  CHECK(result.has_value());
  CHECK(*result == "x");
  CHECK(result->size() == 1);
  CHECK(std::move(result).value() == "x");
  CHECK_THROWS_WITH_AS((void)Result<std::string>(std::string()).error(), doctest::Contains("got a value"),
                       Error);
}

TEST_CASE("a Result throws its error by the error's own type") {
  const ADRuleError error(ADRuleError::Rule::jvp, "sin", 3, "no rule");
  for (const Result<std::string>& result :
       {Result<std::string>(error), Result<std::string>(std::make_shared<const ADRuleError>(error))}) {
    CHECK_FALSE(result.has_value());
    CHECK(thrown_by(result).text == "no rule");
    CHECK(thrown_by(result).is_rule_error);
  }
}

TEST_CASE("a Result made of a null pointer to an error says so") {
  const Result<std::string> result(std::shared_ptr<const Error>{});
  CHECK_FALSE(result.has_value());
  CHECK(thrown_by(result).kind == ErrorKind::internal);
  CHECK(thrown_by(result).text == "Result: expected a value or an error, got neither");
}

}  // namespace
}  // namespace tidu
