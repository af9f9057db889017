// mpi.hpp - collectives (psum, all_gather, reduce_scatter, ppermute) between processes through MPI: binds
// names of axes to communicators. Opt-in, since it names MPI's types; it needs the target tidu::mpi, which is
// built if MPI is found.
//
// Every rank of a communicator has to run the same collectives in the same order, one thread at a time.
// Programs that are compiled from equal graphs do. Sums are taken in ascending order of ranks, so that they
// are equal to the last bit on every rank and from run to run.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "tidu/cpu/executor.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu {

/// The name of an axis, and the ranks along it.
struct MpiAxis {
  std::string name;                       ///< as operations name it
  MPI_Comm communicator = MPI_COMM_NULL;  ///< of these ranks
};

/// How collectives run.
struct MpiOptions {
  /// Before each collective compare operation and types among the ranks (some bytes more to send): ranks
  /// that run different operations get an error, all of them, and not each other's data; and so do all where
  /// one has no memory for its own. Without it those that run on may wait for ever.
  bool verify = true;
};

/// `executor` with kernels of collectives over these axes, and over no others except those of one rank. Each
/// communicator is duplicated once, however often it is bound. This is collective: all of its ranks bind it,
/// in one order. It may be freed then: the duplicate lives as long as the communicator or the programs that
/// use it, and is freed in a later with_axes or at the end of MpiSession.
///
/// MPI has to be initialised, with MPI_THREAD_SERIALIZED at least if several threads run graphs, and to be
/// finalised after the executor's last run. Threads run their collectives in turn, one at a time in the
/// process or, with MPI_THREAD_MULTIPLE, over each communicator; the program has to serialize its own calls.
///
/// Throws Error (invalid_argument) for a name that is empty or bound twice, a null communicator, and MPI that
/// is not running. A run throws Error: execution if an op's axis_name of more than one rank is not bound, its
/// axis_size is not the communicator's, or MPI reports a failure, and, with `verify`, on every rank of the
/// axis if the ranks differ in their collectives, including axis_size; out_of_memory. If some ranks did not
/// bind a name, the ranks that did cannot detect it, and wait for them.
CpuExecutor with_axes(const CpuExecutor& executor, const std::vector<MpiAxis>& axes,
                      const MpiOptions& options = {});
/// The same for the reference executor.
ReferenceExecutor with_axes(const ReferenceExecutor& executor, const std::vector<MpiAxis>& axes,
                            const MpiOptions& options = {});

/// Initialises MPI, unless it is initialised, and finalises it if it did. When an exception leaves its scope,
/// it ends the processes of all ranks (MPI_Abort with status 1): the others would wait for this one for ever.
class MpiSession {
 public:
  /// Asks for MPI_THREAD_SERIALIZED. Throws Error (execution) when MPI fails, offers less, was initialised
  /// with less, or is finalised: it cannot start again.
  MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  ~MpiSession();

  /// This process among all, and how many there are.
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  bool owner_ = false;
  int rank_ = 0, size_ = 1, exceptions_ = 0;
};

}  // namespace tidu
