// plain_memory.hpp - TIDU_PLAIN_MEMORY is defined under a memory sanitizer: nothing is recycled then, since
// recycling would hide a use after free.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIDU_PLAIN_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TIDU_PLAIN_MEMORY 1
#endif
#endif
