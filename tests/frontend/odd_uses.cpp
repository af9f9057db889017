// odd_uses.cpp - what users do seldom: dtypes that are none, names for what has one, seeds of leaves,
// promises and destructors when a thread ends.
#include <atomic>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support.hpp"

namespace tidu::test {
namespace {

TEST_CASE("a dtype that is none is a typed error everywhere") {
  const auto none = static_cast<DType>(77);
  const Array x = array({1.0, 2.0});
  const auto refused = [](const auto& body) {
    const std::string error = error_of(body);
    return contains(error, "expected") && contains(error, "dtype") && contains(error, "odd_uses.cpp:");
  };
  CHECK(refused([&] { (void)x.to(none); }));
  CHECK(refused([&] { (void)Array(1.0).to(none); }));
  CHECK(refused([&] { (void)array({1.0, 2.0}, none); }));
  CHECK(refused([&] { (void)zeros({2}, none); }));
  CHECK(refused([&] { (void)full({}, 1.5, none); }));
  CHECK(refused([&] { (void)arange(3, none); }));
  CHECK(refused([&] { (void)linspace(0.0, 1.0, 3, none); }));
  CHECK(refused([&] { (void)eye(2, none); }));
  CHECK(refused([&] { (void)one_hot(array({0, 1}), 2, none); }));
  CHECK(refused([&] { (void)random::bits(random::key(1), {2}, none); }));
  CHECK(refused([&] { (void)random::uniform(random::key(1), {2}, none); }));
  CHECK(contains(error_of([&] { (void)Type(none); }), "expected a dtype, got DType(77)"));
  CHECK(contains(error_of([&] { (void)Type(none, {3}); }), "expected a dtype, got DType(77)"));
  CHECK(elements(x.to(f32)) == std::vector<double>{1, 2});
}

}  // namespace
}  // namespace tidu::test
