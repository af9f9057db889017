// hand.cpp - hand tracking: the surface is one matmul, of the bones' transforms and the skin. Forward mode
// runs all directions at once, in one batched linear graph: one for each angle and, since the rows of a point
// depend on no other point's u, one for each of the two u of all points.
#include <array>
#include <string>
#include <tidu/graph/builder.hpp>
#include <tidu/linearize/batch.hpp>
#include <tidu/linearize/linearize.hpp>
#include <tidu/primitives/elementwise.hpp>
#include <tidu/primitives/structural.hpp>

#include "common/text_reader.hpp"
#include "hand_model.hpp"
#include "problem.hpp"

namespace adbench {
namespace {

using namespace tidu;
using Indices = std::vector<std::int32_t>;

constexpr std::int64_t num_angles = 26;
constexpr double no_rotation = 1e-4;  // below this angle ADBench does not rotate the hand

Value indices(Emitter& g, const Indices& values) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return ops::constant(g, Literal::of<std::int32_t>(Type(i32, shape), values));
}

// The matrix [n, rows, columns] of entries [n], row by row.
Value matrices(const std::vector<Value>& entries, std::int64_t rows, std::int64_t columns) {
  const std::int64_t n = entries[0].type().dim(0);
  std::vector<Value> side_by_side;
  for (const Value& entry : entries) side_by_side.push_back(ops::reshape(entry, {n, 1}));
  return ops::reshape(ops::concatenate(side_by_side, 1), {n, rows, columns});
}

// a_i b_i for every i: [n,4,4] and [n,4,…].
Value products(Value a, Value b) {
  return ops::dot_general(
      a, b, {.lhs_contracting = {2}, .rhs_contracting = {1}, .lhs_batch = {0}, .rhs_batch = {0}});
}

// Rz(tz) Rx(tx) of every joint, [bones,3,3]. The angles of finger F are theta[6 + 4F …]: bending and
// spreading of bone 2 + 4F, bending of 3 + 4F, bending of 4 + 4F. Other joints are stiff.
Value rotations(Value theta, std::int64_t bones) {
  Indices bending(static_cast<std::size_t>(bones), num_angles), spreading = bending;  // out of range: 0
  for (std::int32_t finger = 0; finger < 5; ++finger) {
    const auto bone = static_cast<std::size_t>(2 + 4 * finger);
    const std::int32_t angle = 6 + 4 * finger;
    bending[bone] = angle;
    spreading[bone] = angle + 1;
    bending[bone + 1] = angle + 2;
    bending[bone + 2] = angle + 3;
  }
  Emitter& g = *theta.emitter();
  const Value x = ops::take(theta, indices(g, bending), 0, "drop");
  const Value z = ops::take(theta, indices(g, spreading), 0, "drop");
  const Value cx = ops::cos(x), sx = ops::sin(x), cz = ops::cos(z), sz = ops::sin(z);
  const Value zero = ops::full_like(x, 0);
  return matrices({cz, -(sz * cx), sz * sx,  //
                   sz, cz * cx, -(cz * sx),  //
                   zero, sx, cx},
                  3, 3);
}

// The transform of every bone from the model's frame at rest to that of the moved hand, [bones,4,4]. Bones
// are computed in generations: all with equally many ancestors at once.
Value transforms(Value theta, Value relative, Value inverse, const std::vector<std::int64_t>& parents) {
  const auto bones = static_cast<std::int64_t>(parents.size());
  std::vector<Indices> generations, parents_of;  // bones; indices of their parents in the generation before
  std::vector<std::size_t> generation;           // by bone
  Indices place;                                 // by bone: in its generation
  for (std::size_t bone = 0; bone < parents.size(); ++bone) {
    const bool root = parents[bone] < 0;
    const auto parent = static_cast<std::size_t>(root ? 0 : parents[bone]);
    generation.push_back(root ? 0 : generation[parent] + 1);
    if (generation.back() == generations.size()) {
      generations.emplace_back();
      parents_of.emplace_back();
    }
    Indices& members = generations[generation.back()];
    place.push_back(static_cast<std::int32_t>(members.size()));
    members.push_back(static_cast<std::int32_t>(bone));
    parents_of[generation.back()].push_back(root ? 0 : place[parent]);
  }

  Emitter& g = *theta.emitter();
  const Value turned = products(ops::slice(relative, {0, 0, 0}, {bones, 4, 3}), rotations(theta, bones));
  const Value local = ops::concatenate(std::array{turned, ops::slice(relative, {0, 0, 3}, {bones, 4, 4})}, 2);
  std::vector<Value> absolute;
  for (std::size_t k = 0; k < generations.size(); ++k) {
    const Value members = ops::take(local, indices(g, generations[k]), 0);
    absolute.push_back(k == 0 ? members
                              : products(ops::take(absolute.back(), indices(g, parents_of[k]), 0), members));
  }
  std::vector<std::int32_t> first{0};  // by generation: its first index among all
  for (const Indices& members : generations)
    first.push_back(first.back() + static_cast<std::int32_t>(members.size()));
  for (std::size_t bone = 0; bone < parents.size(); ++bone) place[bone] += first[generation[bone]];
  return products(ops::take(ops::concatenate(absolute, 0), indices(g, place), 0), inverse);
}

// The rotation by the axis-angle a, [3,3]: with t = |a| and v = a / t, cos t I + sin t [v]x + (1 - cos t) v
// v'; the identity where t < no_rotation.
Value global_rotation(Value a) {
  Emitter& g = *a.emitter();
  const Value squared = ops::reduce_sum(ops::square(a), {0}), one = ops::full_like(squared, 1);
  const Value none = ops::lt(ops::sqrt(squared), ops::full_like(squared, no_rotation));
  const Value angle = ops::sqrt(ops::select_n(none, squared, one));  // of a, or something to divide by
  const Value c = ops::cos(angle), s = ops::sin(angle);
  const auto fill = [](Value scalar, const Shape& shape) { return ops::broadcast_scalar(scalar, shape); };

  const Value v = a / fill(angle, {3});
  const Value sines = v * fill(s, {3}),
              unit = ops::constant(
                  g, Literal::of<double>(Type(f64, {3, 3}), std::array{1., 0., 0., 0., 1., 0., 0., 0., 1.}));
  const auto element = [&sines](std::int64_t i) { return ops::slice(sines, {i}, {i + 1}); };
  const Value zero = ops::full(g, Type(f64, {1}), 0);
  const Value skew = ops::reshape(matrices({zero, -element(2), element(1),  //
                                            element(2), zero, -element(0),  //
                                            -element(1), element(0), zero},
                                           3, 3),
                                  {3, 3});
  const Value outer = ops::dot_general(v * fill(one - c, {3}), v, {});
  return ops::select_n(fill(none, {3, 3}), unit * fill(c, {3, 3}) + skew + outer, unit);
}

// Inputs: theta [26], when complicated u [N,2], relative and inverse [bones,4,4], skin [4 bones, M], points
// [N,3], and i32 the vertices that belong to them, [N], or when complicated the corners of triangles, [3,N].
// Output [N,3]: the points less their positions on the surface.
Graph residuals(const HandModel& model, std::int64_t N, bool complicated) {
  GraphBuilder g("hand");
  const std::int64_t bones = model.num_bones(), M = model.num_vertices();
  const Value theta = g.input("theta", {f64, {num_angles}});
  std::optional<Value> u;
  if (complicated) u = g.input("u", {f64, {N, 2}});
  const Value relative = g.input("relative", {f64, {bones, 4, 4}});
  const Value inverse = g.input("inverse", {f64, {bones, 4, 4}});
  const Value skin = g.input("skin", {f64, {4 * bones, M}});
  const Value points = g.input("points", {f64, {N, 3}});
  const Value vertices = g.input("vertices", {i32, complicated ? Shape{3, N} : Shape{N}});

  const Value bone_transforms =
      ops::slice(transforms(theta, relative, inverse, model.parents), {0, 0, 0}, {bones, 3, 4});
  const Value rotated = ops::dot_general(global_rotation(ops::slice(theta, {0}, {3})), bone_transforms,
                                         {.lhs_contracting = {1}, .rhs_contracting = {1}});
  const Value flat = ops::reshape(rotated, {3, 4 * bones});
  const Value turned = ops::dot_general(skin, flat, {.lhs_contracting = {0}, .rhs_contracting = {1}});
  const Value surface = turned + ops::broadcast_in_dim(ops::slice(theta, {3}, {6}), {M, 3}, {1});

  if (!complicated) return g.build({points - ops::take(surface, vertices, 0)});
  const auto coordinate = [&](std::int64_t j) {
    return ops::reshape(ops::slice(*u, {0, j}, {N, j + 1}), {N});
  };
  const Value u0 = coordinate(0), u1 = coordinate(1);
  const std::array weights{u0, u1, ops::full_like(u0, 1) - u0 - u1};
  Value result = points;
  for (std::int64_t corner = 0; corner < 3; ++corner) {
    const Value vertex = ops::reshape(ops::slice(vertices, {corner, 0}, {corner + 1, N}), {N});
    const Value weight = ops::broadcast_in_dim(weights[static_cast<std::size_t>(corner)], {N, 3}, {0});
    result = result - weight * ops::take(surface, vertex, 0);
  }
  return g.build({result});
}

// The derivatives of f's output in the directions `seeds` [directions, shape of the input] of one input.
Value push_forward(GraphBuilder& g, const Graph& f, std::span<const Value> inputs, std::size_t input,
                   Value seeds) {
  const Linearization lin = linearize(f, {.wrt = std::vector{input}});
  const std::vector<Value> values = inline_graph(g, lin.augmented, inputs);
  std::vector<Value> externals;
  for (const ValueId residual : lin.residuals) externals.push_back(values[residual]);
  const Graph linear = batch(lin.linear, seeds.type().dim(0)).graph;
  const std::vector<Value> tangents = inline_graph(g, linear, std::array{seeds}, externals);
  return tangents[linear.outputs()[0]];
}

Value unit_matrix(GraphBuilder& g, std::int64_t n) {
  const Type type(i32, {n, n});
  return ops::convert_element_type(ops::eq(ops::iota(g, type, 0), ops::iota(g, type, 1)), f64);
}

// Outputs [directions, N, 3], which is the Jacobian column by column: when complicated by u, then by theta.
Graph jacobian(const Graph& f, std::int64_t N, bool complicated) {
  GraphBuilder g("jacobian");
  std::vector<Value> inputs, columns;
  for (std::size_t i = 0; i < f.inputs().size(); ++i)
    inputs.push_back(g.input(f.input_name(i), f.type(f.inputs()[i])));
  if (complicated) {
    const Value seeds = ops::broadcast_in_dim(unit_matrix(g, 2), {2, N, 2}, {0, 2});
    columns.push_back(push_forward(g, f, inputs, 1, seeds));
  }
  columns.push_back(push_forward(g, f, inputs, 0, unit_matrix(g, num_angles)));
  return g.build(columns);
}

}  // namespace

