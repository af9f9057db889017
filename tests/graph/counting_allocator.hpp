// counting_allocator.hpp - how many bytes this test program has asked operator new for, and requests of it
// that are refused.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidu::test {

/// The sum of all requests so far, freed or not.
std::size_t allocated_bytes();

/// Has std::bad_alloc thrown, once, when operator new is called `after` more times and once again, by any
/// thread. Negative: has nothing refused any more.
void refuse_allocation(std::int64_t after);

/// Whether the refusal asked for is still to come.
bool refusal_is_due();

}  // namespace tidu::test
