// type.cpp - the table of interned types. Records are never freed; the table is guarded by one mutex, and
// each thread keeps the types it met last, so that the common case takes no lock.
#include "tidu/graph/type.hpp"

#include <array>
#include <memory>
#include <mutex>
#include <ostream>
#include <unordered_map>

#include "graph/fork_locks.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {

std::int64_t num_elements(const Shape& shape) {
  constexpr std::int64_t limit = std::int64_t{1} << 62;
  std::int64_t size = 1;
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      throw Error(ErrorKind::type, detail::str("expected extents >= 0, got shape ", detail::list(shape)));
    }
    if (extent == 0) {
      empty = true;
    } else if (size > limit / extent) {
      throw Error(ErrorKind::type,
                  detail::str("expected at most 2^62 elements, got shape ", detail::list(shape)));
    } else {
      size *= extent;
    }
  }
  return empty ? 0 : size;
}

namespace {

bool is_dtype(DType dtype) { return dtype <= DType::c128; }

[[noreturn]] void refuse_dtype(DType dtype) {
  throw Error(ErrorKind::type, detail::str("expected a dtype, got ", dtype));
}

}  // namespace

const Type::Record* Type::intern(DType dtype, const Shape& shape) {
  if (!is_dtype(dtype)) [[unlikely]]
    refuse_dtype(dtype);
  if (shape.empty()) return scalar(dtype);
  Key128 key = detail::mix(Key128{2, 3}, to_string(dtype));
  for (const std::int64_t extent : shape) key = detail::mix(key, static_cast<std::uint64_t>(extent));

  thread_local std::array<const Record*, 64> recent{};
  const Record*& slot = recent[key.low & 63U];
  if (slot != nullptr && slot->key == key && slot->dtype == dtype && slot->shape == shape) return slot;

  struct Table {
    std::mutex mutex;
    std::unordered_multimap<std::uint64_t, std::unique_ptr<Record>> records;
  };
  static Table& table = *[] {
    auto* made = new Table;  // outlives every static that holds a Type
    detail::ForkLocks::add(detail::ForkRank::types, made->mutex);
    return made;
  }();
  const std::int64_t size = num_elements(shape);
  if (size > (std::int64_t{1} << 62) / static_cast<std::int64_t>(size_of(dtype))) {
    throw Error(ErrorKind::type, detail::str("expected at most 2^62 bytes, got shape ", detail::list(shape)));
  }
  const std::lock_guard lock(table.mutex);
  const auto [first, last] = table.records.equal_range(key.low);
  for (auto it = first; it != last; ++it) {
    if (it->second->dtype == dtype && it->second->shape == shape) return slot = it->second.get();
  }
  auto record = std::make_unique<Record>(Record{dtype, shape, size, key});
  return slot = table.records.emplace(key.low, std::move(record))->second.get();
}

const Type::Record* Type::scalar(DType dtype) {
  if (!is_dtype(dtype)) [[unlikely]]
    refuse_dtype(dtype);
  static const std::array<Record, 9>& records = *[] {
    auto* made = new std::array<Record, 9>;
    for (std::size_t i = 0; i < made->size(); ++i) {
      const auto d = static_cast<DType>(i);
      (*made)[i] = Record{d, {}, 1, detail::mix(Key128{2, 3}, to_string(d))};
    }
    return made;
  }();
  return &records[static_cast<std::size_t>(dtype)];
}

std::string to_string(Type type) { return detail::str(to_string(type.dtype()), detail::list(type.shape())); }
std::ostream& operator<<(std::ostream& out, Type type) { return out << to_string(type); }
std::ostream& operator<<(std::ostream& out, DType dtype) {
  if (is_dtype(dtype)) return out << to_string(dtype);
  return out << "DType(" << static_cast<int>(dtype) << ')';
}

}  // namespace tidu
