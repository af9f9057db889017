// Convolutions and their gradients at the limits of library calls: empty axes and axes of one element,
// padding wider than the kernel, strides beyond the extent, dilations and groups, in one to three dimensions.
// Elements are integers, so that every sum is exact in any order: small convolutions equal those of the
// reference executor, and large ones in f32, which may be a library's, those in f64, which never are.
#include <functional>

#include "cpu/compare.hpp"
#include "cpu/in_double.hpp"
#include "support/support.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/convolution.hpp"

namespace convolution_edges {
namespace {

using namespace tidu;
using namespace tidu::test;

// The parameters along one axis; the others have `rest` elements, a kernel of 3 and padding of 1.
struct Edge {
  std::size_t rank = 1, axis = 0;
  std::int64_t extent = 1, kernel = 1, stride = 1, low = 0, high = 0, dilation = 1, spread = 1, groups = 1;
  std::int64_t batch = 2, features = 2, results = 3, rest = 4;
};

Graph gradients_of(const Edge& e, DType dtype) {
  Shape lhs{e.batch, e.groups * e.features}, rhs{e.groups * e.results, e.features};
  ops::Convolution how;
  how.feature_group_count = e.groups;
  for (std::size_t d = 0; d < e.rank; ++d) {
    const bool varies = d == e.axis;
    lhs.push_back(varies ? e.extent : e.rest);
    rhs.push_back(varies ? e.kernel : 3);
    how.window_strides.push_back(varies ? e.stride : 1);
    how.padding.push_back(varies ? Ints{e.low, e.high} : Ints{1, 1});
    how.lhs_dilation.push_back(varies ? e.spread : 1);
    how.rhs_dilation.push_back(varies ? e.dilation : 1);
  }
  GraphBuilder builder("edge");
  const Value x = builder.input("x", Type(dtype, lhs)), k = builder.input("k", Type(dtype, rhs));
  return vjp(builder.build({ops::conv_general_dilated(x, k, how)}));
}

std::vector<Tensor> whole_numbers(const Graph& graph, DType dtype, std::mt19937_64& random) {
  std::vector<Tensor> tensors;
  for (const ValueId id : graph.inputs()) {
    Tensor t(Type(dtype, graph.type(id).shape()));
    for (std::int64_t i = 0; i < t.size(); ++i) {
      const int value = static_cast<int>(random() % 7) - 3;
      if (dtype == f32) t.mutable_data<float>()[i] = static_cast<float>(value);
      if (dtype == f64) t.mutable_data<double>()[i] = value;
    }
    tensors.push_back(std::move(t));
  }
  return tensors;
}
void compare(const Edge& e, const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("rank ", e.rank, ", axis ", e.axis, ": extent ", e.extent, ", kernel ", e.kernel, ", stride ",
         e.stride, ", padding ", e.low, " ", e.high, ", dilation ", e.dilation, ", lhs dilation ", e.spread,
         ", groups ", e.groups, ", output ", i);
    CHECK(difference(got[i], expected[i], 0) == "");
  }
}

using Try = std::function<void(const Edge&)>;

// Calls `attempt` with padding and strides of every kind on top of `edge`, where a window fits.
void for_edges(const Edge& edge, std::initializer_list<std::int64_t> extents,
               std::initializer_list<std::int64_t> kernels, std::initializer_list<std::int64_t> strides,
               std::initializer_list<std::int64_t> paddings, std::mt19937_64& random, std::uint64_t one_of,
               const Try& attempt) {
  Edge e = edge;
  for (const std::int64_t extent : extents) {
    for (const std::int64_t kernel : kernels) {
      for (const std::int64_t stride : strides) {
        for (const std::int64_t low : paddings) {
          for (const std::int64_t high : paddings) {
            const std::int64_t all = (extent == 0 ? 0 : (extent - 1) * e.spread + 1) + low + high;
            if (all < (kernel - 1) * e.dilation + 1 || random() % one_of != 0) continue;
            e.extent = extent;
            e.kernel = kernel;
            e.stride = stride;
            e.low = low;
            e.high = high;
            attempt(e);
          }
        }
      }
    }
  }
}

// Edges by rank, axis, dilation, dilation of lhs and groups.
std::vector<Edge> structures() {
  std::vector<Edge> list;
  for (std::size_t rank = 1; rank <= 3; ++rank) {
    for (std::size_t axis = 0; axis < rank; ++axis) {
      for (const std::int64_t dilation : {1, 2}) {
        for (const std::int64_t spread : {1, 3}) {
          for (const std::int64_t groups : {1, 2}) {
            Edge e;
            e.rank = rank;
            e.axis = axis;
            e.dilation = dilation;
            e.spread = spread;
            e.groups = groups;
            list.push_back(e);
          }
        }
      }
    }
  }
  return list;
}

}  // namespace

TEST_CASE("small convolutions and their gradients at the edges are the reference's") {
  std::mt19937_64 random(71);
  const std::uint64_t one_of = shortened() ? 40 : 8;
  for (const DType dtype : {f32, f64}) {
    for (Edge structure : structures()) {
      structure.rest = 3;
      for_edges(structure, {0, 1, 2, 5}, {1, 2, 4}, {1, 3, 11}, {-1, 0, 2, 6}, random, one_of,
                [&](const Edge& e) {
                  if (e.extent + e.low < 0 || e.extent + e.high < 0) return;
                  const Graph graph = gradients_of(e, dtype);
                  const std::vector<Tensor> in = whole_numbers(graph, dtype, random);
                  compare(e, cpu().run(graph, in), reference().run(graph, in));
                });
    }
  }
}

