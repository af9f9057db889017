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

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "cuda/libraries/library_calls.hpp"

namespace tidu::cuda_detail {
namespace {

#if TIDU_WITH_NCCL

// How long the other ranks are waited for, in seconds.
std::chrono::duration<double> collective_patience() {
  constexpr double usual = 1800;
  const char* const text = std::getenv("TIDU_NCCL_TIMEOUT");
  const double chosen = text != nullptr ? std::strtod(text, nullptr) : usual;
  return std::chrono::duration<double>(chosen > 0 ? chosen : usual);
}

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
  decltype(::ncclCommInitRankConfig)* join =
      find<decltype(::ncclCommInitRankConfig)>("ncclCommInitRankConfig");
  decltype(::ncclCommFinalize)* finalize = find<decltype(::ncclCommFinalize)>("ncclCommFinalize");
  decltype(::ncclCommDestroy)* leave = find<decltype(::ncclCommDestroy)>("ncclCommDestroy");
  decltype(::ncclCommAbort)* abort = find<decltype(::ncclCommAbort)>("ncclCommAbort");
  decltype(::ncclCommGetAsyncError)* state = find<decltype(::ncclCommGetAsyncError)>("ncclCommGetAsyncError");
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

// A rank's communicator. Its calls return before the other ranks have come (NCCL's non-blocking mode), so
// that one which never comes is noticed.
struct Rank {
  ncclComm_t comm = nullptr;  // null: aborted
  int rank = 0, ranks = 1;
  std::mutex mutex;

  Rank(int r, int count) : rank(r), ranks(count) {}
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    if (comm == nullptr) return;
    try {
      settle("ncclCommFinalize", functions().finalize(comm));
      (void)functions().leave(comm);  // which were found when it was joined
    } catch (...) {                   // it was given up
      return;
    }
  }
  // Gives the communicator up, which ends what it has put on streams, and says why.
  [[noreturn]] void fail(const char* routine, const std::string& got) {
    if (comm != nullptr) (void)functions().abort(comm);
    comm = nullptr;
    throw Error(ErrorKind::execution, detail::str("[cuda] expected ", routine, " of NCCL to succeed on rank ",
                                                  rank, " of ", ranks, ", got ", got));
  }
  ncclResult_t state(const char* routine) {
    if (comm == nullptr) fail(routine, "a communicator that was given up after an earlier failure");
    ncclResult_t now = ncclSuccess;
    const ncclResult_t asked = functions().state(comm, &now);
    return asked != ncclSuccess ? asked : now;
  }
  // Waits until the call is put on its stream.
  void settle(const char* routine, ncclResult_t status) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    while (status == ncclInProgress) {
      if (Clock::now() - begin > collective_patience()) fail_of_silence(routine);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      status = state(routine);
    }
    if (status != ncclSuccess) fail(routine, functions().words(status));
  }
  [[noreturn]] void fail_of_silence(const char* routine) {
    fail(routine, detail::str("no answer of the other ranks within ", collective_patience().count(),
                              " s ($TIDU_NCCL_TIMEOUT)"));
  }
};

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

void run_on_one_rank(const CollectiveStep& step, const Bindings& at, Stream stream) {
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
  auto made = std::make_unique<Rank>(rank, ranks);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const std::lock_guard lock(made->mutex);
  const ncclResult_t status = f.join(&made->comm, ranks, id, rank, &config);
  made->settle("ncclCommInitRankConfig", status);
  return made.release();
}

void leave_communicator(void* communicator) noexcept { delete static_cast<Rank*>(communicator); }

void check_communicator(void* communicator, std::chrono::duration<double> waited) {
  Rank& own = *static_cast<Rank*>(communicator);
  const std::unique_lock lock(own.mutex, std::try_to_lock);
  if (!lock) return;                // who makes a call waits for it as well
  if (own.comm == nullptr) return;  // which was said when it was given up
  const ncclResult_t state = own.state("a collective");
  if (state != ncclSuccess && state != ncclInProgress) own.fail("a collective", functions().words(state));
  if (waited > collective_patience()) own.fail_of_silence("a collective");
}

namespace {

// To the ranks that the step names.
void permute(const CollectiveStep& step, Rank& own, const std::byte* in, std::byte* out, Element element,
             cudaStream_t stream) {
  const Functions& f = functions();
  const std::size_t count = static_cast<std::size_t>(step.count) * element.parts;
  const auto check = [&f](const char* routine, ncclResult_t status) {
    if (status != ncclInProgress) f.check(routine, status);
  };
  bool receives = false;
  f.check("ncclGroupStart", f.group_start());
  try {
    for (const auto& [source, destination] : step.pairs) {
      if (source == step.rank)
        check("ncclSend", f.send(in, count, element.type, destination, own.comm, stream));
      if (destination != step.rank) continue;
      receives = true;
      check("ncclRecv", f.receive(out, count, element.type, source, own.comm, stream));
    }
  } catch (...) {
    (void)f.group_end();  // the thread's later calls, on other communicators, are not of this group
    throw;
  }
  own.settle("ncclGroupEnd", f.group_end());
  if (!receives && count != 0) {
    check_runtime(
        "cudaMemsetAsync",
        cudaMemsetAsync(out, 0, static_cast<std::size_t>(step.count) * size_of(step.dtype), stream));
  }
}

}  // namespace

void run_collective(const CollectiveStep& step, const Bindings& at, Stream on) {
  if (step.communicator == nullptr) return run_on_one_rank(step, at, on);
  const Functions& f = functions();
  Rank& own = *static_cast<Rank*>(step.communicator);
  const std::lock_guard lock(own.mutex);
  (void)own.state("a collective");
  const Element element = element_of(step.dtype);
  const std::size_t count = static_cast<std::size_t>(step.count) * element.parts;
  const std::byte* const in = at.at(step.in);
  std::byte* const out = at.at(step.out);
  const cudaStream_t stream = stream_of(on);
  switch (step.kind) {
    case CollectiveStep::Kind::sum:
      return own.settle("ncclAllReduce",
                        f.all_reduce(in, out, count, element.type, ncclSum, own.comm, stream));
    case CollectiveStep::Kind::gather:
      return own.settle("ncclAllGather", f.all_gather(in, out, count, element.type, own.comm, stream));
    case CollectiveStep::Kind::scatter_sum:
      return own.settle("ncclReduceScatter",
                        f.reduce_scatter(in, out, count, element.type, ncclSum, own.comm, stream));
    case CollectiveStep::Kind::permute: return permute(step, own, in, out, element, stream);
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

void check_communicator(void*, std::chrono::duration<double>) {}

void run_collective(const CollectiveStep& step, const Bindings& at, Stream stream) {
  run_on_one_rank(step, at, stream);
}

#endif

}  // namespace tidu::cuda_detail
