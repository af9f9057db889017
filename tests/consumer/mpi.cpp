// A project that uses tidu::mpi and MPI beside it. It is compiled, linked and loaded; with an argument, under
// mpirun, it joins the other ranks, too.
#include <tidu/mpi.hpp>

int main(int count, char**) {
  int version = 0, part = 0;
  if (MPI_Get_version(&version, &part) != MPI_SUCCESS || version < 2) return 1;
  if (count == 1) return 0;
  const tidu::MpiSession session;
  const tidu::CpuExecutor executor = tidu::with_axes(tidu::cpu(), {{"data", MPI_COMM_WORLD}});
  return session.size() > 0 ? 0 : 1;
}
