// library_emulation.cpp - products by loops, matrices by Eigen, column-major as a solver has them.
#include "cuda/library_emulation.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <complex>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "tidu/graph/literal.hpp"

namespace tidu::test {
namespace {

using namespace cuda_detail;

template <class W>
W load(DType dtype, const std::byte* at) {
  const auto bits = [at]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::f16: return W(static_cast<double>(half_to_float(bits(std::uint16_t{}))));
    case DType::bf16: return W(static_cast<double>(bfloat16_to_float(bits(std::uint16_t{}))));
    case DType::f32: return W(static_cast<double>(bits(0.0F)));
    case DType::f64: return W(bits(0.0));
    default: break;
  }
  if constexpr (!std::is_same_v<W, double>) {
    if (dtype == DType::c64) return W(bits(std::complex<float>{}));
    if (dtype == DType::c128) return bits(W{});
  }
  throw std::runtime_error("emulation: expected a product of floating or complex numbers");
}
template <class W>
void store(DType dtype, std::byte* at, W value) {
  const auto put = [at](auto rounded) { std::memcpy(at, &rounded, sizeof rounded); };
  if constexpr (std::is_same_v<W, double>) {
    const auto single = static_cast<float>(value);
    switch (dtype) {
      case DType::f16: return put(float_to_half(single));
      case DType::bf16: return put(float_to_bfloat16(single));
      case DType::f32: return put(single);
      default: return put(value);
    }
  } else {
    if (dtype == DType::c64) return put(std::complex<float>(value));
    put(value);
  }
}

template <class W>
void multiply(const GemmStep& s, const Emulator::Locate& locate) {
  const auto size = static_cast<std::int64_t>(size_of(s.dtype));
  const std::byte *a = locate(s.a), *b = locate(s.b);
  std::byte* out = locate(s.out);
  for (std::int64_t matrix = 0; matrix < s.batch; ++matrix) {
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        W sum(0);
        for (std::int64_t k = 0; k < s.k; ++k) {
          const std::int64_t at_a = matrix * s.stride_a + (s.a_transposed ? k * s.lda + i : i * s.lda + k);
          const std::int64_t at_b = matrix * s.stride_b + (s.b_transposed ? j * s.ldb + k : k * s.ldb + j);
          sum += load<W>(s.dtype, a + at_a * size) * load<W>(s.dtype, b + at_b * size);
        }
        std::byte* const to = out + (matrix * s.stride_c + i * s.ldc + j) * size;
        sum *= s.alpha;
        if (s.beta != 0) sum += s.beta * load<W>(s.dtype, to);
        if (s.has_bias) sum += load<W>(s.dtype, locate(s.bias) + j * size);
        store<W>(s.dtype, to, sum);
      }
    }
  }
}

// By the formula, every product added where it belongs.
void convolve(const ConvolutionStep& s, const Emulator::Locate& locate) {
  using Kind = ConvolutionStep::Kind;
  std::int64_t places_x = 1, places_w = 1, places_y = 1;
  for (const ConvolutionStep::Axis& axis : s.axes) {
    places_x *= axis.x;
    places_w *= axis.w;
    places_y *= axis.y;
  }
  const std::int64_t terms = s.features / s.groups, results = s.results / s.groups;
  const auto at = [&s](std::int64_t outer, std::int64_t feature, std::int64_t features, std::int64_t place,
                       std::int64_t places) {
    return s.features_last ? (outer * places + place) * features + feature
                           : (outer * features + feature) * places + place;
  };
  // The place of x that place p of y meets with place q of w; -1 where there is none.
  const auto meet = [&s](std::int64_t p, std::int64_t q) {
    std::int64_t place = 0, stride = 1;
    for (std::size_t k = s.axes.size(); k-- > 0;) {
      const ConvolutionStep::Axis& axis = s.axes[k];
      const std::int64_t of_w = s.flipped ? axis.w - 1 - q % axis.w : q % axis.w;
      const std::int64_t i = p % axis.y * axis.stride + of_w * axis.dilation - axis.padding;
      if (i < 0 || i >= axis.x) return std::int64_t{-1};
      place += i * stride;
      stride *= axis.x;
      p /= axis.y;
      q /= axis.w;
    }
    return place;
  };
  const std::byte *x = locate(s.x), *w = locate(s.w), *y = locate(s.y);
  const auto size = static_cast<std::int64_t>(size_of(s.dtype));
  const auto get = [&](const std::byte* from, std::int64_t i) {
    return load<double>(s.dtype, from + i * size);
  };
  const std::int64_t made = s.kind == Kind::forward ? s.batch * s.results * places_y
                            : s.kind == Kind::data  ? s.batch * s.features * places_x
                                                    : s.results * terms * places_w;
  std::vector<double> sums(static_cast<std::size_t>(made));
  for (std::int64_t n = 0; n < s.batch; ++n) {
    for (std::int64_t o = 0; o < s.results; ++o) {
      for (std::int64_t c = 0; c < terms; ++c) {
        for (std::int64_t p = 0; p < places_y; ++p) {
          for (std::int64_t q = 0; q < places_w; ++q) {
            const std::int64_t i = meet(p, q);
            if (i < 0) continue;
            const std::int64_t at_x = at(n, o / results * terms + c, s.features, i, places_x),
                               at_w = at(o, c, terms, q, places_w), at_y = at(n, o, s.results, p, places_y);
            if (s.kind == Kind::forward) sums[static_cast<std::size_t>(at_y)] += get(x, at_x) * get(w, at_w);
            if (s.kind == Kind::data) sums[static_cast<std::size_t>(at_x)] += get(y, at_y) * get(w, at_w);
            if (s.kind == Kind::filter) sums[static_cast<std::size_t>(at_w)] += get(x, at_x) * get(y, at_y);
          }
        }
      }
    }
  }
  std::byte* const to = locate(s.kind == Kind::forward ? s.y : s.kind == Kind::data ? s.x : s.w);
  for (std::int64_t i = 0; i < made; ++i)
    store<double>(s.dtype, to + i * size, sums[static_cast<std::size_t>(i)]);
}

