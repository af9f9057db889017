// constants.cpp - kernels without operands.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "cpu/compiled.hpp"
#include "cpu/kernel.hpp"
#include "cpu/kernels/arithmetic.hpp"
#include "cpu/layout.hpp"
#include "graph/round_to_odd.hpp"

namespace tidu::cpu_detail {
namespace {

struct ConstantState {
  Literal value;
};
void copy_literal(const ConstantState& s, const Call& call) noexcept {
  if (s.value.type().bytes() != 0) std::memcpy(call.out[0], s.value.bytes(), s.value.type().bytes());
}
Plan plan_constant(const PlanRequest& request) {
  return make_plan<ConstantState, copy_literal>({request.op.literal("value")});
}

template <class T>
struct FullState {
  std::int64_t count;
  T value;
};
template <class T>
void fill(const FullState<T>& s, const Call& call) noexcept {
  const std::span bytes = std::as_bytes(std::span(&s.value, 1));
  const bool is_zero = std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
  if (is_zero && s.count != 0) {
    std::memset(call.out[0], 0, static_cast<std::size_t>(s.count) * sizeof(T));
  } else {
    std::fill_n(call.result<T>(), s.count, s.value);
  }
}
Plan plan_full(const PlanRequest& request) {
  const Literal& value = request.op.literal("value");
  return with_type(request.out[0].dtype(), [&]<class T>(std::type_identity<T>) {
    T element{};
    if (value.type().dtype() == request.out[0].dtype()) {
      std::memcpy(&element, value.bytes(), sizeof(T));
    } else {
      element = convert<T>(value.at(0).real());  // a 16-bit value that is widened
    }
    return make_plan<FullState<T>, fill<T>>({request.out[0].size(), element});
  });
}

// The number that is rounded to 16 bits.
float narrow(std::int64_t i) { return detail::round_to_odd(detail::round_to_odd(i)); }

template <class T, T (*number)(std::int64_t) = convert<T, std::int64_t>>
void count_up(const AxisShape& s, const Call& call) {
  T* y = call.result<T>();
  if (s.extent == 0 || s.inner == 0) return;
  for (std::int64_t o = 0; o < s.outer; ++o) {
    if (s.inner == 1) {
      for (std::int64_t i = 0; i < s.extent; ++i) y[i] = number(i);
      y += s.extent;
      continue;
    }
    for (std::int64_t i = 0; i < s.extent; ++i, y += s.inner) std::fill_n(y, s.inner, number(i));
  }
}
Plan plan_iota(const PlanRequest& request) {
  const Type type = request.out[0];
  const auto axis = static_cast<std::size_t>(request.op.integer("dimension"));
  const AxisShape shape = AxisShape::of(type, axis);
  if (request.op.dtype("dtype") == bf16) return make_plan<AxisShape, count_up<float, narrow>>(shape);
  return with_type(type.dtype(),
                   [&]<class T>(std::type_identity<T>) { return make_plan<AxisShape, count_up<T>>(shape); });
}

constexpr KernelEntry constant_entries[] = {
    {"constant", plan_constant, any_dtype, true},
    {"full", plan_full, any_dtype},
    {"iota", plan_iota, numbers},
};

}  // namespace

std::span<const KernelEntry> constant_kernels() { return constant_entries; }

const Literal* carried(const OpRecord& op, Type type) {
  for (std::size_t i = 0; i < op.primitive->attributes.size(); ++i) {
    if (op.primitive->attributes[i].kind != AttributeKind::literal) continue;
    const auto* literal = op.attributes[i].second.get_if<Literal>();
    if (literal != nullptr && literal->type() == type) return literal;
  }
  return nullptr;
}

}  // namespace tidu::cpu_detail
