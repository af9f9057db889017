// subscripts.cpp - x[{...}] and x.at({...}): positions, slices, new axes, the ellipsis and integer Arrays, in
// any combination, compared with plain loops by NumPy's rules, and with the output of NumPy.
#include <algorithm>
#include <functional>
#include <list>
#include <random>

#include "support.hpp"

namespace tidu::test {
namespace subscripts_cases {
namespace {

using Kind = Subscript::Kind;
using Counts = std::vector<std::int64_t>;

bool same(const Array& a, const Array& b) { return a.type() == b.type() && elements(a) == elements(b); }

// Visits each index of an array of this shape.
void each_place(const Shape& shape, const std::function<void(const Counts&)>& visit) {
  Counts place(shape.size(), 0);
  if (num_elements(shape) == 0) return;
  for (;;) {
    visit(place);
    std::size_t axis = shape.size();
    while (axis-- > 0 && ++place[axis] == shape[axis]) place[axis] = 0;
    if (axis == static_cast<std::size_t>(-1)) return;
  }
}
std::int64_t flat(const Counts& place, const Shape& shape) {
  std::int64_t result = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) result = result * shape[axis] + place[axis];
  return result;
}

// The result of x[subscripts]: its shape, and for each of its elements the index in x. -1: out of range.
struct Read {
  Shape shape;
  Counts from;
};

// Python's range(start, stop, step) of a slice of an axis.
Counts positions(const Slice& part, std::int64_t extent) {
  const bool back = part.step < 0;
  const auto bound = [&](const std::optional<std::int64_t>& given, std::int64_t missing) {
    if (!given) return missing;
    const std::int64_t at = *given < 0 ? *given + extent : *given;
    return std::clamp<std::int64_t>(at, back ? -1 : 0, back ? extent - 1 : extent);
  };
  const std::int64_t first = bound(part.start, back ? extent - 1 : 0);
  const std::int64_t end = bound(part.stop, back ? -1 : extent);
  Counts result;
  for (std::int64_t i = first; back ? i > end : i < end; i += part.step) result.push_back(i);
  return result;
}

Read expected(const Shape& x, const std::vector<Subscript>& given, bool clamps) {
  // The ellipsis replaced by slices, at the end if there is none.
  std::vector<Subscript> all;
  const auto uses_axis = [](const Subscript& i) {
    return i.kind() != Kind::other_axes && i.kind() != Kind::new_axis;
  };
  const auto used = std::count_if(given.begin(), given.end(), uses_axis);
  std::size_t ellipsis_begin = 0, ellipsis_end = 0;
  bool found = false;
  for (const Subscript& i : given) {
    if (i.kind() != Kind::other_axes) {
      all.push_back(i);
      continue;
    }
    found = true;
    ellipsis_begin = all.size();
    for (auto k = static_cast<std::int64_t>(x.size()) - used; k > 0; --k) all.emplace_back();
    ellipsis_end = all.size();
  }
  while (!found && std::count_if(all.begin(), all.end(), uses_axis) < static_cast<std::int64_t>(x.size()))
    all.emplace_back();
  const bool any =
      std::any_of(all.begin(), all.end(), [](const Subscript& i) { return i.kind() == Kind::indices; });
  const auto names = [&](const Subscript& i) {
    return any && (i.kind() == Kind::indices || i.kind() == Kind::position);
  };
  // Together, where nothing is between the first and the last of them, not even an ellipsis of no axes.
  std::size_t first = all.size(), last = 0;
  Shape named;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (!names(all[k])) continue;
    first = std::min(first, k);
    last = k;
    if (all[k].kind() != Kind::indices) continue;
    const Shape& other = all[k].array().shape();
    Shape wider(std::max(named.size(), other.size()), 1);
    for (const Shape* shape : {static_cast<const Shape*>(&named), &other}) {
      for (std::size_t i = 0; i < shape->size(); ++i) {
        std::int64_t& extent = wider[wider.size() - shape->size() + i];
        if ((*shape)[i] != 1) extent = (*shape)[i];
      }
    }
    named = wider;
  }
  bool together = true;
  for (std::size_t k = first; k < last; ++k) together = together && names(all[k]);
  if (found && ellipsis_begin == ellipsis_end && first < ellipsis_begin && last >= ellipsis_begin)
    together = false;
  // The result's axes: of a subscript, or of the selection by indices.
  Read read;
  std::vector<std::size_t> of_subscript;  // by axis of the result; all.size(): named
  const auto put_named = [&] {
    read.shape.insert(read.shape.end(), named.begin(), named.end());
    of_subscript.insert(of_subscript.end(), named.size(), all.size());
  };
  if (any && !together) put_named();
  std::size_t axis = 0;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (any && together && k == first) put_named();
    if (all[k].kind() == Kind::part) {
      read.shape.push_back(static_cast<std::int64_t>(positions(all[k].part(), x[axis]).size()));
      of_subscript.push_back(k);
    } else if (all[k].kind() == Kind::new_axis) {
      read.shape.push_back(1);
      of_subscript.push_back(k);
    }
    axis += uses_axis(all[k]) ? 1 : 0;
  }
  each_place(read.shape, [&](const Counts& place) {
    Counts there(x.size(), 0), name;
    for (std::size_t i = 0; i < place.size(); ++i) {
      if (of_subscript[i] == all.size()) name.push_back(place[i]);
    }
    bool inside = true;
    std::size_t at = 0;
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (!uses_axis(all[k])) continue;
      const std::int64_t extent = x[at];
      std::int64_t& position = there[at++];
      if (all[k].kind() == Kind::position) {
        position = all[k].position() < 0 ? all[k].position() + extent : all[k].position();
      } else if (all[k].kind() == Kind::part) {
        const auto i = std::find(of_subscript.begin(), of_subscript.end(), k) - of_subscript.begin();
        position =
            positions(all[k].part(), extent)[static_cast<std::size_t>(place[static_cast<std::size_t>(i)])];
      } else {
        const Shape& shape = all[k].array().shape();
        Counts index(name.end() - static_cast<std::ptrdiff_t>(shape.size()), name.end());
        for (std::size_t i = 0; i < index.size(); ++i) index[i] = shape[i] == 1 ? 0 : index[i];
        position =
            static_cast<std::int64_t>(elements(all[k].array())[static_cast<std::size_t>(flat(index, shape))]);
        if (position < 0) position += extent;
        inside = inside && position >= 0 && position < extent;
        position = std::clamp<std::int64_t>(position, 0, extent - 1);
      }
    }
    read.from.push_back(inside || clamps ? flat(there, x) : -1);
  });
  return read;
}

