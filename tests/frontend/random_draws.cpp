// random_draws.cpp - random integers, permutations, choices and distributions: those of jax.random 0.10.2
// (jax_threefry_partitionable, jax_enable_x64) for one key, to the last bit if they are no floating numbers;
// and properties for any key.
#include <algorithm>
#include <cmath>
#include <limits>

#include "support.hpp"

namespace tidu::test {
namespace random_draws_cases {
namespace {

using Doubles = std::vector<double>;
using Wholes = std::vector<std::int64_t>;

const Array key = random::key(0x123456789ab);

Wholes wholes(const Array& x) {
  Wholes result;
  const Array flat = x.to(i64).reshape({-1});
  for (std::int64_t i = 0; i < flat.size(); ++i) result.push_back(flat[i].item<std::int64_t>());
  return result;
}

TEST_CASE("random numbers are those of JAX") {
  CHECK(key.type() == Type(i32, {2}));
  CHECK(elements(key) == Doubles{291, 1164413355});
  CHECK(elements(random::key(-1)) == Doubles{-1, -1});
  CHECK(elements(random::split(key, 3)) ==
        Doubles{-1602163323, 409688475, -1969422479, 2125872051, -247202250, 1727646907});
  CHECK(random::split(random::split(key)).shape() == Shape{2, 2, 2});
  CHECK(elements(random::bits(key, {4})) == Doubles{-1192512482, -198523710, -1749405043, 218767600});
  CHECK(random::bits(key, {3}, i64)[2].item<std::int64_t>() == -1061725577519969093);
  CHECK(elements(random::uniform(key, {2, 3}, f32)) ==
        Doubles{0x1.71d768p-1, 0x1.e85588p-1, 0x1.2f7464p-1, 0x1.a144p-5, 0x1.646514p-1, 0x1.9227dp-1});
  // JAX's compiler rounds once where the range is scaled and moved.
  const Array scaled = array({-0x1.820794p-3, 0x1.1aab4ep-1, -0x1.34f1f2p-1, -0x1.2b23p+1});
  CHECK(distance(random::uniform(key, {4}, f32, -2.5, 0.7).to(f64), scaled) < 0x1p-22);
  CHECK(elements(random::uniform(key, {2, 3})) == Doubles{0x1.4101db0a30d6ap-1, 0x1.1539fee2fd6c6p-1,
                                                          0x1.e287fc6ccdf38p-1, 0x1.857ae795b1524p-2,
                                                          0x1.6eae051e0acb0p-1, 0x1.f4573cdd65690p-4});
  const Array normal = array(
      {0.3238317260709713, 0.10410779294209428, 1.5756238436942402, -0.3045573427877679, 0.5715053044506789});
  CHECK(distance(random::normal(key, {5}), normal) < 1e-15);
  const Array single = array(
      {0.5898267030715942, 1.682639718055725, 0.23445701599121094, -1.6358470916748047, 0.5131697654724121});
  CHECK(distance(random::normal(key, {5}, f32).to(f64), single) < 3e-7);
  // As many keys as rows, and under trace().
  const Array rows = random::uniform(random::split(key, 2), {3});
  CHECK(distance(rows[1], random::uniform(random::split(key, 2)[1], {3})) == 0.0);
  CHECK(distance(compile([](const Array& k) { return random::normal(k, {5}); })(key),
                 random::normal(key, {5})) == 0.0);
  const Array many = random::normal(key, {20000});
  CHECK(std::abs(mean(many).item()) < 0.03);
  CHECK(std::abs(var(many).item() - 1.0) < 0.05);
}

TEST_CASE("integers of a range are those of JAX") {
  struct Row {
    DType dtype;
    std::int64_t low, high;
    Wholes expected;
  };
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(), one = 1;
  const Row rows[] = {
      {i64, 0, 10, {6, 5, 9, 2, 7}},
      {i32, 0, 10, {6, 9, 2, 6, 5}},
      {i32, 3, 4, {3, 3, 3, 3, 3}},
      {i32, -5, 1000003, {110395, 313524, 769859, 469051, 120820}},
      {i32, -(one << 31), (one << 31) - 1, {1795658296, -1148162127, 430306832, -438000920, 1022662537}},
      {i32, -(one << 31), one << 31, {1795658296, -1148162127, 430306832, -438000920, 1022662537}},
      {i32, 0, one << 31, {1795658296, 999321521, 430306832, 1709482728, 1022662537}},
      {i64, -7, (one << 40) + 3, {45292046417, 860585122088, 133995241198, 921457061493, 646230006594}},
      {i64,
       -(one << 62),
       (one << 62) - 1,
       {4280751755537406770, 1869593939839962745, -2259002580258283760, 3560568117539966783,
        85479978834802720}},
      {i64,
       least,
       -(least + 1),
       {-330934262889981134, -2742092078587425159, 2352683438169104143, 8172254135967354686,
        4697165997262190623}},
      {i64,
       -1,
       (one << 62) + (one << 61),
       {1974908746323712816, 6481279958267350648, 4658526447382798093, 3560568117539966779,
        85479978834802716}},
      {i64,
       -(one << 62) - 5,
       one << 62,
       {4280751755537406765, 1869593939839962740, -2259002580258283771, 3560568117539966772,
        85479978834802709}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.low);
    CAPTURE(row.high);
    const auto draw = [&](const Array& k) { return random::randint(k, {5}, row.low, row.high, row.dtype); };
    CHECK(draw(key).type() == Type(row.dtype, {5}));
    CHECK(wholes(draw(key)) == row.expected);
    CHECK(wholes(compile(draw)(key)) == row.expected);
    CHECK(wholes(vmap(draw)(stack({key, key}))[1]) == row.expected);
  }
  const Array dice = random::randint(key, {60000}, 1, 7);
  for (int face = 1; face <= 6; ++face) CHECK(std::abs(count_nonzero(dice == face).item() - 10000) < 400);
  CHECK(random::randint(random::split(key, 2), {3}, 0, 5).shape() == Shape{2, 3});
  CHECK(contains(error_of([&] { (void)random::randint(key, {2}, 5, 5); }),
                 "[random.randint] expected low < high"));
  CHECK(contains(error_of([&] { (void)random::randint(key, {2}, 0, (one << 31) + 1, i32); }),
                 "that i32 holds"));
  CHECK(contains(error_of([&] { (void)random::randint(key, {2}, 0, 5, f32); }), "expected dtype i32 or i64"));
}

TEST_CASE("orders are those of JAX") {
  CHECK(random::permutation(key, 0).type() == Type(i64, {0}));
  CHECK(wholes(random::permutation(key, 1)) == Wholes{0});
  CHECK(wholes(random::permutation(key, 5)) == Wholes{1, 3, 2, 4, 0});
  const Wholes twelve{8, 5, 11, 1, 9, 3, 7, 6, 2, 10, 4, 0};
  CHECK(wholes(random::permutation(key, 12)) == twelve);
  const auto draw = [](const Array& k) { return random::permutation(k, 12); };
  CHECK(wholes(compile(draw)(key)) == twelve);
  CHECK(wholes(vmap(draw)(stack({key, key}))[1]) == twelve);
  CHECK(wholes(random::permutation(stack({key, random::key(1)}), 12)[0]) == twelve);
  const Array many = random::permutation(key, 5000);  // by three rounds
  CHECK(wholes(many.slice({{0, 6}})) == Wholes{265, 299, 1392, 674, 966, 4985});
  CHECK(wholes(many.slice({{-3}})) == Wholes{3805, 1331, 894});
  CHECK(bool(array_equal(sort(many), arange(5000))));
  const Array x = arange(12.0).reshape({4, 3});
  CHECK(elements(random::permutation(key, x)) == Doubles{3, 4, 5, 9, 10, 11, 6, 7, 8, 0, 1, 2});
  CHECK(elements(random::permutation(key, x, 1)) == Doubles{1, 2, 0, 4, 5, 3, 7, 8, 6, 10, 11, 9});
  CHECK(bool(array_equal(random::permutation(key, arange(12) * 2), random::permutation(key, 12) * 2)));
  CHECK(random::permutation(key, zeros({0, 2})).shape() == Shape{0, 2});
  check_gradient(
      "permutation", [](const Array& a) { return random::permutation(key, a); }, x);
  CHECK(contains(error_of([&] { (void)random::permutation(key, -1); }),
                 "[random.permutation] expected n >= 0"));
  CHECK(contains(error_of([&] { (void)random::permutation(random::split(key), x); }), "expected one key"));
}

TEST_CASE("truths and categories are those of JAX") {
  CHECK(wholes(random::bernoulli(key, 0.3, {8})) == Wholes{0, 0, 0, 0, 0, 1, 0, 0});
  const Array p = array({0.1, 0.5, 0.9});
  CHECK(wholes(random::bernoulli(key, p)) == Wholes{0, 0, 0});
  CHECK(wholes(random::bernoulli(key, p.to(f32), Shape{4, 3})) == Wholes{0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0});
  CHECK(random::bernoulli(key).type() == Type(bool_));
  CHECK(random::bernoulli(random::split(key, 2), p).shape() == Shape{2, 3});
  CHECK(std::abs(mean(random::bernoulli(key, 0.7, Shape{20000})).item() - 0.7) < 0.02);
  CHECK(contains(error_of([&] { (void)random::bernoulli(key, p, Shape{4}); }), "broadcast"));
  CHECK(contains(error_of([&] { (void)random::bernoulli(key, arange(2)); }),
                 "expected dtype f32 or f64, got i64"));
  const Array logits = 3.0 * sin(arange(12.0)).reshape({3, 4});
  const auto draw = [](const Array& k, const Array& l) { return random::categorical(k, l); };
  CHECK(wholes(draw(key, logits)) == Wholes{2, 3, 0});
  CHECK(wholes(compile(draw)(key, logits)) == Wholes{2, 3, 0});
  CHECK(wholes(random::categorical(key, logits, 0)) == Wholes{2, 0, 0, 1});
  CHECK(wholes(random::categorical(key, logits, -1, Shape{5, 3})) ==
        Wholes{2, 3, 0, 1, 3, 0, 2, 3, 0, 1, 3, 1, 1, 3, 1});
  CHECK(wholes(random::categorical(key, logits.to(f32), 0, Shape{2, 4})) == Wholes{2, 0, 0, 1, 2, 0, 0, 1});
  CHECK(random::categorical(key, logits).dtype() == i32);
  CHECK(wholes(vmap(draw, {std::nullopt, 0})(key, stack({logits, logits}))[1]) == Wholes{2, 3, 0});
  const Array drawn = random::categorical(key, log(array({0.2, 0.0, 0.8})), -1, Shape{20000});
  CHECK(std::abs(count_nonzero(drawn == 2).item() - 16000) < 300);
  CHECK(count_nonzero(drawn == 1).item() == 0);
  CHECK(contains(error_of([&] { (void)random::categorical(key, logits, -1, Shape{4}); }), "ends with"));
  CHECK(contains(error_of([&] { (void)random::categorical(key, arange(3)); }), "expected dtype f32 or f64"));
  CHECK(
      contains(error_of([&] { (void)random::categorical(random::split(key), logits); }), "expected one key"));
}

// To the rounding of logarithms and of erf_inv.
void check_close(const Array& drawn, const Doubles& expected) {
  const double tolerance = drawn.dtype() == f32 ? 1e-6 : 1e-14;
  CHECK(bool(allclose(drawn.to(f64), array(expected, {static_cast<std::int64_t>(expected.size())}), tolerance,
                      tolerance)));
}

TEST_CASE("distributions are those of JAX") {
  check_close(random::gumbel(key, {4}),
              {0.7617238792291565, 0.4885919680666976, 2.825499280445773, 0.03390943879010237});
  check_close(random::gumbel(key, {4}, f32),
              {1.1231602430343628, 3.050720691680908, 0.6479970812797546, -1.090980052947998});
  check_close(random::exponential(key, {4}),
              {0.9860891481434965, 0.7797035993204559, 2.8549923940973185, 0.4786031496740536});
  check_close(random::exponential(key, {4}, f32),
              {1.2813814878463745, 3.0742897987365723, 0.8981680870056152, 0.052278775721788406});
  check_close(
      random::truncated_normal(key, -1, 2, {5}),
      {0.4451305518029588, 0.2582420219184391, 1.4767944268129047, -0.07524705905862682, 0.6585553196776197});
  check_close(
      random::truncated_normal(key, -1, 2, {5}, f32),
      {0.6743771433830261, 1.5498594045639038, 0.3686988055706024, -0.8403682112693787, 0.6081789135932922});
  const Array inside = random::truncated_normal(key, 1, 1.5, {20000}, f32);
  CHECK(min(inside).item() > 1);
  CHECK(max(inside).item() < 1.5);
  CHECK(std::abs(mean(random::exponential(key, {40000})).item() - 1.0) < 0.03);
  CHECK(std::abs(mean(random::gumbel(key, {40000})).item() - 0.5772) < 0.03);
  CHECK(contains(error_of([&] { (void)random::truncated_normal(key, 1, 1); }), "expected low < high"));
  CHECK(contains(error_of([&] { (void)random::gumbel(key, {2}, f16); }), "expected dtype f32 or f64"));
  CHECK(contains(error_of([&] { (void)random::exponential(Array()); }), "expected Arrays with a value"));
}

}  // namespace
}  // namespace random_draws_cases
}  // namespace tidu::test
