// compiled.cpp - what compile() takes for the same call.
#include <optional>
#include <string>

#include "support.hpp"

namespace tidu::test {
namespace {

enum class CompiledMean { arithmetic, geometric };
struct CompiledWindow {
  int first, count;
};

TEST_CASE("compile() tells calls apart by arguments that are no Arrays") {
  const Array x = array({1.0, 2.0, 4.0});
  const auto power = compile([](const Array& a, int n) { return integer_pow(a, n); });
  CHECK(elements(power(x, 2)) == std::vector<double>{1, 4, 16});
  CHECK(elements(power(x, 3)) == std::vector<double>{1, 8, 64});
  CHECK(elements(power(x, 2)) == std::vector<double>{1, 4, 16});
  CHECK(elements(power(x, 2L)) == std::vector<double>{1, 4, 16});
  CHECK(power.num_traced() == 3);

  const auto any = compile([](const Array& a, const auto& how) {
    using How = std::decay_t<decltype(how)>;
    if constexpr (std::is_same_v<How, CompiledMean>) {
      return how == CompiledMean::arithmetic ? mean(a) : exp(mean(log(a)));
    } else if constexpr (std::is_same_v<How, std::string>) {
      return how == "negative" ? -a : a;
    } else if constexpr (std::is_same_v<How, CompiledWindow>) {
      return a.slice({{how.first, how.first + how.count}});
    } else if constexpr (std::is_same_v<How, std::optional<Array>>) {
      return how ? a + *how : a;
    } else if constexpr (std::is_same_v<How, bool>) {
      return how ? a * 2.0 : a;
    } else {  // a list of numbers
      Array result = a;
      for (const auto number : how) result = result * static_cast<double>(number);
      return result;
    }
  });
  CHECK(any(x, CompiledMean::geometric).item() == doctest::Approx(2.0));
  CHECK(any(x, CompiledMean::arithmetic).item() == doctest::Approx(7.0 / 3));
  CHECK(elements(any(x, std::string("negative"))) == std::vector<double>{-1, -2, -4});
  CHECK(elements(any(x, std::string("positive"))) == std::vector<double>{1, 2, 4});
  CHECK(elements(any(x, CompiledWindow{0, 2})) == std::vector<double>{1, 2});
  CHECK(elements(any(x, CompiledWindow{1, 2})) == std::vector<double>{2, 4});
  CHECK(elements(any(x, true)) == std::vector<double>{2, 4, 8});
  CHECK(elements(any(x, false)) == std::vector<double>{1, 2, 4});
  CHECK(elements(any(x, std::vector<double>{0.5, 3.0})) == std::vector<double>{1.5, 3, 6});
  CHECK(elements(any(x, std::vector<double>{0.5})) == std::vector<double>{0.5, 1, 2});
  CHECK(elements(any(x, Ints{2})) == std::vector<double>{2, 4, 8});
  CHECK(elements(any(x, Ints{3})) == std::vector<double>{3, 6, 12});
  CHECK(elements(any(x, std::optional<Array>())) == std::vector<double>{1, 2, 4});
  CHECK(elements(any(x, std::optional<Array>(x))) == std::vector<double>{2, 4, 8});
  CHECK(elements(any(x, std::optional<Array>(ones({3})))) == std::vector<double>{2, 3, 5});
}

TEST_CASE("compile() tells structures of the same Arrays apart") {
  const Array x = array({1.0, 2.0}), y = array({3.0, 5.0}), z = array({7.0, 11.0});
  const auto same = compile([](const auto& a) { return a; });
  CHECK(elements(same(x)) == std::vector<double>{1, 2});
  const std::vector<Array> listed = same(std::vector<Array>{x});
  CHECK(elements(listed.at(0)) == std::vector<double>{1, 2});
  const auto last_of_first =
      compile([](const std::vector<std::vector<Array>>& lists) { return lists[0].back(); });
  CHECK(elements(last_of_first(std::vector<std::vector<Array>>{{x, y}, {z}})) == std::vector<double>{3, 5});
  CHECK(elements(last_of_first(std::vector<std::vector<Array>>{{x}, {y, z}})) == std::vector<double>{1, 2});
}

TEST_CASE("an Array in an optional is differentiated like any other") {
  const auto f = [](const Array& x, const std::optional<Array>& scale) {
    return sum(scale ? x * x * *scale : x);
  };
  const Array x = array({1.0, 2.0}), scale = array({3.0, 5.0});
  CHECK(elements(grad(f)(x, std::optional<Array>(scale))[0]) == std::vector<double>{6, 20});
  CHECK(elements(grad(f, 1)(x, std::optional<Array>(scale))[0]) == std::vector<double>{1, 4});
  CHECK(elements(grad(f)(x, std::optional<Array>())[0]) == std::vector<double>{1, 1});
}

}  // namespace
}  // namespace tidu::test