Array gathered(const Array& x, const Read& read) {
  const std::vector<double> all = elements(x);
  std::vector<double> taken;
  for (const std::int64_t from : read.from) taken.push_back(all[static_cast<std::size_t>(from)]);
  return array(taken, read.shape);
}

// Random subscripts of an array with axes. Arrays are kept in `kept`, where they stay.
std::vector<Subscript> random_subscripts(std::mt19937_64& engine, const Shape& x, std::list<Array>& kept) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n));
  };
  const std::int64_t used = below(static_cast<std::int64_t>(x.size()) + 1);
  const std::int64_t ellipsis_at = below(2) == 0 ? below(used + 1) : -1;
  const Shape named = below(2) == 0 ? Shape{3} : Shape{2, 3};
  const bool with_arrays = below(3) > 0;
  std::vector<Subscript> list;
  std::size_t axis = 0;
  for (std::int64_t k = 0; k <= used; ++k) {
    if (below(5) == 0) list.emplace_back(newaxis);
    if (k == ellipsis_at) {
      list.emplace_back(ellipsis);
      axis += x.size() - static_cast<std::size_t>(used);
    }
    if (k == used) break;
    const std::int64_t extent = x[axis++];
    switch (below(with_arrays ? 5 : 3)) {
      case 0: list.emplace_back(below(2 * extent) - extent); break;
      case 1: list.emplace_back(); break;
      case 2: {
        const auto end = [&]() -> std::optional<std::int64_t> {
          if (below(3) == 0) return std::nullopt;
          return below(2 * extent + 3) - extent - 1;
        };
        const std::int64_t step = below(3) + 1;
        const std::optional<std::int64_t> start = end(), stop = end();
        list.emplace_back(start, stop, below(3) == 0 ? -step : step);
        break;
      }
      default: {
        Shape shape(named.end() - below(static_cast<std::int64_t>(named.size()) + 1), named.end());
        for (std::int64_t& n : shape) n = below(4) == 0 ? 1 : n;
        std::vector<double> numbers;
        for (std::int64_t i = 0; i < num_elements(shape); ++i)
          numbers.push_back(static_cast<double>(below(2 * extent + 2) - extent - 1));
        kept.push_back(array(numbers, shape).to(below(2) == 0 ? i32 : i64));
        list.emplace_back(kept.back());
      }
    }
  }
  return list;
}

