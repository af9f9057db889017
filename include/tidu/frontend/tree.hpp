// tree.hpp - trees: arguments and results of functions that are transformed. A tree is an Array, or vectors,
// arrays, pairs, tuples, optionals, maps and structures of trees. A structure is a class with public members,
// no base and no constructors, with at most 16 members (see fields.hpp), or a class that lists its members:
//
//   class Layer {
//    public:
//     auto tidu_fields() { return std::tie(weights_, bias_); }
//
// Numbers, text and other types that cannot hold an Array are passed on unchanged. Other classes might hold
// Arrays, whose gradients would be lost. They do not compile, unless is_opaque is specialized for them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tidu/frontend/array.hpp"
#include "tidu/frontend/fields.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu {

/// Does T, a class that may be among the arguments and results of functions that are transformed, hold no
/// Array? It is then passed on as it is. Specialise it for a class whose members tidu cannot see:
///
///   template <> inline constexpr bool tidu::is_opaque<Logger> = true;
template <class T>
inline constexpr bool is_opaque = std::is_trivially_copyable_v<T> || std::is_empty_v<T>;
template <class Char, class Traits, class Allocator>
inline constexpr bool is_opaque<std::basic_string<Char, Traits, Allocator>> = true;
template <class Char, class Traits>
inline constexpr bool is_opaque<std::basic_string_view<Char, Traits>> = true;
template <class Signature>
inline constexpr bool is_opaque<std::function<Signature>> = true;
template <>
inline constexpr bool is_opaque<Tensor> = true;
template <>
inline constexpr bool is_opaque<Graph> = true;

}  // namespace tidu