template <class W>
using Matrix = Eigen::Matrix<W, Eigen::Dynamic, Eigen::Dynamic>;

// Matrices of the step's dtype in memory, computed with in 64 bits.
template <class W>
struct Memory {
  DType dtype;
  std::byte* at;
  Memory(DType of, std::byte* place, std::int64_t element)
      : dtype(of), at(place + element * static_cast<std::int64_t>(size_of(of))) {}
  Matrix<W> read(std::int64_t rows, std::int64_t columns) const {
    Matrix<W> x(rows, columns);
    for (std::int64_t i = 0; i < rows * columns; ++i) x.data()[i] = load<W>(dtype, at + i * size());
    return x;
  }
  template <class M>
  void write(const M& x) const {
    for (std::int64_t i = 0; i < x.size(); ++i) store<W>(dtype, at + i * size(), W(x.data()[i]));
  }
  std::int64_t size() const { return static_cast<std::int64_t>(size_of(dtype)); }
};

double size_of_pivot(double x) { return std::abs(x); }
double size_of_pivot(std::complex<double> x) { return std::abs(x.real()) + std::abs(x.imag()); }

// What cuSOLVER makes of NaN is anything, and some of its routines do not end.
template <class W>
void expect_finite(const SolverStep& s, const Matrix<W>& a) {
  using Routine = SolverStep::Routine;
  const bool is_any =
      s.routine == Routine::trsm || s.routine == Routine::geqrf || s.routine == Routine::orgqr;
  if (!is_any && !a.allFinite())
    throw std::runtime_error("emulation: expected a solver's matrices to be finite");
}

// In a column of NaNs no row is found: its exchange is 0, which counts from 1.
template <class W>
std::int32_t factor(Matrix<W>& a, std::int32_t* pivots) {
  std::int32_t info = 0;
  for (Eigen::Index j = 0; j < std::min(a.rows(), a.cols()); ++j) {
    Eigen::Index pivot = j;
    for (Eigen::Index i = j + 1; i < a.rows(); ++i)
      pivot = size_of_pivot(a(i, j)) > size_of_pivot(a(pivot, j)) ? i : pivot;
    pivots[j] = a(pivot, j) == a(pivot, j) ? static_cast<std::int32_t>(pivot + 1) : 0;
    a.row(j).swap(a.row(pivot));
    if (a(j, j) == W(0)) {
      info = static_cast<std::int32_t>(j) + 1;
      continue;
    }
    for (Eigen::Index i = j + 1; i < a.rows(); ++i) {
      a(i, j) /= a(j, j);
      for (Eigen::Index k = j + 1; k < a.cols(); ++k) a(i, k) -= a(i, j) * a(j, k);
    }
  }
  return info;
}

// Of the left side; the right one is the left of the transposed equation.
template <class W>
Matrix<W> solve_triangle(const SolverStep& s, const Matrix<W>& a, const Matrix<W>& b) {
  const Eigen::Index n = a.rows();
  const bool flip = s.transposed != s.on_the_right, lower = s.lower != flip;
  const auto entry = [&](Eigen::Index i, Eigen::Index j) {
    if (i == j && s.unit_diagonal) return W(1);
    return flip ? a(j, i) : a(i, j);
  };
  Matrix<W> x = b;
  if (s.on_the_right) x = b.transpose();
  for (Eigen::Index column = 0; column < x.cols(); ++column) {
    for (Eigen::Index step = 0; step < n; ++step) {
      const Eigen::Index i = lower ? step : n - 1 - step;
      for (Eigen::Index j = lower ? 0 : i + 1; j < (lower ? i : n); ++j)
        x(i, column) -= entry(i, j) * x(j, column);
      x(i, column) /= entry(i, i);
    }
  }
  if (s.on_the_right) return x.transpose();
  return x;
}

