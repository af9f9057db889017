// lazy.hpp - lazy mode: while a Lazy lives, operations on Arrays make promises. A promise has its type and no
// elements; what makes it is recorded, and runs, as one program with all that it needs, when somebody reads
// it.
//
// A value is evaluated by reading it (tensor(), item(), bool, printing), by eval(), when a tensor that
// pending operations read is about to be written through another tensor, and by leaving the outermost Lazy
// scope: what anybody still refers to (the tape counts) is evaluated then. What nobody refers to costs
// nothing. Errors of types come from the operation, errors of running from whoever asks for a value, which
// stays a promise: the next reader tries again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

#include "tidu/frontend/array.hpp"
#include "tidu/frontend/tree.hpp"

namespace tidu {

/// Lazy mode on this thread. Scopes nest; the outermost evaluates at its end what is still referred to. An
/// evaluation that fails there leaves promises: who reads them gets the error. A child after fork() goes on
/// with what the thread that forked has promised, whatever other threads did at that moment.
///
/// assign() and in-place operations write nothing here: the Array gets new elements. So Arrays that share
/// data, made by detach() or Array(tensor), part when either is written to.
class Lazy {
 public:
  /// Until it is destroyed.
  Lazy();
  ~Lazy();
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
};

/// Are this thread's operations making promises?
bool lazy_enabled();

/// Is it a value that has not been computed yet?
bool is_promise(const Array& array);

/// What lazy mode did on this thread. Counters only grow, `pending` aside.
struct LazyStatistics {
  std::uint64_t recorded = 0;     ///< operations that made promises
  std::uint64_t evaluations = 0;  ///< runs of a program
  std::uint64_t evaluated = 0;    ///< operations in those
  std::uint64_t failures = 0;     ///< evaluations that threw
  std::size_t pending = 0;        ///< operations that are recorded now, those that nobody refers to included
};
/// The counters as they are now.
LazyStatistics lazy_statistics();

namespace frontend_detail {
void eval_all(std::span<const Array> arrays, Where where);
}

/// Evaluates these (Arrays, and lists and tuples of such) in one run. Those that have elements already are
/// skipped, and one may come twice. Throws what running throws; all are promises as before then.
template <class... Trees>
void eval(const Trees&... trees) {
  frontend_detail::eval_all(frontend_detail::arrays_of(std::tie(trees...)), Where{});
}

}  // namespace tidu
