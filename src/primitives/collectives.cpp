// collectives.cpp - records of the operations over the ranks of a named axis. All are linear; transposes are
// with respect to the inner product summed over all ranks. They have the trait of barriers: no pass folds a
// collective of a constant or moves other operations across it, so that every rank runs them in one order.
#include "tidu/primitives/collectives.hpp"

#include <algorithm>

#include "axes.hpp"
#include "rules.hpp"

namespace tidu::prim {
namespace {

constexpr std::int64_t max_ranks = std::int64_t{1} << 31;
constexpr AttributeSpec sum_attributes[] = {{"axis_name", AttributeKind::string},
                                            {"axis_size", AttributeKind::integer}};
constexpr AttributeSpec gather_attributes[] = {{"axis_name", AttributeKind::string},
                                               {"axis_size", AttributeKind::integer},
                                               {"all_gather_dimension", AttributeKind::integer},
                                               {"tiled", AttributeKind::boolean, true, 0}};
constexpr AttributeSpec scatter_attributes[] = {{"axis_name", AttributeKind::string},
                                                {"axis_size", AttributeKind::integer},
                                                {"scatter_dimension", AttributeKind::integer},
                                                {"tiled", AttributeKind::boolean, true, 0}};
constexpr AttributeSpec permute_attributes[] = {{"axis_name", AttributeKind::string},
                                                {"axis_size", AttributeKind::integer},
                                                {"perm", AttributeKind::int_lists}};

// The number of ranks, after the checks of the axis that all collectives share.
std::int64_t require_ranks(const InferContext& c) {
  const std::int64_t size = c.op().integer("axis_size");
  c.require(!c.op().string("axis_name").empty(), "expected an axis_name, got an empty one");
  c.require(size >= 1 && size < max_ranks, "expected axis_size of 1 to ", max_ranks - 1, ", got ", size);
  return size;
}

void infer_psum(InferContext& c) {
  require_ranks(c);
  require_numeric(c, 0);
  c.result(c.operand(0));
}

void infer_all_gather(InferContext& c) {
  const std::int64_t size = require_ranks(c), dimension = c.op().integer("all_gather_dimension");
  const Type x = c.operand(0);
  Shape shape = x.shape();
  if (c.op().boolean("tiled")) {
    require_axis(c, "all_gather_dimension", dimension, x.rank());
    std::int64_t& extent = shape[static_cast<std::size_t>(dimension)];
    extent = checked_mul(c, extent, size);
  } else {
    require_axis(c, "all_gather_dimension", dimension, x.rank() + 1);
    shape.insert(shape.begin() + dimension, size);
  }
  give(c, x.dtype(), shape);
}

void infer_reduce_scatter(InferContext& c) {
  const std::int64_t size = require_ranks(c), dimension = c.op().integer("scatter_dimension");
  const Type x = c.operand(0);
  require_numeric(c, 0);
  require_axis(c, "scatter_dimension", dimension, x.rank());
  Shape shape = x.shape();
  std::int64_t& extent = shape[static_cast<std::size_t>(dimension)];
  if (c.op().boolean("tiled")) {
    c.require(extent % size == 0, "expected axis_size ", size, " to divide dimension ", dimension, " of ", x);
    extent /= size;
  } else {
    c.require(extent == size, "expected axis_size ", size, " in dimension ", dimension, ", got ", x);
    shape.erase(shape.begin() + dimension);
  }
  give(c, x.dtype(), shape);
}

void infer_ppermute(InferContext& c) {
  const std::int64_t size = require_ranks(c);
  std::vector<std::int64_t> sources, destinations;
  for (const Ints& pair : c.op().lists("perm")) {
    c.require(pair.size() == 2, "expected perm of [source, destination], got ", detail::list(pair));
    for (const std::int64_t rank : pair)
      c.require(0 <= rank && rank < size, "expected ranks in [0, ", size, ") in perm, got ", rank);
    sources.push_back(pair[0]);
    destinations.push_back(pair[1]);
  }
  const auto require_distinct = [&](std::vector<std::int64_t>& ranks, std::string_view what) {
    std::sort(ranks.begin(), ranks.end());
    const auto twice = std::adjacent_find(ranks.begin(), ranks.end());
    if (twice != ranks.end())
      c.fail("expected every rank to be a ", what, " once in perm, got ", *twice, " twice");
  };
  require_distinct(sources, "source");
  require_distinct(destinations, "destination");
  c.result(c.operand(0));
}

// The op's axis, and its attribute `name` shifted by a leading axis.
Values batch_dimension(BatchContext& c, std::string_view name) {
  return emit_same(c,
                   {{"axis_name", c.op().string("axis_name")},
                    {"axis_size", c.op().integer("axis_size")},
                    {std::string(name), c.op().integer(name) + 1},
                    {"tiled", c.op().boolean("tiled")}},
                   {c.operand(0)});
}
Values batch_same(BatchContext& c) { return c.emitter().emit(c.op(), std::vector<Value>{c.operand(0)}); }

IntLists reversed(IntLists perm) {
  for (Ints& pair : perm) std::swap(pair[0], pair[1]);
  return perm;
}

}  // namespace

// y = Σ_r x_r on every rank          ct_x = Σ_r ct_r
constinit const Primitive psum{.name = "psum",
                               .attributes = sum_attributes,
                               .traits = Trait::barrier | Trait::collective,
                               .linearity = linearity::linear,
                               .infer = infer_psum,
                               .transpose = [](TransposeContext& c) -> Derivatives {
                                 return ops::psum(*c.cotangent(), c.op().string("axis_name"),
                                                  c.op().integer("axis_size"));
                               },
                               .batch = batch_same};

// y = (x_0, x_1, …) on every rank          ct_x = the part of Σ_r ct_r that is this rank's
constinit const Primitive all_gather{
    .name = "all_gather",
    .attributes = gather_attributes,
    .traits = Trait::barrier | Trait::collective,
    .linearity = linearity::linear,
    .infer = infer_all_gather,
    .transpose = [](TransposeContext& c) -> Derivatives {
      return ops::reduce_scatter(*c.cotangent(), c.op().string("axis_name"), c.op().integer("axis_size"),
                                 c.op().integer("all_gather_dimension"), c.op().boolean("tiled"));
    },
    .batch = [](BatchContext& c) { return batch_dimension(c, "all_gather_dimension"); }};

// y = the part of Σ_r x_r that is this rank's          ct_x = (ct_0, ct_1, …)
constinit const Primitive reduce_scatter{
    .name = "reduce_scatter",
    .attributes = scatter_attributes,
    .traits = Trait::barrier | Trait::collective,
    .linearity = linearity::linear,
    .infer = infer_reduce_scatter,
    .transpose = [](TransposeContext& c) -> Derivatives {
      return ops::all_gather(*c.cotangent(), c.op().string("axis_name"), c.op().integer("axis_size"),
                             c.op().integer("scatter_dimension"), c.op().boolean("tiled"));
    },
    .batch = [](BatchContext& c) { return batch_dimension(c, "scatter_dimension"); }};

// y = x of the rank that sends to this one, or 0          ct_x = ct of the rank that this one sent to, or 0
constinit const Primitive ppermute{.name = "ppermute",
                                   .attributes = permute_attributes,
                                   .traits = Trait::barrier | Trait::collective,
                                   .linearity = linearity::linear,
                                   .infer = infer_ppermute,
                                   .transpose = [](TransposeContext& c) -> Derivatives {
                                     return ops::ppermute(*c.cotangent(), c.op().string("axis_name"),
                                                          c.op().integer("axis_size"),
                                                          reversed(c.op().lists("perm")));
                                   },
                                   .batch = batch_same};

void require_one_rank(const Op& collective) {
  const std::int64_t size = collective.integer("axis_size");
  if (size == 1) return;
  throw Error(ErrorKind::execution, detail::str('[', collective.name(), "] expected the axis ",
                                                detail::in_quotes(collective.string("axis_name")), " of ",
                                                size, " ranks to be bound to a communicator, got none"));
}

std::vector<const Primitive*> collective_primitives() {
  return {&psum, &all_gather, &reduce_scatter, &ppermute};
}

}  // namespace tidu::prim

