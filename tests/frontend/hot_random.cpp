// hot_random.cpp - loops drawn at random, with hot paths and without. TIDU_TEST_SCALE makes it longer.
#include "frontend/hot_random.hpp"

#include "support.hpp"

namespace tidu::test {
namespace {

std::string told(const RandomLoop& loop) {
  std::string text;
  for (const auto& [step, which] : loop.oddities())
    text += std::to_string(step) + ':' + std::to_string(which) + ' ';
  return text;
}

// Values of so many elements.
void check_loops(unsigned count, std::size_t extent) {
  for (unsigned seed = 1; seed <= count; ++seed) {
    CAPTURE(seed);
    RandomLoop plain(seed, false, {}, extent);
    const std::vector<double> expected = plain.run();
    const bool each = seed % 4 == 0;  // a scope for each step
    std::optional<HotPaths> around;
    if (!each) around.emplace();
    RandomLoop hot(seed, each, {}, extent);
    const std::vector<double>& got = hot.run();
    const std::optional<std::size_t> different = first_difference(expected, got);
    if (!different) continue;
    INFO("deviations (step:which): ", told(hot));
    INFO("number ", *different, " of ", expected.size(), ", here ", got.size());
    CHECK(expected.size() == got.size());
    if (*different < std::min(expected.size(), got.size())) CHECK(got[*different] == expected[*different]);
  }
}

TEST_CASE("[G2] [G3] [G4] random loops have the same results with hot paths as without") {
  const unsigned count = static_cast<unsigned>(scaled(60));
  const HotStatistics before = hot_statistics();
  check_loops(count, 4);
  const HotStatistics after = hot_statistics();
  CHECK(after.known - before.known > 100 * count);
  CHECK(after.backwards - before.backwards > 5 * count);
}

// Arrays of 64 KiB and more: a new value of a parameter may be written over the old one.
TEST_CASE("[G2] [G3] [G4] random loops donate the memory of their parameters, with the same results") {
  check_loops(static_cast<unsigned>(scaled(40)), 8200);
}

}  // namespace
}  // namespace tidu::test
