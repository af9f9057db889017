// Tensors that threads copy, drop and hand to one another.
#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "support/support.hpp"
#include "tidu/tensor/tensor.hpp"

namespace {

using namespace tidu;

void on_threads(int count, const auto& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("the last of many threads frees shared objects, once") {
  for (std::size_t round = 0; round < tidu::test::scaled(200); ++round) {
    std::atomic<int> freed = 0;
    double value = 3.0;
    {
      const Tensor first =
          Tensor::wrap(Type(), &value, std::shared_ptr<void>(&value, [&](void*) { ++freed; }));
      std::vector<Tensor> own(4, first);
      on_threads(4, [&](int thread) {
        Tensor mine = std::move(own[static_cast<std::size_t>(thread)]);
        for (int i = 0; i < 50; ++i) {
          std::vector<Tensor> copies(3, mine);
          mine = copies[1].view(Type(), 0);
        }
      });
      CHECK(freed == 0);
      CHECK(first.exclusive());
    }
    CHECK(freed == 1);
  }
}

TEST_CASE("a thread that finds a tensor exclusive sees all writes of others, and may write") {
  for (std::size_t round = 0; round < tidu::test::scaled(300); ++round) {
    Tensor x = Tensor::from<double>({3}, {1, 2, 3});
    double sum = 0.0;
    std::thread reader([&sum, copy = x]() mutable {
      for (const double element : copy.elements<double>()) sum += element;
      copy = Tensor();
    });
    while (!x.exclusive()) std::this_thread::yield();
    for (double& element : x.mutable_elements<double>()) element = -1.0;  // a race, were reading not done
    CHECK(sum == 6.0);
    reader.join();
  }
}

TEST_CASE("versions count the writes of several threads") {
  Tensor x = Tensor::scalar(1.0);
  const auto rounds = static_cast<std::uint64_t>(tidu::test::scaled(5000));
  on_threads(4, [&, copy = x](int) {
    Tensor mine = copy;
    for (std::uint64_t i = 0; i < rounds; ++i) (void)mine.mutable_bytes();
  });
  CHECK(x.version() == 4 * rounds);
}

TEST_CASE("tensors made on one thread and dropped on another") {
  std::vector<Tensor> made(tidu::test::scaled(20000));
  std::thread([&] {
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = Tensor::scalar(static_cast<double>(i));
  }).join();
  std::atomic<int> wrong = 0;
  on_threads(2, [&](int thread) {
    for (auto i = static_cast<std::size_t>(thread); i < made.size(); i += 2) {
      if (made[i].item<double>() != static_cast<double>(i)) ++wrong;
      made[i] = Tensor();
    }
  });
  CHECK(wrong == 0);
}
