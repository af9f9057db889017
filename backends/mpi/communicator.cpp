// communicator.cpp - calls of MPI: the only file that makes them, except for the start and the end of MPI.
#include "mpi/communicator.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "tidu/graph/error.hpp"
#include "tidu/primitives/collectives.hpp"

namespace tidu::mpi_detail {
namespace {

// MPI counts in int: blocks are sent in pieces, of which a call sends one to each rank.
constexpr std::size_t max_bytes = std::size_t{1} << 30;

// Held by the thread that calls MPI, where MPI allows one at a time.
constinit std::mutex calls;

// Duplicates that are to be freed. Lock-free: any thread may drop a communicator at any time.
constinit std::atomic<Communicator::Duplicate*> dropped{nullptr};

// A communicator's duplicate is an attribute of it, which is deleted with it; running programs keep the
// duplicate.
using Shared = std::shared_ptr<const Communicator>;
int forget(MPI_Comm, int, void* kept, void*) {
  delete static_cast<Shared*>(kept);
  return MPI_SUCCESS;
}
int duplicates_key() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &made, nullptr);
    return made;
  }();
  return key;
}

bool running() {
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  return started != 0 && ended == 0;
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, "with_axes: " + message);
}

}  // namespace

std::unique_lock<std::mutex> turn_of_process() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  return level == MPI_THREAD_MULTIPLE ? std::unique_lock<std::mutex>() : std::unique_lock(calls);
}

Communicator::Communicator(MPI_Comm original) : duplicate_(std::make_unique<Duplicate>()) {
  MPI_Query_thread(&level_);
  check(MPI_Comm_dup(original, &comm_), "MPI_Comm_dup");
  duplicate_->comm = comm_;
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

Communicator::~Communicator() {
  Duplicate* const mine = duplicate_.release();
  mine->next = dropped.load(std::memory_order_relaxed);
  while (!dropped.compare_exchange_weak(mine->next, mine, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

std::shared_ptr<const Communicator> Communicator::of(MPI_Comm original) {
  const int key = duplicates_key();
  void* kept = nullptr;
  int is_kept = 0;
  if (MPI_Comm_get_attr(original, key, static_cast<void*>(&kept), &is_kept) == MPI_SUCCESS && is_kept != 0)
    return *static_cast<const Shared*>(kept);
  auto made = std::make_unique<Shared>();
  *made = std::make_shared<const Communicator>(original);
  Shared result = *made;
  result->check(MPI_Comm_set_attr(original, key, made.get()), "MPI_Comm_set_attr");
  (void)made.release();
  return result;
}

void Communicator::free_dropped() {
  Duplicate* next = dropped.exchange(nullptr, std::memory_order_acquire);
  while (next != nullptr) {
    const std::unique_ptr<Duplicate> one(next);
    next = one->next;
    MPI_Comm_free(&one->comm);
  }
}

std::unique_lock<std::mutex> Communicator::turn() const {
  return level_ == MPI_THREAD_MULTIPLE ? std::unique_lock(mutex_) : std::unique_lock(calls);
}

void Communicator::check(int status, const char* routine) const {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw Error(ErrorKind::execution,
              detail::str(routine, ": expected success, got status ", status, ", ",
                          std::string(text.data(), static_cast<std::size_t>(length)), ", on rank ", rank_));
}

void Communicator::exchange(const std::byte* in, std::byte* out, std::size_t bytes) const {
  // Blocks of a size for which all pieces together fit into int, each at its offset in whole blocks.
  const std::size_t piece = std::max<std::size_t>(1, max_bytes / static_cast<std::size_t>(size_));
  if (bytes <= piece) {
    const auto count = static_cast<int>(bytes);
    check(MPI_Alltoall(in, count, MPI_BYTE, out, count, MPI_BYTE, comm_), "MPI_Alltoall");
    return;
  }
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<std::byte> from(ranks * piece), to(ranks * piece);
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t part = std::min(piece, bytes - at);
    for (std::size_t r = 0; r < ranks; ++r) std::memcpy(&from[r * part], in + r * bytes + at, part);
    const auto count = static_cast<int>(part);
    check(MPI_Alltoall(from.data(), count, MPI_BYTE, to.data(), count, MPI_BYTE, comm_), "MPI_Alltoall");
    for (std::size_t r = 0; r < ranks; ++r) std::memcpy(out + r * bytes + at, &to[r * part], part);
  }
}

void Communicator::gather(const std::byte* in, std::byte* out, std::size_t bytes) const {
  const std::size_t piece = std::max<std::size_t>(1, max_bytes / static_cast<std::size_t>(size_));
  if (bytes <= piece) {
    const auto count = static_cast<int>(bytes);
    check(MPI_Allgather(in, count, MPI_BYTE, out, count, MPI_BYTE, comm_), "MPI_Allgather");
    return;
  }
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<std::byte> to(ranks * piece);
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t part = std::min(piece, bytes - at);
    const auto count = static_cast<int>(part);
    check(MPI_Allgather(in + at, count, MPI_BYTE, to.data(), count, MPI_BYTE, comm_), "MPI_Allgather");
    for (std::size_t r = 0; r < ranks; ++r) std::memcpy(out + r * bytes + at, &to[r * part], part);
  }
}

void Communicator::shift(const std::byte* in, int destination, std::byte* out, int source,
                         std::size_t bytes) const {
  constexpr int tag = 0;
  for (std::size_t at = 0; at < bytes; at += max_bytes) {
    const auto count = static_cast<int>(std::min(max_bytes, bytes - at));
    check(MPI_Sendrecv(in + at, count, MPI_BYTE, destination, tag, out + at, count, MPI_BYTE, source, tag,
                       comm_, MPI_STATUS_IGNORE),
          "MPI_Sendrecv");
  }
}

bool Communicator::agrees(std::uint64_t number) const {
  // The least of the number and of its complement: the same number on all where they are complements.
  const std::array<std::uint64_t, 2> mine{number, ~number};
  std::array<std::uint64_t, 2> least{};
  check(MPI_Allreduce(mine.data(), least.data(), 2, MPI_UINT64_T, MPI_MIN, comm_), "MPI_Allreduce");
  return least[0] == ~least[1];
}

Axes::Axes(const std::vector<MpiAxis>& axes, const MpiOptions& options) : options_(options) {
  if (!running()) refuse("expected MPI to be initialised and not finalised");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const MpiAxis& axis = axes[i];
    if (axis.name.empty()) refuse("expected names of axes, got an empty one");
    if (axis.communicator == MPI_COMM_NULL)
      refuse(detail::str("expected a communicator for axis ", detail::in_quotes(axis.name),
                         ", got MPI_COMM_NULL"));
    for (std::size_t k = 0; k < i; ++k) {
      if (axes[k].name == axis.name)
        refuse(detail::str("expected one communicator for axis ", detail::in_quotes(axis.name), ", got two"));
    }
  }
  const auto turn = turn_of_process();
  Communicator::free_dropped();
  for (const MpiAxis& axis : axes) bound_.emplace(axis.name, Communicator::of(axis.communicator));
}

const Communicator* Axes::of(const Op& op) const {
  const auto found = bound_.find(op.string("axis_name"));
  if (found != bound_.end()) return found->second.get();
  prim::require_one_rank(op);
  return nullptr;
}

}  // namespace tidu::mpi_detail
