// lazy_small_stack.cpp - long chains of lazy tensors, evaluated and dropped, on a small stack.
#include <doctest/doctest.h>

#include "tidu/tidu.hpp"

using namespace tidu;

TEST_CASE("[N5] a chain of 200,000 lazy tensors is recorded, evaluated and dropped") {
  Array x(0.5);
  x.set_requires_grad();
  const auto chain = [&] {
    Array y = x;
    for (int i = 0; i < 200000; ++i) y = i % 2 == 0 ? y * x : y + x;
    return y;
  };
  double expected = 0.5;
  for (int i = 0; i < 200000; ++i) expected = i % 2 == 0 ? expected * 0.5 : expected + 0.5;
  {
    const Lazy lazy;
    Array dropped = chain();
    dropped = Array();
    const Array y = chain();
    CHECK(y.item() == doctest::Approx(expected));
    const NoGrad guard;
    Array z = x;
    for (int i = 0; i < 30000; ++i) z = z + x;
    z = Array();
  }
  CHECK(lazy_statistics().pending == 0);
}
