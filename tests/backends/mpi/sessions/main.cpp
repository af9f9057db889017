// Sessions that MPI cannot give: a second one after the first has ended, and one in a program that
// initialised MPI for one thread. MPI starts once in a process, so an argument says which. Fails unless it is
// refused.
#include <cstdio>
#include <string_view>
#include <tidu/graph/error.hpp>
#include <tidu/mpi.hpp>

namespace {

int refused() {
  try {
    const tidu::MpiSession session;
  } catch (const tidu::Error& error) {
    std::puts(error.what());
    return error.kind() == tidu::ErrorKind::execution ? 0 : 1;
  }
  std::puts("expected an error, got a session");
  return 1;
}

int after_another() {
  {
    const tidu::MpiSession first;
    const tidu::MpiSession within;  // which does not end MPI
  }
  return refused();
}

int after_plain_init() {
  MPI_Init(nullptr, nullptr);
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  const int result = level < MPI_THREAD_SERIALIZED ? refused() : 0;  // some always offer more
  MPI_Finalize();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  return argc == 2 && std::string_view(argv[1]) == "after_another" ? after_another() : after_plain_init();
}
