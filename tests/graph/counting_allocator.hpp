// counting_allocator.hpp - how many bytes this test program has asked operator new for.
#pragma once

#include <cstddef>

namespace tidu::test {

/// The sum of all requests so far, freed or not.
std::size_t allocated_bytes();

}  // namespace tidu::test
