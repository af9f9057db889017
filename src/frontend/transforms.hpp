// transforms.hpp - transforms of traced Arrays, which transform graphs and emit them into the graph that is
// being traced; and argument checks of all transforms.
#pragma once

#include "frontend/context.hpp"
#include "tidu/frontend/trace.hpp"
#include "tidu/frontend/transforms.hpp"

namespace tidu::frontend_detail {

ValueAndGradients traced_value_and_gradients(const FlatFunction& f, const std::vector<Array>& arguments,
                                             const std::vector<std::size_t>& wrt, const char* name,
                                             Where where);
std::pair<std::vector<Array>, FlatPullback> traced_vjp(const FlatFunction& f,
                                                       const std::vector<Array>& arguments, Where where);
/// The pullback alone, without running f's graph.
FlatPullback traced_pullback(const FlatFunction& f, const std::vector<Array>& arguments, Where where);
std::vector<Array> traced_hvp(const FlatFunction& f, const std::vector<Array>& arguments,
                              const std::vector<Array>& tangents, Where where);
/// Requires one tangent of each argument's type; all types are floating or complex. Throws Error
/// (invalid_argument, type).
void require_tangents(const std::vector<Array>& arguments, const std::vector<Array>& tangents,
                      const char* name, Where where);
/// Checks the cotangents for vjp's pullback against result types. Throws Error (invalid_argument, type).
void require_cotangents(std::span<const Type> outputs, std::span<const Array> cotangents, Where where);

}  // namespace tidu::frontend_detail
