/* base.h - status codes, error text, types and strings, and the rules of the whole C interface.

   Errors. A function that can fail returns a tidu_status: TIDU_OK or the kind of its error. After an error,
   tidu_last_error() returns the text, "expected …, got …". The results of the function (the last arguments,
   pointers) are NULL, 0 or TIDU_ABSENT then, nothing was changed unless the function documents it, and the
   next call works. NULL for an argument that is not optional is TIDU_INVALID_ARGUMENT. No exception leaves a
   function, and none aborts the process.

   Ownership. A handle that a function returns through a pointer (tidu_graph **) is one reference, owned by
   the caller: tidu_X_release releases it, tidu_X_retain makes another. Release of NULL does nothing.
   Arguments are borrowed: they have to live until the function returns, and no longer. Text is UTF-8, and
   ends in NUL if no size is given.

   Threads. Counted handles (graphs, tensors, executors, executables, primitive sets, variables) never change,
   and any thread may use them at the same time. A builder, a recorder and gradients belong to one thread at a
   time. Unless documented otherwise, callbacks may be called from any thread, several at once.

   Structs of options and functions begin with struct_size, which is sizeof of the struct; bytes that are zero
   stand for defaults, and NULL for all defaults. */
#ifndef TIDU_C_BASE_H
#define TIDU_C_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The status of a call: TIDU_OK or the kind of its error. */
typedef int32_t tidu_status;
enum {
  TIDU_OK = 0,                /**< done */
  TIDU_INVALID_ARGUMENT = 1,  /**< a misuse: NULL, a wrong count, an unknown name */
  TIDU_TYPE = 2,              /**< dtypes or shapes that do not fit */
  TIDU_ATTRIBUTE = 3,         /**< an attribute that is missing, unknown, or out of range */
  TIDU_UNKNOWN_PRIMITIVE = 4, /**< a primitive that is not in the set */
  TIDU_AD_RULE = 5,           /**< a rule that is missing, or that broke its contract */
  TIDU_DUMP = 6,              /**< JSON that cannot be read */
  TIDU_EXECUTION = 7,         /**< a kernel that is missing or that failed */
  TIDU_OUT_OF_MEMORY = 8,     /**< an allocation failed */
  TIDU_TAPE = 9,              /**< a value that a tape kept for backward was freed or changed */
  TIDU_NON_FINITE = 10,       /**< anomaly mode met a value that is not finite */
  TIDU_CANCELLED = 11,        /**< a callback asked to stop */
  TIDU_INTERNAL = 12          /**< a defect of tidu or of a callback */
};

/** The name of a status in words: "invalid argument". Static; "unknown status" for any other number. */
const char* tidu_status_text(tidu_status status);
/** The text of the last error of this thread, or of its last tidu_set_error; "" before the first one. Owned
   by the library and valid until the next error on this thread. */
const char* tidu_last_error(void);
/** For callbacks: sets the text of tidu_last_error(); `text` is copied. A callback that fails calls it and
    returns a status; the function that the user called then fails with that status and a message that
   contains this text. NULL stands for "". When there is no memory for a long text, its beginning is kept. */
void tidu_set_error(const char* text);
/** The version of the library, "0.1.0". Static. */
const char* tidu_version(void);

/** No value: an id, a position or a tangent that is not there. */
#define TIDU_ABSENT UINT32_MAX

/** Element types. A complex number is two numbers, real part first; a bool is a byte, 0 or 1. */
typedef int32_t tidu_dtype;
enum {
  TIDU_BOOL = 0,
  TIDU_I32 = 1,
  TIDU_I64 = 2,
  TIDU_F16 = 3,
  TIDU_BF16 = 4,
  TIDU_F32 = 5,
  TIDU_F64 = 6,
  TIDU_C64 = 7,
  TIDU_C128 = 8
};

/** Dtype and shape of a value; elements are in row-major order. */
typedef struct tidu_type {
  tidu_dtype dtype;
  uint32_t rank;       /**< number of dims, 0 for a scalar */
  const int64_t* dims; /**< extents, outermost first; not read when rank is 0. Those that the library gives
                            live as long as the process */
} tidu_type;

/** Bytes of the elements of a value of this type; 0 for one that is none, or has more than 2^62. Never fails.
 */
size_t tidu_type_bytes(const tidu_type* type);

/** Text that the caller owns. */
typedef struct tidu_string tidu_string;
/** The text, which ends in NUL; "" for NULL. Valid until the string is released. */
const char* tidu_string_data(const tidu_string* string);
/** Bytes of the text without the NUL; 0 for NULL. */
size_t tidu_string_size(const tidu_string* string);
/** Frees the text. */
void tidu_string_release(tidu_string* string);

/** Clears the caches of the process for graphs without a reference: compiled programs, derived graphs. */
tidu_status tidu_clear_caches(void);

#ifdef __cplusplus
}
#endif
#endif
