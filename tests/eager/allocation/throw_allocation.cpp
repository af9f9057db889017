// throw_allocation.cpp - a program of its own, in which every allocation can be made to fail: the k-th one of
// recording and backward, for each k, on structures seen before and on new ones. Nothing leaks, no slot
// changes, and the next call is right.
#include <cstdlib>
#include <new>

#include "eager/throwing.hpp"
#include "support/support.hpp"

namespace {

// Of this thread; the tests have one.
bool armed = false;
long left = 0;
bool struck = false;
long balance = 0;  // allocations that were not given back

void* take(std::size_t bytes) {
  if (armed && --left == 0) {
    struck = true;
    throw std::bad_alloc();
  }
  void* block = std::malloc(bytes == 0 ? 1 : bytes);
  if (block == nullptr) throw std::bad_alloc();
  ++balance;
  return block;
}
void* take(std::size_t bytes, std::align_val_t align) {
  if (armed && --left == 0) {
    struck = true;
    throw std::bad_alloc();
  }
  const auto unit = static_cast<std::size_t>(align);
  void* block = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  if (block == nullptr) throw std::bad_alloc();
  ++balance;
  return block;
}
void give(void* block) noexcept {
  if (block == nullptr) return;
  --balance;
  std::free(block);
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes); }
void* operator new[](std::size_t bytes) { return take(bytes); }
void* operator new(std::size_t bytes, std::align_val_t align) { return take(bytes, align); }
void* operator new[](std::size_t bytes, std::align_val_t align) { return take(bytes, align); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return take(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* block, const std::nothrow_t&) noexcept { give(block); }
void operator delete(void* block) noexcept { give(block); }
void operator delete[](void* block) noexcept { give(block); }
void operator delete(void* block, std::size_t) noexcept { give(block); }
void operator delete[](void* block, std::size_t) noexcept { give(block); }
void operator delete(void* block, std::align_val_t) noexcept { give(block); }
void operator delete[](void* block, std::align_val_t) noexcept { give(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { give(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { give(block); }

namespace tidu::test::counted {
namespace {

enum class End { right, wrong, failed, other };

// Runs the program with the k-th allocation failing; 0: none.
End run(Program& program, const Way& way, long k) {
  End end = End::wrong;
  struck = false;
  left = k;
  armed = k != 0;
  try {
    const std::array<double, 3> got = program.run();
    armed = false;
    end = right(got, way.options.accumulate) ? End::right : End::wrong;
  } catch (const std::bad_alloc&) {
    end = End::failed;
  } catch (const Error& error) {
    end = error.kind() == ErrorKind::out_of_memory ? End::failed : End::other;
  } catch (...) {
    end = End::other;
  }
  armed = false;
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
      const long before = balance;
      const End end = run(program, way, k);
      if (!struck) {
        REQUIRE(end == End::right);
        program.reset();
        break;
      }
      // Some allocations are for what can be done without.
      REQUIRE((end == End::failed || end == End::right));
      if (end == End::failed) REQUIRE(program.slots() == std::pair{100.0, 0.0});
      if (end == End::right) program.reset();
      REQUIRE(Counted::live == live);
      program.reset();
      const long after = balance;
      REQUIRE(tidu::detail::pool_statistics().blocks_in_use == blocks);
      REQUIRE(run(program, way, 0) == End::right);
      program.reset();
      REQUIRE(balance == after);
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
    eager::set_template_limit(eager::set_template_limit(0));  // nothing piles up
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
        const long before = balance;
        Faults::arm(place, Manner::foreign, k);
        (void)run(program, way, 0);
        Faults::disarm();
        program.reset();
        if (!Faults::struck) break;
        REQUIRE(balance == before);
      }
    }
  }
}

}  // namespace
}  // namespace tidu::test::counted
