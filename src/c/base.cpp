// base.cpp - statuses, the error text of each thread, strings, types, and the checks of support.hpp.
#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <set>

#include "c/support.hpp"
#include "tidu/eager/recorded_graph.hpp"
#include "tidu/optimizer/cache.hpp"
#include "tidu/version.hpp"

namespace tidu::c_detail {
namespace {

using detail::str;

// The thread's last error: allocated by malloc, whose failure is no exception, or cut to the static buffer.
struct ErrorText {
  ErrorText() = default;
  ErrorText(const ErrorText&) = delete;
  ErrorText& operator=(const ErrorText&) = delete;
  ~ErrorText() { std::free(large); }
  std::array<char, 256> small{};
  char* large = nullptr;
  std::uint64_t number = 0;
};
thread_local ErrorText error_text;

constexpr std::string_view status_texts[] = {
    "ok",        "invalid argument", "type", "attribute",  "unknown primitive", "ad rule", "dump",
    "execution", "out of memory",    "tape", "non finite", "cancelled",         "internal"};

tidu_status status_of(ErrorKind kind) { return static_cast<tidu_status>(kind) + 1; }
static_assert(static_cast<int>(ErrorKind::invalid_argument) + 1 == TIDU_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorKind::out_of_memory) + 1 == TIDU_OUT_OF_MEMORY);
static_assert(static_cast<int>(ErrorKind::internal) + 1 == TIDU_INTERNAL);
static_assert(static_cast<int>(DType::c128) == TIDU_C128 && static_cast<int>(DType::f16) == TIDU_F16);

tidu_status fail_with(tidu_status status, std::string_view text) noexcept {
  set_error_text(text);
  return status;
}

}  // namespace

void set_error_text(std::string_view text) noexcept {
  ErrorText& kept = error_text;
  ++kept.number;
  char* large = nullptr;
  if (text.size() >= kept.small.size()) large = static_cast<char*>(std::malloc(text.size() + 1));
  char* const to = large != nullptr ? large : kept.small.data();
  const std::size_t size = large != nullptr ? text.size() : std::min(text.size(), kept.small.size() - 1);
  std::memmove(to, text.data(), size);  // which may be the text that is kept
  to[size] = '\0';
  std::free(std::exchange(kept.large, large));
}

std::uint64_t num_error_texts() noexcept { return error_text.number; }

