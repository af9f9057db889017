// communicator.hpp - a separate communicator for each axis, whose failures become errors with MPI's text; and
// transfers of bytes over it, in pieces that MPI's counts can express.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tidu/mpi.hpp"

namespace tidu::mpi_detail {

/// Held where MPI is called: below MPI_THREAD_MULTIPLE one thread of the process may at a time.
std::unique_lock<std::mutex> turn_of_process();

/// The duplicate of a communicator; there is one while the original exists. The last kernel that uses it may
/// be destroyed in any thread, while another calls MPI: so the duplicate is freed by free_dropped().
class Communicator {
 public:
  struct Duplicate {
    MPI_Comm comm = MPI_COMM_NULL;
    Duplicate* next = nullptr;
  };

  explicit Communicator(MPI_Comm original);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  /// That of `original`, made unless it is there. In a turn_of_process().
  static std::shared_ptr<const Communicator> of(MPI_Comm original);
  /// Frees those that are gone. In a turn_of_process(). MPI_Comm_free is collective in name alone: ranks need
  /// not call it at the same time.
  static void free_dropped();

  /// Held during a collective: that of the process or, where threads may call MPI at once, of this
  /// communicator.
  std::unique_lock<std::mutex> turn() const;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Block r of `out` is block `rank()` of rank r's `in`; blocks are of `bytes`.
  void exchange(const std::byte* in, std::byte* out, std::size_t bytes) const;
  /// Block r of `out` is `in` of rank r.
  void gather(const std::byte* in, std::byte* out, std::size_t bytes) const;
  /// Sends to one rank and receives from another; either may be MPI_PROC_NULL.
  void shift(const std::byte* in, int destination, std::byte* out, int source, std::size_t bytes) const;
  /// Is the number the same on every rank?
  bool agrees(std::uint64_t number) const;

 private:
  void check(int status, const char* routine) const;
  std::unique_ptr<Duplicate> duplicate_;  // made beforehand, as the destructor cannot fail
  mutable std::mutex mutex_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, level_ = MPI_THREAD_SINGLE;
};

/// Which communicator an axis name is bound to.
class Axes {
 public:
  Axes(const std::vector<MpiAxis>& axes, const MpiOptions& options);
  /// That of the op's axis, which may have another number of ranks; null for an axis of one rank that is not
  /// bound. Throws Error (execution) for one of more.
  const Communicator* of(const Op& op) const;
  bool verify() const { return options_.verify; }

 private:
  std::map<std::string, std::shared_ptr<const Communicator>, std::less<>> bound_;
  MpiOptions options_;
};

/// The kernels of the collectives, by name.
std::vector<std::pair<std::string_view, Kernel>> kernels(std::shared_ptr<const Axes> axes);

}  // namespace tidu::mpi_detail