TEST_CASE("random subscripts read, set and add as plain loops do by NumPy's rules") {
  std::mt19937_64 engine(7);
  const Shape shapes[] = {{4}, {3, 4}, {2, 3, 4}, {3, 2, 1, 4}};
  int with_indices = 0, repeated = 0;
  for (int trial = 0; trial < 600; ++trial) {
    CAPTURE(trial);
    const Shape& shape = shapes[trial % 4];
    const Array x = random_array(shape, 1);
    std::list<Array> kept;
    const std::vector<Subscript> list = random_subscripts(engine, shape, kept);
    const Read read = expected(shape, list, true);
    const Array y = x[list];
    REQUIRE(y.shape() == read.shape);
    REQUIRE(same(y, gathered(x, read)));
    REQUIRE(same(x.at(list).get(), y));
    // The gradient with respect to x, in both modes.
    const Array w = random_array(read.shape, 2);
    std::vector<double> sums(static_cast<std::size_t>(x.size()), 0.0);
    const std::vector<double> weights = elements(w);
    for (std::size_t i = 0; i < weights.size(); ++i)
      sums[static_cast<std::size_t>(read.from[i])] += weights[i];
    const auto weighed = [&](const Array& a) { return sum(a[list] * w); };
    REQUIRE(distance(grad(weighed)(x), array(sums, shape)) < 1e-14);
    const Array t = random_array(shape, 3);
    REQUIRE(same(jvp([&](const Array& a) { return a[list]; }, x, t).second, gathered(t, read)));
    // Indices out of range are dropped.
    const Read places = expected(shape, list, false);
    Counts found = places.from;
    std::sort(found.begin(), found.end());
    const bool repeats =
        std::unique(found.begin(), std::remove(found.begin(), found.end(), -1)) != found.end();
    with_indices += kept.empty() ? 0 : 1;
    repeated += repeats ? 1 : 0;
    const Array v = random_array(read.shape, 4);
    const std::vector<double> values = elements(v);
    std::vector<double> set = elements(x), added = elements(x);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (places.from[i] < 0) continue;
      set[static_cast<std::size_t>(places.from[i])] = values[i];
      added[static_cast<std::size_t>(places.from[i])] += values[i];
    }
    REQUIRE(distance(x.at(list).add(v), array(added, shape)) < 1e-14);
    if (std::find_if(list.begin(), list.end(),
                     [](const Subscript& i) { return i.kind() == Kind::indices; }) == list.end() ||
        !repeats) {
      REQUIRE(same(x.at(list).set(v), array(set, shape)));
    }
    // A number, everywhere; its gradient is the number of elements that are set.
    std::vector<double> filled = elements(x);
    std::sort(found.begin(), found.end());
    double count = 0;
    for (std::size_t i = 0; i < filled.size(); ++i) {
      if (std::find(places.from.begin(), places.from.end(), static_cast<std::int64_t>(i)) ==
          places.from.end())
        continue;
      filled[i] = 7.0;
      ++count;
    }
    const auto fills = [&](const Array& b) { return x.at(list).set(b); };
    REQUIRE(same(fills(Array(7.0)), array(filled, shape)));
    REQUIRE(grad([&](const Array& b) { return sum(fills(b)); })(Array(7.0)).item() == count);
  }
  CHECK(with_indices > 150);
  CHECK(repeated > 50);
}

