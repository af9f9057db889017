// access_map.cpp - random compositions of access maps, against index arithmetic on arrays that hold, for each
// element of a value, the index of its source element, or -1 for padding.
#include "cpu/access_map.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <random>

#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;
using namespace tidu::cpu_detail;

namespace {

constexpr std::int64_t padding_index = -1;

using Indices = std::vector<std::int64_t>;

// A dense array of source indices.
struct SourceIndices {
  Indices shape, of;

  static SourceIndices dense(Indices shape) {
    SourceIndices array{std::move(shape), {}};
    array.of.resize(static_cast<std::size_t>(array.size()));
    std::iota(array.of.begin(), array.of.end(), 0);
    return array;
  }
  std::int64_t size() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  Indices indices(std::int64_t flat) const {
    Indices at(shape.size());
    for (std::size_t k = shape.size(); k-- > 0; flat /= shape[k]) at[k] = flat % shape[k];
    return at;
  }
  std::int64_t at(const Indices& indices) const {
    std::int64_t flat = 0;
    for (std::size_t k = 0; k < shape.size(); ++k) {
      if (indices[k] < 0 || indices[k] >= shape[k]) return padding_index;
      flat = flat * shape[k] + indices[k];
    }
    return of[static_cast<std::size_t>(flat)];
  }
  // The array of `shape` of which the element at some indices is that of this array at source(indices).
  template <class Source>
  SourceIndices mapped(Indices result_shape, const Source& source) const {
    SourceIndices result{std::move(result_shape), {}};
    for (std::int64_t i = 0; i < result.size(); ++i) result.of.push_back(at(source(result.indices(i))));
    return result;
  }
};

std::int64_t modulo(std::int64_t a, std::int64_t n) { return (a % n + n) % n; }

// A map and the array that it should describe.
class Composition {
 public:
  Composition(Indices shape, std::mt19937_64& random)
      : random_(random), expected(SourceIndices::dense(shape)), map(AccessMap::dense(0, Type(f64, shape))) {}

  // Composes both with a random operation. Returns false if the map cannot express the result.
  bool step() {
    switch (below(5)) {
      case 0: return transpose();
      case 1: return slice();
      case 2: return pad();
      case 3: return broadcast();
      default: return roll();
    }
  }

 private:
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  std::size_t rank() const { return expected.shape.size(); }

  bool transpose() {
    Indices permutation(rank());
    std::iota(permutation.begin(), permutation.end(), 0);
    std::shuffle(permutation.begin(), permutation.end(), random_);
    Indices shape;
    for (const std::int64_t from : permutation)
      shape.push_back(expected.shape[static_cast<std::size_t>(from)]);
    expected = expected.mapped(shape, [&](const Indices& at) {
      Indices source(at.size());
      for (std::size_t k = 0; k < at.size(); ++k) source[static_cast<std::size_t>(permutation[k])] = at[k];
      return source;
    });
    map.transpose(permutation);
    return true;
  }
  bool slice() {
    Indices starts, steps, shape;
    for (const std::int64_t extent : expected.shape) {
      starts.push_back(below(extent));
      steps.push_back(1 + below(2));
      shape.push_back(1 + below((extent - starts.back() - 1) / steps.back() + 1));
    }
    if (below(2) == 0) {
      for (std::size_t k = 0; k < rank(); ++k) shape[k] = std::min(shape[k], expected.shape[k] - starts[k]);
      steps.clear();
    }
    expected = expected.mapped(shape, [&](Indices at) {
      for (std::size_t k = 0; k < at.size(); ++k) at[k] = starts[k] + at[k] * (steps.empty() ? 1 : steps[k]);
      return at;
    });
    return map.slice(starts, steps, shape);
  }
  bool pad() {
    IntLists config;
    Indices shape;
    for (const std::int64_t extent : expected.shape) {
      config.push_back({below(3), below(3), 0});
      shape.push_back(extent + config.back()[0] + config.back()[1]);
    }
    expected = expected.mapped(shape, [&](Indices at) {
      for (std::size_t k = 0; k < at.size(); ++k) at[k] -= config[k][0];
      return at;
    });
    const double element = padding_index;
    return map.pad(config, std::as_bytes(std::span(&element, 1)));
  }
  bool broadcast() {
    if (rank() > 4) return true;
    Indices shape = expected.shape, dimensions(rank());
    std::iota(dimensions.begin(), dimensions.end(), 0);
    const std::int64_t added = below(static_cast<std::int64_t>(rank()) + 1);
    shape.insert(shape.begin() + added, 1 + below(3));
    for (std::int64_t& dimension : dimensions) dimension += dimension >= added ? 1 : 0;
    for (const std::int64_t dimension : dimensions) {
      std::int64_t& extent = shape[static_cast<std::size_t>(dimension)];
      if (extent == 1) extent = 1 + below(3);
    }
    const Indices before = expected.shape;
    expected = expected.mapped(shape, [&](const Indices& at) {
      Indices source(before.size());
      for (std::size_t k = 0; k < before.size(); ++k)
        source[k] = before[k] == 1 ? 0 : at[static_cast<std::size_t>(dimensions[k])];
      return source;
    });
    return map.broadcast(dimensions, shape);
  }
  bool roll() {
    if (rank() == 0) return true;
    const auto axis = static_cast<std::size_t>(below(static_cast<std::int64_t>(rank())));
    const std::int64_t extent = expected.shape[axis];
    if (extent < 2) return true;
    const std::int64_t shift = 1 + below(extent - 1);
    expected = expected.mapped(expected.shape, [&](Indices at) {
      at[axis] = modulo(at[axis] - shift, extent);
      return at;
    });
    return map.roll(axis, shift);
  }

