// trace.hpp - traces a function of Arrays to a graph, calls a graph as a function of Arrays, and compiles
// functions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tidu/eager/recorded_graph.hpp"
#include "tidu/frontend/array.hpp"
#include "tidu/frontend/tree.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu {

namespace frontend_detail {

/// A traced function: inputs are the arguments, then the captured values.
struct Traced {
  Graph graph;
  std::vector<Array> captured;
};
/// Traces f on arguments of the types and devices of `like`. Throws the exceptions of f; Error
/// (invalid_argument) if f reads data, or returns an Array without a value or one of a trace that has ended.
/// A `pure` function (made by flat_function()) is to be called again: Error too if traced Arrays remain
/// anywhere but in its result. Computations of f on captured Arrays alone run at once, and their results are
/// captured. In a pure function they become part of the graph if one of the Arrays requires a gradient. If
/// the graph `takes_all`, since it may not run, all of them become part of it, as they do in traces within
/// it.
Traced trace_flat(const FlatFunction& f, std::span<const Array> like, const std::string& name, Where where,
                  bool pure = false, bool takes_all = false);
/// The device of the Array; of a traced Array as far as that is known.
std::uint32_t device_of(const Array& array);
/// The same graph with captured values as constants.
Graph closed(const Traced& traced, Where where);
std::vector<Type> types_of(std::span<const Array> arrays);

/// An Array of a type alone, which stands for an argument of trace().
Array placeholder(Type type);

template <class T>
auto trace_argument(const T& argument) {
  if constexpr (std::is_same_v<T, Type> || std::is_same_v<T, DType>) {
    return placeholder(Type(argument));
  } else {
    return Argument<T>(argument);
  }
}

}  // namespace frontend_detail

/// The graph of f on arguments of these types: each is a Type, an Array (whose type counts, not its data) or
/// a vector of Arrays. Inputs are called "x0", "x1", …; outputs are the Arrays that f returns. f runs once,
/// on Arrays without data; other Arrays that it uses become constants of the graph.
template <class F, class... Args>
Graph trace(const F& f, const Args&... args) {
  const auto arguments = std::make_tuple(frontend_detail::trace_argument(args)...);  // of one tuple, too
  using Out = frontend_detail::ResultOfItems<F, std::decay_t<decltype(arguments)>>;
  std::optional<Out> result;
  const std::vector<Array> flat = frontend_detail::arrays_of(arguments);
  return frontend_detail::closed(
      frontend_detail::trace_flat(frontend_detail::flat_function(f, arguments, result), flat, "traced", {}),
      {});
}

/// Runs the graph on these Arrays, as one operation that is recorded as one node, and returns its outputs.
/// While Arrays are traced, the graph's operations are inlined. Throws Error (invalid_argument, type) that
/// names graph and input.
std::vector<Array> call_graph(const Graph& graph, std::span<const Array> arguments,
                              Where where = Where::current());
inline std::vector<Array> call_graph(const Graph& graph, std::initializer_list<Array> arguments,
                                     Where where = Where::current()) {
  return call_graph(graph, std::span(arguments.begin(), arguments.size()), where);
}

