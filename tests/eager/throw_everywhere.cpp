// throw_everywhere.cpp - a hook, a rule, a hook of the executor, a copy of an operand that throws, at each of
// its calls in turn: nothing leaks, no slot changes, and the next call on the same recorder, leaves and
// cached graphs is right.
#include "support/support.hpp"
#include "throwing.hpp"

namespace tidu::test::counted::throw_everywhere_cases {
namespace {

std::size_t blocks() { return tidu::detail::pool_statistics().blocks_in_use; }

constexpr std::pair<Place, std::string_view> places[] = {{Place::copy, "copy"},
                                                         {Place::forward, "execute_forward"},
                                                         {Place::transposed, "run_transposed_linear"},
                                                         {Place::add, "add_operands"},
                                                         {Place::ones, "ones_like"},
                                                         {Place::describe, "describe"},
                                                         {Place::version, "version"},
                                                         {Place::event, "record"},
                                                         {Place::wait, "wait"},
                                                         {Place::hook, "hook"},
                                                         {Place::callback, "callback"},
                                                         {Place::rule, "rule"}};

TEST_CASE("the program whose faults are walked through is right without any") {
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    Program program(way);
    CHECK(right(program.run(), way.options.accumulate));
    if (way.options.accumulate) {
      const auto expected = expected_gradients();
      CHECK(program.slots().first == doctest::Approx(100.0 + expected[1]));
      CHECK(program.slots().second == doctest::Approx(expected[2]));
    } else {
      CHECK(program.slots() == std::pair{100.0, 0.0});
    }
  }
}

TEST_CASE("[T7] [C7] whatever throws at any of its calls leaves no leak and a working tape") {
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    Program program(way);
    REQUIRE(right(program.run(), way.options.accumulate));
    program.reset();
    program.tape.executor.calls.clear();
    program.tape.executor.calls.reserve(1000);
    const long live = Counted::live;
    const std::size_t before = blocks();
    for (const auto& entry : places) {
      const auto place = entry.first;
      const std::string name(entry.second);
      CAPTURE(name);
      for (const Manner manner : {Manner::foreign, Manner::error, Manner::result}) {
        long k = 1;
        for (;; ++k) {
          CAPTURE(k);
          Faults::arm(place, manner, k);
          bool threw = false;
          bool good = false;
          try {
            good = right(program.run(), way.options.accumulate);
          } catch (const Injected&) {
            threw = manner == Manner::foreign && place != Place::rule;
          } catch (const Error& error) {  // the error of a rule has its location
            threw = manner != Manner::foreign ? error.kind() == ErrorKind::execution
                                              : place == Place::rule && error.kind() == ErrorKind::internal;
          }
          Faults::disarm();
          program.tape.executor.calls.clear();
          if (!Faults::struck) {  // all were walked through
            REQUIRE(good);
            program.reset();
            break;
          }
          REQUIRE(threw);
          if (place == Place::callback) program.reset();  // they run after everything, slots included
          REQUIRE(Counted::live == live);
          REQUIRE(blocks() == before);
          REQUIRE(program.slots() == std::pair{100.0, 0.0});
          REQUIRE(right(program.run(), way.options.accumulate));
          program.reset();
          program.tape.executor.calls.clear();
          REQUIRE(Counted::live == live);
          REQUIRE(blocks() == before);
        }
        CHECK(k > 1);
      }
    }
  }
  CHECK(Counted::live == 0);
}

// y = x; an exception of its rules is not due to the graph.
bool rule_is_down = false;
const Primitive unreliable{.name = "test.unreliable",
                           .linearity = linearity::linear,
                           .infer = [](InferContext& c) { c.result(c.operand(0)); },
                           .jvp = [](JvpContext& c) -> Derivatives {
                             if (rule_is_down) throw Error(ErrorKind::execution, "out of reach");
                             return emit(c.op(), Values(*c.tangent(0)))[0];
                           },
                           .transpose = [](TransposeContext& c) -> Derivatives { return c.cotangent(); }};

TEST_CASE("[T7] a rule that failed once, for no reason of the graph, is called again") {
  const PrimitiveSet set = standard_primitives().with({&unreliable});
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  const Op op = Op::make(unreliable);
  rule_is_down = true;
  bool failed = false;
  try {
    const Var y = tape.apply(op, {&x}, set);
    (void)tape.backward(y);
  } catch (const Error& error) {
    failed = error.kind() == ErrorKind::execution;
  }
  CHECK(failed);
  rule_is_down = false;
  const Var y = tape.apply(op, {&x}, set);
  CHECK(tape.backward(y).at(x.who.key).value == 1.0);
}

}  // namespace
}  // namespace tidu::test::counted::throw_everywhere_cases
