// One rank throws while the others wait for it in a collective: the whole job has to end, and with a failure.
#include <tidu/graph/builder.hpp>
#include <tidu/mpi.hpp>
#include <tidu/primitives/collectives.hpp>
#include <tidu/primitives/elementwise.hpp>

int main() {
  using namespace tidu;
  try {
    const MpiSession session;
    const ReferenceExecutor executor = with_axes(reference(), {{"ranks", MPI_COMM_WORLD}});
    GraphBuilder builder("sum", standard_primitives());
    const Graph graph =
        builder.build({ops::psum(builder.input("x", Type(f64, {})), "ranks", session.size())});
    if (session.rank() == session.size() - 1) throw Error(ErrorKind::execution, "this rank fails");
    (void)executor.run(graph, {Tensor::scalar(1.0)});
  } catch (const Error&) {
    return 1;
  }
  return 0;
}
