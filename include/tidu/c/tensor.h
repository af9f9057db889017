/* tensor.h - tensors in the host's memory: a type and its elements, row-major without gaps. Elements do not
   change once a tensor is made, except those of borrowed memory, which its owner may change between runs. */
#ifndef TIDU_C_TENSOR_H
#define TIDU_C_TENSOR_H

#include "tidu/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A tensor; counted. */
typedef struct tidu_tensor tidu_tensor;
/** One more reference to the tensor, which is returned. */
tidu_tensor* tidu_tensor_retain(const tidu_tensor* tensor);
/** Gives a reference back. */
void tidu_tensor_release(tidu_tensor* tensor);

/** A tensor with a copy of the elements at `data`, tidu_type_bytes(type) bytes. */
tidu_status tidu_tensor_copy(const tidu_type* type, const void* data, tidu_tensor** tensor);
/** A tensor over the elements at `data`, which is read and never written. `deleter`, which may be NULL, is
    called with `user` once, from any thread, when no tensor refers to the memory any more. When the function
    fails it is not called: the memory stays the caller's. */
tidu_status tidu_tensor_borrow(const tidu_type* type, const void* data, void (*deleter)(void* user),
                               void* user, tidu_tensor** tensor);
/** The type. */
tidu_status tidu_tensor_type(const tidu_tensor* tensor, tidu_type* type);
/** The elements, to be read; they belong to the tensor. */
tidu_status tidu_tensor_data(const tidu_tensor* tensor, const void** data);
/** Copies the elements to `data`, which has space for `size` bytes: the bytes of the tensor. */
tidu_status tidu_tensor_read(const tidu_tensor* tensor, void* data, size_t size);

/** A tensor over the memory of a DLManagedTensor (DLPack before 1.0, a capsule "dltensor" in Python), which
    is consumed: its deleter is called exactly once, also when the function fails. With `copy` 1 elements that
    are strided or not aligned are copied; with 0 they are refused. */
tidu_status tidu_tensor_from_dlpack(void* managed, int32_t copy, tidu_tensor** tensor);
/** The same of a DLManagedTensorVersioned (DLPack 1, a capsule "dltensor_versioned"). */
tidu_status tidu_tensor_from_dlpack_versioned(void* managed, int32_t copy, tidu_tensor** tensor);
/** A DLManagedTensor over the tensor's memory, which the receiver frees by its deleter, and may read. Fails
    with TIDU_INVALID_ARGUMENT where the memory is read-only, which this struct cannot say. */
tidu_status tidu_tensor_to_dlpack(const tidu_tensor* tensor, void** managed);
/** A DLManagedTensorVersioned over the tensor's memory, flagged as read-only. */
tidu_status tidu_tensor_to_dlpack_versioned(const tidu_tensor* tensor, void** managed);

#ifdef __cplusplus
}
#endif
#endif
