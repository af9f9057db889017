// Types of collectives, their errors, and their rules as graphs.
#include <doctest/doctest.h>

#include "primitives/refusal.hpp"
#include "support/probe.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/collectives.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::test {
namespace {

Attributes axis(std::int64_t size, Attributes more = {}) {
  Attributes all{{"axis_name", "i"}, {"axis_size", size}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
Attributes gather(std::int64_t dimension, bool tiled) {
  return axis(4, {{"all_gather_dimension", dimension}, {"tiled", tiled}});
}
Attributes scatter(std::int64_t dimension, bool tiled) {
  return axis(4, {{"scatter_dimension", dimension}, {"tiled", tiled}});
}
Attributes permute(const IntLists& perm) { return axis(4, {{"perm", perm}}); }

TEST_CASE("types of collectives") {
  CHECK(infer(prim::psum, axis(4), {Type(f16, {2, 3})}) == Type(f16, {2, 3}));
  CHECK(infer(prim::all_gather, gather(0, false), {Type(bool_, {})}) == Type(bool_, {4}));
  CHECK(infer(prim::all_gather, gather(1, false), {Type(f32, {2, 3})}) == Type(f32, {2, 4, 3}));
  CHECK(infer(prim::all_gather, gather(1, true), {Type(f32, {2, 3})}) == Type(f32, {2, 12}));
  CHECK(infer(prim::reduce_scatter, scatter(1, false), {Type(f32, {2, 4, 3})}) == Type(f32, {2, 3}));
  CHECK(infer(prim::reduce_scatter, scatter(1, true), {Type(f32, {2, 8})}) == Type(f32, {2, 2}));
  CHECK(infer(prim::ppermute, permute({{0, 1}, {1, 0}}), {Type(bool_, {5})}) == Type(bool_, {5}));
}

TEST_CASE("errors of collectives") {
  CHECK(refusal(prim::psum, {{"axis_name", ""}, {"axis_size", 4}}, {Type(f32, {})}) ==
        "[psum] expected an axis_name, got an empty one");
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{1} << 40}) {
    CHECK(refusal(prim::psum, axis(size), {Type(f32, {})}) ==
          detail::str("[psum] expected axis_size of 1 to 2147483647, got ", size));
  }
  CHECK(refusal(prim::psum, axis(4), {Type(bool_, {})}).find("[psum] expected") == 0);
  CHECK(refusal(prim::all_gather, gather(2, true), {Type(f32, {2, 3})}).find("[all_gather] expected") == 0);
  CHECK(
      refusal(prim::all_gather, gather(0, true), {Type(i32, {std::int64_t{1} << 59})}).find("[all_gather]") ==
      0);
  CHECK(refusal(prim::reduce_scatter, scatter(0, false), {Type(f32, {3})}) ==
        "[reduce_scatter] expected axis_size 4 in dimension 0, got f32[3]");
  CHECK(refusal(prim::reduce_scatter, scatter(0, true), {Type(f32, {6})}) ==
        "[reduce_scatter] expected axis_size 4 to divide dimension 0 of f32[6]");
  CHECK(refusal(prim::ppermute, permute({{0, 4}}), {Type(f32, {})}) ==
        "[ppermute] expected ranks in [0, 4) in perm, got 4");
  CHECK(refusal(prim::ppermute, permute({{0, 1, 2}}), {Type(f32, {})}).find("[source, destination]") !=
        std::string::npos);
  CHECK(refusal(prim::ppermute, permute({{0, 1}, {2, 1}}), {Type(f32, {})}) ==
        "[ppermute] expected every rank to be a destination once in perm, got 1 twice");
}

TEST_CASE("derivatives and batches of collectives are collectives") {
  GraphBuilder builder("f", standard_primitives());
  const Value x = builder.input("x", Type(f32, {4, 3}));
  const Value part = ops::reduce_scatter(x, "i", 4);
  const Value moved = ops::ppermute(part, "i", 4, {{0, 1}, {3, 2}});
  const Value all = ops::all_gather(ops::psum(moved, "i", 4), "i", 4, -1, true);
  const Graph graph = builder.build({all});
  const Graph backward = vjp(graph);
  for (const char* name : {"psum", "all_gather", "reduce_scatter", "ppermute"})
    CHECK(count(backward, name) == 2);
  IntLists last;
  for (std::size_t i = 0; i < backward.num_operations(); ++i) {
    if (backward.operation(i).name() == "ppermute") last = backward.operation(i).op().lists("perm");
  }
  CHECK(last == IntLists{{1, 0}, {2, 3}});
  const Graph many = vmap(graph, 5, {"x"});
  for (std::size_t i = 0; i < many.num_operations(); ++i) {
    const Op op = many.operation(i).op();
    if (op.name() == "all_gather") CHECK(op.integer("all_gather_dimension") == 1);
    if (op.name() == "reduce_scatter") CHECK(op.integer("scatter_dimension") == 1);
  }
  CHECK(many.type(many.outputs()[0]) == Type(f32, {5, 12}));
}

}  // namespace
}  // namespace tidu::test
