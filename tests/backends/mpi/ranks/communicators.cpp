// Communicators of executors: how many there are, how long they last, and which threads call MPI when.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "eager/support.hpp"
#include "mpi/ranks/session.hpp"
#include "mpi/ranks/watched_calls.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/optimizer/cache.hpp"
#include "tidu/primitives/collectives.hpp"

namespace tidu::test {
namespace {

Graph sum_over(std::string_view axis, std::int64_t size) {
  GraphBuilder builder("sum", standard_primitives());
  return builder.build({ops::psum(builder.input("x", Type(f64, {})), axis, size)});
}

template <class Executor>
double sum_of_ones(const Executor& executor, const Graph& graph) {
  return executor.run(graph, {Tensor::scalar(1.0)})[0].template data<double>()[0];
}

MPI_Comm copy_of_world() {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, session().rank(), &copy);
  return copy;
}

TEST_CASE("a communicator that is bound again and again is duplicated once") {
  MPI_Comm comm = copy_of_world();
  const Graph graph = sum_over("phase", session().size());
  const int before = watched_calls().duplicated;
  for (int phase = 0; phase < 50; ++phase) {
    CHECK(sum_of_ones(with_axes(cpu(), {{"phase", comm}}), graph) == session().size());
    CHECK(sum_of_ones(with_axes(reference(), {{"phase", comm}}), graph) == session().size());
  }
  CHECK(watched_calls().duplicated.load() == before + 1);
  MPI_Comm_free(&comm);
  comm = copy_of_world();  // perhaps with the same handle
  CHECK(sum_of_ones(with_axes(cpu(), {{"phase", comm}}), graph) == session().size());
  CHECK(watched_calls().duplicated.load() == before + 2);
  MPI_Comm_free(&comm);
}

TEST_CASE("one is freed in a call that binds others, after its original and all that runs over it") {
  (void)session();
  (void)compile_cache().clear();
  (void)with_axes(reference(), {});  // frees communicators of other cases
  MPI_Comm comm = copy_of_world();
  const Graph graph = sum_over("ranks", session().size());
  std::optional<CpuExecutor> executor = with_axes(cpu(), {{"ranks", comm}});
  MPI_Comm_free(&comm);
  const int before = watched_calls().freed;
  const auto freed = [&] {
    (void)with_axes(reference(), {});
    return watched_calls().freed - before;
  };
  CHECK(freed() == 0);
  CHECK(sum_of_ones(*executor, graph) == session().size());
  executor.reset();
  CHECK(freed() == 0);  // the program is in the cache
  std::thread([] { (void)compile_cache().clear(); }).join();
  CHECK(watched_calls().freed.load() == before);  // another thread may be in a call just then
  CHECK(freed() == 1);
}

TEST_CASE("threads call MPI in turn") {
  int level = MPI_THREAD_SINGLE;
  MPI_Comm both[] = {MPI_COMM_SELF, MPI_COMM_SELF};
  (void)session();
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) MPI_Comm_split(MPI_COMM_SELF, 0, 0, &both[1]);
  const CpuExecutor one = with_axes(cpu(), {{"self", both[0]}}),
                    other = with_axes(cpu(), {{"self", both[1]}});
  const Graph graph = sum_over("self", 1);
  watched_calls().max_inside = 0;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) wrong += sum_of_ones(t % 2 == 0 ? one : other, graph) == 1.0 ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(watched_calls().max_inside.load() == 1);
  if (both[1] != MPI_COMM_SELF) MPI_Comm_free(&both[1]);
}

TEST_CASE("threads of one backward call do, too") {
  (void)session();
  const ReferenceExecutor executor = with_axes(reference(), {{"self", MPI_COMM_SELF}});
  Tape tape;
  std::vector<Var> leaves;
  Var sum = tape.constant(0.0);
  const Op over_self = Op::make(prim::psum, {{"axis_name", "self"}, {"axis_size", std::int64_t{1}}});
  for (int i = 0; i < 100; ++i) {
    leaves.push_back(tape.leaf(1.0));
    sum = tape.apply<prim::add>({sum, tape.apply(over_self, {tape.apply<prim::sin>({leaves.back()})})});
  }
  eager::BackwardOptions options;
  options.workers = 2;
  watched_calls().max_inside = 0;
  const auto gradients =
      eager::try_backward(sum.first.key, sum.first.trace, std::optional<Tensor>(), executor, nullptr, options)
          .value();
  CHECK(watched_calls().max_inside.load() == 1);
  for (const Var& leaf : leaves) CHECK(item(gradients, leaf) == std::cos(1.0));
}

}  // namespace
}  // namespace tidu::test
