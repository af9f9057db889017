// lazy.hpp - lazy mode: while a Lazy lives, operations on Arrays return lazy tensors. A lazy tensor has a
// type and no elements. Its operation is recorded, and runs, in one program with all operations that it
// depends on, when its value is read.
//
// Evaluation happens when a value is read (tensor(), item(), bool, printing), by eval(), before a tensor that
// pending operations read is written through another tensor, and at the end of the outermost Lazy scope. At
// that end all lazy tensors that a handle or the tape refers to are evaluated. Lazy tensors without a
// reference are never computed. The operation itself throws errors of types. Errors of execution are thrown
// to the reader of a value; the tensor then stays lazy, and the next reader tries again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

#include "tidu/frontend/array.hpp"
#include "tidu/frontend/tree.hpp"

namespace tidu {

/// Lazy mode on this thread. Scopes nest; the outermost evaluates at its end all lazy tensors that are still
/// referred to. If that evaluation fails they stay lazy, and their readers get the error. A child after
/// fork() continues with the pending operations of the thread that forked, whatever other threads did at that
/// moment.
///
/// assign() and in-place operations write to no memory here: the Array gets new elements. So Arrays that
/// share data, made by detach() or Array(tensor), stop sharing when either is written to.
class Lazy {
 public:
  /// Until it is destroyed.
  Lazy();
  ~Lazy();
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
};

/// Do this thread's operations return lazy tensors?
bool lazy_enabled();

/// Is it lazy: a value that has not been computed yet?
bool is_lazy(const Array& array);
/// The former name.
[[deprecated("use is_lazy")]] inline bool is_promise(const Array& array) { return is_lazy(array); }

/// Counters of lazy mode on this thread. All except `pending` only grow.
struct LazyStatistics {
  std::uint64_t recorded = 0;     ///< operations that returned lazy tensors
  std::uint64_t evaluations = 0;  ///< runs of a program
  std::uint64_t evaluated = 0;    ///< operations in those
  std::uint64_t failures = 0;     ///< evaluations that threw
  std::size_t pending = 0;        ///< operations that are recorded now, including those whose results have no
                                  ///< reference
};
/// The counters as they are now.
LazyStatistics lazy_statistics();

namespace frontend_detail {
void eval_all(std::span<const Array> arrays, Where where);
}

/// Evaluates these (Arrays, and lists and tuples of Arrays) in one run. Arrays that have elements already are
/// skipped, and one may occur twice. Throws the errors of execution; all are lazy as before then.
template <class... Trees>
void eval(const Trees&... trees) {
  frontend_detail::eval_all(frontend_detail::arrays_of(std::tie(trees...)), Where{});
}

}  // namespace tidu
