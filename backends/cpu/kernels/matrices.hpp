// matrices.hpp - shared parts of the linear-algebra kernels: a batch of matrices at raw pointers, divided
// among threads.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/kernel.hpp"
#include "cpu/parallel.hpp"

namespace tidu::cpu_detail {

/// 32-bit elements are computed in 64 bits. This costs conversions and twice the memory, but each
/// decomposition then exists only once for real and once for complex matrices.
template <class T>
using Wide = std::conditional_t<ComplexNumber<T>, std::complex<double>, double>;

/// `count` elements as Wide<T>: in place, or as a copy.
template <class T>
class Source {
 public:
  Source(const T* from, std::int64_t count) {
    if constexpr (std::is_same_v<T, Wide<T>>) {
      at_ = from;
    } else {
      copy_.assign(from, from + count);
      at_ = copy_.data();
    }
  }
  const Wide<T>* data() const { return at_; }

 private:
  std::vector<Wide<T>> copy_;
  const Wide<T>* at_;
};

/// Wide elements of a result. The destructor rounds them into the result's memory, unless they are there
/// already.
template <class T>
class Sink {
 public:
  Sink(T* to, std::int64_t count) : to_(to) {
    if constexpr (std::is_same_v<T, Wide<T>>) {
      at_ = to;
    } else {
      copy_.resize(static_cast<std::size_t>(count));
      at_ = copy_.data();
    }
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  ~Sink() {
    for (std::size_t i = 0; i < copy_.size(); ++i) to_[i] = static_cast<T>(copy_[i]);
  }
  Wide<T>* data() const { return at_; }

 private:
  T* to_;
  std::vector<Wide<T>> copy_;
  Wide<T>* at_;
};

template <class T>
struct RealPart {
  using type = T;
};
template <class T>
struct RealPart<std::complex<T>> {
  using type = T;
};
template <class T>
using RealOf = typename RealPart<T>::type;

/// The matrices of an operand: their number and extents.
struct Matrices {
  std::int64_t count = 1, rows = 0, columns = 0;
  explicit Matrices(Type type) : rows(type.dim(type.rank() - 2)), columns(type.dim(type.rank() - 1)) {
    for (std::size_t axis = 0; axis + 2 < type.rank(); ++axis) count *= type.dim(axis);
  }
  std::int64_t smaller() const { return std::min(rows, columns); }
  std::int64_t size() const { return rows * columns; }
};

struct MatrixState {
  Matrices x;
  int threads;
  explicit MatrixState(const PlanRequest& request) : x(request.in[0]), threads(request.threads) {}
};

/// Calls body(b) for each matrix b. `work` is the approximate number of operations for one.
template <class Body>
void for_each_matrix(int threads, std::int64_t count, double work, const Body& body) {
  constexpr double enough = 20000;  // minimum number of operations for another thread
  const auto grain = static_cast<std::int64_t>(std::max(1.0, enough / (work + 1)));
  parallel_for(threads, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) body(b);
  });
}

inline double cubed(const Matrices& x) {
  return static_cast<double>(x.rows) * static_cast<double>(x.columns) * static_cast<double>(x.smaller());
}

/// Approximate memory of a kernel for one matrix: elements of Wide<T> in Eigen's memory, elements of double
/// (`reals`), and elements of T that are copied as wide ones.
struct MatrixMemory {
  double elements = 0, copied = 0, reals = 0;
  template <class T>
  std::size_t bytes(int threads, std::int64_t count) const {
    const double wide = static_cast<double>(sizeof(Wide<T>)),
                 copies = std::is_same_v<T, Wide<T>> ? 0 : copied * wide;
    return static_cast<std::size_t>(elements * wide + copies + reals * static_cast<double>(sizeof(double))) *
           static_cast<std::size_t>(std::clamp<std::int64_t>(threads, 0, count));
  }
};

/// Plans the kernel run<T> for the dtype of the first operand, which is floating or complex.
template <template <class> class Kernel>
Plan plan_matrices(const PlanRequest& request) {
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (Inexact<T>) {
      const MatrixState state(request);
      Plan plan = make_plan<MatrixState, Kernel<T>::run>(state);
      plan.library = Kernel<T>::memory(state.x).template bytes<T>(state.threads, state.x.count);
      return plan;
    } else {
      return Plan();
    }
  });
}

}  // namespace tidu::cpu_detail
