// support.hpp - helpers of all functions of the C interface: counted handles, guarded(), which turns
// exceptions into a status and the thread's error text, checks of arguments, and the calls of callbacks,
// whose failures become Errors again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tidu/c.h"
#include "tidu/eager/recorded_graph.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::c_detail {

/// The reference count of handles.
struct Counted {
  mutable std::atomic<std::uint32_t> references{1};
};
template <class Handle>
Handle* retain(const Handle* handle) noexcept {
  if (handle != nullptr) handle->references.fetch_add(1, std::memory_order_relaxed);
  return const_cast<Handle*>(handle);
}
template <class Handle>
void release(const Handle* handle) noexcept {
  if (handle != nullptr && handle->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete handle;
}
/// A reference to a handle.
template <class Handle>
class Held {
 public:
  explicit Held(const Handle* handle) noexcept : handle_(retain(handle)) {}
  Held(Held&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { release(handle_); }
  Handle* get() const { return handle_; }

 private:
  Handle* handle_;
};

/// Keeps the text of the thread's error; never fails, but cuts the text where there is no memory for it.
void set_error_text(std::string_view text) noexcept;
/// Counts the texts that were set on this thread.
std::uint64_t num_error_texts() noexcept;
/// In a handler: the status of the exception, whose text is kept.
tidu_status failed();

/// One call of a function of the interface, which checks arguments for it.
struct Call {
  const char* function;

  [[noreturn]] void refuse(ErrorKind kind, const std::string& message) const;
  /// The argument, which is not to be NULL.
  template <class T>
  T& need(T* argument, const char* name) const {
    if (argument == nullptr) refuse_null(name);
    return *argument;
  }
  /// The same of a list, which may be NULL when it is empty.
  template <class T>
  std::span<T> list(T* first, std::size_t count, const char* name) const {
    if (first == nullptr && count != 0) refuse_null(name);
    return {first, count};
  }
  /// A list of handles, none of which may be NULL.
  template <class T>
  std::span<T* const> handles(T* const* first, std::size_t count, const char* name) const {
    const std::span<T* const> all = list(first, count, name);
    for (std::size_t i = 0; i < count; ++i)
      if (all[i] == nullptr) refuse_null(name, i);
    return all;
  }
  void count(const char* name, std::size_t expected, std::size_t got) const;
  /// The type that is meant. Throws Error (type, invalid_argument).
  Type type(const tidu_type* given, const char* name) const;

  [[noreturn]] void refuse_null(const char* name) const;
  [[noreturn]] void refuse_null(const char* name, std::size_t index) const;
  void check_size(std::size_t given, std::size_t known, const void* bytes, const char* name) const;
};

/// A struct of options as this version knows it: zeros where NULL, or older, members are missing.
template <class Options>
Options options_of(const Call& call, const Options* given, const char* name) {
  Options options;
  std::memset(static_cast<void*>(&options), 0, sizeof options);
  if (given == nullptr) return options;
  call.check_size(given->struct_size, sizeof options, given, name);
  std::memcpy(static_cast<void*>(&options), given, std::min(given->struct_size, sizeof options));
  return options;
}

/// Runs the body of a function; its exceptions become a status.
template <class Body>
tidu_status guarded(const char* function, Body&& body) {
  try {
    body(Call{function});
    return TIDU_OK;
  } catch (...) {
    return failed();
  }
}

/// Sets results to NULL before anything else happens.
template <class T>
void clear(T** result) noexcept {
  if (result != nullptr) *result = nullptr;
}
template <class T>
void clear(T** results, std::size_t count) noexcept {
  if (results != nullptr)
    for (std::size_t i = 0; i < count; ++i) results[i] = nullptr;
}
inline void clear(std::uint32_t* results, std::size_t count) noexcept {
  if (results != nullptr)
    for (std::size_t i = 0; i < count; ++i) results[i] = TIDU_ABSENT;
}

/// A callback during its call: made before, checked afterwards.
class Callback {
 public:
  explicit Callback(const char* what) : what_(what), texts_(num_error_texts()) {}
  /// Throws Error of that kind with the callback's text, unless the status is TIDU_OK. `of` names the
  /// callback.
  void check(tidu_status status, std::string_view of) const {
    if (status != TIDU_OK) fail(status, of);
  }

 private:
  [[noreturn]] void fail(tidu_status status, std::string_view of) const;
  const char* what_;
  std::uint64_t texts_;
};

/// The type in the form of the interface.
inline tidu_type shown(Type type) {
  return {static_cast<tidu_dtype>(type.dtype()), static_cast<std::uint32_t>(type.rank()),
          type.shape().data()};
}
std::vector<tidu_type> shown(std::span<const Type> types);
/// A copy of the text that lives as long as the process; one for equal texts. NULL for NULL.
const char* kept_text(const char* text);

/// Positions, which are below `bound`.
std::vector<std::size_t> positions(const Call& call, const std::size_t* first, std::size_t count,
                                   std::size_t bound, const char* name);
/// The op of the primitive of that name with attributes of a dump.
Op make_op(const Call& call, const PrimitiveSet& set, const char* primitive, const char* attributes);
inline const tidu_op* handle_of(const Op& op) { return reinterpret_cast<const tidu_op*>(op.record()); }
inline const OpRecord& record_of(const tidu_op& op) { return reinterpret_cast<const OpRecord&>(op); }
const PrimitiveSet& set_of(const tidu_primitive_set* set);

/// A derivative of a graph that tidu_jvp_run and tidu_vjp_run made.
struct StatelessKey {
  char kind;
  std::vector<std::size_t> positions;
  friend auto operator<=>(const StatelessKey&, const StatelessKey&) = default;
};

}  // namespace tidu::c_detail

struct tidu_string {
  std::string text;
};
struct tidu_graph : tidu::c_detail::Counted {
  explicit tidu_graph(tidu::Graph made) : graph(std::move(made)) {}
  /// The graph as invocations of it are recorded; made the first time.
  tidu::eager::RecordedGraph recorded() const;
  tidu::Graph graph;
  mutable std::mutex mutex;  // guards the members below
  mutable std::optional<tidu::eager::RecordedGraph> recorded_graph;
  mutable std::map<tidu::c_detail::StatelessKey, std::shared_ptr<const tidu::Derivative>> stateless;
};
struct tidu_tensor : tidu::c_detail::Counted {
  explicit tidu_tensor(tidu::Tensor made) : tensor(std::move(made)) {}
  tidu::Tensor tensor;
};
struct tidu_primitive_set : tidu::c_detail::Counted {
  tidu_primitive_set(tidu::PrimitiveSet all, std::vector<const tidu_primitive*> more)
      : set(std::move(all)), own(std::move(more)) {}
  tidu::PrimitiveSet set;
  std::vector<const tidu_primitive*> own;  // those beside the standard ones
};
/// Ids are those of the builder; in a rule, positions in `values`.
struct tidu_emitter {
  tidu::Value value(const tidu::c_detail::Call& call, std::uint32_t id, const char* name) const;
  std::vector<tidu::Value> list(const tidu::c_detail::Call& call, const std::uint32_t* first,
                                std::size_t count, const char* name) const;
  std::uint32_t add(tidu::Value value);

  tidu::Emitter* emitter;
  tidu::GraphBuilder* builder;  // null in a rule
  std::vector<tidu::Value> values{};
  tidu::Where where{};
};

namespace tidu::c_detail {

/// Gives new handles to the caller, all or none.
template <class Handle>
class NewHandles {
 public:
  explicit NewHandles(std::size_t count) { handles_.reserve(count); }
  template <class... Args>
  void add(Args&&... args) {
    handles_.push_back(std::make_unique<Handle>(std::forward<Args>(args)...));
  }
  void skip() { handles_.push_back(nullptr); }
  Handle& operator[](std::size_t i) { return *handles_[i]; }
  void give(Handle** to) {
    for (std::size_t i = 0; i < handles_.size(); ++i) to[i] = handles_[i].release();
  }

 private:
  std::vector<std::unique_ptr<Handle>> handles_;
};

}  // namespace tidu::c_detail