namespace frontend_detail {

/// Throws for Arrays without a value among the arguments of the function or transform `name`; `which`
/// describes them.
void require_arrays(std::span<const Array> arguments, std::string_view name, Where where,
                    std::string_view which = "arguments");

/// A function that was traced for some types.
struct CompiledCall {
  eager::RecordedGraph graph;
  std::vector<Array> captured;
};
std::vector<Array> run_compiled(const CompiledCall& call, std::vector<Array> arguments, Where where);
bool any_traced(std::span<const Array> arrays);

/// The key of a call: the types and devices of its Arrays, and its static arguments, as words.
using CallKey = std::vector<std::uintptr_t>;
/// Its address identifies a list of argument types.
template <class... Ts>
inline constexpr char kind_of{};
template <class T>
inline constexpr bool is_text = false;
template <class Char, class Traits, class Allocator>
inline constexpr bool is_text<std::basic_string<Char, Traits, Allocator>> = true;
template <class Char, class Traits>
inline constexpr bool is_text<std::basic_string_view<Char, Traits>> = true;

/// A pointer to a character: text that ends with a zero.
template <class T>
inline constexpr bool is_c_text = std::is_same_v<T, const char*> || std::is_same_v<T, char*>;

template <class T>
inline constexpr bool is_std_complex = false;
template <class T>
inline constexpr bool is_std_complex<std::complex<T>> = true;

/// Does it refer to Arrays, which are to be given themselves?
template <class T>
inline constexpr bool refers_to_arrays = false;
template <class T>
inline constexpr bool refers_to_arrays<T*> = std::is_same_v<std::remove_cv_t<T>, Array>;
template <class T, std::size_t N>
inline constexpr bool refers_to_arrays<std::span<T, N>> = true;

/// A floating number of any precision; for long double the remainder beyond double is a second word.
template <class T>
void enter_number(CallKey& key, T x) {
  if constexpr (std::is_same_v<T, long double>) {
    int exponent = 0;
    const long double fraction = std::frexp(x, &exponent);
    const double high = static_cast<double>(fraction);
    key.push_back(static_cast<std::uintptr_t>(exponent));
    enter_number(key, high);
    enter_number(key, static_cast<double>(fraction - high));
  } else {
    key.push_back(std::bit_cast<std::uint64_t>(static_cast<double>(x)));
  }
}

/// For Arrays their type and device, for lists their length, and the values of numbers, enumerators, text,
/// pointers and structures of such.
template <class T>
void enter(CallKey& key, const T& x) {
  const auto each = [&key](const auto&... items) { (enter(key, items), ...); };
  if constexpr (std::is_same_v<T, Array>) {
    key.push_back(reinterpret_cast<std::uintptr_t>(x.type().identity()));
    key.push_back(device_of(x));
  } else if constexpr (is_list<T> || is_map<T> || is_text<T>) {
    key.push_back(x.size());
    for (const auto& item : x) enter(key, item);
  } else if constexpr (is_c_text<T>) {
    key.push_back(x == nullptr ? 0 : 1);
    if (x != nullptr) enter(key, std::string_view(x));
  } else if constexpr (is_product<T>) {
    std::apply(each, x);
  } else if constexpr (is_optional<T>) {
    key.push_back(x.has_value() ? 1 : 0);
    if (x) enter(key, *x);
  } else if constexpr (std::is_floating_point_v<T>) {
    enter_number(key, x);
  } else if constexpr (std::is_same_v<T, Number>) {
    each(x.dtype(), x.is_whole() ? x.whole() : std::bit_cast<std::int64_t>(x.value()));
  } else if constexpr (is_std_complex<T>) {
    each(x.real(), x.imag());
  } else if constexpr (std::is_bounded_array_v<T>) {
    for (const auto& item : x) enter(key, item);
  } else if constexpr (has_fields<T> && !std::is_empty_v<T>) {  // by its members, not by its bytes
    with_fields(x, each);
  } else if constexpr (std::has_unique_object_representations_v<T> && !refers_to_arrays<T>) {
    const auto bytes = std::bit_cast<std::array<unsigned char, sizeof(T)>>(x);
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uintptr_t)) {
      std::uintptr_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
      key.push_back(word);
    }
  } else {
    static_assert(
        std::is_empty_v<T>,
        "compile(f): an argument of this class would be fixed by the first call, since nothing tells "
        "its values apart. Expected are Arrays, numbers, text, and lists, maps and structures of "
        "such; give a class `auto tidu_fields() { return std::tie(its, members); }`, or let f hold "
        "what never changes");
  }
}

}  // namespace frontend_detail

/// f, traced once for each list of argument types and devices, then run as one graph. f must do the same
/// whatever the elements are; its captured values are fixed when it is traced. If one is an Array of an outer
/// trace, the call is not cached. A captured Array is fixed by identity: each call reads its current
/// elements. The same holds for values that f computes from an Array that requires a gradient (a parameter).
/// Values that f computes from data alone are data, computed during tracing; if such an Array is made to
/// require a gradient later, call compile() again. f must return its results: if it leaves an Array that it
/// computed, or an argument, in a variable outside of it, the call throws Error (invalid_argument).
///
/// A floating number that is an argument itself becomes an Array without axes, as for all transforms, so
/// calls with other values share a trace. It promotes as an Array does, to f64 for a double: f32 elements
/// combined with it are f64, whereas f alone, if it takes a number, keeps them f32. A float, or an Array of
/// the intended dtype, keeps f32 in both. Other numbers, enumerators and text among the arguments, and all
/// numbers in lists, maps and structures, are static: each new value is traced anew. Pointers are static by
/// address. An argument of another class is a compile-time error. Copies share the cache of traces. It holds
/// at most 1,024 lists of types; the longest unused half is dropped when there are more.
template <class F>
class Compiled {
 public:
  /// See compile.
  Compiled(F f, Where where) : f_(std::move(f)), where_(where), cache_(std::make_shared<Cache>()) {}

