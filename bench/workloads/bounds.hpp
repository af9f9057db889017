// bounds.hpp - what the bounds are made of: products alone, by the library's own kernels, and memory that is
// moved.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cpu/products/gemm.hpp"

namespace workloads {

/// C = op(A) op(B), dense: op(A) m x k, op(B) k x n.
struct Product {
  std::int64_t m, n, k;
  bool trans_a = false, trans_b = false;
  std::int64_t batch = 1;
};

/// A dense product's three of a training step: y = x w; dw = x' dy; and, when `with_input`, dx = dy w'.
std::vector<Product> products_of_layer(std::int64_t rows, std::int64_t in, std::int64_t out, bool with_input);

/// These products, one after another, on memory of their own.
std::function<void()> products_alone(tidu::cpu_detail::GemmType type, const std::vector<Product>& products,
                                     int threads);

/// y = x q' for x [points,d] and q [rows,d], and, when `gradient`, y' x, for so many points at a time; the
/// results of the second are not added up.
std::function<void()> products_in_blocks(std::int64_t points, std::int64_t d, std::int64_t rows,
                                         std::int64_t at_once, bool gradient, int threads);

/// Reads `bytes_read` bytes and writes `bytes_written`.
std::function<void()> memory_moved(std::size_t bytes_read, std::size_t bytes_written, int threads);

}  // namespace workloads
