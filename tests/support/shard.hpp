// Parts of tests that several processes share: with TIDU_TEST_SHARD=k/n in the environment one of them takes
// every n-th case, beginning with the k-th (counted from 0).
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>

namespace tidu::test {

/// Which cases are this process's.
class Shard {
 public:
  Shard() {
    const char* const text = std::getenv("TIDU_TEST_SHARD");
    if (text == nullptr) return;
    char* rest = nullptr;
    first_ = std::strtoul(text, &rest, 10);
    count_ = *rest == '/' ? std::strtoul(rest + 1, nullptr, 10) : 1;
    if (count_ == 0) count_ = 1;
  }
  /// Is the next case one of them?
  bool next() { return next_++ % count_ == first_ % count_; }

 private:
  std::size_t first_ = 0, count_ = 1, next_ = 0;
};

}  // namespace tidu::test