TEST_CASE("results of NumPy") {
  const Array x = arange(24).reshape({2, 3, 4}), r = array({1, 0});
  CHECK(same(x[{0, {}, r}], array({{1, 5, 9}, {0, 4, 8}})));                // x[0, :, r]: indices in front
  CHECK(same(x[{{}, r, r}], array({{5, 0}, {17, 12}})));                    // x[:, r, r]
  CHECK(same(x[{r, {}, r}], array({{13, 17, 21}, {0, 4, 8}})));             // x[r, :, r]
  CHECK(same(x[{0, r}], array({{4, 5, 6, 7}, {0, 1, 2, 3}})));              // x[0, r]
  CHECK(same(x[{ellipsis, 0}], array({{0, 4, 8}, {12, 16, 20}})));          // x[..., 0]
  CHECK(same(x[{1, {1, {}}, {{}, {}, -2}}], array({{19, 17}, {23, 21}})));  // x[1, 1:, ::-2]
  CHECK(x[{{}, newaxis, 0}].shape() == Shape{2, 1, 4});
  CHECK(x[{ellipsis, r, newaxis}].shape() == Shape{2, 3, 2, 1});
  CHECK(same(x.at({{}, 1, {2, {}}}).multiply(0)[{{}, 1}], array({{4, 5, 0, 0}, {16, 17, 0, 0}})));
}

TEST_CASE("subscripts compiled, traced, lazily, mapped, and to second order") {
  const Array x = random_array({3, 4}, 5), columns = array({3, 0, 3});
  const auto f = [&](const Array& a) { return a[{{0, 2}, columns}]; };
  CHECK(same(compile(f)(x), f(x)));
  CHECK(same(call_graph(trace(f, x), {x})[0], f(x)));
  {
    const Lazy lazy;
    CHECK(same(f(x), x[{{0, 2}}][{{}, columns}]));
  }
  const Array many = stack({x, -x});
  CHECK(same(vmap(f)(many)[1], -f(x)));
  const auto energy = [&](const Array& a) {
    return sum(pow(a.at({{}, 1}).set(a[{{}, 0}] * a[{{}, 2}])[{1, {1, 3}}], 3));
  };
  check_gradient(
      "second order", [&](const Array& a) { return grad(energy)(a); }, x, 1e-5);
  const std::size_t row = 1;
  const std::int64_t column = -1;
  CHECK(same(x[{row, column}], x[1][3]));
  CHECK(same(x[{Slice{1, 3}, 0}], x.slice({{1, 3}, {0, 1}}).reshape({2})));
  CHECK(same(Array(2.0)[{newaxis}], array({2.0})));
  CHECK(same(Array(2.0).at({ellipsis}).set(3.0), Array(3.0)));
}

TEST_CASE("subscripts that do not fit are refused where they stand") {
  const Array x = zeros({3, 4}), mask = x > 0.0;
  const auto message = [](const std::function<void()>& body) { return error_of(body); };
  CHECK(message([&] { x[{{}, 4}]; }).find("along axis 1 of f64[3,4], got 4") != std::string::npos);
  CHECK(message([&] { x[{-4, 0}]; }).find("along axis 0 of f64[3,4], got -4") != std::string::npos);
  CHECK(message([&] {
          x[{0, 0, 0}];
        }).find("expected at most 2 subscripts for f64[3,4], got 3") != std::string::npos);
  CHECK(message([&] { x.at({ellipsis, 0, ellipsis}); }).find("one ellipsis") != std::string::npos);
  CHECK(message([&] { x[{{}, mask}]; }).find("expected integers, got bool[3,4]") != std::string::npos);
  CHECK(message([&] { x[{{}, {0, 3, 0}}]; }).find("a step that is not 0") != std::string::npos);
  CHECK(message([&] { Array()[{0, 0}]; }).find("index") != std::string::npos);
  CHECK(message([&] { x.at({{}, 0}).set(zeros({4})); }).find("broadcast") != std::string::npos);
  CHECK(message([&] { x[{{}, 4}]; }).find("subscripts.cpp") != std::string::npos);
}

}  // namespace
}  // namespace subscripts_cases
}  // namespace tidu::test
