// fields.hpp - the members of a structure as a list: of an aggregate by structured bindings, of another class
// by its tidu_fields().
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tidu::frontend_detail {

inline constexpr std::size_t max_fields = 16;

/// Initialises a member of any type. Only for asking whether there is one more.
struct AnyField {
  template <class T>
  operator T() const;
};
/// Initialises a base class of T alone.
template <class T>
struct AnyBase {
  template <class Base>
  requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>) operator Base() const;
};

template <class T, std::size_t... I>
constexpr bool takes_any(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyField())...}; };
}

/// The number of members of an aggregate. None if it cannot be determined: for a member that is an array or
/// an empty class, a base class, or more than max_fields members.
template <class T>
constexpr std::size_t count_fields() {
  if (requires { T{AnyBase<T>()}; }) return 0;
  std::size_t count = 0;
  if (requires { T{{}}; }) count = 1;
  if (requires { T{{}, {}}; }) count = 2;
  if (requires { T{{}, {}, {}}; }) count = 3;
  if (requires { T{{}, {}, {}, {}}; }) count = 4;
  if (requires { T{{}, {}, {}, {}, {}}; }) count = 5;
  if (requires { T{{}, {}, {}, {}, {}, {}}; }) count = 6;
  if (requires { T{{}, {}, {}, {}, {}, {}, {}}; }) count = 7;
  if (requires { T{{}, {}, {}, {}, {}, {}, {}, {}}; }) count = 8;
  if (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}}; }) count = 9;
  if (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) count = 10;
  if (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) count = 11;
  if (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) count = 12;
  if (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) count = 13;
  if (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) count = 14;
  if (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) count = 15;
  if (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) count = 16;
  if (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) return 0;
  const bool more = [&]<std::size_t... N>(std::index_sequence<N...>) {
    return ((N + 1 > count && takes_any<T>(std::make_index_sequence<N + 1>())) || ...);
  }
  (std::make_index_sequence<max_fields + 1>());
  return more ? 0 : count;
}

template <class T>
concept TellsFields = requires(T& x) {
  x.tidu_fields();
};

template <class T>
constexpr bool can_list_fields() {
  if constexpr (TellsFields<T>) {
    return true;
  } else if constexpr (std::is_class_v<T> && std::is_aggregate_v<T> && std::is_copy_assignable_v<T>) {
    return std::is_empty_v<T> || count_fields<T>() > 0;
  } else {
    return false;
  }
}
/// Can with_fields take it?
template <class T>
inline constexpr bool has_fields = can_list_fields<T>();

/// f of x's members.
template <class X, class F>
void with_fields(X& x, const F& f) {
  using T = std::remove_const_t<X>;
  if constexpr (TellsFields<T>) {
    auto fields = const_cast<T&>(x).tidu_fields();  // which reads no more than f does
    std::apply(f, fields);
  } else if constexpr (!std::is_empty_v<T>) {
    constexpr std::size_t count = count_fields<T>();
    if constexpr (count == 1) {
      auto& [f0] = x;
      f(f0);
    } else if constexpr (count == 2) {
      auto& [f0, f1] = x;
      f(f0, f1);
    } else if constexpr (count == 3) {
      auto& [f0, f1, f2] = x;
      f(f0, f1, f2);
    } else if constexpr (count == 4) {
      auto& [f0, f1, f2, f3] = x;
      f(f0, f1, f2, f3);
    } else if constexpr (count == 5) {
      auto& [f0, f1, f2, f3, f4] = x;
      f(f0, f1, f2, f3, f4);
    } else if constexpr (count == 6) {
      auto& [f0, f1, f2, f3, f4, f5] = x;
      f(f0, f1, f2, f3, f4, f5);
    } else if constexpr (count == 7) {
      auto& [f0, f1, f2, f3, f4, f5, f6] = x;
      f(f0, f1, f2, f3, f4, f5, f6);
    } else if constexpr (count == 8) {
      auto& [f0, f1, f2, f3, f4, f5, f6, f7] = x;
      f(f0, f1, f2, f3, f4, f5, f6, f7);
    } else if constexpr (count == 9) {
      auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8] = x;
      f(f0, f1, f2, f3, f4, f5, f6, f7, f8);
    } else if constexpr (count == 10) {
      auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9] = x;
      f(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9);
    } else if constexpr (count == 11) {
      auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10] = x;
      f(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10);
    } else if constexpr (count == 12) {
      auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11] = x;
      f(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11);
    } else if constexpr (count == 13) {
      auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12] = x;
      f(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12);
    } else if constexpr (count == 14) {
      auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13] = x;
      f(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13);
    } else if constexpr (count == 15) {
      auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14] = x;
      f(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14);
    } else if constexpr (count == 16) {
      auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15] = x;
      f(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15);
    }
  }
}

}  // namespace tidu::frontend_detail
