// fake_collectives.hpp - collectives between fake devices of one process, each of which a thread drives.
#pragma once

#include "cuda/device.hpp"
#include "cuda/emulator.hpp"

namespace tidu::test {

cuda_detail::CommunicatorKey new_communicator();
/// Returns when all ranks have come.
void* join_group(const cuda_detail::CommunicatorKey& id, int ranks);
void leave_group(void* communicator) noexcept;
/// Waits for the other ranks. Of f32, f64, i32 and i64.
void run_collective(const cuda_detail::CollectiveStep& step, const Emulator::Locate& locate);

}  // namespace tidu::test
