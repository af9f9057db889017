// dlpack.hpp - tensors handed to NumPy, PyTorch, JAX, … and taken from them without copying, by DLPack 1.
// Opt-in, since it names DLPack's structs; their own header, <dlpack/dlpack.h> of any version, need not be
// there unless you look inside.
//
// Whoever holds a DLPack struct calls its deleter once, when it is done with the memory, from any thread;
// until then the memory stays. The memory is then seen from two sides, of which each knows what it writes
// itself: a tensor's version() does not count what the other side writes, so that a tape cannot notice it.
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

/// What is exported, to be handed over by release(); in Python, in a capsule named "dltensor_versioned".
using DLPack = std::unique_ptr<DLManagedTensorVersioned, detail::DLPackDeleter>;
/// The struct of DLPack before 1.0, which NumPy before 2.1 asks for; in Python, in a capsule named
/// "dltensor".
using LegacyDLPack = std::unique_ptr<DLManagedTensor, detail::DLPackDeleter>;

/// The tensor's own memory, flagged as read-only. It has a reference to the storage, which is therefore not
/// exclusive() while somebody holds the export. Strides are always given, and the device is the CPU.
DLPack to_dlpack(const Tensor& tensor);
/// The same, to be written to as well. Counts the version up once, for whatever may be written: export before
/// a tape keeps the tensor, or after backward. Throws Error (invalid_argument) when the memory is read-only.
DLPack to_mutable_dlpack(Tensor& tensor);
/// The same for those who do not know DLPack 1. The older struct cannot say that memory is read-only, so it
/// is always to be written to.
LegacyDLPack to_legacy_dlpack(Tensor& tensor);

/// What from_dlpack does with elements that are not in row-major order without gaps, or not aligned for their
/// dtype, and with bools that are other bytes than 0 and 1: tensors have none of these.
enum class DLPackLayout : std::uint8_t {
  refuse,  ///< throws Error (invalid_argument)
  copy     ///< copies them to memory of the tensor's own (true for every byte but 0); nothing is shared then
};

/// A tensor over the memory of someone else, which is let go of with the last tensor over it; read-only when
/// its flag says so (Array::assign and its like refuse it), else written to in place (never exclusive(), so
/// that no executor takes it for scratch memory). Bools are read once, to see that each is a byte of 0 or 1.
///
/// `managed` is consumed whatever happens: its deleter is called exactly once, when it is refused too, so do
/// not touch it again (name a capsule "used_dltensor" or "used_dltensor_versioned" before the call). A
/// deleter may be null.
///
/// Throws Error: type for a dtype that tidu has not (of int 32 and 64, float 16, 32 and 64, bfloat 16,
/// complex 64 and 128, bool 8, with one lane); invalid_argument for null, another major version than 1,
/// another device than the CPU (kDLCPU), a negative extent or number of dimensions, missing shape or data,
/// and, unless `layout` says to copy, for layout, alignment and bytes of bools.
Tensor from_dlpack(DLManagedTensorVersioned* managed, DLPackLayout layout = DLPackLayout::refuse);
Tensor from_dlpack(DLManagedTensor* managed, DLPackLayout layout = DLPackLayout::refuse);

}  // namespace tidu
