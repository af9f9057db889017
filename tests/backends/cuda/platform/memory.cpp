// How much pinned memory copies from and to the host take, and what they do where there is little of it.
#include <doctest/doctest.h>

#include <algorithm>

#include "cuda/platform/platform.hpp"
#include "tidu/cuda.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::test::platform {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

CudaExecutor last_device() {
  CudaOptions options;
  options.device = num_devices - 1;
  return CudaExecutor(options);
}

// There and back.
void copies(const CudaExecutor& cuda, std::size_t bytes) {
  Tensor host(Type(i32, {static_cast<std::int64_t>(bytes / 4)}));
  const auto elements = host.mutable_elements<std::int32_t>();
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<std::int32_t>(i);
  const Tensor there = cuda.put(host).value();
  const auto back = there.elements<std::int32_t>();
  CHECK(std::equal(back.begin(), back.end(), elements.begin()));
}

struct PinnedLimit {
  explicit PinnedLimit(std::size_t bytes) { limit_pinned(held().pinned_bytes + bytes); }
  ~PinnedLimit() { limit_pinned(std::size_t{1} << 40); }
};

}  // namespace

TEST_CASE("[glue memory] A large tensor is uploaded and read by way of two pieces of pinned memory") {
  const CudaExecutor cuda = last_device();
  const std::size_t before = held().pinned_bytes;
  (void)take_pinned_peak();
  copies(cuda, 220 * mebibyte);
  CHECK(take_pinned_peak() <= before + 128 * mebibyte);
  CHECK(take_faults().empty());
}

TEST_CASE("Where there is less pinned memory than a tensor has, it is copied in smaller parts") {
  const CudaExecutor cuda = last_device();
  copies(cuda, 1000);
  {
    const PinnedLimit limit(mebibyte);
    copies(cuda, 10 * mebibyte + 20);
  }
  {
    const PinnedLimit none(0);
    const Result<Tensor> failed = cuda.put(Tensor::zeros(Type(f32, {5000000})));
    REQUIRE_FALSE(failed);
    CHECK(failed.error().kind() == ErrorKind::out_of_memory);
  }
  copies(cuda, 10 * mebibyte);
  CHECK(take_faults().empty());
}

}  // namespace tidu::test::platform
