// executors.cpp - executors with collectives bound to communicators, and the start and the end of MPI.
#include <exception>

#include "mpi/communicator.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {
namespace {

template <class Executor>
Executor bound(const Executor& executor, const std::vector<MpiAxis>& axes, const MpiOptions& options) {
  const auto shared = std::make_shared<const mpi_detail::Axes>(axes, options);
  const DTypes numbers = dtypes::integers | dtypes::floats | dtypes::complexes;
  Executor result = executor;
  for (const auto& [name, kernel] : mpi_detail::kernels(shared)) {
    const bool adds = name == "psum" || name == "reduce_scatter";
    result = result.with_kernel(name, kernel, adds ? numbers : dtypes::all);
  }
  return result;
}

}  // namespace

CpuExecutor with_axes(const CpuExecutor& executor, const std::vector<MpiAxis>& axes,
                      const MpiOptions& options) {
  return bound(executor, axes, options);
}
ReferenceExecutor with_axes(const ReferenceExecutor& executor, const std::vector<MpiAxis>& axes,
                            const MpiOptions& options) {
  return bound(executor, axes, options);
}

MpiSession::MpiSession() : exceptions_(std::uncaught_exceptions()) {
  int started = 0, ended = 0, offered = MPI_THREAD_SINGLE;
  MPI_Finalized(&ended);
  if (ended != 0)
    throw Error(ErrorKind::execution, "MpiSession: expected MPI to run or yet to start, got it finalised");
  MPI_Initialized(&started);
  if (started == 0) {
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &offered) != MPI_SUCCESS)
      throw Error(ErrorKind::execution, "MPI_Init_thread: expected success, got a failure");
    owner_ = true;
  } else {
    MPI_Query_thread(&offered);
  }
  if (offered < MPI_THREAD_SERIALIZED) {
    if (owner_) MPI_Finalize();
    throw Error(ErrorKind::execution, detail::str(owner_ ? "MPI_Init_thread" : "MPI_Query_thread",
                                                  ": expected MPI_THREAD_SERIALIZED, got level ", offered));
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

MpiSession::~MpiSession() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended != 0) return;
  if (std::uncaught_exceptions() > exceptions_) MPI_Abort(MPI_COMM_WORLD, 1);
  if (!owner_) return;
  const auto turn = mpi_detail::turn_of_process();
  mpi_detail::Communicator::free_dropped();
  MPI_Finalize();
}

}  // namespace tidu
