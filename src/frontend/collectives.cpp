// collectives.cpp - see collectives.hpp: graphs of one operation, called.
#include "tidu/frontend/collectives.hpp"

#include "frontend/context.hpp"
#include "tidu/primitives/collectives.hpp"

namespace tidu {
namespace {

template <class F>
Array collective(const char* name, const Array& x, Where where, const F& emit) {
  const auto one = [&](Emitter&, std::span<const Value> operands) -> Values { return {emit(operands[0])}; };
  return frontend_detail::call_operation(name, {x}, one, where)[0];
}

}  // namespace

Array psum(const Array& x, std::string_view axis_name, std::int64_t axis_size, Where where) {
  return collective("psum", x, where, [&](Value v) { return ops::psum(v, axis_name, axis_size, where); });
}

Array all_gather(const Array& x, std::string_view axis_name, std::int64_t axis_size,
                 std::int64_t all_gather_dimension, bool tiled, Where where) {
  return collective("all_gather", x, where, [&](Value v) {
    return ops::all_gather(v, axis_name, axis_size, all_gather_dimension, tiled, where);
  });
}

Array reduce_scatter(const Array& x, std::string_view axis_name, std::int64_t axis_size,
                     std::int64_t scatter_dimension, bool tiled, Where where) {
  return collective("reduce_scatter", x, where, [&](Value v) {
    return ops::reduce_scatter(v, axis_name, axis_size, scatter_dimension, tiled, where);
  });
}

Array ppermute(const Array& x, std::string_view axis_name, std::int64_t axis_size, const IntLists& perm,
               Where where) {
  return collective("ppermute", x, where,
                    [&](Value v) { return ops::ppermute(v, axis_name, axis_size, perm, where); });
}

}  // namespace tidu
