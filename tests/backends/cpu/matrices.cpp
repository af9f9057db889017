// matrices.cpp - see matrices.hpp; the kinds are in matrices_kinds.cpp.
#include "cpu/matrices.hpp"

#include <cmath>

namespace tidu::test {
namespace {

Dense map(const Dense& x, const std::function<Number(Number)>& f) {
  Dense y = x;
  for (Number& z : y.elements) z = f(z);
  return y;
}

long double to_dtype(long double x, DType dtype) {
  return dtype == f32 || dtype == c64 ? static_cast<long double>(static_cast<float>(x))
                                      : static_cast<long double>(static_cast<double>(x));
}

}  // namespace

Dense drawn_matrix(const MatrixKind& kind, std::int64_t m, std::int64_t n, double scale, DType dtype,
                   MatrixRandom& random) {
  Dense x(m, n);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const double real = kind.element(i, j, n, random) * scale;
      const bool transposed = is_complex(dtype) && real != 0 && (i + j) % 2 == 1;
      x(i, j) = Number(real, transposed ? std::copysign(std::min(std::abs(real), scale), real) : 0);
    }
  }
  return rounded(x, dtype);
}

Dense rounded(const Dense& x, DType dtype) {
  return map(x, [&](Number z) { return Number(to_dtype(z.real(), dtype), to_dtype(z.imag(), dtype)); });
}

Tensor tensor_of(const Dense& x, DType dtype) {
  const Shape shape{x.rows, x.columns};
  const auto filled = [&]<class T>(T, auto convert) {
    std::vector<T> elements;
    for (const Number& z : x.elements) elements.push_back(convert(z));
    return Tensor::from<T>(shape, elements);
  };
  switch (dtype) {
    case DType::f32: return filled(float(), [](Number z) { return static_cast<float>(z.real()); });
    case DType::c64:
      return filled(std::complex<float>(), [](Number z) { return static_cast<std::complex<float>>(z); });
    case DType::c128:
      return filled(std::complex<double>(), [](Number z) { return static_cast<std::complex<double>>(z); });
    default: return filled(double(), [](Number z) { return static_cast<double>(z.real()); });
  }
}

Dense dense_of(const Tensor& t) {
  Dense x(t.rank() == 2 ? t.dim(0) : 1, t.rank() == 0 ? 1 : t.dim(t.rank() - 1));
  for (std::int64_t i = 0; i < t.size(); ++i) x.elements[static_cast<std::size_t>(i)] = Number(t.at(i));
  return x;
}

Dense identity_matrix(std::int64_t n) {
  Dense x(n, n);
  for (std::int64_t i = 0; i < n; ++i) x(i, i) = 1;
  return x;
}

Dense adjoint(const Dense& x) {
  Dense y(x.columns, x.rows);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.columns; ++j) y(j, i) = std::conj(x(i, j));
  }
  return y;
}

Dense product(const Dense& x, const Dense& y) {
  Dense z(x.rows, y.columns);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t k = 0; k < x.columns; ++k) {
      const Number a = x(i, k);
      for (std::int64_t j = 0; j < y.columns; ++j) z(i, j) += a * y(k, j);
    }
  }
  return z;
}

Dense combined(long double a, const Dense& x, long double b, const Dense& y) {
  Dense z = x;
  for (std::size_t i = 0; i < z.elements.size(); ++i) z.elements[i] = a * x.elements[i] + b * y.elements[i];
  return z;
}

Dense columns_scaled(const Dense& x, const Dense& s) {
  Dense y = x;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.columns; ++j) y(i, j) *= s(0, j);
  }
  return y;
}

Dense sizes(const Dense& x) {
  return map(x, [](Number z) { return std::abs(z); });
}

Dense strictly_lower(const Dense& x, std::int64_t m, std::int64_t n) {
  Dense y(m, n);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < std::min(i, n); ++j) y(i, j) = x(i, j);
  }
  return y;
}

Dense upper(const Dense& x, std::int64_t m, std::int64_t n) {
  Dense y(m, n);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = i; j < n; ++j) y(i, j) = x(i, j);
  }
  return y;
}

Dense inverse(Dense x, Determinant* determinant) {
  const std::int64_t n = x.rows;
  Dense y = identity_matrix(n);
  for (std::int64_t j = 0; j < n; ++j) {
    std::int64_t pivot = j;
    for (std::int64_t i = j + 1; i < n; ++i) {
      if (std::abs(x(i, j)) > std::abs(x(pivot, j))) pivot = i;
    }
    const Number by = x(pivot, j);
    if (by == Number(0)) return {};
    if (determinant != nullptr) {
      determinant->sign *= (pivot == j ? by : -by) / std::abs(by);
      determinant->logarithm += std::log(std::abs(by));
    }
    for (std::int64_t k = 0; k < n; ++k) {
      std::swap(x(pivot, k), x(j, k));
      std::swap(y(pivot, k), y(j, k));
      x(j, k) /= by;
      y(j, k) /= by;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const Number factor = x(i, j);
      if (i == j || factor == Number(0)) continue;
      for (std::int64_t k = 0; k < n; ++k) {
        x(i, k) -= factor * x(j, k);
        y(i, k) -= factor * y(j, k);
      }
    }
  }
  return y;
}

long double largest(const Dense& x) {
  long double most = 0;
  for (const Number& z : x.elements) {
    const long double size = std::abs(z);
    most = size <= most ? most : std::isnan(size) ? HUGE_VALL : size;
  }
  return most;
}

long double frobenius(const Dense& x) {
  long double sum = 0;
  for (const Number& z : x.elements) sum += std::norm(z);  // long double has the range for it
  return std::sqrt(sum);
}

long double skewness(const Dense& columns) {
  return largest(combined(1, product(adjoint(columns), columns), -1, identity_matrix(columns.columns)));
}

long double rounding_of(DType dtype) { return dtype == f32 || dtype == c64 ? 0x1p-24L : 0x1p-53L; }

}  // namespace tidu::test
