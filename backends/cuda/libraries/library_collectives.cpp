// library_collectives.cpp - NCCL, whose order of sums is fixed by the shape of the communicator. It is no
// part of every toolkit: where its header was not found, tidu is built without, and says so when a
// communicator is made.
#include "cuda/libraries/library_collectives.hpp"

#if __has_include(<nccl.h>)
#include <nccl.h>
#define TIDU_WITH_NCCL 1
#else
#define TIDU_WITH_NCCL 0
#endif

#include <cstring>

#include "cuda/libraries/library_calls.hpp"

namespace tidu::cuda_detail {
namespace {

#if TIDU_WITH_NCCL

struct Functions {
  DynamicLibrary library{"NCCL", {"libnccl.so.2", "libnccl.so"}};
  decltype(::ncclAllReduce)* all_reduce = find<decltype(::ncclAllReduce)>("ncclAllReduce");
  decltype(::ncclAllGather)* all_gather = find<decltype(::ncclAllGather)>("ncclAllGather");
  decltype(::ncclReduceScatter)* reduce_scatter = find<decltype(::ncclReduceScatter)>("ncclReduceScatter");
  decltype(::ncclSend)* send = find<decltype(::ncclSend)>("ncclSend");
  decltype(::ncclRecv)* receive = find<decltype(::ncclRecv)>("ncclRecv");
  decltype(::ncclGroupStart)* group_start = find<decltype(::ncclGroupStart)>("ncclGroupStart");
  decltype(::ncclGroupEnd)* group_end = find<decltype(::ncclGroupEnd)>("ncclGroupEnd");
  decltype(::ncclGetUniqueId)* get_id = find<decltype(::ncclGetUniqueId)>("ncclGetUniqueId");
  decltype(::ncclCommInitRank)* join = find<decltype(::ncclCommInitRank)>("ncclCommInitRank");
  decltype(::ncclCommDestroy)* leave = find<decltype(::ncclCommDestroy)>("ncclCommDestroy");
  decltype(::ncclGetErrorString)* words = find<decltype(::ncclGetErrorString)>("ncclGetErrorString");
  template <class F>
  F* find(const char* name) const {
    return library.function<F>(name);
  }
  void check(const char* routine, ncclResult_t status) const {
    if (status != ncclSuccess) check_call("NCCL", routine, static_cast<int>(status), words(status));
  }
};
const Functions& functions() {
  static const Functions all;
  return all;
}

// A dtype that NCCL adds, and how many of its elements make one of ours: a complex number is two.
struct Element {
  ncclDataType_t type;
  std::size_t parts = 1;
};
Element element_of(DType dtype) {
  switch (dtype) {
    case DType::boolean: return {ncclUint8};
    case DType::i32: return {ncclInt32};
    case DType::i64: return {ncclInt64};
    case DType::f16: return {ncclFloat16};
    case DType::bf16: return {ncclBfloat16};
    case DType::f32: return {ncclFloat32};
    case DType::f64: return {ncclFloat64};
    case DType::c64: return {ncclFloat32, 2};
    default: return {ncclFloat64, 2};
  }
}

#endif

void run_alone(const CollectiveStep& step, const Bindings& at, Stream stream) {
  const std::size_t bytes = static_cast<std::size_t>(step.count) * size_of(step.dtype);
  if (bytes == 0) return;
  if (step.kind == CollectiveStep::Kind::permute && step.pairs.empty()) {
    check_runtime("cudaMemsetAsync", cudaMemsetAsync(at.at(step.out), 0, bytes, stream_of(stream)));
  } else {
    check_runtime("cudaMemcpyAsync", cudaMemcpyAsync(at.at(step.out), at.at(step.in), bytes,
                                                     cudaMemcpyDeviceToDevice, stream_of(stream)));
  }
}

}  // namespace

#if TIDU_WITH_NCCL

CommunicatorKey make_communicator_key() {
  static_assert(sizeof(ncclUniqueId) == sizeof(CommunicatorKey));
  const Functions& f = functions();
  ncclUniqueId id;
  f.check("ncclGetUniqueId", f.get_id(&id));
  CommunicatorKey key;
  std::memcpy(key.data(), &id, sizeof id);
  return key;
}

void* join_communicator(const CommunicatorKey& key, int rank, int ranks) {
  const Functions& f = functions();
  ncclUniqueId id;
  std::memcpy(&id, key.data(), sizeof id);
  ncclComm_t made = nullptr;
  f.check("ncclCommInitRank", f.join(&made, ranks, id, rank));
  return made;
}

void leave_communicator(void* communicator) noexcept {
  (void)functions().leave(static_cast<ncclComm_t>(communicator));  // which were found when it was joined
}

void run_collective(const CollectiveStep& step, const Bindings& at, Stream stream) {
  if (step.communicator == nullptr) return run_alone(step, at, stream);
  const Functions& f = functions();
  auto* const comm = static_cast<ncclComm_t>(step.communicator);
  const auto [type, parts] = element_of(step.dtype);
  const std::size_t count = static_cast<std::size_t>(step.count) * parts;
  const std::byte* const in = at.at(step.in);
  std::byte* const out = at.at(step.out);
  switch (step.kind) {
    case CollectiveStep::Kind::sum:
      return f.check("ncclAllReduce", f.all_reduce(in, out, count, type, ncclSum, comm, stream_of(stream)));
    case CollectiveStep::Kind::gather:
      return f.check("ncclAllGather", f.all_gather(in, out, count, type, comm, stream_of(stream)));
    case CollectiveStep::Kind::scatter_sum:
      return f.check("ncclReduceScatter",
                     f.reduce_scatter(in, out, count, type, ncclSum, comm, stream_of(stream)));
    case CollectiveStep::Kind::permute: break;
  }
  bool receives = false;
  f.check("ncclGroupStart", f.group_start());
  try {
    for (const auto& [source, destination] : step.pairs) {
      if (source == step.rank)
        f.check("ncclSend", f.send(in, count, type, destination, comm, stream_of(stream)));
      if (destination != step.rank) continue;
      receives = true;
      f.check("ncclRecv", f.receive(out, count, type, source, comm, stream_of(stream)));
    }
  } catch (...) {
    (void)f.group_end();  // the thread's later calls, on other communicators, are not of this group
    throw;
  }
  f.check("ncclGroupEnd", f.group_end());
  if (!receives && count != 0) {
    check_runtime("cudaMemsetAsync",
                  cudaMemsetAsync(out, 0, static_cast<std::size_t>(step.count) * size_of(step.dtype),
                                  stream_of(stream)));
  }
}

#else

CommunicatorKey make_communicator_key() {
  throw Error(ErrorKind::execution,
              "[cuda] expected tidu built where nccl.h was found, got a build without NCCL");
}

void* join_communicator(const CommunicatorKey&, int, int) {
  make_communicator_key();
  return nullptr;
}

void leave_communicator(void*) noexcept {}

void run_collective(const CollectiveStep& step, const Bindings& at, Stream stream) {
  run_alone(step, at, stream);
}

#endif

}  // namespace tidu::cuda_detail
