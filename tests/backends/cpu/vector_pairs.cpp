// Code for vectors that computes two of them at once: elements and masks of both, and of a vector that is
// left.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "cpu/fusion/vector_ir.hpp"
#include "cpu/vector_units.hpp"

using namespace tidu;
using namespace tidu::test;
using namespace tidu::cpu_detail;

namespace {

// f(x) where the mask is set, else x; and whether f(x) < x.
VectorProgram choosing_code(DType dtype, VectorFunction function) {
  VectorProgram code;
  code.dtype = dtype;
  code.num_operands = code.num_results = 2;
  const std::uint16_t x = code.add({.op = VectorOp::load, .index = 0});
  const std::uint16_t mask = code.add({.op = VectorOp::load_mask, .index = 1});
  const std::uint16_t y =
      code.add({.op = VectorOp::call, .a = x, .index = static_cast<std::uint32_t>(function)});
  const std::uint16_t chosen = code.add({.op = VectorOp::select, .a = mask, .b = x, .c = y});
  const std::uint16_t less = code.add({.op = VectorOp::less, .a = y, .b = x});
  code.add({.op = VectorOp::store, .a = chosen, .index = 0});
  code.add({.op = VectorOp::store_mask, .a = less, .index = 1});
  return code;
}

// The results for many elements at once are those of each alone.
template <class T>
void check_choosing(VectorJit& compiler, VectorFunction function, std::int64_t count) {
  const auto kernel = compiler.compile(choosing_code(sizeof(T) == 4 ? f32 : f64, function));
  REQUIRE(kernel != nullptr);
  std::mt19937_64 random(static_cast<std::uint64_t>(count));
  std::uniform_real_distribution<T> near(-4, 4), far(-1e7, 1e7);
  const auto size = static_cast<std::size_t>(count);
  std::vector<T> x(size), y(size + 1, T(-7)), expected(size);
  std::vector<char> mask(size), less(size + 1, 9), expected_less(size);
  for (std::size_t i = 0; i < size; ++i) {
    x[i] = random() % 50 == 0 ? far(random) : near(random);
    mask[i] = static_cast<char>(random() % 2);
  }
  const auto run = [&](std::size_t at, T* to, char* to_less, std::int64_t some) {
    const std::array<const std::byte*, 2> in = {reinterpret_cast<const std::byte*>(x.data() + at),
                                                reinterpret_cast<const std::byte*>(mask.data() + at)};
    const std::array<std::byte*, 2> out = {reinterpret_cast<std::byte*>(to),
                                           reinterpret_cast<std::byte*>(to_less)};
    kernel->run(in.data(), out.data(), some);
  };
  for (std::size_t i = 0; i < size; ++i) run(i, &expected[i], &expected_less[i], 1);
  run(0, y.data(), less.data(), count);
  CHECK(std::memcmp(y.data(), expected.data(), size * sizeof(T)) == 0);
  CHECK(std::memcmp(less.data(), expected_less.data(), size) == 0);
  CHECK(y[size] == T(-7));
  CHECK(less[size] == 9);
}

}  // namespace

TEST_CASE("[vector code] vectors in pairs, alone and as remainders have the results of each element alone") {
  for (const VectorUnits each : units()) {
    VectorJit& compiler = *VectorJit::get(each);
    for (const VectorFunction function :
         {VectorFunction::exp, VectorFunction::sin, VectorFunction::cos, VectorFunction::tanh}) {
      for (std::int64_t count = 1; count < 100; count += 3) {
        check_choosing<float>(compiler, function, count);
        check_choosing<double>(compiler, function, count);
      }
    }
  }
}
