// If threads may call MPI at once, a collective over one communicator does not block one over another: each
// rank starts two, in separate threads and on half of the ranks in the other order, of which none ends before
// all ranks have started it.
#include <array>
#include <chrono>
#include <thread>
#include <tidu/graph/builder.hpp>
#include <tidu/mpi.hpp>
#include <tidu/primitives/collectives.hpp>
#include <tidu/primitives/elementwise.hpp>

int main() {
  using namespace tidu;
  int offered = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &offered);
  bool right = true;
  if (offered == MPI_THREAD_MULTIPLE) {
    const MpiSession session;
    MPI_Comm other = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    const std::array executors{with_axes(reference(), {{"ranks", MPI_COMM_WORLD}}),
                               with_axes(reference(), {{"ranks", other}})};
    GraphBuilder builder("sum", standard_primitives());
    const Graph graph =
        builder.build({ops::psum(builder.input("x", Type(f64, {})), "ranks", session.size())});
    std::array<double, 2> sums{};
    const auto start = [&](std::size_t i) {
      return std::thread(
          [&, i] { sums[i] = executors[i].run(graph, {Tensor::scalar(1.0)})[0].item<double>(); });
    };
    const std::size_t first = session.rank() % 2 == 0 ? 0 : 1;
    std::thread one = start(first);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::thread two = start(1 - first);
    one.join();
    two.join();
    right = sums[0] == session.size() && sums[1] == session.size();
    MPI_Comm_free(&other);
  }
  MPI_Finalize();
  return right ? 0 : 1;
}
