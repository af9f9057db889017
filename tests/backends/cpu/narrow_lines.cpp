// Layout operations on matrices with few columns and so many rows that threads share them, and reversed rows:
// every element at its position.
#include "cpu/compare.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace narrow_lines_cases {
namespace {

constexpr DType sizes[] = {bool_, f16, i32, f64, c128};  // elements of 1 to 16 bytes

template <class Emit>
void check_layouts(const std::vector<Shape>& shapes, std::mt19937_64& random, const Emit& emit) {
  static std::size_t turn = 0;
  for (const DType dtype : sizes) {
    if (shortened() && turn++ % 3 != 0) continue;
    GraphBuilder builder("moves");
    std::vector<Value> operands;
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes) {
      operands.push_back(builder.input(detail::str('x', operands.size()), Type(dtype, shape)));
      inputs.push_back(random_tensor(Type(dtype, shape), {-5, 5}, random));
    }
    const Graph graph = builder.build({emit(operands)});
    for (const int threads : {1, 2}) {
      CpuOptions options;
      options.threads = threads;
      INFO(threads, " threads: ", to_text(graph));
      for (const std::string& text : differences(graph, inputs, CpuExecutor(options)))
        CHECK_MESSAGE(text.empty(), text);
    }
  }
}

}  // namespace

TEST_CASE("rows, columns and mirrored rows of matrices with few columns") {
  std::mt19937_64 random(83);
  for (const std::int64_t columns : {2, 3, 4, 5, 6, 7, 8, 9, 13}) {
    const std::int64_t rows = 70001 / columns + 1;
    const Shape matrix{rows, columns};
    check_layouts({{columns}}, random,
                  [&](const auto& x) { return ops::broadcast_in_dim(x[0], matrix, {1}); });
    check_layouts({{rows}}, random, [&](const auto& x) { return ops::broadcast_in_dim(x[0], matrix, {0}); });
    check_layouts({matrix}, random, [](const auto& x) { return ops::rev(x[0], {1}); });
    check_layouts({matrix}, random, [](const auto& x) { return ops::rev(x[0], {0}); });
    check_layouts({matrix}, random, [&](const auto& x) { return ops::slice(x[0], {1, 1}, {rows, columns}); });
    check_layouts({{rows, 2 * columns}}, random, [&](const auto& x) {
      return ops::slice(x[0], {0, 1}, {rows, 2 * columns}, {1, 2});
    });
  }
  finish_checks();
}

TEST_CASE("batches of matrices with few columns") {
  std::mt19937_64 random(89);
  for (const Shape& shape : {Shape{3, 24000, 3}, Shape{24000, 3, 5}, Shape{2, 3, 20000, 2}}) {
    const auto last = static_cast<std::int64_t>(shape.size()) - 1;
    Ints axes, starts(shape.size(), 0);
    for (std::int64_t k = 0; k < last; ++k) axes.push_back(k);
    starts.back() = 1;
    check_layouts({Shape(shape.begin(), shape.end() - 1)}, random,
                  [&](const auto& x) { return ops::broadcast_in_dim(x[0], shape, axes); });
    check_layouts({shape}, random, [&](const auto& x) { return ops::rev(x[0], {0, last}); });
    check_layouts({shape}, random,
                  [&](const auto& x) { return ops::slice(x[0], starts, Ints(shape.begin(), shape.end())); });
  }
  finish_checks();
}

TEST_CASE("rows repeated, and each of their elements twice") {
  std::mt19937_64 random(91);
  for (const std::int64_t count : {2, 3, 4, 7, 12, 33}) {
    for (const std::int64_t lines : {2, 3}) {
      const auto twice = [&](const Shape& shape, const Shape& larger, const Ints& axes) {
        check_layouts({shape}, random,
                      [&](const auto& x) { return ops::broadcast_in_dim(x[0], larger, axes); });
      };
      twice({count}, {lines, count, 2}, {1});
      twice({7001, count}, {7001, lines, count, 2}, {0, 2});
      twice({5, 3, count}, {5, 3, lines, count, 2}, {0, 1, 3});
      twice({5, count}, {5, 3, lines, count, 2}, {0, 3});
      twice({5, count}, {3, 5, lines, count, 2}, {1, 3});
    }
  }
  finish_checks();
}

TEST_CASE("matrices with few columns side by side") {
  std::mt19937_64 random(97);
  const std::int64_t rows = 9001;
  for (std::int64_t count = 1; count <= 9; ++count) {
    // Columns of one element alone, and between parts of `count`.
    check_layouts(std::vector<Shape>(static_cast<std::size_t>(count), Shape{rows, 1}), random,
                  [](const auto& x) { return ops::concatenate(x, 1); });
    std::vector<Shape> parts(static_cast<std::size_t>(count), Shape{rows, 1});
    parts.insert(parts.begin(), {rows, count});
    parts.push_back({rows, count + 1});
    check_layouts(parts, random, [](const auto& x) { return ops::concatenate(x, 1); });
  }
  check_layouts({{3, 0}, {3, 0}}, random, [](const auto& x) { return ops::concatenate(x, 1); });
  finish_checks();
}

TEST_CASE("lines backward, of any length, alone and as rows and columns") {
  std::mt19937_64 random(84);
  for (const std::int64_t size : {1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 33, 100, 70001}) {
    for (const Shape& shape : {Shape{size}, Shape{3, size}, Shape{size, 2}}) {
      for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis)
        check_layouts({shape}, random, [&](const std::vector<Value>& x) { return ops::rev(x[0], {axis}); });
    }
  }
  finish_checks();
}

}  // namespace narrow_lines_cases