namespace tidu::frontend_detail {

template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;
template <class T, std::size_t N>
inline constexpr bool is_list<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_product = false;
template <class... Ts>
inline constexpr bool is_product<std::tuple<Ts...>> = true;
template <class A, class B>
inline constexpr bool is_product<std::pair<A, B>> = true;

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
inline constexpr bool is_map = false;
template <class Key, class T, class Less>
inline constexpr bool is_map<std::map<Key, T, Less>> = true;

/// Structures without Arrays are left alone: a class that holds one cannot be copied as bytes.
template <class T>
inline constexpr bool is_tree_of_fields = !std::is_trivially_copyable_v<T> && has_fields<T>;

/// Is it known which Arrays are in a T, or that there are none? Members of T are checked in turn.
template <class T>
inline constexpr bool is_tree = std::is_same_v<T, Array> || is_list<T> || is_product<T> || is_optional<T> ||
                                is_map<T> || has_fields<T> || is_opaque<T>;

/// Calls visit(array) for every Array in the tree, in order.
template <class Tree, class Visit>
void visit_arrays(Tree& tree, const Visit& visit) {
  using T = std::remove_const_t<Tree>;
  if constexpr (std::is_same_v<T, Array>) {
    visit(tree);
  } else if constexpr (is_list<T>) {
    if constexpr (!std::is_trivially_copyable_v<typename T::value_type>)
      for (auto& item : tree) visit_arrays(item, visit);
  } else if constexpr (is_product<T>) {
    std::apply([&](auto&... items) { (visit_arrays(items, visit), ...); }, tree);
  } else if constexpr (is_optional<T>) {
    if (tree) visit_arrays(*tree, visit);
  } else if constexpr (is_map<T>) {
    for (auto& item : tree) visit_arrays(item.second, visit);
  } else if constexpr (is_tree_of_fields<T>) {
    with_fields(tree, [&](auto&... items) { (visit_arrays(items, visit), ...); });
  } else {
    constexpr bool lacks_default = std::is_aggregate_v<T> && !std::is_default_constructible_v<T>;
    static_assert(
        is_tree<T> || !lacks_default,
        "a member of this structure has no default constructor, so that its members cannot be counted: "
        "give the member's class one (`= default`), or the structure "
        "`auto tidu_fields() { return std::tie(its, members); }`");
    static_assert(
        is_tree<T> || lacks_default,
        "nothing tells which Arrays are in an object of this class, so they would get no gradient. "
        "Expected are Arrays, numbers, text, and vectors, arrays, pairs, tuples, optionals, std::maps "
        "and structures of such, of at most 16 public members, without base, constructor or array; "
        "give a class `auto tidu_fields() { return std::tie(its, members); }`, or, if it holds no "
        "Array, specialise tidu::is_opaque for it");
  }
}

/// Throws Error (invalid_argument) where the i-th structure after the first has another number of Arrays.
void require_as_many_arrays(std::size_t expected, std::size_t got, std::size_t i);

template <class Tree>
std::vector<Array> arrays_of(const Tree& tree) {
  std::vector<Array> arrays;
  visit_arrays(tree, [&](const Array& array) { arrays.push_back(array); });
  return arrays;
}

/// Replaces the arrays of the tree by others, from `next` on.
template <class Tree>
void replace_arrays(Tree& tree, std::span<const Array> arrays, std::size_t& next) {
  visit_arrays(tree, [&](Array& array) { array = arrays[next++]; });
}
template <class Tree>
void replace_arrays(Tree& tree, std::span<const Array> arrays) {
  std::size_t next = 0;
  replace_arrays(tree, arrays, next);
}

/// Have they the same structure, and equal members other than Arrays, as far as these can be compared?
template <class Tree>
bool same_form(const Tree& a, const Tree& b) {
  if constexpr (std::is_same_v<Tree, Array>) {
    return true;
  } else if constexpr (is_list<Tree>) {
    bool same = a.size() == b.size();
    for (std::size_t i = 0; same && i < a.size(); ++i) {
      const auto &left = a[i], &right = b[i];
      same = same_form(left, right);
    }
    return same;
  } else if constexpr (is_product<Tree>) {
    return std::apply(
        [&](const auto&... left) {
          return std::apply([&](const auto&... right) { return (same_form(left, right) && ...); }, b);
        },
        a);
  } else if constexpr (is_optional<Tree>) {
    return a.has_value() == b.has_value() && (!a || same_form(*a, *b));
  } else if constexpr (is_map<Tree>) {
    return a.size() == b.size() &&
           std::equal(a.begin(), a.end(), b.begin(), [](const auto& left, const auto& right) {
             return same_form(left.first, right.first) && same_form(left.second, right.second);
           });
  } else if constexpr (is_tree_of_fields<Tree>) {
    bool same = true;
    with_fields(a, [&](const auto&... left) {
      with_fields(b, [&](const auto&... right) { same = (same_form(left, right) && ...); });
    });
    return same;
  } else if constexpr (requires { bool(a == b); }) {
    return bool(a == b);
  } else {
    return true;
  }
}

/// A copy of the tree with these Arrays in it.
template <class Tree>
Tree in_form_of(const Tree& tree, std::span<const Array> arrays) {
  Tree copy = tree;
  replace_arrays(copy, arrays);
  return copy;
}

/// A function that is no graph: the argument of the transforms.
template <class F>
concept FunctionOfArrays = !std::is_convertible_v<F, Graph>;

/// The type as which an argument is passed on: floating numbers as Arrays, "text" as const char*.
template <class T>
using Argument = std::conditional_t<std::is_floating_point_v<T>, Array, std::decay_t<const T&>>;

template <class F, class... Args>
struct Application {
  static_assert(
      std::is_invocable_v<const F&, const Args&...>,
      "this function cannot take the arguments that it is given here. A floating number is passed on "
      "as an Array without axes: take it as const Array& or const auto&, not as double or float");
  using type = std::decay_t<std::invoke_result_t<const F&, const Args&...>>;
};
/// The type of the result of f on these arguments.
template <class F, class... Args>
using ResultOf = typename Application<F, Args...>::type;

template <class F, class Arguments>
struct ItemsApplication;
template <class F, class... Args>
struct ItemsApplication<F, std::tuple<Args...>> : Application<F, Args...> {};
/// The type of the result of f on the items of a tuple.
template <class F, class Arguments>
using ResultOfItems = typename ItemsApplication<F, Arguments>::type;

/// A function of a flat list of Arrays.
using FlatFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;

/// The range of each argument's Arrays in the flat list: the first of argument i, and one past the last.
template <class... Ts>
std::vector<std::size_t> offsets(const std::tuple<Ts...>& arguments) {
  std::vector<std::size_t> result{0};
  std::apply([&](const auto&... items) { (result.push_back(result.back() + arrays_of(items).size()), ...); },
             arguments);
  return result;
}

/// f on a tuple's items, as a flat function. Its last result is kept in `result`, whose Arrays are to be
/// replaced.
template <class F, class Arguments, class Result>
FlatFunction flat_function(const F& f, const Arguments& arguments, std::optional<Result>& result) {
  return [&f, &arguments, &result](const std::vector<Array>& arrays) {
    Arguments given = arguments;
    replace_arrays(given, arrays);
    result.emplace(std::apply(f, std::as_const(given)));
    return arrays_of(*result);
  };
}

/// The same of copies of f and of the arguments' forms, to be called at any time; empty where f cannot be
/// copied.
template <class F, class Arguments>
FlatFunction kept_function(const F& f, const Arguments& forms) {
  if constexpr (std::is_copy_constructible_v<std::decay_t<const F&>>) {
    return [f = std::decay_t<const F&>(f), forms](const std::vector<Array>& arrays) {
      return arrays_of(std::apply(f, in_form_of(forms, arrays)));
    };
  } else {
    return {};
  }
}

}  // namespace tidu::frontend_detail

namespace tidu {

/// The Arrays in a tree, in order: of vectors, arrays, pairs, tuples, optionals, maps by key, and members.
template <class Tree>
std::vector<Array> tree_leaves(const Tree& tree) {
  return frontend_detail::arrays_of(tree);
}

/// The tree with each of its Arrays replaced by f(array, others...), `others` being the Arrays at the same
/// position in the other trees: tree_map([](auto& w, auto& g) { return w - 0.1 * g; }, net, gradient).
/// Members of the first tree that are no Arrays are unchanged. Throws Error (invalid_argument) if another
/// tree has another number of Arrays, and the exceptions of f.
template <class F, class Tree, class... Others>
Tree tree_map(const F& f, const Tree& tree, const Others&... others) {
  const std::array<std::vector<Array>, 1 + sizeof...(Others)> leaves{tree_leaves(tree),
                                                                     tree_leaves(others)...};
  for (std::size_t i = 1; i < leaves.size(); ++i)
    frontend_detail::require_as_many_arrays(leaves[0].size(), leaves[i].size(), i);
  std::vector<Array> results;
  results.reserve(leaves[0].size());
  for (std::size_t k = 0; k < leaves[0].size(); ++k) {
    results.push_back([&]<std::size_t... i>(std::index_sequence<i...>)->Array {
      return f(leaves[0][k], leaves[1 + i][k]...);
    }(std::index_sequence_for<Others...>()));
  }
  return frontend_detail::in_form_of(tree, results);
}

}  // namespace tidu
