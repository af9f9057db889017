// watched_calls.cpp - MPI's calls, as its profiling interface lets a program replace them. Each takes its
// time, so that another one would come at the same time.
#include "mpi/ranks/watched_calls.hpp"

#include <mpi.h>

#include <chrono>
#include <thread>

namespace tidu::test {
namespace {

class Inside {
 public:
  Inside() {
    const int now = calls_.inside.fetch_add(1) + 1;
    int most = calls_.max_inside.load();
    while (most < now && !calls_.max_inside.compare_exchange_weak(most, now)) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { calls_.inside.fetch_sub(1); }

 private:
  WatchedCalls& calls_ = watched_calls();
};

}  // namespace

WatchedCalls& watched_calls() {
  static WatchedCalls all;
  return all;
}

}  // namespace tidu::test

using tidu::test::Inside, tidu::test::watched_calls;

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  const Inside inside;
  watched_calls().duplicated.fetch_add(1);
  return PMPI_Comm_dup(comm, made);
}
int MPI_Comm_free(MPI_Comm* comm) {
  const Inside inside;
  watched_calls().freed.fetch_add(1);
  return PMPI_Comm_free(comm);
}
int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const Inside inside;
  return PMPI_Allreduce(in, out, count, type, op, comm);
}
int MPI_Alltoall(const void* in, int sent, MPI_Datatype sent_type, void* out, int got, MPI_Datatype got_type,
                 MPI_Comm comm) {
  const Inside inside;
  return PMPI_Alltoall(in, sent, sent_type, out, got, got_type, comm);
}
int MPI_Allgather(const void* in, int sent, MPI_Datatype sent_type, void* out, int got, MPI_Datatype got_type,
                  MPI_Comm comm) {
  const Inside inside;
  return PMPI_Allgather(in, sent, sent_type, out, got, got_type, comm);
}
int MPI_Sendrecv(const void* in, int sent, MPI_Datatype sent_type, int destination, int tag, void* out,
                 int got, MPI_Datatype got_type, int source, int got_tag, MPI_Comm comm, MPI_Status* status) {
  const Inside inside;
  return PMPI_Sendrecv(in, sent, sent_type, destination, tag, out, got, got_type, source, got_tag, comm,
                       status);
}
