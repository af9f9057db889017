// dlpack.hpp - exchange of tensors with NumPy, PyTorch, JAX, … without copying, by DLPack 1. Opt-in, since it
// names DLPack's structs. Their header, <dlpack/dlpack.h> of any version, is needed only to access the
// members.
//
// The owner of a DLPack struct calls its deleter once, from any thread, when it no longer needs the memory.
// Until then the memory is shared, and each side knows its own writes only: a tensor's version() does not
// count those of the other side, so a tape cannot detect them.
#pragma once

#include <memory>

#include "tidu/tensor/tensor.hpp"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace tidu {

namespace detail {
struct DLPackDeleter {
  void operator()(DLManagedTensorVersioned* exported) const noexcept;
  void operator()(DLManagedTensor* exported) const noexcept;
};
}  // namespace detail

/// An exported tensor, to be passed on by release(); in Python, in a capsule named "dltensor_versioned".
using DLPack = std::unique_ptr<DLManagedTensorVersioned, detail::DLPackDeleter>;
/// The struct of DLPack before 1.0, which NumPy before 2.1 asks for; in Python, in a capsule named
/// "dltensor".
using LegacyDLPack = std::unique_ptr<DLManagedTensor, detail::DLPackDeleter>;

/// The tensor's own memory, flagged as read-only. It has a reference to the storage, which is therefore not
/// exclusive() while the export exists. Strides are always given, and the device is the CPU.
DLPack to_dlpack(const Tensor& tensor);
/// The same, to be written to as well. Counts the version up once, for whatever may be written: export before
/// a tape keeps the tensor, or after backward. Throws Error (invalid_argument) when the memory is read-only.
DLPack to_mutable_dlpack(Tensor& tensor);
/// The same for those who do not know DLPack 1. The older struct cannot say that memory is read-only, so it
/// is always to be written to.
LegacyDLPack to_legacy_dlpack(Tensor& tensor);

/// The treatment by from_dlpack of elements that are not in row-major order without gaps, or not aligned for
/// their dtype, and of bools that are bytes other than 0 and 1: tensors have none of these.
enum class DLPackLayout : std::uint8_t {
  refuse,  ///< throws Error (invalid_argument)
  copy     ///< copies them to memory of the tensor's own (true for every byte but 0); nothing is shared then
};

/// A tensor over foreign memory, which is released with the last tensor over it. The memory is read-only if
/// its flag says so (Array::assign and similar functions throw). Otherwise it may be written to in place; it
/// is never exclusive(), so that no executor takes it for scratch memory. Bools are read once, to check that
/// each is a byte of 0 or 1.
///
/// `managed` is consumed in any case: its deleter is called exactly once, also when the tensor is rejected,
/// so do not use it again (name a capsule "used_dltensor" or "used_dltensor_versioned" before the call). A
/// deleter may be null.
///
/// Throws Error: type for a dtype that tidu does not support (it supports int 32 and 64, float 16, 32 and 64,
/// bfloat 16, complex 64 and 128, bool 8, with one DLPack lane); invalid_argument for null, another major
/// version than 1, another device than the CPU (kDLCPU), a negative extent or number of dimensions, missing
/// shape or data, and, unless `layout` says to copy, for layout, alignment and bytes of bools.
Tensor from_dlpack(DLManagedTensorVersioned* managed, DLPackLayout layout = DLPackLayout::refuse);
Tensor from_dlpack(DLManagedTensor* managed, DLPackLayout layout = DLPackLayout::refuse);

}  // namespace tidu
