// convert.cpp - convert_element_type.
#include "cpu/kernels/arithmetic.hpp"
#include "cpu/kernels/elementwise.hpp"

namespace tidu::cpu_detail {
namespace {

template <class To>
struct Convert {
  template <class From>
  requires(!ComplexNumber<From> || ComplexNumber<To> || Boolean<To>) To operator()(From x) const {
    return convert<To>(x);
  }
};

Plan plan_convert(const PlanRequest& request) {
  return with_type(request.out[0].dtype(),
                   [&]<class To>(std::type_identity<To>) { return plan_unary<Convert<To>>(request); });
}

constexpr KernelEntry convert_entries[] = {{"convert_element_type", plan_convert, any_dtype}};

}  // namespace

std::span<const KernelEntry> convert_kernels() { return convert_entries; }

}  // namespace tidu::cpu_detail
