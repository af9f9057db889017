// nccl.cpp - an NCCL between the threads of one process: ranks meet in the work itself, show each other what
// they have, and go on when all have seen it. Whoever waits for longer than that takes says so.
#include <nccl.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "cuda/platform/libraries/library.hpp"

using namespace tidu::test::platform;

namespace {

// As long as who uses it waits, or a minute.
std::chrono::duration<double> patience() {
  const char* const text = std::getenv("TIDU_NCCL_TIMEOUT");
  return std::chrono::duration<double>(text != nullptr ? std::strtod(text, nullptr) : 60);
}

struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  int ranks = 0, joined = 0, arrived = 0;
  bool broken = false;
  std::uint64_t meetings = 0;
  std::map<int, std::vector<std::byte>> shown;                              // by rank
  std::map<std::pair<int, int>, std::vector<std::vector<std::byte>>> sent;  // by source and destination

  // Returns when all ranks are here; false when one does not come.
  bool meet() {
    std::unique_lock lock(mutex);
    const std::uint64_t before = meetings;
    if (++arrived == ranks) {
      arrived = 0;
      ++meetings;
      changed.notify_all();
      return !broken;
    }
    changed.wait_for(lock, patience(), [&] { return meetings != before || broken; });
    return meetings != before && !broken;
  }
  void give_up() {
    const std::lock_guard lock(mutex);
    broken = true;
    changed.notify_all();
  }
};

std::mutex groups_mutex;
std::map<std::uint64_t, std::shared_ptr<Group>>& groups() {
  static auto* const all = new std::map<std::uint64_t, std::shared_ptr<Group>>;
  return *all;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Group> group;
  int rank = 0;
  bool is_ready = false;
};

namespace {

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}
template <class T>
void add(std::byte* to, const std::byte* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] += reinterpret_cast<const T*>(from)[i];
}
void add(ncclDataType_t type, std::byte* to, const std::byte* from, std::size_t count) {
  switch (type) {
    case ncclFloat32: return add<float>(to, from, count);
    case ncclFloat64: return add<double>(to, from, count);
    case ncclInt32: return add<std::int32_t>(to, from, count);
    case ncclInt64: return add<std::int64_t>(to, from, count);
    default: refuse_call(0, "NCCL: a sum of a type that the tests have not");
  }
}

// All ranks have shown `in` when `use` is called with what they have; it is theirs until it returns.
void exchange(const ncclComm& comm, const void* in, std::size_t bytes,
              const std::function<void(const std::map<int, std::vector<std::byte>>&)>& use) {
  Group& group = *comm.group;
  {
    const auto* const from = static_cast<const std::byte*>(in);
    const std::lock_guard lock(group.mutex);
    group.shown[comm.rank].assign(from, from + bytes);
  }
  if (!group.meet()) return;
  use(group.shown);
  (void)group.meet();
}

ncclResult_t put(const ncclComm& comm, const char* name, cudaStream_t stream, Touch in, Touch out,
                 std::function<void(const std::map<int, std::vector<std::byte>>&)> use) {
  if (is_told_to_fail(name)) {
    comm.group->give_up();
    return ncclSystemError;
  }
  if (!is_device_memory(in.at, in.bytes) || !is_device_memory(out.at, out.bytes))
    return static_cast<ncclResult_t>(refuse_call(ncclInvalidArgument, "NCCL: memory that is no device's"));
  const int status = put_work(
      stream, {name, {in, out}, [comm, in, use = std::move(use)] { exchange(comm, in.at, in.bytes, use); }});
  return status == 0 ? ncclSuccess : ncclUnhandledCudaError;
}

// Sends and receives of a group, which are put together when it ends.
struct Transfer {
  const ncclComm* comm;
  bool sends;
  void* at;
  std::size_t bytes;
  int peer;
  cudaStream_t stream;
};
thread_local int group_depth = 0;
thread_local std::vector<Transfer> transfers;

