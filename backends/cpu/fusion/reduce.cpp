// reduce.cpp - reduce_sum, reduce_prod, reduce_max, reduce_min, reduce_and and reduce_or.
#include "cpu/fusion/reduce.hpp"

#include <limits>

#include "cpu/is_any_of.hpp"
#include "cpu/kernels/arithmetic.hpp"
#include "cpu/parallel.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {

ReductionShape ReductionShape::of(Type operand, const Ints& axes, int threads) {
  ReductionShape s;
  s.threads = threads;
  struct Group {
    std::int64_t extent, stride;
    bool reduced;
  };
  std::vector<Group> groups;  // innermost first
  std::int64_t stride = 1;
  for (std::size_t k = operand.rank(); k-- > 0;) {
    const std::int64_t extent = operand.dim(k);
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(k)) != axes.end();
    if (!reduced) s.outputs *= extent;
    if (extent != 1) {
      if (!groups.empty() && groups.back().reduced == reduced) {
        groups.back().extent *= extent;
      } else {
        groups.push_back({extent, stride, reduced});
      }
    }
    stride *= extent;
  }
  if (groups.empty()) return s;  // one element, or as many as one
  s.inner_reduced = groups[0].reduced;
  s.inner = groups[0].extent;
  for (std::size_t g = groups.size(); g-- > 1;) {
    (groups[g].reduced ? s.reduced : s.kept).push_back({groups[g].extent, groups[g].stride});
    (groups[g].reduced ? s.num_reduced : s.rows) *= groups[g].extent;
  }
  return s;
}

namespace {

struct Sum : Add {
  static constexpr Reduction reduction = Reduction::sum;
  template <class T>
  static T identity() {
    return T(0);
  }
};
struct Product : Multiply {
  template <class T>
  static T identity() {
    return T(1);
  }
};
struct Largest : Maximum {
  static constexpr Reduction reduction = Reduction::largest;
  template <class T>
  static T identity() {
    return RealNumber<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  }
};
struct Smallest : Minimum {
  static constexpr Reduction reduction = Reduction::smallest;
  template <class T>
  static T identity() {
    return RealNumber<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
};
struct All : And {
  template <class T>
  static T identity() {
    return Boolean<T> ? T(1) : static_cast<T>(-1);
  }
};
struct Any : Or {
  template <class T>
  static T identity() {
    return T(0);
  }
};

template <class F, class T>
void reduce(const ReductionShape& s, const Call& call) noexcept {
  if (s.inner_reduced && s.num_reduced == 1 && s.inner > 0 && s.inner < short_line) {
    const T* const x = call.operand<T>(0);
    T* const y = call.result<T>();
    // Pieces begin where lines that go together do: which NaN a line gives may depend on that.
    const std::int64_t grain = in_short_lines(2 * element_grain / s.inner);
    return parallel_for(s.threads, s.outputs, grain, [&](std::int64_t begin, std::int64_t end) {
      reduce_short_lines<F>(x + begin * s.inner, s.inner, end - begin, y + begin);
    });
  }
  for_outputs(
      s, call.operand<T>(0), call.result<T>(), [&s](const T* x, T* y) { *y = reduce_all<F>(s, x); },
      [&s](const T* x, std::int64_t columns, T* y) { reduce_rows<F>(s, x, columns, y); });
}

// Pieces of a reduction to one result, for threads to share.
inline constexpr std::int64_t piece = std::int64_t{1} << 16;

template <class F, class T>
void reduce_to_one(const ReductionShape& s, const Call& call) noexcept {
  const T* x = call.operand<T>(0);
  T* parts = reinterpret_cast<T*>(call.scratch);
  const std::int64_t pieces = (s.inner + piece - 1) / piece;
  parallel_for(s.threads, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      ReductionShape part;
      part.inner = std::min(piece, s.inner - p * piece);
      parts[p] = reduce_all<F>(part, x + p * piece);
    }
  });
  Cascade<F, T> cascade;
  for (std::int64_t p = 0; p < pieces; ++p) cascade.add(parts[p]);
  *call.result<T>() = cascade.result();
}

template <class F, class T>
void reduce_one_block(const std::byte* x, std::int64_t count, std::byte* part) {
  *reinterpret_cast<T*>(part) = reduce_line<F>(reinterpret_cast<const T*>(x), count);
}
// Combines as reduce_to_one and reduce_all do.
template <class F, class T>
void reduce_parts(const std::byte* from, std::int64_t count, std::byte* result) {
  const T* parts = reinterpret_cast<const T*>(from);
  const std::int64_t blocks = (count + reduction_block - 1) / reduction_block;
  if (blocks == 1) {
    *reinterpret_cast<T*>(result) = parts[0];
    return;
  }
  const std::int64_t in_piece = count > 2 * piece ? piece / reduction_block : blocks;
  Cascade<F, T> all;
  for (std::int64_t begin = 0; begin < blocks; begin += in_piece) {
    Cascade<F, T> one;
    for (std::int64_t i = begin; i < std::min(blocks, begin + in_piece); ++i) one.add(parts[i]);
    all.add(one.result());
  }
  *reinterpret_cast<T*>(result) = all.result();
}
template <class F>
ReductionFunctions functions_of(DType dtype) {
  ReductionFunctions found;
  with_type(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_invocable_v<const F&, T, T>) found = {reduce_one_block<F, T>, reduce_parts<F, T>};
    return Plan();
  });
  return found;
}

template <class F>
Plan plan_reduce(const PlanRequest& request) {
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_invocable_v<const F&, T, T>) {
      ReductionShape shape = ReductionShape::of(request.in[0], request.op.ints("axes"), request.threads);
      if (shape.outputs == 1 && shape.inner_reduced && shape.num_reduced == 1 && shape.inner > 2 * piece) {
        const auto pieces = static_cast<std::size_t>((shape.inner + piece - 1) / piece);
        return make_plan<ReductionShape, reduce_to_one<F, T>>(std::move(shape), pieces * sizeof(T));
      }
      return make_plan<ReductionShape, reduce<F, T>>(std::move(shape));
    } else {
      return Plan();
    }
  });
}

constexpr KernelEntry reduction_entries[] = {
    {"reduce_sum", plan_reduce<Sum>, numbers},     {"reduce_prod", plan_reduce<Product>, numbers},
    {"reduce_max", plan_reduce<Largest>, ordered}, {"reduce_min", plan_reduce<Smallest>, ordered},
    {"reduce_and", plan_reduce<All>, bit(bool_)},  {"reduce_or", plan_reduce<Any>, bit(bool_)},
};

}  // namespace

ReductionFunctions reduction_functions(const Primitive& primitive, DType dtype) {
  if (is_any_of(primitive, prim::reduce_sum)) return functions_of<Sum>(dtype);
  if (is_any_of(primitive, prim::reduce_prod)) return functions_of<Product>(dtype);
  if (is_any_of(primitive, prim::reduce_max)) return functions_of<Largest>(dtype);
  if (is_any_of(primitive, prim::reduce_min)) return functions_of<Smallest>(dtype);
  if (is_any_of(primitive, prim::reduce_and)) return functions_of<All>(dtype);
  if (is_any_of(primitive, prim::reduce_or)) return functions_of<Any>(dtype);
  return {};
}

std::span<const KernelEntry> reduction_kernels() { return reduction_entries; }

}  // namespace tidu::cpu_detail
