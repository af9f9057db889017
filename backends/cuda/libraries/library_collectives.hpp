// library_collectives.hpp - collectives by NCCL over communicators that programs are bound to.
#pragma once

#include "cuda/device.hpp"

namespace tidu::cuda_detail {

/// All throw Error (execution): where NCCL is not installed, in one line, and for what it refuses.
CommunicatorKey make_communicator_key();
/// A communicator (ncclComm_t) on the calling thread's device, when all ranks have come.
void* join_communicator(const CommunicatorKey& id, int rank, int ranks);
/// Waits for work that uses it.
void leave_communicator(void* communicator) noexcept;
/// Steps over one communicator come from one thread at a time. One of one rank needs no library.
void run_collective(const CollectiveStep& step, const Bindings& at, Stream stream);

}  // namespace tidu::cuda_detail
