// comparison.cpp - kernels whose result is bool.
#include "cpu/kernels/elementwise.hpp"

namespace tidu::cpu_detail {
namespace {

struct Equal {
  template <class T>
  bool operator()(T x, T y) const {
    return x == y;
  }
};
struct NotEqual {
  template <class T>
  bool operator()(T x, T y) const {
    return x != y;
  }
};
struct Less {
  template <class T>
  requires(!ComplexNumber<T>) bool operator()(T x, T y) const { return x < y; }
};
struct LessEqual {
  template <class T>
  requires(!ComplexNumber<T>) bool operator()(T x, T y) const { return x <= y; }
};
struct Greater {
  template <class T>
  requires(!ComplexNumber<T>) bool operator()(T x, T y) const { return x > y; }
};
struct GreaterEqual {
  template <class T>
  requires(!ComplexNumber<T>) bool operator()(T x, T y) const { return x >= y; }
};

constexpr KernelEntry comparison_entries[] = {
    {"eq", plan_binary<Equal>, any_dtype}, {"ne", plan_binary<NotEqual>, any_dtype},
    {"lt", plan_binary<Less>, ordered},    {"le", plan_binary<LessEqual>, ordered},
    {"gt", plan_binary<Greater>, ordered}, {"ge", plan_binary<GreaterEqual>, ordered},
};

}  // namespace

std::span<const KernelEntry> comparison_kernels() { return comparison_entries; }

}  // namespace tidu::cpu_detail
