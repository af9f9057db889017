// Simplify rules of sums: with a scatter into zeros, of padded values, of padded slices of one array, and of
// padded values with other readers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "simplify_support.hpp"

namespace tidu::test {
namespace {

using namespace simplify_rules;

Value filled(Value x, double value) { return ops::full_like(x, value); }

}  // namespace

TEST_CASE("simplify: sums with values that are scattered once") {
  const std::vector<DType> real = floats | integers;
  const auto indices = [](Value x, const Shape& shape) {
    std::vector<std::int32_t> which;
    for (std::int64_t i = 0; i < num_elements(shape); ++i)
      which.push_back(static_cast<std::int32_t>((i * 7 + 3) % (n + 4) - 2));
    return ops::constant(*x.emitter(), Literal::of<std::int32_t>(Type(i32, shape), which));
  };
  const auto along = [&](Value x, std::int64_t axis, const char* mode = "clip", double base = 0,
                         std::int64_t count = 1) {
    Shape shape{n, n};
    shape[static_cast<std::size_t>(axis)] = count;
    const Value updates = ops::slice(x, {0, 0}, shape), places = indices(x, shape);
    return ops::scatter_add_along_axis(filled(x, base), places, updates, axis, mode);
  };
  const auto row = [&](Value x) {
    const Value updates = ops::slice(x, {2, 0}, {3, n}), places = indices(x, {1});
    return ops::scatter_add(filled(x, 0), places, updates, 0, "clip");
  };
  for (const char* mode : {"clip", "drop"}) {
    rule(floats, "slice constant full add neg scatter_add_along_axis",
         [&](Value x, Value y) { return y - along(x, 1, mode); });
    rule(integers, "slice constant neg scatter_add_along_axis",
         [&](Value x, Value y) { return y - along(x, 0, mode); });
    rule(floats, "slice constant full sub full add scatter_add_along_axis",
         [&](Value x, Value y) { return along(x, 0, mode) - y; });
    rule(floats, "slice constant full add full add scatter_add_along_axis",
         [&](Value x, Value y) { return along(x, 1, mode) + y; });
    rule(integers, "slice constant scatter_add_along_axis",
         [&](Value x, Value y) { return y + along(x, 1, mode); });
  }
  rule(floats, "slice constant full add neg scatter_add", [&](Value x, Value y) { return y - row(x); });
  rule(floats, "slice full add reshape", [&](Value x, Value) { return ops::reduce_sum(along(x, 1), {1}); });
  rule(integers, "slice reshape", [&](Value x, Value) { return ops::reduce_sum(row(x), {0}); });
  // As a gradient of log_softmax has it.
  rule(floats, "slice constant full full add reshape broadcast_in_dim mul sub scatter_add_along_axis",
       [&](Value x, Value y) {
         const Value ct = along(x, 1);
         return ct - y * ops::broadcast_in_dim(ops::reduce_sum(ct, {1}), {n, n}, {0});
       });
  // Scattered twice, into another value, or with other readers; sums with dropped updates are not rewritten.
  no_rule(real, [&](Value x, Value y) { return y - along(x, 1, "clip", 0, 2); });
  no_rule(floats, [&](Value x, Value y) { return y - along(x, 1, "clip", -0.0); });
  no_rule(real, [&](Value x, Value y) { return y - along(x, 1, "clip", 3); });
  no_rule(real, [&](Value x, Value) { return ops::reduce_sum(along(x, 1), {0}); });
  no_rule(real, [&](Value x, Value) { return ops::reduce_sum(along(x, 1, "drop"), {1}); });
  no_rule(real, [&](Value x, Value y) {
    const Value scattered = along(x, 1);
    return (y - scattered) * scattered;
  });
  no_rule(complexes, [&](Value x, Value y) { return y - along(x, 1); });
}

TEST_CASE("simplify: values scattered once to each position that is read are gathered") {
  const std::vector<DType> real = floats | integers;
  // The rows or columns of x, in pairs, to positions along an axis.
  const auto scattered = [](Value x, std::int64_t axis, std::int64_t places, std::vector<std::int32_t> which,
                            const char* mode = "clip", double base = 0) {
    Shape shape{n, n};
    shape[static_cast<std::size_t>(axis)] = places;
    const Value into = ops::full(*x.emitter(), x.type().with_shape(shape), base);
    const Literal to = Literal::of<std::int32_t>(Type(i32, {n / 2, 2}), which);
    Shape parts{n, n};
    parts[static_cast<std::size_t>(axis)] = n / 2;
    parts.insert(parts.begin() + axis + 1, 2);
    return ops::scatter_add(into, ops::constant(*x.emitter(), to), ops::reshape(x, parts), axis, mode);
  };
  const auto permuted = [](std::int64_t by, std::int64_t least = 0, std::int64_t most = n) {
    std::vector<std::int32_t> which;
    for (std::int64_t i = 0; i < n; ++i)
      which.push_back(static_cast<std::int32_t>(std::clamp((i * by + 3) % n, least, most)));
    return which;
  };
  for (const char* mode : {"clip", "drop"}) {
    rule(floats, "full constant take add",
         [&](Value x, Value) { return scattered(x, 1, n, permuted(7), mode); });
    rule(integers, "constant take", [&](Value x, Value) { return scattered(x, 0, n, permuted(7), mode); });
    // One position without readers for all, and several such positions.
    rule(floats, "constant take full add", [&](Value x, Value) {
      return ops::slice(scattered(x, 1, n, permuted(3, 6), mode), {0, 7}, {n, n});
    });
    rule(integers, "constant take", [&](Value x, Value) {
      return ops::slice(scattered(x, 0, n, permuted(3, 0, 13), mode), {1, 0}, {n - 7, n}, {4, 1});
    });
  }
  const auto last_place = [&](Value x, const char* mode) {
    std::vector<std::int32_t> which = permuted(7);
    *std::find(which.begin(), which.end(), n - 1) = INT32_MAX;
    return scattered(x, 1, n, which, mode);
  };
  // Indices of any rank, of 64 bits.
  const auto by_rank = [](Value x, const Shape& shape, std::int64_t places, std::int64_t first) {
    std::vector<std::int64_t> which;
    for (std::int64_t i = 0; i < num_elements(shape); ++i) which.push_back(first - i);
    const Value into = ops::full(*x.emitter(), x.type().with_shape({places, n}), 0.0);
    Shape updates = shape;
    updates.push_back(n);
    const Value u = ops::reshape(ops::slice(x, {0, 0}, {num_elements(shape), n}), updates);
    return ops::scatter_add(
        into, ops::constant(*x.emitter(), Literal::of<std::int64_t>(Type(i64, shape), which)), u, 0);
  };
  rule(integers, "slice constant take", [&](Value x, Value) { return by_rank(x, {2, 2, 3}, 12, 11); });
  rule(integers, "slice constant take", [&](Value x, Value) {
    return ops::slice(by_rank(x, {4}, 9, 8), {5, 0}, {9, n});
  });
  no_rule(integers, [&](Value x, Value) {
    return ops::slice(by_rank(x, {4}, 9, INT64_MIN + 4), {5, 0}, {9, n});
  });
  no_rule(integers, [&](Value x, Value) {
    return ops::slice(by_rank(x, {4}, 9, INT64_MAX), {5, 0}, {9, n});
  });
  // Out of range; no update for a position, or two; another base; another reader; a slice along another axis.
  no_rule(integers, [&](Value x, Value) { return last_place(x, "clip"); });
  no_rule(complexes, [&](Value x, Value) { return scattered(x, 1, n, permuted(7)); });
  no_rule(floats, [&](Value x, Value) { return scattered(x, 1, n, permuted(7), "clip", -0.0); });
  no_rule(real, [&](Value x, Value) { return scattered(x, 1, n, permuted(7), "clip", 1); });
  no_rule(real, [&](Value x, Value) { return last_place(x, "drop"); });
  no_rule(real, [&](Value x, Value) { return scattered(x, 1, n, permuted(7, 1)); });
  no_rule(real, [&](Value x, Value) {
    return ops::slice(scattered(x, 1, n, permuted(3, 6)), {0, 6}, {n, n});
  });
  no_rule(real, [&](Value x, Value) {
    return ops::slice(scattered(x, 1, n, permuted(3, 6)), {1, 7}, {n, n});
  });
  no_rule(real, [&](Value x, Value) {
    const Value into = scattered(x, 1, n, permuted(3, 6));
    return ops::slice(into, {0, 7}, {n, n}) * ops::slice(ops::square(into), {0, 7}, {n, n});
  });
}

TEST_CASE("simplify: a sum of padded values is a concatenate") {
  const auto rows = [](Value x, std::int64_t from, std::int64_t to) {
    const Value part = ops::slice(x, {from, 0}, {to, n});
    return ops::pad(part, ops::full(*x.emitter(), Type(x.dtype()), 0.0), {{from, n - to, 0}, {0, 0, 0}});
  };
  rule(floats | complexes, "slice slice slice full add full full add add concatenate", [&](Value x, Value y) {
    const Value middle = rows(x, 5, 12), last = rows(y, 12, n), first = rows(x, 0, 5);
    return first + last + middle;
  });
  rule(integers, "slice slice concatenate", [&](Value x, Value y) { return rows(x, 7, n) + rows(y, 0, 7); });
  rule(integers, "slice full slice full concatenate pad", [&](Value x, Value y) {
    const Value first = rows(x, 2, 4), second = rows(y, 9, 10);
    return first + second;
  });
  no_rule(floats, [&](Value x, Value y) { return rows(x, 0, 5) + rows(y, 4, n); });
  rule(floats, "slice", [&](Value x, Value) { return ops::slice(rows(x, 2, 9), {3, 1}, {5, n}); });
  rule(floats, "slice add concatenate", [&](Value x, Value y) {
    const Value part = ops::slice(x, {0, 0}, {3, n});
    return ops::concatenate(std::vector{ops::concatenate(std::vector{part, x + y}, 0), y}, 0);
  });
}

TEST_CASE("simplify: padded slices of one array, its end in front of its beginning, are a roll of it") {
  const auto part = [](Value x, std::int64_t from, std::int64_t to, std::int64_t at) {
    return ops::pad(ops::slice(x, {from, 0}, {to, n}), ops::full(*x.emitter(), Type(x.dtype()), 0.0),
                    {{at, n - at - to + from, 0}, {0, 0, 0}});
  };
  const auto last = [&](Value x) { return part(x, 5, n, 0); };
  const auto first = [&](Value x) { return part(x, 0, 5, n - 5); };
  rule(floats | complexes, "slice slice concatenate full add",
       [&](Value x, Value) { return first(x) + last(x); });
  rule(integers, "slice slice concatenate add", [&](Value x, Value y) { return y + last(x) + first(x); });
  rule(floats | complexes, "slice slice concatenate full add add",
       [&](Value x, Value y) { return y + last(x) + first(x); });
  rule(floats, "slice slice concatenate full add add",
       [&](Value x, Value y) { return first(x) + y + last(x); });
  rule(floats, "slice slice concatenate full add add",
       [&](Value x, Value y) { return last(x) + (first(x) + y); });
  no_rule(floats, [&](Value x, Value y) { return y + last(x) + first(y); });
  no_rule(floats, [&](Value x, Value y) { return y + part(x, 0, n - 5, 0) + part(x, n - 5, n, n - 5); });
  no_rule(floats, [&](Value x, Value y) { return y + part(x, 6, n, 0) + part(x, 0, 5, n - 5); });
}

TEST_CASE("simplify: a value with other readers is padded, and not its products with one number") {
  constexpr std::int64_t rows = 190, columns = 200;
  const auto left = [](DType dtype, const std::vector<double>& factors, bool flipped) {
    GraphBuilder builder("f");
    const Value x = builder.input("x", {dtype, {rows, columns}});
    std::vector<Value> sums;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const Value factor = ops::full_like(x, factors[i]);
      const Value product = flipped ? factor * x : x * factor;
      const auto before = static_cast<std::int64_t>(i);
      sums.push_back(ops::pad(product, ops::full(builder, Type(dtype), 0.0),
                              {{before, 2 - before, 0}, {2 - before, before, 0}}));
    }
    const Graph graph = builder.build(sums), simplified = passes::simplify(graph, false);
    verify(simplified);
    const Tensor special = special_tensor({dtype, {rows, columns}}, [](std::size_t i) { return i % 20; });
    CHECK(differences(graph, simplified, {special}) == "");
    std::string names;
    for (std::size_t i = 0; i < simplified.num_operations(); ++i) {
      const Operation operation = simplified.operation(i);
      if (operation.name() == "pad" || operation.name() == "mul")
        names += detail::str(operation.name(), operation.inputs()[0] == simplified.inputs()[0] ? " x " : " ");
    }
    return names;
  };
  for (const DType dtype : floats | integers) {
    CHECK(left(dtype, {3, -7}, false) == "pad x mul pad x mul ");
    CHECK(left(dtype, {-2, 5}, true) == "pad x mul pad x mul ");
  }
  for (const DType dtype : floats)
    CHECK(left(dtype, {0.0, -0.0, 1e-7}, false) == "pad x mul pad x mul pad x mul ");
  CHECK(left(f64, {HUGE_VAL, NAN}, false) == "mul x pad mul x pad ");
  CHECK(left(f64, {3}, false) == "mul x pad ");
  CHECK(left(c64, {3, -7}, false) == "mul x pad mul x pad ");
}

}  // namespace tidu::test
