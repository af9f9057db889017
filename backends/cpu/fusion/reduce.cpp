// reduce.cpp - reduce_sum, reduce_prod, reduce_max, reduce_min, reduce_and, reduce_or and logsumexp.
#include "cpu/fusion/reduce.hpp"

#include <cmath>
#include <limits>

#include "cpu/fusion/vector_ir.hpp"
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

// Matrices with at most so many elements are reduced to a row one after another, with the bits of
// reduce_rows, whose overhead for each matrix exceeds the work on so few elements.
constexpr std::int64_t small_matrix = 64;
bool has_small_matrices(const ReductionShape& s) {
  return !s.inner_reduced && s.reduced.size() == 1 && s.kept.size() == 1 && s.rows > 1 && s.inner > 0 &&
         s.num_reduced > 0 && s.num_reduced * s.inner <= small_matrix;
}
template <class F, class T>
void reduce_small_matrices(const ReductionShape& s, const T* x, std::int64_t matrices, T* y) {
  for (std::int64_t i = 0; i < matrices; ++i, x += s.num_reduced * s.inner, y += s.inner) {
    for (std::int64_t j = 0; j < s.inner; ++j) {
      T value = F::template identity<T>();
      for (std::int64_t f = 0; f < s.num_reduced; ++f) value = F()(value, x[f * s.inner + j]);
      y[j] = value;
    }
  }
}