Problem read_hand(const std::filesystem::path& file, const std::filesystem::path& directory,
                  bool complicated) {
  const HandModel model = read_hand_model(directory);
  examples::TextReader in(file);
  const std::int64_t N = in.integer("the number of points", 1, 10'000'000);
  in.integer("the number of angles", num_angles, num_angles);
  const std::int64_t faces = static_cast<std::int64_t>(model.triangles.size() / 3);
  std::vector<std::int32_t> corners[3];
  std::vector<double> measured;
  for (std::int64_t i = 0; i < N; ++i) {
    const std::string which = " of point " + std::to_string(i + 1) + " of " + std::to_string(N);
    if (complicated) {
      const auto triangle = static_cast<std::size_t>(in.integer("the triangle" + which, 0, faces - 1));
      for (std::size_t c = 0; c < 3; ++c) corners[c].push_back(model.triangles[3 * triangle + c]);
    } else {
      corners[0].push_back(
          static_cast<std::int32_t>(in.integer("the vertex" + which, 0, model.num_vertices() - 1)));
    }
    for (int j = 0; j < 3; ++j) measured.push_back(in.number("a coordinate" + which));
  }
  Indices vertices;
  for (const Indices& corner : corners) vertices.insert(vertices.end(), corner.begin(), corner.end());
  std::vector<Tensor> inputs;
  const Tensor u = complicated ? in.numbers({N, 2}, "the coordinates in triangles") : Tensor();
  inputs.push_back(in.numbers({num_angles}, "the angles"));
  in.end("the angles");
  if (complicated) inputs.push_back(u);
  inputs.insert(inputs.end(),
                {model.relative, model.inverse, model.skin, Tensor::from<double>({N, 3}, measured),
                 Tensor::from<std::int32_t>(complicated ? Shape{3, N} : Shape{N}, vertices)});

  const Graph objective = residuals(model, N, complicated);
  return {.name = complicated ? "HAND-complicated" : "HAND",
          .dims = {{"n_pts", N}, {"n_theta", num_angles}, {"n_vert", model.num_vertices()}},
          .objective = objective,
          .derivative = jacobian(objective, N, complicated),
          .inputs = inputs,
          .key = "jacobian_colmajor",
          .jacobian_shape = {3 * N, num_angles + (complicated ? 2 : 0)}};
}

}  // namespace adbench