void send(const Transfer& one) {
  Group& group = *one.comm->group;
  const auto* const from = static_cast<const std::byte*>(one.at);
  const std::lock_guard lock(group.mutex);
  group.sent[{one.comm->rank, one.peer}].emplace_back(from, from + one.bytes);
  group.changed.notify_all();
}
void receive(const Transfer& one) {
  Group& group = *one.comm->group;
  std::unique_lock lock(group.mutex);
  auto& queue = group.sent[{one.peer, one.comm->rank}];
  if (!group.changed.wait_for(lock, patience(), [&] { return !queue.empty(); })) return;
  std::memcpy(one.at, queue.front().data(), one.bytes);
  queue.erase(queue.begin());
}

ncclResult_t note(const ncclComm* comm, bool sends, void* at, std::size_t bytes, int peer,
                  cudaStream_t stream, const char* name) {
  if (is_told_to_fail(name)) return ncclSystemError;
  if (group_depth == 0)
    return static_cast<ncclResult_t>(refuse_call(ncclInvalidUsage, "NCCL: a transfer outside of a group"));
  transfers.push_back({comm, sends, at, bytes, peer, stream});
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (is_told_to_fail(__func__)) return ncclSystemError;
  const std::lock_guard lock(groups_mutex);
  static std::uint64_t next = 1;
  *id = {};
  std::memcpy(id->internal, &next, sizeof next);
  groups()[next++] = std::make_shared<Group>();
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (is_told_to_fail(__func__)) return ncclSystemError;
  if (config->blocking != 0)
    return static_cast<ncclResult_t>(refuse_call(ncclInvalidArgument, "NCCL: a communicator that blocks"));
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(groups_mutex);
    group = groups()[number];
  }
  {
    const std::lock_guard lock(group->mutex);
    group->ranks = ranks;
    ++group->joined;
  }
  (void)make_handle(comm, ncclComm{std::move(group), rank, false});
  return ncclInProgress;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return static_cast<ncclResult_t>(drop_handle<ncclComm>(comm));
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->group->give_up();
  return ncclCommDestroy(comm);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::lock_guard lock(comm->group->mutex);
  const Group& group = *comm->group;
  if (!comm->is_ready) {  // what the others do afterwards is no matter of joining
    comm->is_ready = group.joined == group.ranks;
    *error = comm->is_ready ? ncclSuccess : ncclInProgress;
  } else {
    *error = group.broken ? ncclRemoteError : ncclSuccess;
  }
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return put(*comm, __func__, stream, {in, bytes, false}, {out, bytes, true}, [=](const auto& shown) {
    std::memset(out, 0, bytes);
    for (const auto& [rank, data] : shown) add(type, static_cast<std::byte*>(out), data.data(), count);
  });
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type), ranks = static_cast<std::size_t>(comm->group->ranks);
  return put(*comm, __func__, stream, {in, bytes, false}, {out, bytes * ranks, true}, [=](const auto& shown) {
    for (const auto& [rank, data] : shown)
      std::memcpy(static_cast<std::byte*>(out) + static_cast<std::size_t>(rank) * bytes, data.data(), bytes);
  });
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type), ranks = static_cast<std::size_t>(comm->group->ranks);
  const std::size_t part = static_cast<std::size_t>(comm->rank) * bytes;
  return put(*comm, __func__, stream, {in, bytes * ranks, false}, {out, bytes, true}, [=](const auto& shown) {
    std::memset(out, 0, bytes);
    for (const auto& [rank, data] : shown) add(type, static_cast<std::byte*>(out), data.data() + part, count);
  });
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return note(comm, true, const_cast<void*>(from), count * size_of(type), peer, stream, __func__);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return note(comm, false, to, count * size_of(type), peer, stream, __func__);
}
ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--group_depth != 0) return ncclSuccess;
  const std::vector<Transfer> all = std::exchange(transfers, {});
  if (is_told_to_fail(__func__)) return ncclSystemError;
  for (const bool sends : {true, false}) {
    for (const Transfer& one : all) {
      if (one.sends != sends) continue;
      const int status = put_work(one.stream, {"ncclGroup", {{one.at, one.bytes, !sends}}, [one] {
                                                 one.sends ? send(one) : receive(one);
                                               }});
      if (status != 0) return ncclUnhandledCudaError;
    }
  }
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "refused by the NCCL of the tests"; }
}