template <class F, class T>
void reduce(const ReductionShape& s, const Call& call) noexcept {
  if (has_small_matrices(s)) {
    const T* const x = call.operand<T>(0);
    T* const y = call.result<T>();
    const std::int64_t size = s.num_reduced * s.inner;
    return parallel_for(s.threads, s.rows, 2 * element_grain / size,
                        [&](std::int64_t begin, std::int64_t end) {
                          reduce_small_matrices<F>(s, x + begin * size, end - begin, y + begin * s.inner);
                        });
  }
  if (s.inner_reduced && s.num_reduced == 1 && s.inner > 0 && s.inner < short_line) {
    const T* const x = call.operand<T>(0);
    T* const y = call.result<T>();
    // Pieces begin where lines that go together do: which NaN a line gives may depend on that.
    const std::int64_t grain = in_short_lines(2 * element_grain / s.inner);
    return parallel_for(s.threads, s.outputs, grain, [&](std::int64_t begin, std::int64_t end) {
      reduce_short_lines<F>(x + begin * s.inner, s.inner, end - begin, y + begin);
    });
  }
  if (has_lines_side_by_side(s)) {
    const T* const x = call.operand<T>(0);
    T* const y = call.result<T>();
    const std::int64_t lines = s.kept.back().extent;
    const std::vector<ReductionShape::Axis> outer(s.kept.begin(), s.kept.end() - 1);
    const std::int64_t grain =
        std::max<std::int64_t>(1, 2 * element_grain / (lines * s.num_reduced * s.inner));
    return parallel_for(s.threads, s.outputs / lines, grain, [&](std::int64_t begin, std::int64_t end) {
      Walk walk(outer, begin);
      for (std::int64_t i = begin; i < end; ++i, walk.next())
        reduce_side_by_side<F>(s, x + walk.offset(), lines, y + i * lines);
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

// log sum e^x = m + log sum e^(x - m), m being the largest x, or 0 where that is not finite.
template <class T>
T usable(T largest) {
  return std::isfinite(largest) ? largest : T(0);
}

// Generated code for logsumexp of columns: `rows` of them to what is there.
struct LogSumExpRows {
  std::shared_ptr<const VectorKernel> largest;  // of rows, and of the largest so far
  std::shared_ptr<const VectorKernel> add;      // of rows, the largest, and the sums so far
};
constexpr std::size_t rows_at_once = 4;
constexpr std::int64_t columns_for_rows = 64;  // of fewer, vectors would not be full

struct LogSumExpState {
  ReductionShape shape;
  std::shared_ptr<const VectorKernel> exp;  // null: the library's
  LogSumExpRows one{}, several{};           // of one row and of rows_at_once; null: by loops
};

LogSumExpRows logsumexp_rows(VectorJit& lanes, DType dtype, std::uint32_t rows) {
  VectorProgram largest{.dtype = dtype, .steps = {}, .num_operands = rows + 1, .num_results = 1};
  VectorProgram add{.dtype = dtype, .steps = {}, .num_operands = rows + 2, .num_results = 1};
  std::uint16_t most = largest.add({.op = VectorOp::load, .index = rows});
  const std::uint16_t m = add.add({.op = VectorOp::load, .index = rows});
  std::uint16_t sum = add.add({.op = VectorOp::load, .index = rows + 1});
  for (std::uint32_t i = 0; i < rows; ++i) {
    const std::uint16_t row = largest.add({.op = VectorOp::load, .index = i});
    most = largest.add({.op = VectorOp::max, .a = most, .b = row});
    const std::uint16_t x = add.add({.op = VectorOp::load, .index = i});
    const std::uint16_t power = add.add({.op = VectorOp::call,
                                         .a = add.add({.op = VectorOp::sub, .a = x, .b = m}),
                                         .index = static_cast<std::uint32_t>(VectorFunction::exp)});
    sum = add.add({.op = VectorOp::add, .a = sum, .b = power});
  }
  largest.add({.op = VectorOp::store, .a = most});
  add.add({.op = VectorOp::store, .a = sum});
  return {lanes.compile(largest), lanes.compile(add)};
}

// Calls one(rows) and several(rows) with pointers to as many rows as they take, `count` rows from where
// `walk` is, in order.
template <class T, class One, class Several>
void for_rows(Walk& walk, std::int64_t count, const T* x, const One& one, const Several& several) {
  std::int64_t f = 0;
  const auto next = [&] {
    const auto* const row = reinterpret_cast<const std::byte*>(x + walk.offset());
    walk.next();
    return row;
  };
  const std::byte* rows[rows_at_once + 2];
  for (; f + static_cast<std::int64_t>(rows_at_once) <= count; f += rows_at_once) {
    for (std::size_t i = 0; i < rows_at_once; ++i) rows[i] = next();
    several(rows);
  }
  for (; f < count; ++f) {
    rows[0] = next();
    one(rows);
  }
}

// The sums of `rows` rows of columns in chunks of some: add(some, to) adds the next ones to `to`.
template <class T, class AddRows>
void sum_in_chunks(std::int64_t rows, std::int64_t chunk, std::int64_t columns, T* sum, const AddRows& add) {
  const std::int64_t chunks = (rows + chunk - 1) / chunk;
  const auto make = [&](std::int64_t number, T* to) {
    std::fill_n(to, columns, T(0));
    add(std::min(chunk, rows - number * chunk), to);
  };
  if (chunks <= 1) return make(0, sum);
  T parts[cascade_levels][reduction_columns];
  in_cascade(
      std::int64_t{0}, chunks, sum, make, [&](std::int64_t level, std::int64_t) { return parts[level]; },
      [&](T* to, const T* from) {
        for (std::int64_t j = 0; j < columns; ++j) to[j] += from[j];
      });
}

// The largest of each column, and the sum of e^(x - m): by generated code.
template <class T>
void logsumexp_columns(const LogSumExpState& state, const T* x, std::int64_t columns, T* y) {
  const ReductionShape& s = state.shape;
  T largest[reduction_columns];
  T sum[reduction_columns];
  std::fill_n(largest, columns, -std::numeric_limits<T>::infinity());
  const auto* const m = reinterpret_cast<const std::byte*>(largest);
  std::byte* const most = reinterpret_cast<std::byte*>(largest);
  const auto largest_of = [&](const LogSumExpRows& rows, std::size_t count) {
    return [&rows, count, columns, m, most](const std::byte** in) {
      in[count] = m;
      rows.largest->run(in, &most, columns);
    };
  };
  const auto add_of = [&](const LogSumExpRows& rows, std::size_t count, T* to) {
    return [&rows, count, columns, m, sums = reinterpret_cast<std::byte*>(to)](const std::byte** in) {
      in[count] = m;
      in[count + 1] = sums;
      rows.add->run(in, &sums, columns);
    };
  };
  Walk walk(s.reduced), again(s.reduced);
  for_rows(walk, s.num_reduced, x, largest_of(state.one, 1), largest_of(state.several, rows_at_once));
  for (std::int64_t j = 0; j < columns; ++j) largest[j] = usable(largest[j]);
  sum_in_chunks(s.num_reduced, reduction_chunk, columns, sum, [&](std::int64_t rows, T* to) {
    for_rows(again, rows, x, add_of(state.one, 1, to), add_of(state.several, rows_at_once, to));
  });
  for (std::int64_t j = 0; j < columns; ++j) y[j] = std::log(sum[j]) + largest[j];
}

// Adds e^(x - m) of `rows` rows of columns, one after another, to the sums; the rows are as `walk` finds
// them.
template <class T>
void add_exponentials(const VectorKernel& exp, Walk& walk, std::int64_t rows, const T* x,
                      std::int64_t columns, const T* largest, T* sum) {
  T powers[reduction_block];
  const std::int64_t at_once = reduction_block / columns;
  const std::byte* const in = reinterpret_cast<const std::byte*>(powers);
  std::byte* const out = reinterpret_cast<std::byte*>(powers);
  for (std::int64_t f = 0; f < rows; f += at_once) {
    const std::int64_t count = std::min(at_once, rows - f);
    for (std::int64_t k = 0; k < count; ++k, walk.next()) {
      const T* const row = x + walk.offset();
      for (std::int64_t j = 0; j < columns; ++j) powers[k * columns + j] = row[j] - largest[j];
    }
    exp.run(&in, &out, count * columns);
    for (std::int64_t k = 0; k < count; ++k) {
      for (std::int64_t j = 0; j < columns; ++j) sum[j] += powers[k * columns + j];
    }
  }
}

template <class T>
void logsumexp(const LogSumExpState& state, const Call& call) {
  const ReductionShape& s = state.shape;
  for_outputs(
      s, call.operand<T>(0), call.result<T>(),
      [&](const T* x, T* y) {
        T largest = -std::numeric_limits<T>::infinity();
        Walk walk(s.reduced);
        for (std::int64_t f = 0; f < s.num_reduced; ++f, walk.next()) {
          for (std::int64_t i = 0; i < s.inner; ++i) largest = Maximum()(largest, x[walk.offset() + i]);
        }
        const T m = usable(largest);
        Cascade<Sum, T> sum;
        Walk again(s.reduced);
        for (std::int64_t f = 0; f < s.num_reduced; ++f, again.next()) {
          for (std::int64_t i = 0; i < s.inner; i += reduction_block) {
            T block(0);
            const std::int64_t end = std::min(i + reduction_block, s.inner);
            for (std::int64_t j = i; j < end; ++j) block += std::exp(x[again.offset() + j] - m);
            sum.add(block);
          }
        }
        *y = std::log(sum.result()) + m;
      },
      [&](const T* x, std::int64_t columns, T* y) {
        if (state.several.add != nullptr && columns >= columns_for_rows)
          return logsumexp_columns(state, x, columns, y);
        T largest[reduction_columns];
        T sum[reduction_columns];
        std::fill_n(largest, columns, -std::numeric_limits<T>::infinity());
        Walk walk(s.reduced);
        for (std::int64_t f = 0; f < s.num_reduced; ++f, walk.next()) {
          for (std::int64_t j = 0; j < columns; ++j) largest[j] = Maximum()(largest[j], x[walk.offset() + j]);
        }
        for (std::int64_t j = 0; j < columns; ++j) largest[j] = usable(largest[j]);
        Walk again(s.reduced);
        const std::int64_t chunk = std::max(reduction_chunk, reduction_block / columns);
        sum_in_chunks(s.num_reduced, chunk, columns, sum, [&](std::int64_t rows, T* to) {
          if (state.exp != nullptr) return add_exponentials(*state.exp, again, rows, x, columns, largest, to);
          for (std::int64_t f = 0; f < rows; ++f, again.next()) {
            for (std::int64_t j = 0; j < columns; ++j) to[j] += std::exp(x[again.offset() + j] - largest[j]);
          }
        });
        for (std::int64_t j = 0; j < columns; ++j) y[j] = std::log(sum[j]) + largest[j];
      });
}
// The same of contiguous lines, with exponentials by generated code: as many short lines at once as fill a
// block.
struct LogSumExpLines {
  std::shared_ptr<const VectorKernel> exp;
  std::int64_t lines, length;
  int threads;
};
template <class T>
void logsumexp_lines(const LogSumExpLines& s, const Call& call) {
  const T* const x = call.operand<T>(0);
  T* const y = call.result<T>();
  std::int64_t at_once = std::max<std::int64_t>(1, reduction_block / std::max<std::int64_t>(1, s.length));
  if (s.length < short_line) at_once = in_short_lines(at_once);
  const std::int64_t grain = (element_grain / (s.length + 1) + at_once - 1) / at_once * at_once;
  parallel_for(s.threads, s.lines, std::max(at_once, grain), [&](std::int64_t begin, std::int64_t end) {
    T powers[reduction_block];
    T largest[reduction_block];
    const std::byte* const in = reinterpret_cast<const std::byte*>(powers);
    std::byte* const out = reinterpret_cast<std::byte*>(powers);
    for (std::int64_t line = begin; line < end; line += at_once) {
      const std::int64_t lines = std::min(at_once, end - line);
      const T* const from = x + line * s.length;
      if (s.length > reduction_block) {
        T m = -std::numeric_limits<T>::infinity();
        for (std::int64_t i = 0; i < s.length; i += reduction_block)
          m = Maximum()(m, reduce_line<Largest>(from + i, std::min(reduction_block, s.length - i)));
        m = usable(m);
        Cascade<Sum, T> sum;
        for (std::int64_t i = 0; i < s.length; i += reduction_block) {
          const std::int64_t count = std::min(reduction_block, s.length - i);
          for (std::int64_t j = 0; j < count; ++j) powers[j] = from[i + j] - m;
          s.exp->run(&in, &out, count);
          sum.add(reduce_line<Sum>(powers, count));
        }
        y[line] = std::log(sum.result()) + m;
        continue;
      }
      reduce_lines<Largest>(from, s.length, lines, largest);
      for (std::int64_t k = 0; k < lines; ++k) largest[k] = usable(largest[k]);
      for (std::int64_t k = 0; k < lines; ++k) {
        for (std::int64_t j = 0; j < s.length; ++j)
          powers[k * s.length + j] = from[k * s.length + j] - largest[k];
      }
      s.exp->run(&in, &out, lines * s.length);
      reduce_lines<Sum>(powers, s.length, lines, y + line);
      for (std::int64_t k = 0; k < lines; ++k) y[line + k] = std::log(y[line + k]) + largest[k];
    }
  });
}

Plan plan_logsumexp(const PlanRequest& request) {
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (RealNumber<T>) {
      ReductionShape shape = ReductionShape::of(request.in[0], request.op.ints("axes"), request.threads);
      const bool lines =
          shape.inner_reduced && shape.num_reduced == 1 && shape.inner > 0 &&
          (shape.kept.empty() || (shape.kept.size() == 1 && shape.kept[0].stride == shape.inner));
      // Elements for which generated code is not worth its call: of all lines, or of the columns of one
      // result.
      constexpr std::int64_t few = 8, few_of_columns = 24;
      const bool many = shape.inner_reduced
                            ? shape.outputs * shape.inner >= few
                            : shape.num_reduced * std::min(shape.inner, reduction_columns) >= few_of_columns;
      std::shared_ptr<const VectorKernel> exp;
      if (request.vector_jit != nullptr && many && (lines || !shape.inner_reduced)) {
        VectorProgram code{.dtype = request.in[0].dtype(), .steps = {}, .num_operands = 1, .num_results = 1};
        const std::uint16_t value = code.add({.op = VectorOp::load, .index = 0});
        const std::uint16_t power = code.add(
            {.op = VectorOp::call, .a = value, .index = static_cast<std::uint32_t>(VectorFunction::exp)});
        code.add({.op = VectorOp::store, .a = power});
        exp = request.vector_jit->compile(code);
      }
      if (lines && exp != nullptr) {
        return make_plan<LogSumExpLines, logsumexp_lines<T>>(
            {std::move(exp), shape.outputs, shape.inner, request.threads});
      }
      LogSumExpState state{std::move(shape), std::move(exp)};
      if (state.exp != nullptr && !state.shape.inner_reduced && state.shape.inner >= columns_for_rows) {
        state.one = logsumexp_rows(*request.vector_jit, request.in[0].dtype(), 1);
        state.several = logsumexp_rows(*request.vector_jit, request.in[0].dtype(), rows_at_once);
        if (!state.one.largest || !state.one.add || !state.several.largest) state.several.add = nullptr;
      }
      return make_plan<LogSumExpState, logsumexp<T>>(std::move(state));
    } else {
      return Plan();
    }
  });
}

constexpr KernelEntry reduction_entries[] = {
    {"reduce_sum", plan_reduce<Sum>, numbers},     {"reduce_prod", plan_reduce<Product>, numbers},
    {"reduce_max", plan_reduce<Largest>, ordered}, {"reduce_min", plan_reduce<Smallest>, ordered},
    {"reduce_and", plan_reduce<All>, bit(bool_)},  {"reduce_or", plan_reduce<Any>, bit(bool_)},
    {"logsumexp", plan_logsumexp, floats},
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
