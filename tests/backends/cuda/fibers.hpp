// fibers.hpp - the threads of one block, each a fiber: a stack of its own on one thread of the host, which
// runs one of them at a time, until that waits or ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace tidu::test {

/// Makes fibers 0 to count - 1 ready to call body, which outlives them. Earlier ones are given up.
void begin_fibers(std::uint32_t count, const std::function<void()>& body);
/// Runs a fiber until it waits or body returns. False: it has ended.
bool resume_fiber(std::uint32_t index);
/// Called by body: returns to whoever resumed this fiber.
void fiber_wait();
/// The memory of a fiber's local variables.
std::span<const std::byte> fiber_stack(std::uint32_t index);

/// Calls body for threads 0 to count - 1, in turns from one wait to the next; `current` says whose turn it
/// is. False when some had ended while others waited.
bool run_fibers(std::uint32_t count, std::uint32_t& current, const std::function<void()>& body);

}  // namespace tidu::test
