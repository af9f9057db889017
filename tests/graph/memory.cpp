// memory.cpp - the store of recycled blocks: the blocks that it keeps, and its limit.
#include "tidu/graph/memory.hpp"

#include <doctest/doctest.h>

#include "graph/plain_memory.hpp"

namespace tidu {
namespace {

// In bytes of a block that was made and freed.
std::size_t kept_of(std::size_t bytes) {
  release_recycled_memory();
  { const FlatArray<char> block(bytes); }
  return release_recycled_memory();
}

TEST_CASE("large blocks are kept up to a bound, which may be none") {
#ifdef TIDU_PLAIN_MEMORY
  constexpr bool keeps = false;
#else
  constexpr bool keeps = true;
#endif
  constexpr std::size_t block = std::size_t{1} << 20;
  const std::size_t before = set_recycled_memory_limit(4 * block);
  CHECK(before == std::size_t{1} << 30);
  CHECK(kept_of(block) == (keeps ? block : 0));
  CHECK(kept_of(1000) == 0);       // small ones are not the store's
  CHECK(kept_of(8 * block) == 0);  // beyond the bound

  release_recycled_memory();
  { const FlatArray<char> a(block), b(block), c(block), d(block), e(block), f(block); }
  CHECK(set_recycled_memory_limit(0) == 4 * block);  // frees the kept blocks
  CHECK(release_recycled_memory() == 0);
  CHECK(kept_of(block) == 0);
  CHECK(set_recycled_memory_limit(2 * block) == 0);
  { const FlatArray<char> a(block), b(block), c(block), d(block); }
  CHECK(release_recycled_memory() == (keeps ? 2 * block : 0));
  CHECK(set_recycled_memory_limit(before) == 2 * block);
}

}  // namespace
}  // namespace tidu
