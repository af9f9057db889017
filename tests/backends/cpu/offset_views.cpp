// Pads of functions of slices, and rolls, as offset views of all elements: graphs that are rewritten, and
// those that are not.
#include <doctest/doctest.h>

#include "support/support.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

constexpr std::int64_t extent = 40;

Value near(const Value& x, std::int64_t down, std::int64_t across) {
  return ops::slice(x, {1 + down, 1 + across}, {extent - 1 + down, extent - 1 + across});
}
Value framed(const Value& x, double with = 0) {
  return ops::pad(x, ops::full(*x.emitter(), Type(x.type().dtype(), {}), with), {{1, 1, 0}, {1, 1, 0}});
}
Value rolled_across(const Value& x, std::int64_t by) {
  const Value last = ops::slice(x, {0, extent - by}, {extent, extent});
  const Value first = ops::slice(x, {0, 0}, {extent, extent - by});
  return ops::concatenate(std::vector{last, first}, 1);
}

std::string primitives_of(const Graph& graph) {
  const Graph result = passes::offset_views(graph);
  std::string names;
  for (std::size_t k = 0; k < result.num_operations(); ++k)
    names += detail::str(k == 0 ? "" : " ", result.operation(k).op().name());
  return names;
}
bool is_left(const Graph& graph) { return passes::offset_views(graph).share() == graph.share(); }

}  // namespace

TEST_CASE("[offset views] a pad takes in functions of slices, and is a select of offset views") {
  GraphBuilder builder("stencil");
  const Value u = builder.input("u", Type(f32, {extent, extent}));
  const Value sum = ops::add(near(u, 0, 1), near(u, -1, 0));
  const Graph graph = builder.build({ops::add(u, framed(sum, 3))});
  CHECK(primitives_of(graph) ==
        "full reshape slice full pad slice pad add broadcast_in_dim constant select_n reshape add");
}

TEST_CASE("[offset views] a roll along rows is a select of two of its array's") {
  GraphBuilder builder("roll");
  const Value u = builder.input("u", Type(f64, {extent, extent}));
  const Graph graph = builder.build({ops::sub(rolled_across(u, 3), u)});
  CHECK(primitives_of(graph) == "reshape slice full pad slice pad constant select_n reshape sub");
}

TEST_CASE("[offset views] graphs without a gain are unchanged") {
  GraphBuilder builder("left");
  const Type type(f32, {extent, extent});
  const Value u = builder.input("u", type);
  const Value sum = ops::add(near(u, 0, 1), near(u, 0, -1));
  SUBCASE("no element-wise operation reads it") { CHECK(is_left(builder.build({framed(sum)}))); }
  SUBCASE("its rows are reduced") {
    CHECK(is_left(builder.build({ops::reduce_sum(ops::add(framed(sum), u), {1})})));
  }
  SUBCASE("a value that it would take in has other readers") {
    CHECK(is_left(builder.build({ops::add(framed(sum), u), sum})));
  }
  SUBCASE("two pads would recompute an expensive value") {
    const Value much = ops::exp(sum);
    CHECK(is_left(builder.build({ops::add(ops::add(framed(much), framed(much, 1)), u)})));
  }
  SUBCASE("it is padded with more than there is") {
    const Value corner = ops::slice(u, {0, 0}, {8, 8});
    const Value zero = ops::full(builder, Type(f32, {}), 0.0);
    CHECK(is_left(builder.build({ops::add(ops::pad(corner, zero, {{0, 32, 0}, {0, 32, 0}}), u)})));
  }
  SUBCASE("slices are of an array of another shape") {
    const Value wide = builder.input("wide", Type(f32, {extent, extent + 2}));
    const Value part = ops::slice(wide, {0, 0}, {extent - 2, extent - 2});
    CHECK(is_left(builder.build({ops::add(framed(part), u)})));
  }
  SUBCASE("integers") {
    const Value whole = builder.input("whole", Type(i32, {extent, extent}));
    CHECK(is_left(builder.build({ops::add(rolled_across(whole, 1), whole)})));
  }
  SUBCASE("a roll along the first axis is one line as it is") {
    const Value last = ops::slice(u, {extent - 1, 0}, {extent, extent});
    const Value first = ops::slice(u, {0, 0}, {extent - 1, extent});
    CHECK(is_left(builder.build({ops::add(ops::concatenate(std::vector{last, first}, 0), u)})));
  }
}
