// structural_test.cpp - type rules of the structural primitives: valid operands, errors and their text; and
// the normal forms of attributes that the emitting functions make.
#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "refusal.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace structural_cases {
namespace {

using namespace tidu;
using test::infer;
using test::refusal;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

void check_refused(const Primitive& primitive, const Attributes& attributes,
                   const std::vector<Type>& operands) {
  const std::string message = refusal(primitive, attributes, operands);
  CAPTURE(message);
  CHECK(message.rfind('[' + std::string(primitive.name) + "] ", 0) == 0);
}

Type f(Shape shape) { return Type(f64, shape); }
Type i(Shape shape) { return Type(i32, shape); }

Attributes dot(Ints lhs, Ints rhs, Ints lhs_batch = {}, Ints rhs_batch = {}) {
  return {{"dimension_numbers", IntLists{lhs, rhs, lhs_batch, rhs_batch}}};
}
Attributes at(std::int64_t axis, const char* mode = "clip") { return {{"axis", axis}, {"mode", mode}}; }
Attributes slicing(Ints start, Ints limit, Ints strides) {
  return {{"start_indices", start}, {"limit_indices", limit}, {"strides", strides}};
}

TEST_CASE("shape primitives give the types of lax") {
  CHECK(infer(prim::reshape, {{"new_sizes", Ints{3, 4}}}, {f({2, 6})}) == f({3, 4}));
  CHECK(infer(prim::reshape, {{"new_sizes", Ints{}}}, {f({1, 1})}) == f({}));
  CHECK(infer(prim::reshape, {{"new_sizes", Ints{7, 0}}}, {f({0, 3})}) == f({7, 0}));
  CHECK(infer(prim::transpose, {{"permutation", Ints{2, 0, 1}}}, {f({2, 3, 4})}) == f({4, 2, 3}));
  CHECK(infer(prim::broadcast_in_dim, {{"shape", Ints{4, 2, 3}}, {"broadcast_dimensions", Ints{1, 2}}},
              {f({1, 3})}) == f({4, 2, 3}));
  CHECK(infer(prim::squeeze, {{"dimensions", Ints{2, 0}}}, {f({1, 3, 1})}) == f({3}));
  CHECK(infer(prim::expand_dims, {{"dimensions", Ints{0, 3}}}, {f({3, 2})}) == f({1, 3, 2, 1}));
  CHECK(infer(prim::rev, {{"dimensions", Ints{1}}}, {f({3, 4})}) == f({3, 4}));
  CHECK(infer(prim::slice, slicing({1, 0}, {6, 2}, {2, 1}), {f({7, 2})}) == f({3, 2}));
  CHECK(infer(prim::slice, slicing({7}, {7}, {5}), {f({7})}) == f({0}));
  CHECK(infer(prim::pad, {{"padding_config", IntLists{{1, 2, 1}, {0, 1, 2}}}}, {f({3, 4}), f({})}) ==
        f({8, 11}));
  CHECK(infer(prim::pad, {{"padding_config", IntLists{{-1, 2, 0}, {1, -2, 1}}}}, {f({5, 4}), f({})}) ==
        f({6, 6}));
  CHECK(infer(prim::pad, {{"padding_config", IntLists{{1, 1, 9}}}}, {f({0}), f({})}) == f({2}));
  CHECK(infer(prim::concatenate, {{"dimension", 1}}, {f({2, 3}), f({2, 1}), f({2, 0})}) == f({2, 4}));
  CHECK(infer(prim::convert_element_type, {{"new_dtype", c128}}, {i({3})}) == Type(c128, {3}));
  CHECK(infer(prim::stop_gradient, {}, {i({3})}) == i({3}));
  CHECK(infer(prim::device_put, {{"device", "cuda:0"}, {"src", "cpu"}}, {i({3})}) == i({3}));
  const Op barrier = Op::make(prim::optimization_barrier, {{"instance", 7}});
  CHECK(infer_types(barrier, std::vector<Type>{f({2}), i({})}) == std::vector<Type>{f({2}), i({})});
}

TEST_CASE("shape primitives refuse operands that do not fit") {
  check_refused(prim::reshape, {{"new_sizes", Ints{3, 5}}}, {f({2, 6})});
  check_refused(prim::reshape, {{"new_sizes", Ints{-1, 12}}}, {f({2, 6})});
  check_refused(prim::reshape, {{"new_sizes", Ints{huge, huge}}}, {f({2, 6})});
  check_refused(prim::transpose, {{"permutation", Ints{0}}}, {f({2, 6})});
  check_refused(prim::transpose, {{"permutation", Ints{0, 0}}}, {f({2, 6})});
  check_refused(prim::transpose, {{"permutation", Ints{0, -1}}}, {f({2, 6})});
  const auto broadcast = [](Ints shape, Ints placed) {
    return Attributes{{"shape", shape}, {"broadcast_dimensions", placed}};
  };
  check_refused(prim::broadcast_in_dim, broadcast({4, 2}, {1}), {f({3})});
  check_refused(prim::broadcast_in_dim, broadcast({4, 3}, {2}), {f({3})});
  check_refused(prim::broadcast_in_dim, broadcast({4, 3}, {}), {f({3})});
  check_refused(prim::broadcast_in_dim, broadcast({3, 3}, {1, 0}), {f({3, 3})});
  check_refused(prim::broadcast_in_dim, broadcast({huge, huge, 3}, {2}), {f({3})});
  check_refused(prim::broadcast_in_dim, broadcast({-4, 3}, {1}), {f({3})});
  check_refused(prim::squeeze, {{"dimensions", Ints{1}}}, {f({1, 3})});
  check_refused(prim::squeeze, {{"dimensions", Ints{0, 0}}}, {f({1, 3})});
  check_refused(prim::squeeze, {{"dimensions", Ints{-2}}}, {f({1, 3})});
  check_refused(prim::expand_dims, {{"dimensions", Ints{4}}}, {f({3, 2})});
  check_refused(prim::expand_dims, {{"dimensions", Ints{1, 1}}}, {f({3, 2})});
  check_refused(prim::rev, {{"dimensions", Ints{2}}}, {f({3, 4})});
  check_refused(prim::rev, {{"dimensions", Ints{1, 1}}}, {f({3, 4})});
  check_refused(prim::convert_element_type, {{"new_dtype", f64}}, {Type(c128, {3})});
  check_refused(prim::optimization_barrier, {{"instance", 7}}, {});
  check_refused(prim::device_put, {{"device", ""}, {"src", "cpu"}}, {f({3})});
  check_refused(prim::device_put, {{"device", "cpu"}, {"src", ""}}, {f({3})});
}

TEST_CASE("slice, pad and concatenate refuse operands that do not fit") {
  check_refused(prim::slice, slicing({0}, {1}, {1}), {f({3, 2})});
  check_refused(prim::slice, slicing({2}, {1}, {1}), {f({3})});
  check_refused(prim::slice, slicing({-1}, {1}, {1}), {f({3})});
  check_refused(prim::slice, slicing({0}, {4}, {1}), {f({3})});
  check_refused(prim::slice, slicing({0}, {3}, {0}), {f({3})});
  CHECK(infer(prim::slice, slicing({0}, {3}, {huge}), {f({3})}) == f({1}));
  const auto config = [](IntLists lists) { return Attributes{{"padding_config", lists}}; };
  check_refused(prim::pad, config({{0, 0, 0}}), {f({3}), i({})});
  check_refused(prim::pad, config({{0, 0, 0}}), {f({3}), f({1})});
  check_refused(prim::pad, config({}), {f({3}), f({})});
  check_refused(prim::pad, config({{0, 0}}), {f({3}), f({})});
  check_refused(prim::pad, config({{0, 0, -1}}), {f({3}), f({})});
  check_refused(prim::pad, config({{-2, -2, 0}}), {f({3}), f({})});
  check_refused(prim::pad, config({{huge, 0, 0}}), {f({3}), f({})});
  check_refused(prim::pad, config({{least, huge, 0}}), {f({3}), f({})});
  check_refused(prim::pad, config({{0, 0, huge / 2}}), {f({5}), f({})});
  check_refused(prim::pad, config({{huge / 4, huge / 4, huge / 4}}), {f({3}), f({})});
  check_refused(prim::concatenate, {{"dimension", 0}}, {});
  check_refused(prim::concatenate, {{"dimension", 0}}, {f({})});
  check_refused(prim::concatenate, {{"dimension", 2}}, {f({2, 3})});
  check_refused(prim::concatenate, {{"dimension", -1}}, {f({2, 3})});
  check_refused(prim::concatenate, {{"dimension", 1}}, {f({2, 3}), f({3, 3})});
  check_refused(prim::concatenate, {{"dimension", 1}}, {f({2, 3}), i({2, 3})});
  check_refused(prim::concatenate, {{"dimension", 1}},
                {f({0, huge / 2}), f({0, huge / 2}), f({0, huge / 2})});
}

TEST_CASE("indexing primitives check axis, mode, indices and updates") {
  CHECK(infer(prim::take, at(1), {f({4, 5}), i({2, 3})}) == f({4, 2, 3}));
  CHECK(infer(prim::take, {{"axis", 0}}, {f({4, 5}), i({})}) == f({5}));
  CHECK(infer(prim::scatter_add, at(1), {f({2, 4}), i({2, 2}), f({2, 2, 2})}) == f({2, 4}));
  CHECK(infer(prim::take_along_axis, at(1), {f({2, 4}), Type(i64, {2, 7})}) == f({2, 7}));
  CHECK(infer(prim::scatter_add_along_axis, at(0), {f({2, 4}), i({5, 4}), f({5, 4})}) == f({2, 4}));
  CHECK(infer(prim::take, at(0, "drop"), {f({0, 5}), i({3})}) == f({3, 5}));
  check_refused(prim::take, at(0), {f({0, 5}), i({3})});
  check_refused(prim::take, at(2), {f({4, 5}), i({3})});
  check_refused(prim::take, at(-1), {f({4, 5}), i({3})});
  check_refused(prim::take, at(0, "wrap"), {f({4, 5}), i({3})});
  check_refused(prim::take, at(0), {f({4, 5}), f({3})});
  check_refused(prim::take, at(0), {f({4, huge / 64}), i({1000})});
  check_refused(prim::scatter_add, at(0), {f({4, 5}), i({3}), f({5, 3})});
  check_refused(prim::scatter_add, at(0), {f({4, 5}), i({3}), Type(f32, {3, 5})});
  check_refused(prim::scatter_add, at(0), {Type(bool_, {4}), i({3}), Type(bool_, {3})});
  check_refused(prim::take_along_axis, at(1), {f({2, 4}), i({3, 7})});
  check_refused(prim::take_along_axis, at(1), {f({2, 4}), i({7})});
  check_refused(prim::scatter_add_along_axis, at(1), {f({2, 4}), i({2, 7}), f({2, 6})});
}

TEST_CASE("reductions check axes and dtypes") {
  const auto axes = [](Ints list) { return Attributes{{"axes", list}}; };
  for (const Primitive* reduction :
       {&prim::reduce_sum, &prim::reduce_prod, &prim::reduce_max, &prim::reduce_min, &prim::logsumexp}) {
    CAPTURE(reduction->name);
    CHECK(infer(*reduction, axes({0, 2}), {f({2, 3, 4})}) == f({3}));
    CHECK(infer(*reduction, axes({2, 0}), {f({2, 3, 4})}) == f({3}));
    CHECK(infer(*reduction, axes({}), {f({2, 3})}) == f({2, 3}));
    CHECK(infer(*reduction, axes({0}), {f({0, 3})}) == f({3}));
    check_refused(*reduction, axes({3}), {f({2, 3, 4})});
    check_refused(*reduction, axes({-1}), {f({2, 3, 4})});
    check_refused(*reduction, axes({1, 1}), {f({2, 3, 4})});
  }
  for (const Primitive* reduction : {&prim::reduce_sum, &prim::reduce_prod, &prim::logsumexp})
    check_refused(*reduction, axes({0}), {Type(bool_, {2})});
  for (const Primitive* reduction : {&prim::reduce_max, &prim::reduce_min})
    CHECK(infer(*reduction, axes({0}), {Type(bool_, {2, 3})}) == Type(bool_, {3}));
  check_refused(prim::logsumexp, axes({0}), {i({2})});
  check_refused(prim::reduce_max, axes({0}), {Type(c128, {2})});
  CHECK(infer(prim::reduce_sum, axes({0}), {Type(c128, {2})}) == Type(c128));
  CHECK(infer(prim::reduce_and, axes({0}), {Type(bool_, {2, 3})}) == Type(bool_, {3}));
  check_refused(prim::reduce_or, axes({0}), {i({2, 3})});
  const auto index = [](std::int64_t axis, DType dtype) {
    return Attributes{{"axis", axis}, {"index_dtype", dtype}};
  };
  CHECK(infer(prim::argmax, index(1, i32), {f({3, 5})}) == i({3}));
  CHECK(infer(prim::argmin, index(0, i64), {i({3, 5})}) == Type(i64, {5}));
  CHECK(infer(prim::argmax, index(0, i32), {Type(bool_, {3, 5})}) == i({5}));
  CHECK(infer(prim::argmin, index(1, i64), {Type(bool_, {3, 5})}) == Type(i64, {3}));
  check_refused(prim::argmax, index(2, i32), {f({3, 5})});
  check_refused(prim::argmax, index(0, f64), {f({3, 5})});
  check_refused(prim::argmax, index(0, i32), {f({0, 5})});
  check_refused(prim::argmin, index(0, i32), {Type(c64, {3})});
}

TEST_CASE("cumulative primitives, sort and top_k check axes, keys and dtypes") {
  const auto along = [](std::int64_t axis) { return Attributes{{"axis", axis}, {"reverse", true}}; };
  for (const Primitive* primitive :
       {&prim::cumsum, &prim::cumprod, &prim::cummax, &prim::cummin, &prim::cumlogsumexp}) {
    CAPTURE(primitive->name);
    CHECK(infer(*primitive, along(1), {f({3, 5})}) == f({3, 5}));
    CHECK(infer(*primitive, along(0), {f({0, 5})}) == f({0, 5}));
    check_refused(*primitive, along(2), {f({3, 5})});
    check_refused(*primitive, along(-1), {f({3, 5})});
    check_refused(*primitive, along(0), {f({})});
    check_refused(*primitive, along(0), {Type(bool_, {3})});
  }
  CHECK(infer(prim::cumprod, along(0), {Type(c64, {3})}) == Type(c64, {3}));
  CHECK(infer(prim::cummax, along(0), {i({3})}) == i({3}));
  check_refused(prim::cummin, along(0), {Type(c64, {3})});
  check_refused(prim::cumlogsumexp, along(0), {i({3})});
  CHECK_THROWS_AS(Op::make(prim::cumprod, {{"axis", 0}}), Error);

  const auto sorted = [](std::int64_t dimension, std::int64_t keys) {
    return Attributes{{"dimension", dimension}, {"num_keys", keys}};
  };
  CHECK(infer_types(Op::make(prim::sort, sorted(0, 2)), std::vector<Type>{f({3}), Type(c64, {3}), i({3})}) ==
        std::vector<Type>{f({3}), Type(c64, {3}), i({3})});
  CHECK(refusal(prim::sort, sorted(0, 3), {f({3}), f({3})}) ==
        "[sort] expected num_keys from 1 to the number of operands, 2, got 3");
  CHECK(refusal(prim::sort, sorted(0, 1), {f({3}), f({4})}) ==
        "[sort] expected operands of one shape, got f64[3] and operand 1 f64[4]");
  check_refused(prim::sort, sorted(0, 0), {f({3})});
  check_refused(prim::sort, sorted(1, 1), {f({3})});
  check_refused(prim::sort, sorted(-1, 1), {f({3})});
  check_refused(prim::sort, sorted(0, 1), {f({})});
  check_refused(prim::sort, sorted(0, 1), {});
  CHECK_THROWS_AS(Op::make(prim::sort, {{"dimension", 0}}), Error);

  const auto top = [](std::int64_t k) { return Attributes{{"k", k}}; };
  CHECK(infer_types(Op::make(prim::top_k, top(2)), std::vector<Type>{f({4, 3})}) ==
        std::vector<Type>{f({4, 2}), i({4, 2})});
  CHECK(infer(prim::top_k, top(0), {Type(bool_, {0})}) == Type(bool_, {0}));
  CHECK(refusal(prim::top_k, top(4), {f({5, 3})}) ==
        "[top_k] expected k in [0, 3], the extent of the last axis of f64[5,3], got 4");
  check_refused(prim::top_k, top(-1), {f({3})});
  check_refused(prim::top_k, top(0), {f({})});
  check_refused(prim::top_k, top(1), {Type(c128, {3})});
}

TEST_CASE("dynamic slices check starts, sizes and updates") {
  const auto sizes = [](Ints list) { return Attributes{{"slice_sizes", list}}; };
  CHECK(infer(prim::dynamic_slice, sizes({2, 0}), {f({4, 5}), i({}), i({})}) == f({2, 0}));
  CHECK(infer(prim::dynamic_slice, sizes({}), {f({})}) == f({}));
  CHECK(refusal(prim::dynamic_slice, sizes({5}), {f({4}), i({})}) ==
        "[dynamic_slice] expected slice_sizes in [0, 4] in dimension 0 of f64[4], got [5]");
  CHECK(refusal(prim::dynamic_slice, sizes({1, 1}), {f({4, 5}), i({}), Type(i64)}) ==
        "[dynamic_slice] expected start indices that are scalars, all i32 or all i64, got i32[] for "
        "dimension 0 "
        "and i64[] for dimension 1");
  check_refused(prim::dynamic_slice, sizes({-1}), {f({4}), i({})});
  check_refused(prim::dynamic_slice, sizes({1, 1}), {f({4}), i({})});
  check_refused(prim::dynamic_slice, sizes({1}), {f({4}), f({})});
  check_refused(prim::dynamic_slice, sizes({1}), {f({4}), i({1})});
  check_refused(prim::dynamic_slice, sizes({1}), {f({4})});
  check_refused(prim::dynamic_slice, sizes({1}), {f({4}), i({}), i({})});
  check_refused(prim::dynamic_slice, sizes({}), {});
  CHECK(infer(prim::dynamic_update_slice, {}, {f({4, 5}), f({0, 5}), i({}), i({})}) == f({4, 5}));
  CHECK(infer(prim::dynamic_update_slice, {}, {f({}), f({})}) == f({}));
  check_refused(prim::dynamic_update_slice, {}, {f({4}), f({5}), i({})});
  check_refused(prim::dynamic_update_slice, {}, {f({4}), i({3}), i({})});
  check_refused(prim::dynamic_update_slice, {}, {f({4}), f({}), i({})});
  check_refused(prim::dynamic_update_slice, {}, {f({4}), f({3})});
  check_refused(prim::dynamic_update_slice, {}, {f({4}), f({3}), Type(bool_)});
  check_refused(prim::dynamic_update_slice, {}, {f({})});
  check_refused(prim::dynamic_update_slice, {}, {});
}

TEST_CASE("dot_general puts batch axes before free axes and names differences") {
  CHECK(infer(prim::dot_general, dot({1}, {0}), {f({3, 4}), f({4, 6})}) == f({3, 6}));
  CHECK(infer(prim::dot_general, dot({}, {}), {f({3}), f({4})}) == f({3, 4}));
  CHECK(infer(prim::dot_general, dot({3}, {3}, {0, 1}, {1, 0}), {f({3, 2, 4, 5}), f({2, 3, 6, 5})}) ==
        f({3, 2, 4, 6}));
  CHECK(refusal(prim::dot_general, dot({1}, {0}), {f({3, 4}), f({5, 6})}) ==
        "[dot_general] contracted dimensions differ: dimension 1 of lhs f64[3,4] is 4, dimension 0 of rhs "
        "f64[5,6] is 5");
  CHECK(refusal(prim::dot_general, dot({2}, {1}, {0}, {0}), {f({3, 4, 5}), f({2, 5, 6})}) ==
        "[dot_general] batch dimensions differ: dimension 0 of lhs f64[3,4,5] is 3, dimension 0 of rhs "
        "f64[2,5,6] is 2");
  check_refused(prim::dot_general, dot({1}, {}), {f({3, 4}), f({4, 6})});
  check_refused(prim::dot_general, dot({2}, {0}), {f({3, 4}), f({4, 6})});
  check_refused(prim::dot_general, dot({-1}, {0}), {f({3, 4}), f({4, 6})});
  check_refused(prim::dot_general, dot({1, 1}, {0, 0}), {f({4, 4}), f({4, 4})});
  check_refused(prim::dot_general, dot({1}, {0}, {1}, {1}), {f({4, 4}), f({4, 4})});
  check_refused(prim::dot_general, dot({1}, {0}), {f({3, 4}), Type(f32, {4, 6})});
  check_refused(prim::dot_general, dot({0}, {0}), {Type(bool_, {3}), Type(bool_, {3})});
  check_refused(prim::dot_general, dot({}, {}), {f({huge / 64}), f({huge / 64})});
}

TEST_CASE("call has the types of its graph") {
  GraphBuilder inner("inner");
  const Value a = inner.input("a", f({3}));
  const Value b = inner.input("b", i({}));
  const Graph graph = inner.build({b, a});
  const Op op = Op::make(prim::call, {{"graph", graph}});
  CHECK(infer_types(op, std::vector<Type>{f({3}), i({})}) == std::vector<Type>{i({}), f({3})});
  CHECK(refusal(prim::call, {{"graph", graph}}, {f({3}), f({})}) ==
        "[call] expected i32[] for operand 1, input \"b\" of graph \"inner\", got f64[]");
  check_refused(prim::call, {{"graph", graph}}, {f({3})});
  check_refused(prim::call, {{"graph", Graph()}}, {});
}

TEST_CASE("emitting functions give attributes their normal form") {
  GraphBuilder builder("f");
  const Value x = builder.input("x", f({2, 3, 4}));
  const auto attribute = [&](Value value, std::string_view name) {
    return builder.data().operations[builder.data().producers[value.id()]].op->attributes[0].first == name
               ? Op::of(builder.data().operations[builder.data().producers[value.id()]].op).ints(name)
               : Ints{};
  };
  CHECK(attribute(ops::reduce_sum(x, {-1, 0}), "axes") == Ints{0, 2});
  CHECK(ops::reduce_sum(x, {-1, 0}) == ops::reduce_sum(x, {0, 2}));
  CHECK(attribute(ops::expand_dims(x, {-1, 0}), "dimensions") == Ints{0, 4});
  CHECK(ops::squeeze(ops::expand_dims(x, {1}), {-3}).type() == x.type());
  CHECK(ops::transpose(x, {0, -2, -1}) == x);
  CHECK(ops::reshape(x, {2, 3, 4}) == x);
  CHECK(ops::convert_element_type(x, f64) == x);
  CHECK(ops::slice(x, {0, 0, 0}, {2, 3, 4}) == x);
  CHECK(ops::concatenate(std::vector<Value>{x, x}, -1).type() == f({2, 3, 8}));
  CHECK(ops::matmul(ops::reshape(x, {6, 4}), ops::reshape(x, {4, 6})).type() == f({6, 6}));
  CHECK(ops::matmul(ops::reshape(x, {24}), ops::reshape(x, {24})).type() == f({}));
  CHECK_THROWS_WITH_AS(ops::matmul(x, x),
                       "[matmul] expected operands of rank 1 or 2, got f64[2,3,4] and f64[2,3,4]", Error);
  CHECK_THROWS_AS(ops::reduce_sum(x, {-4}), Error);
}

TEST_CASE("every structural record can be batched, and every linear one transposed") {
  for (const Primitive* primitive : prim::structural_primitives()) {
    CAPTURE(primitive->name);
    CHECK((primitive->infer != nullptr));
    CHECK((primitive->batch != nullptr));
    CHECK((primitive->differentiable() || primitive->has_trait(Trait::no_tangent)));
    CHECK((primitive->linearity.kind == Linearity::Kind::none) == (primitive->transpose == nullptr));
  }
}

}  // namespace
}  // namespace structural_cases