  std::mt19937_64& random_;

 public:
  SourceIndices expected;
  AccessMap map;
};

// The source index of an element, as the comment of AccessMap states it.
std::int64_t source_of(const AccessMap& map, const Indices& at) {
  std::int64_t source = map.offset;
  for (std::size_t k = 0; k < at.size(); ++k) {
    const AccessAxis& axis = map.axes[k];
    const std::int64_t there = axis.roll == 0 ? at[k] - axis.begin : modulo(at[k] - axis.roll, axis.extent);
    if (there < 0 || there >= axis.count) return padding_index;
    source += there * axis.stride;
  }
  return source;
}

}  // namespace

TEST_CASE("[access map] a random composition describes the array that index arithmetic gives") {
  std::mt19937_64 random(1);
  std::size_t expressed = 0, copied = 0;
  for (std::size_t round = 0; round < scaled(4000); ++round) {
    CAPTURE(round);
    Indices shape(1 + random() % 4);
    for (std::int64_t& extent : shape) extent = 1 + static_cast<std::int64_t>(random() % 6);
    Composition composition(shape, random);
    const SourceIndices source = SourceIndices::dense(shape);
    const std::vector<double> elements(source.of.begin(), source.of.end());
    for (int i = 0; i < 6 && composition.expected.size() < 20000; ++i) {
      if (!composition.step()) break;
      ++expressed;
      const SourceIndices& expected = composition.expected;
      REQUIRE(composition.map.axes.size() == expected.shape.size());
      for (std::int64_t k = 0; k < expected.size(); ++k)
        REQUIRE(source_of(composition.map, expected.indices(k)) == expected.of[static_cast<std::size_t>(k)]);

      const std::optional<AccessMap> merged = with_merged_axes(composition.map);
      if (!merged) continue;
      ++copied;
      const auto begin = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(expected.size()));
      const auto count =
          1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(expected.size() - begin));
      std::vector<double> copy(static_cast<std::size_t>(count));
      merged->copy(reinterpret_cast<const std::byte*>(elements.data()), begin, count,
                   reinterpret_cast<std::byte*>(copy.data()));
      const std::vector<double> part(expected.of.begin() + begin, expected.of.begin() + begin + count);
      REQUIRE(copy == part);
    }
  }
  CHECK(expressed > scaled(8000));
  CHECK(copied > scaled(1000));
}

TEST_CASE("[access map] what no map can express is refused") {
  const auto line = [] { return AccessMap::dense(0, Type(f64, {10})); };
  const double zero = 0, one = 1;
  const auto bytes = [](const double& x) { return std::as_bytes(std::span(&x, 1)); };
  AccessMap map = line();
  REQUIRE(map.roll(0, 3));
  CHECK(!map.slice(Indices{0}, Indices{}, Indices{6}));  // across the wrap
  map = line();
  REQUIRE(map.roll(0, 3));
  CHECK(!map.pad({{1, 0, 0}}, bytes(zero)));
  map = line();
  CHECK(!map.pad({{-1, 0, 0}}, bytes(zero)));
  map = line();
  CHECK(!map.pad({{0, 0, 1}}, bytes(zero)));
  map = line();
  REQUIRE(map.pad({{1, 0, 0}}, bytes(zero)));
  CHECK(!map.roll(0, 1));
  CHECK(!map.pad({{1, 0, 0}}, bytes(one)));  // padding of two kinds
  map = line();
  REQUIRE(map.pad({{1, 0, 0}}, bytes(zero)));
  CHECK(!map.slice(Indices{0}, Indices{2}, Indices{5}));
  CHECK(!AccessMap::iota(Type(f16, {4}), 0));
}
