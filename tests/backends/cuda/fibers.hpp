// fibers.hpp - the threads of one block, run in turns on one thread of the host.
#pragma once

#include <cstdint>
#include <functional>

namespace tidu::test {

/// Calls body for threads 0 to count - 1, each on a stack of its own, in turns from one wait to the next;
/// `current` says whose turn it is. False when some had ended while others waited.
bool run_fibers(std::uint32_t count, std::uint32_t& current, const std::function<void()>& body);
/// Called by body: waits until all threads of the block wait.
void fiber_wait();

}  // namespace tidu::test
