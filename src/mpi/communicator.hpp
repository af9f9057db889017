// communicator.hpp - a communicator of its own for each axis, whose failures are errors with MPI's words; and
// what is sent over it: bytes, in pieces that MPI's counts can express.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tidu/mpi.hpp"

namespace tidu::mpi_detail {

/// A duplicate of a communicator; freed when the last kernel that uses it is gone, unless MPI is finalised.
class Communicator {
 public:
  explicit Communicator(MPI_Comm original);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Block r of `out` is what rank r has in block `rank()` of `in`; blocks are of `bytes`.
  void exchange(const std::byte* in, std::byte* out, std::size_t bytes) const;
  /// Block r of `out` is `in` of rank r.
  void gather(const std::byte* in, std::byte* out, std::size_t bytes) const;
  /// Sends to one rank and receives from another; either may be MPI_PROC_NULL.
  void shift(const std::byte* in, int destination, std::byte* out, int source, std::size_t bytes) const;
  /// Is the number the same on every rank?
  bool agrees(std::uint64_t number) const;

 private:
  void check(int status, const char* routine) const;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
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
  std::map<std::string, std::unique_ptr<const Communicator>, std::less<>> bound_;
  MpiOptions options_;
};

/// The kernels of the collectives, by name.
std::vector<std::pair<std::string_view, Kernel>> kernels(std::shared_ptr<const Axes> axes);

}  // namespace tidu::mpi_detail