  /// f of these arguments. Arrays that are moved into the call and have no other handle, as parameters that a
  /// step replaces, may be donated: results of their types use their memory (on the CPU, from 64 KiB on, when
  /// nothing is recorded): p = step(std::move(p), x). They are released once f was traced, also if the run
  /// then fails.
  template <class... Args>
  auto operator()(Args&&... args) const {
    using Arguments = std::tuple<frontend_detail::Argument<std::remove_cvref_t<Args>>...>;
    using Out = frontend_detail::ResultOf<F, frontend_detail::Argument<std::remove_cvref_t<Args>>...>;
    std::optional<const Arguments> kept(std::in_place, std::as_const(args)...);
    const Arguments& arguments = *kept;
    std::vector<Array> flat = frontend_detail::arrays_of(arguments);
    frontend_detail::require_arrays(flat, "compiled", where_);
    if (frontend_detail::any_traced(flat)) return Out(std::apply(f_, arguments));
    Key key{reinterpret_cast<std::uintptr_t>(
        &frontend_detail::kind_of<frontend_detail::Argument<std::remove_cvref_t<Args>>...>)};
    frontend_detail::enter(key, arguments);
    const Entry entry = find(std::move(key), [&] {
      std::optional<Out> result;
      frontend_detail::Traced traced = frontend_detail::trace_flat(
          frontend_detail::flat_function(f_, arguments, result), flat, "compiled", where_, true);
      return Entry{std::make_shared<const frontend_detail::CompiledCall>(frontend_detail::CompiledCall{
                       eager::RecordedGraph::of(traced.graph), std::move(traced.captured)}),
                   std::make_shared<const Out>(std::move(*result))};
    });
    Out out = *static_cast<const Out*>(entry.shape.get());
    kept.reset();
    (give_up<Args>(args), ...);
    frontend_detail::replace_arrays(out, frontend_detail::run_compiled(*entry.call, std::move(flat), where_));
    return out;
  }
  /// The number of lists of types whose trace is kept.
  std::size_t num_traced() const {
    const std::lock_guard<std::mutex> lock(cache_->mutex);
    return cache_->entries.size();
  }

 private:
  // Releases Arrays that were moved into a call, once the program is known.
  template <class Arg>
  static void give_up(std::remove_reference_t<Arg>& argument) {
    if constexpr (!std::is_reference_v<Arg> && std::is_move_constructible_v<Arg>) {
      [[maybe_unused]] const Arg gone(std::move(argument));
    }
  }

  using Key = frontend_detail::CallKey;
  struct Entry {
    std::shared_ptr<const frontend_detail::CompiledCall> call;
    std::shared_ptr<const void> shape;  ///< structure of the result of f
    std::uint64_t used = 0;             ///< when, in calls
  };
  static constexpr std::size_t max_entries = 1024;
  struct Cache {
    std::mutex mutex;
    std::map<Key, Entry> entries;
    std::uint64_t calls = 0;
    void drop_unused() {
      std::vector<std::uint64_t> used;
      for (const auto& entry : entries) used.push_back(entry.second.used);
      std::nth_element(used.begin(), used.begin() + max_entries / 2, used.end());
      const std::uint64_t least = used[max_entries / 2];
      std::erase_if(entries, [least](const auto& entry) { return entry.second.used < least; });
    }
  };
  template <class Make>
  Entry find(Key key, const Make& make) const {
    {
      const std::lock_guard<std::mutex> lock(cache_->mutex);
      const auto found = cache_->entries.find(key);
      ++cache_->calls;
      if (found != cache_->entries.end()) {
        found->second.used = cache_->calls;
        return found->second;
      }
    }
    Entry made = make();
    if (frontend_detail::any_traced(made.call->captured)) return made;
    const std::lock_guard<std::mutex> lock(cache_->mutex);
    if (cache_->entries.size() >= max_entries) cache_->drop_unused();
    made.used = ++cache_->calls;
    return cache_->entries.emplace(std::move(key), std::move(made)).first->second;
  }

  F f_;
  Where where_;
  std::shared_ptr<Cache> cache_;
};

namespace frontend_detail {

struct AnyCall {
  void operator()() const;
};
template <class F>
struct CallTwice : F, AnyCall {};
/// Can it be called with something? A class is, where it has an operator(), be it a template: another one
/// beside it makes the name ambiguous.
template <class F>
constexpr bool can_be_called() {
  if constexpr (!std::is_class_v<F>) {
    return std::is_function_v<std::remove_pointer_t<F>>;
  } else if constexpr (std::is_final_v<F>) {
    return requires { &F::operator(); };
  } else {
    return !requires { &CallTwice<F>::operator(); };
  }
}
template <class F>
concept Callable = can_be_called<std::decay_t<F>>();

}  // namespace frontend_detail

/// f as a function that is traced and then run as a graph. See Compiled. This overload takes callables only;
/// other objects, such as a Graph, have their own functions of this name.
template <frontend_detail::Callable F>
Compiled<std::decay_t<F>> compile(F&& f, Where where = Where::current()) {
  return {std::forward<F>(f), where};
}

}  // namespace tidu
