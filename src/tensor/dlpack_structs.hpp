// dlpack_structs.hpp - the structs of DLPack 1.2, which are its binary interface, declared as its
// specification says: https://dmlc.github.io/dlpack/latest/c_api.html. Members have the specification's
// names.
#pragma once

#include <cstddef>
#include <cstdint>

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

struct DLDevice {
  std::int32_t device_type;  // 1: CPU
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

namespace tidu::dlpack_detail {

static_assert(sizeof(void*) == 8, "offsets below are those of 64-bit platforms");
static_assert(offsetof(DLTensor, shape) == 24 && sizeof(DLTensor) == 48);
static_assert(offsetof(DLManagedTensor, deleter) == 56 && sizeof(DLManagedTensor) == 64);
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32 && sizeof(DLManagedTensorVersioned) == 80);

inline constexpr DLPackVersion version{1, 2};
inline constexpr std::int32_t cpu = 1;
inline constexpr std::uint64_t read_only = 1;  // in flags
enum Code : std::uint8_t {
  code_int,
  code_uint,
  code_float,
  code_opaque,
  code_bfloat,
  code_complex,
  code_bool
};

}  // namespace tidu::dlpack_detail
