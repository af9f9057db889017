// large_requests.hpp - memory that this test program is refused.
#pragma once

#include <cstddef>

namespace tidu::test {

/// From now on operator new throws std::bad_alloc for as many bytes and more; 0: for none.
void refuse_requests_from(std::size_t bytes);

}  // namespace tidu::test
