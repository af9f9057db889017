// library_collectives.hpp - collectives by NCCL over communicators that programs are bound to.
#pragma once

#include <chrono>

#include "cuda/device.hpp"

namespace tidu::cuda_detail {

/// All throw Error (execution): where NCCL is not installed, in one line, and for what it refuses.
CommunicatorKey make_communicator_key();
/// A communicator on the calling thread's device, when all ranks have come. Like whatever waits for the other
/// ranks, it throws when they have not within $TIDU_NCCL_TIMEOUT seconds (half an hour), or when one of them
/// has failed; the communicator is given up then, and the error names this rank.
void* join_communicator(const CommunicatorKey& id, int rank, int ranks);
/// Throws, and gives the communicator up, where another rank has failed, or the host has waited so long.
void check_communicator(void* communicator, std::chrono::duration<double> waited);
/// Waits for work that uses it.
void leave_communicator(void* communicator) noexcept;
/// Steps over one communicator come from one thread at a time. One of one rank needs no library.
void run_collective(const CollectiveStep& step, const Bindings& at, Stream stream);

}  // namespace tidu::cuda_detail
