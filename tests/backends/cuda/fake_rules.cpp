// fake_rules.cpp - the rules, as the libraries' documentation has them.
#include "cuda/fake_rules.hpp"

#include <algorithm>
#include <cstring>

#include "tidu/graph/error.hpp"

namespace tidu::test {
namespace {

using namespace cuda_detail;

bool is_aligned(const std::byte* at, std::size_t bytes) {
  return at != nullptr && reinterpret_cast<std::uintptr_t>(at) % bytes == 0;
}
bool are_aligned(const Bindings& at, std::initializer_list<BufferRef> places, std::size_t bytes) {
  return std::all_of(places.begin(), places.end(),
                     [&](const BufferRef& place) { return is_aligned(at.at(place), bytes); });
}
// Does it end within the memory that it lies in?
bool holds(const Bindings& at, const BufferRef& place, std::int64_t elements, std::size_t size) {
  return at.memory(place).bytes >= static_cast<std::size_t>(elements) * size;
}

// Elements from the first one to the last of `batch` matrices.
std::int64_t extent_of(std::int64_t batch, std::int64_t stride, std::int64_t rows, std::int64_t leading,
                       std::int64_t columns) {
  return (batch - 1) * stride + (rows - 1) * leading + columns;
}

std::string broken(const GemmStep& s, const Bindings& at) {
  const std::size_t size = size_of(s.dtype);
  if (s.batch < 1 || s.m < 1 || s.n < 1 || s.k < 1) return "a product of nothing";
  if (s.batch > 65535) return "more than 65535 products at once";
  const std::int64_t a_rows = s.a_transposed ? s.k : s.m, a_columns = s.a_transposed ? s.m : s.k;
  const std::int64_t b_rows = s.b_transposed ? s.n : s.k, b_columns = s.b_transposed ? s.k : s.n;
  if (s.lda < a_columns || s.ldb < b_columns || s.ldc < s.n) return "a leading dimension that is too small";
  if (s.batch > 1 && std::abs(s.stride_c) < (s.m - 1) * s.ldc + s.n && std::abs(s.stride_c) < s.n)
    return "products that lie over each other";
  if (!are_aligned(at, {s.a, s.b, s.out}, size)) return "matrices that are not aligned to their elements";
  if (!holds(at, s.a, extent_of(s.batch, s.stride_a, a_rows, s.lda, a_columns), size) ||
      !holds(at, s.b, extent_of(s.batch, s.stride_b, b_rows, s.ldb, b_columns), size) ||
      !holds(at, s.out, extent_of(s.batch, s.stride_c, s.m, s.ldc, s.n), size))
    return "matrices beyond their memory";
  if (s.workspace_bytes != 0 &&
      (!are_aligned(at, {s.workspace}, 256) || at.memory(s.workspace).bytes < s.workspace_bytes))
    return "a workspace that is not aligned to 256, or not there";
  if (!s.has_bias) return {};
  if (s.batch != 1 || is_complex(s.dtype) || s.dtype == DType::f64)
    return "a vector added to a batch, or to f64 or complex numbers";
  return are_aligned(at, {s.bias}, size) && holds(at, s.bias, s.n, size) ? "" : "a vector that is not there";
}

std::string broken(const SortStep& s, const Bindings& at) {
  const std::int64_t count = s.segments * s.length;
  if (s.segments < 1 || s.length < 1) return "a sort of nothing";
  if (s.segments > 1 && count > 0x7fffffff) return "more elements of several segments than 32 bits count";
  if (!are_aligned(at, {s.keys, s.keys_out}, s.key_bytes) || !are_aligned(at, {s.values, s.values_out}, 4))
    return "keys that are not aligned";
  if (at.at(s.keys) == at.at(s.keys_out) || at.at(s.values) == at.at(s.values_out)) return "a sort in place";
  if (!holds(at, s.keys, count, s.key_bytes) || !holds(at, s.keys_out, count, s.key_bytes) ||
      !holds(at, s.values, count, 4) || !holds(at, s.values_out, count, 4))
    return "keys beyond their memory";
  // Without workspace it would only be asked how much is needed.
  return s.workspace_bytes != 0 && are_aligned(at, {s.workspace}, 256) &&
                 at.memory(s.workspace).bytes >= s.workspace_bytes
             ? ""
             : "a workspace that is not aligned to 256, or not there";
}

std::string broken(const SolverStep& s, const Bindings& at) {
  using Routine = SolverStep::Routine;
  const std::size_t size = size_of(s.dtype), real = size_of(real_dtype(s.dtype));
  const std::int64_t m = s.rows, n = s.columns, k = std::min(m, n);
  const std::int64_t stride = s.matrix_stride != 0 ? s.matrix_stride : m * n;
  if (s.batch < 1 || m < 1 || n < 1) return "matrices of nothing";
  if (!are_aligned(at, {s.a}, size)) return "matrices that are not aligned to their elements";
  if (!holds(at, s.a, (s.batch - 1) * stride + m * n, size)) return "matrices beyond their memory";
  const bool square = s.routine == Routine::potrf || s.routine == Routine::trsm ||
                      s.routine == Routine::syevd || (s.routine == Routine::getrf && s.batched);
  if (square && m != n) return "a matrix that is not square";
  if ((s.routine == Routine::orgqr || s.routine == Routine::gesvd) && m < n) return "more columns than rows";
  if (s.routine == Routine::trsm) {
    if (s.right_hand_sides < 1) return "no right-hand side";
    if (!are_aligned(at, {s.b}, size) || !holds(at, s.b, s.batch * m * s.right_hand_sides, size))
      return "right-hand sides that are not there";
  } else if (!are_aligned(at, {s.info}, 4) || !holds(at, s.info, s.batch, 4)) {
    return "no place for what it says";
  }
  if (s.routine == Routine::getrf && (!are_aligned(at, {s.b}, 4) || !holds(at, s.b, s.batch * k, 4)))
    return "no place for exchanges";
  if ((s.routine == Routine::geqrf || s.routine == Routine::orgqr) &&
      (!are_aligned(at, {s.b}, size) || !holds(at, s.b, s.batch * k, size)))
    return "no place for factors of reflectors";
  if ((s.routine == Routine::syevd || s.routine == Routine::gesvd) &&
      (!are_aligned(at, {s.values}, real) || !holds(at, s.values, s.batch * n, real)))
    return "no place for values";
  if (s.routine == Routine::gesvd &&
      (!holds(at, s.u, s.batch * m * n, size) || !holds(at, s.v, s.batch * n * n, size)))
    return "no place for vectors";
  // It works in about as many elements for each matrix, which it counts in 32 bits.
  if (s.batched && s.routine == Routine::syevd && s.batch > 0x7fffffff / 1056)
    return "more matrices than one call counts";
  if (s.batched && s.routine != Routine::syevd && !are_aligned(at, {s.a_pointers}, 8))
    return "no addresses of matrices";
  if (s.batched && s.routine == Routine::trsm && !are_aligned(at, {s.b_pointers}, 8))
    return "no addresses of right-hand sides";
  return s.workspace_bytes == 0 ||
                 (are_aligned(at, {s.workspace}, 256) && at.memory(s.workspace).bytes >= s.workspace_bytes)
             ? ""
             : "a workspace that is not aligned to 256, or not there";
}

std::string broken(const CopyStep& s, const Bindings& at) {
  return at.memory(s.from).bytes >= s.bytes && at.memory(s.to).bytes >= s.bytes ? ""
                                                                                : "a copy beyond its memory";
}
template <class Other>
std::string broken(const Other&, const Bindings&) {
  return {};
}

}  // namespace

std::string broken_rule(const Step& step, const Bindings& at) {
  return std::visit([&](const auto& each) { return broken(each, at); }, step);
}

void Transfers::upload(const std::byte* from, std::size_t bytes, std::size_t process, std::uint64_t tick) {
  pending_.push_back({from, nullptr, {from, from + bytes}, process, tick});
}

void Transfers::download(std::byte* to, std::vector<std::byte> elements, std::size_t process,
                         std::uint64_t tick) {
  std::fill_n(to, elements.size(), std::byte{0x5c});
  pending_.push_back({nullptr, to, std::move(elements), process, tick});
}

std::vector<std::string> Transfers::settle(const Clock& host) {
  std::vector<std::string> broken;
  std::erase_if(pending_, [&](const Transfer& one) {
    if (one.process >= host.size() || host[one.process] < one.tick) return false;
    if (one.to != nullptr) {
      std::memcpy(one.to, one.elements.data(), one.elements.size());
    } else if (std::memcmp(one.from, one.elements.data(), one.elements.size()) != 0) {
      broken.emplace_back("memory of the host is written before a copy from it was waited for");
    }
    return true;
  });
  return broken;
}

void Transfers::forget(const std::byte* at, std::size_t bytes) {
  std::erase_if(pending_, [&](const Transfer& one) {
    const std::byte* const place = one.to != nullptr ? one.to : one.from;
    return place >= at && place < at + bytes;
  });
}

}  // namespace tidu::test