// No element of an operand or result is there: an empty batch, no features, no results.
TEST_CASE("convolutions of nothing and their gradients are the reference's") {
  std::mt19937_64 random(72);
  for (const DType dtype : {f32, f64}) {
    for (const auto& [batch, features, results] :
         {std::tuple(0, 2, 3), std::tuple(2, 0, 3), std::tuple(2, 2, 0)}) {
      for (Edge structure : structures()) {
        structure.batch = batch;
        structure.features = features;
        structure.results = results;
        structure.extent = 5;
        structure.kernel = 2;
        const Graph graph = gradients_of(structure, dtype);
        const std::vector<Tensor> in = whole_numbers(graph, dtype, random);
        compare(structure, cpu().run(graph, in), reference().run(graph, in));
      }
    }
  }
}

TEST_CASE("large convolutions and their gradients at the edges") {
  std::mt19937_64 random(73);
  const std::uint64_t one_of = shortened() ? 200 : 24;
  for (Edge structure : structures()) {
    structure.batch = structure.rank == 1 ? 400 : 4;
    structure.features = structure.results = 16;
    structure.rest = structure.rank == 2 ? 64 : 9;
    for (const std::int64_t features : {1, 3, 16}) {
      structure.features = features;
      for_edges(structure, {1, 2, 3, 5, 8, 11}, {1, 2, 3, 5, 7}, {1, 2, 3, 13}, {0, 1, 3, 4, 6, 8}, random,
                one_of * 24, [&](const Edge& e) {
                  const Graph graph = gradients_of(e, f32);
                  const std::vector<Tensor> in = whole_numbers(graph, f32, random);
                  compare(e, in_double(cpu().run(graph, in)), cpu().run(gradients_of(e, f64), in_double(in)));
                });
    }
  }
}

// The first layers of nets for video: oneDNN loses count of the kernel's depth here.
TEST_CASE("kernel gradients of clips that are shorter than the kernel and its stride") {
  std::mt19937_64 random(74);
  Edge clip;
  clip.rank = 3;
  clip.batch = 4;
  clip.features = 3;
  clip.results = 16;
  clip.rest = 9;
  for_edges(clip, {2, 3, 4, 5, 6, 7, 8}, {5, 7}, {1, 2, 3}, {2, 3, 4, 6}, random, shortened() ? 4 : 1,
            [&](const Edge& e) {
              const Graph graph = gradients_of(e, f32);
              const std::vector<Tensor> in = whole_numbers(graph, f32, random);
              compare(e, in_double(cpu().run(graph, in)), cpu().run(gradients_of(e, f64), in_double(in)));
            });
}

// One element of the kernel is infinite or NaN, and one of lhs infinite: padding and the zeros between
// dilated elements are the number 0, at sizes of own matmuls, of sums one by one and of libraries.
TEST_CASE("an infinite element of a kernel makes NaN of padding at every size") {
  std::mt19937_64 random(75);
  for (const bool large : {false, true}) {
    for (Edge e : structures()) {
      if (large && (shortened() || e.rank != 2 || e.groups != 1)) continue;
      e.rest = large ? 40 : 4;
      e.batch = large ? 8 : 2;
      e.features = e.results = large ? 16 : 2;
      e.extent = large ? 24 : 5;
      e.kernel = 3;
      e.low = 2;
      e.high = 1;
      for (const DType dtype : {f32, f64}) {
        if (large && dtype == f64) continue;
        for (const double odd :
             {static_cast<double>(INFINITY), -static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
          const Graph graph = gradients_of(e, dtype);
          std::vector<Tensor> in = whole_numbers(graph, dtype, random);
          for (const std::size_t which : {std::size_t{1}, std::size_t{2}}) {
            std::vector<Tensor> with = in;
            with[which] = in[which].clone();
            const auto at =
                static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(with[which].size()));
            if (dtype == f32) with[which].mutable_data<float>()[at] = static_cast<float>(odd);
            if (dtype == f64) with[which].mutable_data<double>()[at] = odd;
            const std::vector<Tensor> expected = reference().run(graph, with);
            compare(e, cpu().run(graph, with), expected);
            if (large) break;
          }
          if (large) break;
        }
      }
    }
  }
}

// A window of one line over padding: inf times 0.
TEST_CASE("padding of convolutions is the number 0") {
  for (const DType dtype : {f32, f64}) {
    GraphBuilder builder("padded");
    const Value x = builder.input("x", Type(dtype, {1, 1, 3})),
                k = builder.input("k", Type(dtype, {1, 1, 2}));
    ops::Convolution how;
    how.padding = {{1, 1}};
    const Graph graph = builder.build({ops::conv_general_dilated(x, k, how)});
    const auto tensor = [&](std::vector<double> elements) {
      Shape shape{1, 1, static_cast<std::int64_t>(elements.size())};
      if (dtype == f64) return Tensor::from<double>(shape, elements);
      return Tensor::from<float>(shape, std::vector<float>(elements.begin(), elements.end()));
    };
    const std::vector<Tensor> in{tensor({1, 2, 3}), tensor({INFINITY, 1})};
    for (const Tensor& y : {cpu().run(graph, in)[0], reference().run(graph, in)[0]}) {
      CHECK(std::isnan(y.at(0).real()));
      for (std::int64_t i = 1; i < 4; ++i) CHECK(y.at(i).real() == INFINITY);
    }
  }
}

}  // namespace convolution_edges
