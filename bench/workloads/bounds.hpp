// bounds.hpp - the parts of bounds: matmuls alone, by the library's own kernels, and memory traffic.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cpu/matmul/gemm.hpp"

namespace workloads {

/// The ways in which a bound is done; the fastest counts.
using Bounds = std::vector<std::function<void()>>;

/// C = op(A) op(B), dense: op(A) m x k, op(B) k x n. Operands of one name are one array, as large as
/// the largest of them; one without a name is an array of its own.
struct Matmul {
  std::int64_t m, n, k;
  bool trans_a = false, trans_b = false;
  std::int64_t batch = 1;
  std::string a{}, b{}, c{};
  /// For matmuls that update parameters: the array that C is subtracted from, times a rate.
  std::string updates{};
};

/// A layer's matmuls.
struct Layer {
  std::vector<Matmul> forward, backward;
};
/// A dense layer's: y = x w; dw = x' dy, by which w is changed; and, when `with_input`, dx = dy w'. By layer,
/// x is the array x0, y is x1, and so on.
Layer dense_layer(std::int64_t rows, std::int64_t in, std::int64_t out, bool with_input, int layer);

/// All matmuls in the order in which a step has to do them: forward, then backward from the last layer on.
std::vector<Matmul> in_order(const std::vector<Layer>& layers);

/// These matmuls, one after another: by the kernels that are chosen for each and by our own, and those that
/// change parameters as matmuls alone and as updates.
Bounds matmuls_alone(tidu::cpu_detail::GemmType type, const std::vector<Matmul>& matmuls, int threads);

/// y = x q' for x [points,d] and q [rows,d], and, when `gradient`, all of y' x: in blocks of some sizes,
/// which threads share, and whole; the results of the second are not added up.
Bounds matmuls_in_blocks(std::int64_t points, std::int64_t d, std::int64_t rows, bool gradient, int threads);

/// Reads `bytes_read` bytes and writes `bytes_written`.
std::function<void()> memory_moved(std::size_t bytes_read, std::size_t bytes_written, int threads);

}  // namespace workloads
