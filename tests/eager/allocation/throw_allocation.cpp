// throw_allocation.cpp - a program of its own, in which every allocation can be made to fail: the k-th one of
// recording and backward, for each k, on structures seen before and on new ones. Nothing leaks, no slot
// changes, and the next call is right.
#include "c/faults/allocations.h"
#include "eager/throwing.hpp"
#include "support/support.hpp"

namespace tidu::test::counted {
namespace {

enum class End { right, wrong, failed, other };

bool struck = false;  // did an allocation of the last run fail?
void disarm() {
  struck = struck || allocation_struck() != 0;
  fail_allocation(0);
}

// Runs the program with the k-th allocation failing; 0: none.
End run(Program& program, const Way& way, long k) {
  End end = End::wrong;
  struck = false;
  fail_allocation(k);
  try {
    const std::array<double, 3> got = program.run();
    disarm();
    end = right(got, way.options.accumulate) ? End::right : End::wrong;
  } catch (const std::bad_alloc&) {
    end = End::failed;
  } catch (const Error& error) {
    end = error.kind() == ErrorKind::out_of_memory ? End::failed : End::other;
  } catch (...) {
    end = End::other;
  }
  disarm();
  program.tape.executor.calls.clear();
  return end;
}

TEST_CASE("[T7] [C7] every allocation of a structure seen before may fail, without a leak") {
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    Program program(way);
    program.tape.executor.calls.reserve(1000);
    for (int i = 0; i < 3; ++i) {
      REQUIRE(run(program, way, 0) == End::right);
      program.reset();
    }
    const long live = Counted::live;
    const std::size_t blocks = tidu::detail::pool_statistics().blocks_in_use;
    const long step = shortened() ? 3 : 1;
    long k = 1;
    for (;; k += step) {
      CAPTURE(k);
      const long before = allocation_balance();
      const End end = run(program, way, k);
      if (!struck) {
        REQUIRE(end == End::right);
        program.reset();
        break;
      }
      // Some allocations are optional.
      REQUIRE((end == End::failed || end == End::right));
      if (end == End::failed) REQUIRE(program.slots() == std::pair{100.0, 0.0});
      if (end == End::right) program.reset();
      REQUIRE(Counted::live == live);
      program.reset();
      const long after = allocation_balance();
      REQUIRE(tidu::detail::pool_statistics().blocks_in_use == blocks);
      REQUIRE(run(program, way, 0) == End::right);
      program.reset();
      REQUIRE(allocation_balance() == after);
      REQUIRE(after == before);
    }
    CHECK(k > 100);
  }
  CHECK(Counted::live == 0);
}

TEST_CASE("[T7] [C7] every allocation while a structure is new may fail, and it is derived the next time") {
  const Way way;
  Program program(way);
  program.tape.executor.calls.reserve(1000);
  REQUIRE(run(program, way, 0) == End::right);
  const long live = Counted::live;
  // Every third one in the usual run, each one in the long run.
  const long step = scaled(1) > 1 ? 1 : 3;
  long k = 1;
  for (;; k += step) {
    CAPTURE(k);
    program.name = "new " + std::to_string(k);
    const End end = run(program, way, k);
    if (!struck) break;
    REQUIRE((end == End::failed || end == End::right));
    REQUIRE(Counted::live == live);
    REQUIRE(run(program, way, 0) == End::right);
    REQUIRE(Counted::live == live);
    eager::set_cached_graph_limit(eager::set_cached_graph_limit(0));  // nothing piles up
  }
  CHECK(k > 300);
}

TEST_CASE("[T7] [C7] whatever throws gives back every allocation, at each of its calls") {
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    Program program(way);
    program.tape.executor.calls.reserve(1000);
    for (int i = 0; i < 3; ++i) REQUIRE(run(program, way, 0) == End::right);
    for (const Place place :
         {Place::copy, Place::forward, Place::transposed, Place::add, Place::ones, Place::describe,
          Place::version, Place::event, Place::wait, Place::hook, Place::callback, Place::rule}) {
      for (long k = 1;; ++k) {
        CAPTURE(k);
        program.reset();
        const long before = allocation_balance();
        Faults::arm(place, Manner::foreign, k);
        (void)run(program, way, 0);
        Faults::disarm();
        program.reset();
        if (!Faults::struck) break;
        REQUIRE(allocation_balance() == before);
      }
    }
  }
}

}  // namespace
}  // namespace tidu::test::counted
