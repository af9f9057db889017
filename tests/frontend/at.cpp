// at.cpp - x[indices] and x.at(place).set(v) and similar functions, compared with plain loops and with
// matmuls by matrices of zeros and ones; their gradients compared with differences, and in all modes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "support.hpp"

namespace tidu::test {
namespace at_cases {
namespace {

constexpr std::int64_t rows = 5, columns = 3;

// The clamped position of an index: from the end if it is negative.
std::int64_t clamped(std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + rows : i, 0, rows - 1); }
// Nothing where it leads out of the axis.
std::optional<std::int64_t> inside(std::int64_t i) {
  if (i < -rows || i >= rows) return std::nullopt;
  return clamped(i);
}

std::vector<std::int64_t> whole(const Array& indices) {
  std::vector<std::int64_t> result;
  for (const double i : elements(indices)) result.push_back(static_cast<std::int64_t>(i));
  return result;
}

// One row of zeros and ones for each index.
Array selection(const Array& indices, bool clamps) {
  const std::vector<std::int64_t> list = whole(indices);
  std::vector<double> entries;
  for (const std::int64_t i : list)
    for (std::int64_t row = 0; row < rows; ++row)
      entries.push_back(row == (clamps ? clamped(i) : inside(i).value_or(-1)) ? 1 : 0);
  return array(entries, {static_cast<std::int64_t>(list.size()), rows});
}

const Array all_kinds = array({3, -1, 0, 3, 9, -5, -9, 1});

bool same(const Array& a, const Array& b) { return a.type() == b.type() && elements(a) == elements(b); }

// f gives the same by every way to run it.
template <class F, class... Args>
void check_modes(const F& f, const Array& expected, const Args&... args) {
  CHECK(same(f(args...), expected));
  const auto compiled = compile(f);
  CHECK(same(compiled(args...), expected));
  CHECK(same(call_graph(trace(f, args...), {args...})[0], expected));
  const Lazy lazy;
  CHECK(same(f(args...), expected));
}

TEST_CASE("the sub-arrays at integers") {
  const Array x = random_array({rows, columns}, 1);
  const auto f = [](const Array& a, const Array& i) { return a[i]; };
  const Array expected = matmul(selection(all_kinds, true), x);
  for (const DType dtype : {i32, i64}) {
    const Array indices = all_kinds.to(dtype);
    check_modes(f, expected, x, indices);
    check_modes(f, expected.reshape({2, 4, columns}), x, indices.reshape({2, 4}));
  }
  CHECK(same(x[Array(-1)], x[4]));
  CHECK(same(x[all_kinds].at(0).get(), x[3]));
  CHECK(x[zeros({0}, i32)].shape() == Shape{0, columns});
  CHECK(same((x > 0)[all_kinds], expected > 0));
  CHECK(x.to(f32)[all_kinds].dtype() == f32);
  // take() clamps a negative one to 0.
  CHECK(same(take(x, Array(-1)), x[0]));
  check_gradient(
      "x[indices]", [](const Array& a) { return a[all_kinds]; }, x);
  const Array weights = random_array({8, columns}, 2);
  const auto weighted = [&](const Array& a) { return sum(weights * square(a[all_kinds])); };
  const Array s = selection(all_kinds, true);
  CHECK(distance(grad(weighted)(x), matmul(s.T(), 2.0 * weights * matmul(s, x))) < 1e-13);
  CHECK(distance(hvp(weighted, x, x), matmul(s.T(), 2.0 * weights * matmul(s, x))) < 1e-13);
  // For each example an Array and indices of its own, or one of the two for all.
  const Array many = random_array({2, rows, columns}, 3), places = stack({all_kinds, flip(all_kinds)});
  const Array mapped = vmap(f)(many, places);
  for (int k = 0; k < 2; ++k) CHECK(same(mapped[k], many[k][places[k]]));
  CHECK(same(vmap(f, {std::nullopt, 0})(x, places)[1], x[places[1]]));
  CHECK(same(vmap(f, {0, std::nullopt})(many, all_kinds)[1], many[1][all_kinds]));
}

// x with op(element, v) in the rows that are named, one after another.
template <class Op>
Array in_rows(const Array& x, const Array& indices, const Array& v, const Op& op) {
  std::vector<double> result = elements(x);
  const std::vector<double> values = elements(broadcast_to(v, {indices.size(), columns}));
  const std::vector<std::int64_t> list = whole(indices);
  for (std::size_t k = 0; k < list.size(); ++k) {
    const auto row = inside(list[k]);
    for (std::size_t c = 0; row && c < columns; ++c) {
      double& element = result[static_cast<std::size_t>(*row) * columns + c];
      element = op(element, values[k * columns + c]);
    }
  }
  return array(result, x.shape());
}
double second(double, double v) { return v; }
double added(double a, double v) { return a + v; }

TEST_CASE("rows at integers are set and added to") {
  const Array x = random_array({rows, columns}, 4);
  const auto set = [](const Array& a, const Array& i, const Array& v) { return a.at(i).set(v); };
  const auto add = [](const Array& a, const Array& i, const Array& v) { return a.at(i).add(v); };
  for (const Shape& shape : {Shape{8, columns}, Shape{columns}, Shape{8, 1}, Shape{}, Shape{1, columns}}) {
    const Array v = random_array(shape, 5);
    for (const DType dtype : {i32, i64}) {
      const Array indices = all_kinds.to(dtype);
      check_modes(set, in_rows(x, all_kinds, v, second), x, indices, v);
      check_modes(add, in_rows(x, all_kinds, v, added), x, indices, v);
    }
    CHECK(same(grad<2>([&](const Array& a, const Array& i, const Array& b) { return sum(set(a, i, b)); })(
                   x, all_kinds, v),
               grad<2>([&](const Array& a, const Array& i, const Array& b) {
                 return sum(compile(set)(a, i, b));
               })(x, all_kinds, v)));
    for (const auto* f : {"set", "add"}) {
      const auto updated = [&](const Array& a, const Array& b) {
        return std::string(f) == "set" ? set(a, all_kinds, b) : add(a, all_kinds, b);
      };
      check_gradient(
          f, [&](const Array& a) { return updated(a, v); }, x);
      check_gradient(
          f, [&](const Array& b) { return updated(x, b); }, v);
      const auto energy = [&](const Array& b) { return sum(pow(updated(x, b), 3)); };
      check_gradient(
          "second order", [&](const Array& b) { return grad(energy)(b); }, v, 1e-5);
    }
  }
  const Array many = random_array({2, rows, columns}, 6), values = random_array({2, 8, columns}, 7);
  const Array places = stack({all_kinds, flip(all_kinds)});
  const Array sets = vmap(set)(many, places, values), sums = vmap(add)(many, places, values);
  for (int k = 0; k < 2; ++k) {
    CHECK(same(sets[k], in_rows(many[k], places[k], values[k], second)));
    CHECK(distance(sums[k], in_rows(many[k], places[k], values[k], added)) < 1e-14);
  }
  // Numbers, other dtypes, one index, none; a minus zero stays one.
  CHECK(same(x.at(all_kinds).set(2), in_rows(x, all_kinds, Array(2.0), second)));
  const Array n = arange(5);
  CHECK(same(n.at(array({1, 1, -1})).add(10), array({0, 21, 2, 3, 14})));
  CHECK(same((n > 9).at(array({1, 1, 7})).set(true), array({false, true, false, false, false})));
  CHECK(same((n > 9).at(array({1, 1, 2})).set(array({true, false, true})),
             array({false, false, true, false, false})));
  CHECK(same((n > 2).at(array({0, 4})).add(array({true, false})), array({true, false, false, true, true})));
  CHECK(same(x.at(Array(1)).set(x[2]), x.at(1).set(x[2])));
  CHECK(same(x.at(zeros({0}, i64)).set(zeros({0, columns})), x));
  CHECK(same(zeros({0, 2}).at(array({1})).set(1.0), zeros({0, 2})));
  CHECK(std::signbit(elements(x.at(array({0})).set(-0.0 * ones({1, columns})))[0]));
  CHECK(x.to(f32).at(array({0, 1})).set(0.5).dtype() == f32);
}

double least(double a, double v) { return std::min(a, v); }
double greatest(double a, double v) { return std::max(a, v); }

TEST_CASE("the minimum and the maximum of values for rows at integers") {
  const auto lower = [](const Array& a, const Array& i, const Array& v) { return a.at(i).min(v); };
  const auto raise = [](const Array& a, const Array& i, const Array& v) { return a.at(i).max(v); };
  const Array x = random_array({rows, columns}, 14);
  for (const Shape& shape : {Shape{8, columns}, Shape{columns}, Shape{8, 1}, Shape{}}) {
    const Array v = random_array(shape, 15);
    for (const DType dtype : {i32, i64}) {
      const Array indices = all_kinds.to(dtype);
      check_modes(lower, in_rows(x, all_kinds, v, least), x, indices, v);
      check_modes(raise, in_rows(x, all_kinds, v, greatest), x, indices, v);
    }
    check_gradient(
        "min by x", [&](const Array& a) { return lower(a, all_kinds, v); }, x);
    check_gradient(
        "min by v", [&](const Array& b) { return lower(x, all_kinds, b); }, v);
    check_gradient(
        "max by x", [&](const Array& a) { return raise(a, all_kinds, v); }, x);
    check_gradient(
        "max by v", [&](const Array& b) { return raise(x, all_kinds, b); }, v);
  }
  const Array many = random_array({2, rows, columns}, 16), values = random_array({2, 8, columns}, 17);
  const Array places = stack({all_kinds, flip(all_kinds)});
  const Array mapped = vmap(lower)(many, places, values);
  for (int k = 0; k < 2; ++k) CHECK(same(mapped[k], in_rows(many[k], places[k], values[k], least)));
  const Array twice = array({1, 1});
  const std::int64_t low = std::numeric_limits<std::int64_t>::min();
  CHECK(same(arange(3).at(twice).min(array({std::int64_t{5}, low})), arange(3).at(1).set(low)));
  CHECK(same(arange(3).at(twice).max(array({5, 7})), array({0, 7, 2})));
  CHECK(same(array({false, true}).at(twice).min(array({true, false})), array({false, false})));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Array& v : {array({nan, 3.0}), array({-3.0, nan})}) {
    CHECK(std::isnan(elements(ones({3}).at(twice).max(v))[1]));
    CHECK(std::isnan(elements(ones({3}).at(twice).min(v))[1]));
  }
  CHECK(same(x.at(zeros({0}, i64)).max(zeros({0, columns})), x));
}

TEST_CASE("the element at a position") {
  const Array x = random_array({rows, columns}, 8), v = random_array({columns}, 9);
  const auto replaced = [&](std::int64_t row, const Array& by) {
    std::vector<Array> parts;
    for (std::int64_t i = 0; i < rows; ++i) parts.push_back(i == row ? broadcast_to(by, {columns}) : x[i]);
    return stack(parts);
  };
  check_modes([](const Array& a, const Array& b) { return a.at(1).set(b); }, replaced(1, v), x, v);
  check_modes([](const Array& a, const Array& b) { return a.at(-1).add(b); }, replaced(4, x[4] + v), x, v);
  check_modes([](const Array& a, const Array& b) { return a.at(0).multiply(b); }, replaced(0, x[0] * v), x,
              v);
  check_modes([](const Array& a, const Array& b) { return a.at(0).divide(b); }, replaced(0, x[0] / v), x, v);
  check_modes([](const Array& a, const Array& b) { return a.at(0).min(b); }, replaced(0, minimum(x[0], v)), x,
              v);
  check_modes([](const Array& a, const Array& b) { return a.at(0).max(b); }, replaced(0, maximum(x[0], v)), x,
              v);
  CHECK(same(x.at(2).get(), x[2]));
  CHECK(same(x.at(2).set(7.5), replaced(2, full({columns}, 7.5))));
  CHECK(same(array({true, false}).at(0).multiply(false), array({false, false})));
  for (const auto& f : {+[](const Array&a, const Array&b) { return a.at(1).set(b); },
                        +[](const Array&a, const Array&b) { return a.at(1).add(b); },
                        +[](const Array&a, const Array&b) { return a.at(1).multiply(b); },
                        +[](const Array&a, const Array&b) { return a.at(1).divide(b); },
                        +[](const Array&a, const Array&b) { return a.at(1).max(b); }}) {
    check_gradient(
        "by x", [&](const Array& a) { return f(a, v); }, x, 1e-5);
    check_gradient(
        "by v", [&](const Array& b) { return f(x, b); }, v, 1e-5);
  }
  const Array many = random_array({2, rows, columns}, 10);
  const Array mapped = vmap([&](const Array& a) { return a.at(1).set(v); })(many);
  for (int k = 0; k < 2; ++k) CHECK(same(mapped[k], many[k].at(1).set(v)));
}

TEST_CASE("parts with steps, forward and backward") {
  const Array x = arange(40).reshape({5, 8}).to(f64);
  const std::vector<std::vector<Slice>> all_parts = {
      {{1, 3}},
      {{}},
      {{}, {2, 5}},
      {{1, {}, 2}, {{}, {}, 3}},
      {{{}, {}, -1}},
      {{3, 0, -2}, {6, {}, -5}},
      {{-2, {}}, {-3, -1}},
      {{2, 2}},
      {{4, 1}},
      {{0, 5, 7}},
      {{4, {}, -9}, {7, {}, -1}},
  };
  for (const std::vector<Slice>& parts : all_parts) {
    const Array numbers = slice(x, parts);
    CAPTURE(numbers);
    const Array v = random_array(numbers.shape(), 11);
    // The elements themselves show the order, since they are their positions.
    std::vector<double> expected = elements(x), of_v = elements(v);
    const std::vector<double> places = elements(numbers);
    for (std::size_t k = 0; k < places.size(); ++k) expected[static_cast<std::size_t>(places[k])] = of_v[k];
    check_modes([&](const Array& a, const Array& b) { return a.at(parts).set(b); }, array(expected, {5, 8}),
                x, v);
    CHECK(same(x.at(parts).get(), numbers));
    CHECK(same(slice(x.at(parts).add(v), parts), numbers + v));
    CHECK(same(slice(x.at(parts).multiply(2), parts), numbers * 2.0));
    if (v.size() == 0) continue;
    check_gradient(
        "by x", [&](const Array& a) { return a.at(parts).multiply(v); }, x, 1e-5);
    check_gradient(
        "by v", [&](const Array& b) { return x.at(parts).set(b); }, v, 1e-5);
    check_gradient(
        "of get", [&](const Array& a) { return a.at(parts).get(); }, x);
  }
  CHECK(same(x.at({{1, 3}, {0, 2}}).set(0.0), x - x * (x < 24) * (x >= 8) * (x - 8.0 * floor(x / 8.0) < 2)));
  CHECK(same(x.at({{2, {}}}).get(), x.slice({{2}})));
  CHECK(same(x.at({{0, 2}}).set(ones({8})), concatenate({ones({2, 8}), x.slice({{2}})})));
  CHECK(same(Array(3.0).at(std::vector<Slice>{}).set(4.0), Array(4.0)));
}

TEST_CASE("where a mask is true") {
  const Array x = random_array({rows, columns}, 12), v = random_array({columns}, 13);
  const Array mask = x > 0, few = array({true, false, true, false, false});
  const auto set = [](const Array& a, const Array& m, const Array& b) { return a.at(m).set(b); };
  check_modes(set, where(mask, 0.25, x), x, mask, Array(0.25));
  check_modes(set, where(few.reshape({rows, 1}), v, x), x, few, v);
  CHECK(same(x.at(mask).add(1.0), where(mask, x + 1.0, x)));
  CHECK(same(x.at(few).multiply(v), where(few.reshape({rows, 1}), x * v, x)));
  CHECK(same(x.at(Array(true)).set(v), broadcast_to(v, {rows, columns})));
  check_gradient(
      "by v", [&](const Array& b) { return x.at(few).multiply(b); }, v);
  check_gradient(
      "by x", [&](const Array& a) { return a.at(few).multiply(v); }, x);
  const Array masks = stack({few, !few});
  CHECK(same(vmap(set, {std::nullopt, 0, std::nullopt})(x, masks, v)[1], x.at(!few).set(v)));
}

TEST_CASE("misuse of indices and of at") {
  const Array x = ones({5, 3}, f32);
  const auto refused = [](const std::string& error, const std::string& what, int line) {
    CAPTURE(error);
    CHECK(contains(error, what));
    CHECK(contains(error, "at.cpp:" + std::to_string(line)));
  };
  refused(error_of([&] { (void)x[x > 0]; }), "[index] expected integers, got bool[5,3]: the", __LINE__);
  refused(error_of([&] { (void)x[x]; }), "[index] expected integers, got f32[5,3]", __LINE__);
  refused(error_of([&] { (void)x.at(x).set(1); }), "[at] expected integers, got f32[5,3]", __LINE__);
  refused(error_of([&] { (void)Array(1.0)[arange(3)]; }), "[index] expected at most 0 subscripts for f64[]",
          __LINE__ - 1);
  refused(error_of([&] { (void)x.at(5); }), "[at] expected a position along axis 0 of f32[5,3], got 5",
          __LINE__ - 1);
  refused(error_of([&] {
            (void)x.at({{0, 1}, {0, 1}, {0, 1}});
          }),
          "[at] expected at most 2 subscripts", __LINE__ - 2);
  refused(error_of([&] { (void)x.at({{0, 1, 0}}); }), "[at] expected a step that is not 0", __LINE__);
  refused(error_of([&] { (void)x.at(ones({3}) > 0); }),
          "[at] expected a mask of the extents of the first axes of f32[5,3], got bool[3]", __LINE__ - 1);
  refused(error_of([&] { (void)x.at(x > 0).get(); }), "[at.get] expected a position, slices or", __LINE__);
  refused(error_of([&] { (void)x.at(0).set(ones({3})); }),
          "[at.set] expected values that the dtype of f32[5,3] holds, got f64[3]", __LINE__ - 1);
  refused(error_of([&] { (void)x.at(0).set(ones({5}, f32)); }), "broadcast", __LINE__);
  refused(error_of([&] {
            (void)x.at(0).set(ones({1, 3}, f32));
          }),
          "broadcast to the indexed shape, [3]", __LINE__ - 2);
  refused(error_of([&] { (void)arange(3).at(0).add(0.5); }), "got f64[]", __LINE__);
  refused(error_of([&] { (void)arange(3).at(0).divide(2); }), "[at.divide] expected a floating", __LINE__);
  refused(error_of([&] { (void)arange(3).to(i32).at(0).set(std::int64_t{1} << 40); }), "which i32 holds",
          __LINE__ - 1);
  refused(error_of([&] { (void)x.at(arange(2)).multiply(2); }),
          "[at.multiply] expected a position, slices or a mask, got indices (i64[2])", __LINE__ - 1);
  refused(error_of([&] { (void)x.at(0).set(Array()); }), "[at.set] expected Arrays with a value", __LINE__);
  refused(error_of([&] { (void)Array().at(0); }), "[at] expected Arrays with a value", __LINE__);
  refused(error_of([&] { (void)x[Array()]; }), "expected Arrays with a value", __LINE__);
}

TEST_CASE("masked elements bring no infinity into gradients") {
  const double inf = std::numeric_limits<double>::infinity();
  const Array one = array({false, true}), none = array({false, false});
  CHECK(grad([&](const Array& v) {
          return array({inf, 1.0}).at(one).multiply(v)[1];
        })(Array(2.0))
            .item() == 1);
  const Array q = array({1.0, 2.0});
  CHECK(elements(grad([&](const Array& x) { return sum(x.at(none).divide(0)); })(q)) ==
        std::vector<double>{1, 1});
  CHECK(elements(grad([&](const Array& x) { return sum(x.at(one).multiply(inf)); })(q)) ==
        std::vector<double>{1, inf});
  CHECK(elements(q.at(one).divide(4)) == std::vector<double>{1, 0.5});
}

}  // namespace
}  // namespace at_cases
}  // namespace tidu::test