tidu_status failed() {
  try {
    throw;
  } catch (const Error& error) {
    return fail_with(status_of(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return fail_with(TIDU_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return fail_with(TIDU_INTERNAL, error.what());
  }
#ifdef __GLIBCXX__
  catch (const abi::__forced_unwind&) {  // a thread that is cancelled
    throw;
  }
#endif
  catch (...) {
    return fail_with(TIDU_INTERNAL, "something was thrown that is no std::exception");
  }
}

void Call::refuse(ErrorKind kind, const std::string& message) const {
  throw Error(kind, str('[', function, "] ", message));
}
void Call::refuse_null(const char* name) const {
  refuse(ErrorKind::invalid_argument, str("expected ", name, " not to be NULL"));
}
void Call::refuse_null(const char* name, std::size_t index) const {
  refuse(ErrorKind::invalid_argument, str("expected ", name, '[', index, "] not to be NULL"));
}
void Call::count(const char* name, std::size_t expected, std::size_t got) const {
  if (expected == got) return;
  refuse(ErrorKind::invalid_argument, str("expected ", name, " to be ", expected, ", got ", got));
}

// A newer program may have more members than this library knows: they must be defaults.
void Call::check_size(std::size_t given, std::size_t known, const void* bytes, const char* name) const {
  if (given < sizeof(std::size_t) || given > (std::size_t{1} << 16))
    refuse(ErrorKind::invalid_argument, str("expected ", name, "->struct_size to be sizeof, got ", given));
  const auto* at = static_cast<const unsigned char*>(bytes);
  if (given > known && std::any_of(at + known, at + given, [](unsigned char byte) { return byte != 0; }))
    refuse(ErrorKind::invalid_argument, str("expected ", name, " to set members that this version has"));
}

Type Call::type(const tidu_type* given, const char* name) const {
  const tidu_type& type = need(given, name);
  if (type.dtype < TIDU_BOOL || type.dtype > TIDU_C128)
    refuse(ErrorKind::type, str("expected ", name, " to have a dtype of 0 to 8, got ", type.dtype));
  if (type.rank > 64)
    refuse(ErrorKind::type, str("expected ", name, " to have a rank of at most 64, got ", type.rank));
  if (type.rank == 0) return Type(static_cast<DType>(type.dtype));
  if (type.dims == nullptr)
    refuse(ErrorKind::invalid_argument, str("expected ", name, "->dims not to be NULL"));
  return Type(static_cast<DType>(type.dtype), Shape(type.dims, type.dims + type.rank));
}

void Callback::fail(tidu_status status, std::string_view of) const {
  const bool known = status > TIDU_OK && status <= TIDU_INTERNAL;
  const ErrorKind kind = known ? static_cast<ErrorKind>(status - 1) : ErrorKind::internal;
  if (num_error_texts() != texts_)
    throw Error(kind, str('[', detail::printable(of), "] ", what_, ": ", tidu_last_error()));
  throw Error(kind, str('[', detail::printable(of), "] ", what_, " returned status ", status, " (",
                        tidu_status_text(status), ") and set no error text"));
}

std::vector<tidu_type> shown(std::span<const Type> types) {
  std::vector<tidu_type> all;
  all.reserve(types.size());
  for (const Type type : types) all.push_back(shown(type));
  return all;
}

const char* kept_text(const char* text) {
  if (text == nullptr) return nullptr;
  static std::mutex mutex;
  static std::set<std::string>& texts = *new std::set<std::string>();
  const std::lock_guard lock(mutex);
  return texts.emplace(text).first->c_str();
}

std::vector<std::size_t> positions(const Call& call, const std::size_t* first, std::size_t count,
                                   std::size_t bound, const char* name) {
  const std::span<const std::size_t> given = call.list(first, count, name);
  for (const std::size_t position : given) {
    if (position >= bound) {
      call.refuse(ErrorKind::invalid_argument,
                  str("expected ", name, " to be below ", bound, ", got ", position));
    }
  }
  return {given.begin(), given.end()};
}

}  // namespace tidu::c_detail

using namespace tidu;
using namespace tidu::c_detail;

const char* tidu_status_text(tidu_status status) {
  if (status < TIDU_OK || status > TIDU_INTERNAL) return "unknown status";
  return status_texts[status].data();
}

const char* tidu_last_error(void) {
  return error_text.large != nullptr ? error_text.large : error_text.small.data();
}

void tidu_set_error(const char* text) { set_error_text(text != nullptr ? text : ""); }

const char* tidu_version(void) { return TIDU_VERSION_STRING; }

// Without allocation: kernels call it, and have no way to hear that there was no memory.
size_t tidu_type_bytes(const tidu_type* type) {
  if (type == nullptr || type->dtype < TIDU_BOOL || type->dtype > TIDU_C128) return 0;
  if (type->rank != 0 && type->dims == nullptr) return 0;
  constexpr std::size_t most = std::size_t{1} << 62;
  std::size_t bytes = size_of(static_cast<DType>(type->dtype));
  for (std::uint32_t i = 0; i < type->rank; ++i) {
    if (type->dims[i] < 0) return 0;
    const auto extent = static_cast<std::size_t>(type->dims[i]);
    if (extent != 0 && bytes > most / extent) return 0;
    bytes *= extent;
  }
  return bytes;
}

const char* tidu_string_data(const tidu_string* string) {
  return string != nullptr ? string->text.c_str() : "";
}
size_t tidu_string_size(const tidu_string* string) { return string != nullptr ? string->text.size() : 0; }
void tidu_string_release(tidu_string* string) { delete string; }

tidu_status tidu_clear_caches(void) {
  return guarded(__func__, [](const Call&) {
    compile_cache().clear();  // and the graphs that tapes do not use
  });
}