// A batched step that takes addresses has those of its matrices.
void check_pointers(const SolverStep& s, const BufferRef& pointers, const BufferRef& first,
                    std::int64_t elements, const Emulator::Locate& locate) {
  if (!s.batched || s.routine == SolverStep::Routine::syevd) return;
  const auto size = static_cast<std::int64_t>(size_of(s.dtype));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::byte* at = nullptr;
    std::memcpy(&at, locate(pointers) + b * static_cast<std::int64_t>(sizeof at), sizeof at);
    if (at != locate(first) + b * elements * size)
      throw std::runtime_error("emulation: expected the address of each matrix of a batch");
  }
}

template <class W>
void solve(const SolverStep& s, const Emulator::Locate& locate) {
  using Routine = SolverStep::Routine;
  using Real = Memory<double>;
  const DType real = real_dtype(s.dtype);
  const std::int64_t m = s.rows, n = s.columns, k = std::min(m, n);
  const std::int64_t stride = s.matrix_stride != 0 ? s.matrix_stride : m * n;
  if (s.workspace_bytes != 0) std::memset(locate(s.workspace), 0x5a, s.workspace_bytes);
  check_pointers(s, s.a_pointers, s.a, stride, locate);
  if (s.routine == Routine::trsm) check_pointers(s, s.b_pointers, s.b, m * s.right_hand_sides, locate);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const Memory<W> at(s.dtype, locate(s.a), b * stride);
    Matrix<W> a = at.read(m, n);
    expect_finite(s, a);
    std::int32_t info = 0;
    switch (s.routine) {
      case Routine::potrf: {
        const Eigen::LLT<Matrix<W>> llt(a);
        info = llt.info() == Eigen::Success ? 0 : 1;
        at.write(llt.matrixLLT());
        break;
      }
      case Routine::trsm: {
        const std::int64_t rows = s.on_the_right ? s.right_hand_sides : m,
                           columns = s.on_the_right ? m : s.right_hand_sides;
        const Memory<W> right(s.dtype, locate(s.b), b * rows * columns);
        right.write(solve_triangle<W>(s, a, right.read(rows, columns)));
        continue;  // writes no info
      }
      case Routine::getrf:
        info = factor<W>(a, reinterpret_cast<std::int32_t*>(locate(s.b)) + b * k);
        at.write(a);
        break;
      case Routine::geqrf: {
        const Eigen::HouseholderQR<Matrix<W>> qr(a);
        at.write(qr.matrixQR());
        Memory<W>(s.dtype, locate(s.b), b * k).write(Matrix<W>(qr.hCoeffs()));
        break;
      }
      case Routine::orgqr: {  // Eigen keeps the conjugates of LAPACK's factors, and applies them likewise
        const Matrix<W> factors = Memory<W>(s.dtype, locate(s.b), b * n).read(n, 1);
        at.write(
            Matrix<W>(Eigen::householderSequence(a, factors.col(0).conjugate()) * Matrix<W>::Identity(m, n)));
        break;
      }
      case Routine::syevd: {
        const Eigen::SelfAdjointEigenSolver<Matrix<W>> solver(a);
        info = solver.info() == Eigen::Success ? 0 : 1;
        at.write(solver.eigenvectors());
        Real(real, locate(s.values), b * n).write(solver.eigenvalues());
        break;
      }
      case Routine::gesvd: {
        const Eigen::JacobiSVD<Matrix<W>> svd(a, Eigen::ComputeThinU | Eigen::ComputeThinV);
        Real(real, locate(s.values), b * n).write(svd.singularValues());
        Memory<W>(s.dtype, locate(s.u), b * m * n).write(svd.matrixU());
        Memory<W>(s.dtype, locate(s.v), b * n * n).write(Matrix<W>(svd.matrixV().adjoint()));
        break;
      }
    }
    reinterpret_cast<std::int32_t*>(locate(s.info))[b] = info;
  }
}

void run(const GemmStep& step, const Emulator::Locate& locate) {
  is_complex(step.dtype) ? multiply<std::complex<double>>(step, locate) : multiply<double>(step, locate);
}
void run(const ConvolutionStep& step, const Emulator::Locate& locate) { convolve(step, locate); }
void run(const SolverStep& step, const Emulator::Locate& locate) {
  if (size_of(step.dtype) < 4 || !is_inexact(step.dtype))
    throw std::runtime_error("emulation: expected a solver of f32, f64, c64 or c128");
  is_complex(step.dtype) ? solve<std::complex<double>>(step, locate) : solve<double>(step, locate);
}
void run(const CollectiveStep& step, const Emulator::Locate& locate) {
  if (step.ranks != 1) throw std::runtime_error("emulation: expected a collective of one rank");
  const std::size_t bytes = static_cast<std::size_t>(step.count) * size_of(step.dtype);
  if (step.kind == CollectiveStep::Kind::permute && step.pairs.empty()) {
    std::memset(locate(step.out), 0, bytes);
  } else {
    std::memcpy(locate(step.out), locate(step.in), bytes);
  }
}
template <class Other>
void run(const Other&, const Emulator::Locate&) {
  throw std::runtime_error("emulation: expected a product, a solver or a collective");
}

}  // namespace

void emulate_library(const Step& step, const Emulator::Locate& locate) {
  std::visit([&](const auto& each) { run(each, locate); }, step);
}

}  // namespace tidu::test
