// ba.cpp - bundle adjustment: differentiates one small graph, that of one observation with scalars for
// inputs, and batches the result over all observations, so that each scalar becomes a vector.
#include <algorithm>
#include <array>
#include <string>
#include <tidu/graph/builder.hpp>
#include <tidu/linearize/transforms.hpp>
#include <tidu/primitives/elementwise.hpp>
#include <tidu/primitives/structural.hpp>

#include "common/text_reader.hpp"
#include "problem.hpp"

namespace adbench {
namespace {

using namespace tidu;
using Vector = std::array<Value, 3>;

constexpr std::int64_t camera_size = 11, point_size = 3, block_columns = camera_size + point_size + 1;

Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
Value dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// P rotated about the axis r by the angle |r|: with v = r / |r|,
//   P cos|r| + (v x P) sin|r| + v (v.P) (1 - cos|r|), and P + r x P where |r| is zero.
Vector rotate(const Vector& r, const Vector& P) {
  const Value one = ops::full_like(r[0], 1), zero = ops::full_like(r[0], 0);
  const Value squared = dot(r, r), is_zero = ops::eq(squared, zero);
  const Value angle = ops::sqrt(ops::select_n(is_zero, squared, one));  // of r, or something to divide by
  const Value c = ops::cos(angle), s = ops::sin(angle);
  const Vector v{r[0] / angle, r[1] / angle, r[2] / angle};
  const Vector about = cross(v, P), small = cross(r, P);
  const Value along = dot(v, P) * (one - c);
  Vector turned;
  for (std::size_t i = 0; i < 3; ++i) {
    turned[i] = ops::select_n(is_zero, P[i] * c + about[i] * s + v[i] * along, P[i] + small[i]);
  }
  return turned;
}

// One observation, in scalars. Inputs: those of its camera (axis-angle r, centre, focal length, principal
// point, radial distortion), its point, its weight, and where the point was seen.
// Outputs: w (projection - seen), two of them; 1 - w^2.
const std::array<const char*, 17> names{"r0", "r1", "r2", "C0", "C1", "C2", "f",  "u0", "v0",
                                        "k1", "k2", "X0", "X1", "X2", "w",  "m0", "m1"};
Graph observation() {
  GraphBuilder g("observation");
  std::vector<Value> in;
  for (const char* name : names) in.push_back(g.input(name, f64));
  const Value f = in[6], k1 = in[9], k2 = in[10], w = in[14], one = ops::full(g, f64, 1);

  const Vector R = rotate({in[0], in[1], in[2]}, {in[11] - in[3], in[12] - in[4], in[13] - in[5]});
  const Value e0 = R[0] / R[2], e1 = R[1] / R[2];
  const Value s = e0 * e0 + e1 * e1;
  const Value focal = f * (one + k1 * s + k2 * s * s);
  return g.build({w * (e0 * focal + in[7] - in[15]), w * (e1 * focal + in[8] - in[16]), one - w * w});
}

// For one observation: the two rows of its 2 x 15 block, then the derivative of 1 - w^2.
Graph block(const Graph& residuals) {
  const auto row = [&residuals](std::size_t output, const Names& wrt) {
    return grad(with_outputs(residuals, std::array{output}), wrt);
  };
  const Names variables(names.begin(), names.begin() + block_columns);
  GraphBuilder g("block");
  std::vector<Value> in, out;
  for (const char* name : names) in.push_back(g.input(name, f64));
  for (const Graph& graph : {row(0, variables), row(1, variables), row(2, {"w"})}) {
    const std::vector<Value> values = inline_graph(g, graph, in);
    for (const ValueId id : graph.outputs()) out.push_back(values[id]);
  }
  return g.build(out);
}

struct Sizes {
  std::int64_t cameras, points, observations;
};

// `graph`, which is that of an observation or of its block, for all of them. Inputs: cameras [n,11], points
// [m,3], weights [p], seen [p,2], and by observation the i32 [p] numbers of its camera and of its point.
// Outputs: all but the last of graph's outputs side by side, [p, …]; the last, [p].
Graph for_all(const Graph& graph, const Sizes& sizes) {
  const std::int64_t p = sizes.observations;
  GraphBuilder g(graph.name());
  const Value cameras = g.input("cameras", {f64, {sizes.cameras, camera_size}});
  const Value points = g.input("points", {f64, {sizes.points, point_size}});
  const Value weights = g.input("weights", {f64, {p}});
  const Value seen = g.input("seen", {f64, {p, 2}});
  const Value camera_of = g.input("camera_of", {i32, {p}});
  const Value point_of = g.input("point_of", {i32, {p}});

  std::vector<Value> in;
  const auto add_columns = [&](Value rows) {  // [p, columns]
    for (std::int64_t j = 0; j < rows.type().dim(1); ++j)
      in.push_back(ops::reshape(ops::slice(rows, {0, j}, {p, j + 1}), {p}));
  };
  add_columns(ops::take(cameras, camera_of, 0));
  add_columns(ops::take(points, point_of, 0));
  in.push_back(weights);
  add_columns(seen);

  const Graph all = vmap(graph, p);
  const std::vector<Value> values = inline_graph(g, all, in);
  std::vector<Value> columns;
  for (const ValueId id : all.outputs()) columns.push_back(ops::reshape(values[id], {p, 1}));
  const Value last = values[all.outputs().back()];
  columns.pop_back();
  return g.build({ops::concatenate(columns, 1), last});
}

// Rows 2i and 2i + 1 hold the columns of observation i's camera, point and weight; row 2p + i its weight's.
void add_structure(Problem& problem, const Sizes& sizes, const std::vector<std::int32_t>& camera_of,
                   const std::vector<std::int32_t>& point_of) {
  const auto [n, m, p] = sizes;
  const std::int64_t first_point = camera_size * n, first_weight = first_point + point_size * m;
  problem.jacobian_shape = {3 * p, first_weight + p};
  std::vector<std::int64_t>&rows = problem.jacobian_rows, &cols = problem.jacobian_cols;
  rows.reserve(static_cast<std::size_t>(3 * p + 1));
  cols.reserve(static_cast<std::size_t>((2 * block_columns + 1) * p));
  rows.push_back(0);
  for (std::int64_t row = 0; row < 2 * p; ++row) {
    const std::int64_t i = row / 2, camera = camera_of[static_cast<std::size_t>(i)],
                       point = point_of[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < camera_size; ++j) cols.push_back(camera_size * camera + j);
    for (std::int64_t j = 0; j < point_size; ++j) cols.push_back(first_point + point_size * point + j);
    cols.push_back(first_weight + i);
    rows.push_back(static_cast<std::int64_t>(cols.size()));
  }
  for (std::int64_t i = 0; i < p; ++i) {
    cols.push_back(first_weight + i);
    rows.push_back(static_cast<std::int64_t>(cols.size()));
  }
}

Tensor repeated(const Tensor& one, const Shape& shape) {
  const std::span<const double> from = one.elements<double>();
  Tensor all(Type(f64, shape));
  std::size_t i = 0;
  for (double& element : all.mutable_elements<double>()) element = from[i++ % from.size()];
  return all;
}

}  // namespace

Problem read_ba(const std::filesystem::path& file) {
  examples::TextReader in(file);
  constexpr std::int64_t most = 20'000'000;
  Sizes sizes{};
  sizes.cameras = in.integer("the number of cameras", 1, most);
  sizes.points = in.integer("the number of points", 1, most);
  sizes.observations = in.integer("the number of observations", 1, most);
  const std::int64_t p = sizes.observations;
  const Tensor camera = in.numbers({camera_size}, "the camera");
  const Tensor point = in.numbers({point_size}, "the point");
  const Tensor weight = in.numbers({}, "the weight");
  const Tensor seen = in.numbers({2}, "where the point was seen");
  in.end("where the point was seen");

  // ADBench's files give one of each, which stands for all; observation i is of camera i mod n, point i mod
  // m.
  std::vector<std::int32_t> camera_of, point_of;
  for (std::int64_t i = 0; i < p; ++i) {
    camera_of.push_back(static_cast<std::int32_t>(i % sizes.cameras));
    point_of.push_back(static_cast<std::int32_t>(i % sizes.points));
  }
  const Graph residuals = observation();
  Problem problem{
      .name = "BA",
      .dims = {{"n", sizes.cameras}, {"m", sizes.points}, {"p", p}},
      .objective = for_all(residuals, sizes),
      .derivative = for_all(block(residuals), sizes),
      .inputs = {repeated(camera, {sizes.cameras, camera_size}), repeated(point, {sizes.points, point_size}),
                 repeated(weight, {p}), repeated(seen, {p, 2}), Tensor::from<std::int32_t>({p}, camera_of),
                 Tensor::from<std::int32_t>({p}, point_of)},
      .key = "jacobian_vals"};
  add_structure(problem, sizes, camera_of, point_of);
  return problem;
}

}  // namespace adbench
