// What is asked of cuBLASLt, and what it is given at each call: a library of its name, which computes on the
// host, is loaded before it (cublaslt.cpp).
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda/libraries/library_matmul.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::test {
namespace {

using namespace cuda_detail;

void load_library() {
  static void* const library = dlopen(TIDU_TEST_CUBLASLT, RTLD_NOW | RTLD_GLOBAL);
  REQUIRE_MESSAGE(library != nullptr, dlerror());
}

// out = x w + bias, or without a bias.
GemmStep step_of(DType dtype, std::int64_t m, std::int64_t k, std::int64_t n, bool has_bias) {
  GemmStep step;
  step.dtype = dtype;
  step.m = m;
  step.n = step.ldb = step.ldc = n;
  step.k = step.lda = k;
  step.a = operand(0);
  step.b = operand(1);
  step.out = result();
  step.has_bias = has_bias;
  step.bias = operand(2);
  return step;
}

Tensor run(MatmulLibrary& library, const GemmStep& step, std::vector<Tensor> operands) {
  std::vector<Memory> in;
  for (Tensor& tensor : operands) in.push_back({tensor.mutable_bytes(), tensor.num_bytes()});
  Tensor out(Type(step.dtype, {step.m, step.n}));
  const std::array results{Memory{out.mutable_bytes(), out.num_bytes()}};
  CHECK(library.run(step, {in, results, {}}, {}));
  return out;
}

}  // namespace

TEST_CASE("Each call of a matmul whose algorithm was chosen before adds its own bias") {
  load_library();
  MatmulLibrary library;
  const GemmStep step = step_of(f32, 2, 3, 2, true);
  const Tensor x = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
               w = Tensor::from<float>({3, 2}, {1, 0, 0, 1, 1, 1});
  const Tensor first = Tensor::from<float>({2}, {10, 20}), second = Tensor::from<float>({2}, {-1, -2});
  for (int round = 0; round < 2; ++round) {
    const Tensor a = run(library, step, {x, w, first}), b = run(library, step, {x, w, second});
    CHECK(std::vector<double>{a.at(0).real(), a.at(1).real(), a.at(2).real(), a.at(3).real()} ==
          std::vector<double>{14, 25, 20, 31});
    CHECK(std::vector<double>{b.at(0).real(), b.at(1).real(), b.at(2).real(), b.at(3).real()} ==
          std::vector<double>{3, 3, 9, 9});
  }
}

TEST_CASE("Parts of a sum of 16-bit numbers are kept in 32 bits") {
  load_library();
  MatmulLibrary library;
  // 257, which bf16 does not have, minus 256.
  constexpr std::int64_t k = 514;
  constexpr std::uint16_t one = 0x3f80, minus_one = 0xbf80;
  std::array<std::uint16_t, k> ones, signs{};
  ones.fill(one);
  std::fill_n(signs.begin(), 257, one);
  std::fill_n(signs.begin() + 257, 256, minus_one);
  Tensor x(Type(bf16, {1, k})), w(Type(bf16, {k, 1}));
  std::memcpy(x.mutable_bytes(), ones.data(), x.num_bytes());
  std::memcpy(w.mutable_bytes(), signs.data(), w.num_bytes());
  const Tensor got = run(library, step_of(bf16, 1, k, 1, false), {x, w});
  CHECK(got.at(0).real() == 1.0);
}

}  // namespace tidu::test