namespace tidu::ops {

Value psum(Value x, std::string_view axis_name, std::int64_t axis_size, Where where) {
  return emit1(Op::make(prim::psum, {{"axis_name", axis_name}, {"axis_size", axis_size}}), {x}, where);
}

Value all_gather(Value x, std::string_view axis_name, std::int64_t axis_size,
                 std::int64_t all_gather_dimension, bool tiled, Where where) {
  const std::int64_t dimension = prim::normal_axis(all_gather_dimension, x.rank() + (tiled ? 0 : 1));
  return emit1(Op::make(prim::all_gather, {{"axis_name", axis_name},
                                           {"axis_size", axis_size},
                                           {"all_gather_dimension", dimension},
                                           {"tiled", tiled}}),
               {x}, where);
}

Value reduce_scatter(Value x, std::string_view axis_name, std::int64_t axis_size,
                     std::int64_t scatter_dimension, bool tiled, Where where) {
  return emit1(
      Op::make(prim::reduce_scatter, {{"axis_name", axis_name},
                                      {"axis_size", axis_size},
                                      {"scatter_dimension", prim::normal_axis(scatter_dimension, x.rank())},
                                      {"tiled", tiled}}),
      {x}, where);
}

Value ppermute(Value x, std::string_view axis_name, std::int64_t axis_size, const IntLists& perm,
               Where where) {
  return emit1(Op::make(prim::ppermute, {{"axis_name", axis_name}, {"axis_size", axis_size}, {"perm", perm}}),
               {x}, where);
}

}  // namespace tidu::ops
