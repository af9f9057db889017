// convert.cpp - convert_element_type.
#include "cpu/kernels/arithmetic.hpp"
#include "cpu/kernels/elementwise.hpp"
#include "graph/round_to_odd.hpp"

namespace tidu::cpu_detail {
namespace {

template <class To>
struct Convert {
  template <class From>
  requires(!ComplexNumber<From> || ComplexNumber<To> || Boolean<To>) To operator()(From x) const {
    return convert<To>(x);
  }
};

// To the f32 that a 16-bit result is rounded from, once in all.
struct ConvertToNarrow {
  template <class From>
  requires(!ComplexNumber<From>) float operator()(From x) const {
    if constexpr (std::is_same_v<From, double>) {
      return detail::round_to_odd(x);
    } else if constexpr (Integer<From>) {
      return detail::round_to_odd(detail::round_to_odd(std::int64_t{x}));
    } else {
      return convert<float>(x);
    }
  }
};

Plan plan_convert(const PlanRequest& request) {
  const DType to = request.op.dtype("new_dtype");
  if (to == f16 || to == bf16) return plan_unary<ConvertToNarrow>(request);
  return with_type(request.out[0].dtype(),
                   [&]<class To>(std::type_identity<To>) { return plan_unary<Convert<To>>(request); });
}

constexpr KernelEntry convert_entries[] = {{"convert_element_type", plan_convert, any_dtype}};

}  // namespace

std::span<const KernelEntry> convert_kernels() { return convert_entries; }

}  // namespace tidu::cpu_detail
