// plain_memory.hpp - TIDU_PLAIN_MEMORY is defined where a sanitizer watches over memory: nothing is recycled
// there, or a use after free would not be seen.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIDU_PLAIN_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TIDU_PLAIN_MEMORY 1
#endif
#endif
