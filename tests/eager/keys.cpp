// keys.cpp - sources of keys: moved, and in the two processes of a fork.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "tidu/tidu.hpp"

namespace tidu::test {
namespace {

using eager::Key, eager::KeySource;

TEST_CASE("a source that was moved from goes on as one of its own") {
  KeySource first;
  const Key before = first.fresh();
  KeySource second = std::move(first);
  CHECK(second.source() == before.source);
  CHECK(second.fresh().counter == before.counter + 1);
  CHECK(first.fresh());  // NOLINT(bugprone-use-after-move)
  CHECK(first.source() != second.source());
  KeySource third;
  third = std::move(second);
  CHECK(third.source() == before.source);
  CHECK(second.fresh());  // NOLINT(bugprone-use-after-move)
  CHECK(second.source() != third.source());
}

struct Names {
  std::uint64_t source;
  Key128 instance;
  InputKey old;
  static Names next(const Key& key) {
    return {KeySource().source(), detail::fresh_instance(), key.input_key()};
  }
};
static_assert(std::is_trivially_copyable_v<Names>);

// Reports to the parent the key that the process would make next.
bool report(const Key& key, int to) {
  const Names names = Names::next(key);
  return ::write(to, &names, sizeof names) == sizeof names;
}

// The child of the test, and a child of that.
[[noreturn]] void in_child(const Key& key, int to) {
  const bool reported = report(key, to);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(report(key, to) ? 0 : 1);
  int status = 0;
  ::_exit(::waitpid(child, &status, 0) == child && status == 0 && reported ? 0 : 1);
}

TEST_CASE("processes of a fork make names that are not each other's, and keep those from before") {
  const Key key = KeySource().fresh();
  const InputKey old = key.input_key();
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) in_child(key, ends[1]);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  std::array<Names, 3> names{Names::next(key), Names::next(key), Names::next(key)};
  REQUIRE(::read(ends[0], names.data() + 1, 2 * sizeof(Names)) == 2 * sizeof(Names));
  ::close(ends[0]);
  ::close(ends[1]);
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(names[i].old == old);
    for (std::size_t j = 0; j < i; ++j) {
      CHECK(names[i].source != names[j].source);
      CHECK(names[i].instance != names[j].instance);
    }
  }
}

}  // namespace
}  // namespace tidu::test
