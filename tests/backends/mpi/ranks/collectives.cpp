// Collectives among the ranks that this program was started as, on both executors: values compared with those
// computed from all ranks' operands, in every dtype; derivatives by the inner product over all ranks; errors.
#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <vector>

#include "mpi/ranks/session.hpp"
#include "support/probe.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/collectives.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/tensor/inspect.hpp"

namespace tidu::test {
namespace {

const std::vector<DType> numbers{i32, i64, f16, bf16, f32, f64, c64, c128};

std::vector<std::shared_ptr<Executor>> executors() {
  const std::vector<MpiAxis> axes{{"ranks", MPI_COMM_WORLD}};
  static const auto cpu_bound = std::make_shared<CpuExecutor>(with_axes(cpu(), (session(), axes)));
  static const auto reference_bound = std::make_shared<ReferenceExecutor>(with_axes(reference(), axes));
  return {cpu_bound, reference_bound};
}

// The tensor whose element i is 10 r + i, a complex one's imaginary part r - i.
Tensor of_rank(Type type, int rank) {
  GraphBuilder builder("of_rank", standard_primitives());
  const Type flat(type.dtype() == bool_ ? i32 : type.dtype(), {type.size()});
  Value x = ops::iota(builder, Type(is_complex(flat.dtype()) ? f64 : flat.dtype(), flat.shape()), 0);
  const auto number = [&](double value) { return ops::full_like(x, value); };
  if (is_complex(flat.dtype())) {
    const Value real = ops::add(x, number(10.0 * rank)), imaginary = ops::sub(number(rank), x);
    x = ops::convert_element_type(ops::complex(real, imaginary), flat.dtype());
  } else {
    x = ops::add(x, number(10.0 * rank));
  }
  if (type.dtype() == bool_) x = ops::eq(ops::rem(x, ops::full_like(x, 3.0)), ops::full_like(x, 0.0));
  return reference().run(builder.build({ops::reshape(x, type.shape())}))[0];
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.bytes(), b.bytes(), a.type().bytes()) == 0;
}

/// Runs `collective` on this rank's tensor, and `whole` on those of all ranks, stacked along a leading axis.
void compare(Type type, const std::function<Value(Value)>& collective,
             const std::function<Value(Value)>& whole) {
  const auto n = static_cast<std::int64_t>(session().size());
  GraphBuilder here("here", standard_primitives()), all("all", standard_primitives());
  const Graph graph = here.build({collective(here.input("x", type))});
  std::vector<Value> inputs;
  std::vector<Tensor> tensors;
  for (int r = 0; r < n; ++r) {
    inputs.push_back(ops::expand_dims(all.input(detail::str("x", r), type), {0}));
    tensors.push_back(of_rank(type, r));
  }
  const Graph oracle = all.build({whole(ops::concatenate(inputs, 0))});
  const Tensor wanted = reference().run(oracle, tensors)[0];
  for (const auto& executor : executors()) {
    INFO(std::string(executor->name()), " ", to_string(type));
    const Tensor got = executor->run(graph, {of_rank(type, session().rank())})[0];
    CHECK(got.type() == wanted.type());
    CHECK(same_bits(got, wanted));
  }
}

Value mine(Value stacked) {
  const std::int64_t r = session().rank();
  Ints start(stacked.rank(), 0), limit = stacked.shape();
  start[0] = r;
  limit[0] = r + 1;
  return ops::squeeze(ops::slice(stacked, start, limit), {0});
}

TEST_CASE("sums") {
  const std::int64_t n = session().size();
  for (const DType dtype : numbers) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{3, 4}, Shape{0}}) {
      compare(
          Type(dtype, shape), [&](Value x) { return ops::psum(x, "ranks", n); },
          [](Value x) { return ops::reduce_sum(x, {0}); });
    }
    compare(
        Type(dtype, {2, n, 3}), [&](Value x) { return ops::reduce_scatter(x, "ranks", n, 1); },
        [&](Value x) {
          return mine(ops::transpose(ops::reduce_sum(x, {0}), {1, 0, 2}));
        });
    compare(
        Type(dtype, {2 * n}), [&](Value x) { return ops::reduce_scatter(x, "ranks", n, 0, true); },
        [&](Value x) {
          return mine(ops::reshape(ops::reduce_sum(x, {0}), {n, 2}));
        });
  }
}

TEST_CASE("gathers and permutations") {
  const std::int64_t n = session().size();
  std::vector<DType> all = numbers;
  all.push_back(bool_);
  IntLists ring, to_next;
  for (std::int64_t r = 0; r < n; ++r) ring.push_back({r, (r + 1) % n});
  for (std::int64_t r = 0; r + 1 < n; ++r) to_next.push_back({r, r + 1});
  for (const DType dtype : all) {
    compare(
        Type(dtype, {2, 3}), [&](Value x) { return ops::all_gather(x, "ranks", n); },
        [](Value x) { return x; });
    compare(
        Type(dtype, {2, 3}), [&](Value x) { return ops::all_gather(x, "ranks", n, -1); },
        [](Value x) {
          return ops::transpose(x, {1, 2, 0});
        });
    compare(
        Type(dtype, {2, 3}), [&](Value x) { return ops::all_gather(x, "ranks", n, 1, true); },
        [&](Value x) {
          return ops::reshape(ops::transpose(x, {1, 0, 2}), {2, 3 * n});
        });
    const Type type(dtype, {3});
    const auto moved = [&](const IntLists& perm, Value x) { return ops::ppermute(x, "ranks", n, perm); };
    const int r = session().rank(), before = (r + session().size() - 1) % session().size();
    GraphBuilder builder("ring", standard_primitives());
    const Value x = builder.input("x", type);
    const Value once = moved(ring, x), on = moved(to_next, x);
    const Graph graph = builder.build({once, on});
    for (const auto& executor : executors()) {
      const std::vector<Tensor> got = executor->run(graph, {of_rank(type, r)});
      CHECK(same_bits(got[0], of_rank(type, before)));
      const Tensor zeros(type);
      if (r != 0) CHECK(same_bits(got[1], of_rank(type, before)));
      if (r == 0) {
        for (std::size_t i = 0; i < type.bytes(); ++i) CHECK(got[1].bytes()[i] == std::byte{0});
      }
    }
  }
}

TEST_CASE("sums are the same to the last bit on every rank, again and again") {
  const std::int64_t n = session().size();
  GraphBuilder builder("thirds", standard_primitives());
  const Value x = builder.input("x", Type(f32, {1000}));
  const Value sum = ops::psum(ops::sin(x), "ranks", n);
  const Graph graph = builder.build({sum, ops::all_gather(sum, "ranks", n)});
  for (const auto& executor : executors()) {
    std::vector<Tensor> first;
    for (int run = 0; run < 3; ++run) {
      const std::vector<Tensor> got = executor->run(graph, {of_rank(Type(f32, {1000}), session().rank())});
      for (std::int64_t r = 0; r < n; ++r)
        CHECK(std::memcmp(got[1].bytes() + r * 4000, got[0].bytes(), 4000) == 0);
      if (run == 0) first = got;
      CHECK(same_bits(got[0], first[0]));
    }
  }
}

// <J u, v> = <u, Jᵀ v>, both summed over the ranks, through all four of them and operations between.
TEST_CASE("transposes pair with derivatives over all ranks") {
  const std::int64_t n = session().size();
  IntLists ring;
  for (std::int64_t r = 0; r < n; ++r) ring.push_back({r, (r + 1) % n});
  GraphBuilder builder("f", standard_primitives());
  const Value x = builder.input("x", Type(f64, {n, 2}));
  const Value part = ops::reduce_scatter(ops::sin(x), "ranks", n);
  const Value turned = ops::mul(ops::ppermute(part, "ranks", n, ring), part);
  const Value all = ops::all_gather(ops::exp(turned), "ranks", n);
  const Value y = ops::mul(ops::psum(ops::mul(x, all), "ranks", n), x);
  const Graph f = builder.build({y});
  const Type type(f64, {n, 2});
  const int r = session().rank();
  const auto scaled = [](const Tensor& t, double by) {
    Tensor result = t.clone();
    for (std::int64_t i = 0; i < t.size(); ++i) result.mutable_data<double>()[i] *= by;
    return result;
  };
  const Tensor at = scaled(of_rank(type, r), 0.02), u = scaled(of_rank(type, r + 1), 0.3),
               v = scaled(of_rank(type, 3 - r), -0.7);
  const auto dot = [](const Tensor& a, const Tensor& b) {
    double sum = 0;
    for (std::int64_t i = 0; i < a.size(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
    double all_ranks = 0;
    MPI_Allreduce(&sum, &all_ranks, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all_ranks;
  };
  for (const auto& executor : executors()) {
    const Tensor forward = executor->run(jvp(f), {at, u}).back();
    const Tensor backward = executor->run(vjp(f), {at, v}).back();
    const double left = dot(forward, v), right = dot(u, backward);
    CHECK(left == doctest::Approx(right).epsilon(1e-12));
    CHECK(std::abs(left) > 1e-3);
  }
}

TEST_CASE("errors on every rank leave everything usable") {
  const std::int64_t n = session().size();
  const auto sum_over = [](std::string_view axis, std::int64_t size) {
    GraphBuilder builder("sum", standard_primitives());
    return builder.build({ops::psum(builder.input("x", Type(f64, {})), axis, size)});
  };
  const Tensor one = Tensor::scalar(1.0);
  for (const auto& executor : executors()) {
    const auto refusal = [&](const Graph& graph) {
      return message_of([&] { (void)executor->run(graph, {one}); });
    };
    CHECK(
        refusal(sum_over("others", 2))
            .find("[psum] expected the axis \"others\" of 2 ranks to be bound to a communicator, got none") ==
        0);
    CHECK(refusal(sum_over("ranks", n + 1))
              .find(detail::str("[psum] expected a communicator of ", n + 1,
                                " ranks for axis \"ranks\", got one of ", n)) == 0);
    if (n > 1) {  // ranks that run different things
      GraphBuilder builder("differs", standard_primitives());
      const Type type(f64, {session().rank() == 0 ? 2 : 3});
      const Graph graph = builder.build({ops::psum(builder.input("x", type), "ranks", n)});
      const std::string message = message_of([&] { (void)executor->run(graph, {Tensor(type)}); });
      CHECK(message.find("[psum] expected all ranks of axis \"ranks\" to run one operation") == 0);
    }
    CHECK(executor->run(sum_over("ranks", n), {one})[0].data<double>()[0] == static_cast<double>(n));
  }
  if (n > 1) {
    CHECK(message_of([&] {
            (void)cpu().run(sum_over("ranks", n), {one});
          }).find("to be bound to a communicator, got none") != std::string::npos);
  }
  CHECK(message_of([] {
          (void)with_axes(cpu(), {{"", MPI_COMM_WORLD}});
        }).find("empty") != std::string::npos);
  CHECK(message_of([] {
          (void)with_axes(cpu(), {{"i", MPI_COMM_NULL}});
        }).find("MPI_COMM_NULL") != std::string::npos);
  CHECK(message_of([] {
          (void)with_axes(cpu(), {{"i", MPI_COMM_WORLD}, {"i", MPI_COMM_WORLD}});
        }).find("got two") != std::string::npos);
}

TEST_CASE("an axis of one rank that is not bound") {
  std::vector<DType> all = numbers;
  all.push_back(bool_);
  for (const DType dtype : all) {
    for (const Shape& shape : {Shape{1, 3}, Shape{1, 0}}) {
      const Type type(dtype, shape);
      GraphBuilder builder("alone", standard_primitives());
      const Value x = builder.input("x", type);
      std::vector<Value> results{ops::ppermute(x, "alone", 1, {}), ops::ppermute(x, "alone", 1, {{0, 0}}),
                                 ops::all_gather(x, "alone", 1, 0, true)};
      if (dtype != bool_) {
        results.push_back(ops::psum(x, "alone", 1));
        results.push_back(ops::reduce_scatter(x, "alone", 1, 0, true));
      }
      const Graph graph = builder.build(results);
      const Tensor one = of_rank(type, session().rank() + 1);
      for (const auto& executor : executors()) {
        const std::vector<Tensor> got = executor->run(graph, {one});
        for (std::size_t i = 0; i < type.bytes(); ++i) CHECK(got[0].bytes()[i] == std::byte{0});
        for (std::size_t i = 1; i < got.size(); ++i) CHECK(same_bits(got[i], one));
      }
    }
  }
}

TEST_CASE("two axes of a grid") {
  const int n = session().size(), r = session().rank();
  const int columns = n % 2 == 0 ? 2 : 1, rows = n / columns;
  MPI_Comm row = MPI_COMM_NULL, column = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, r / columns, r, &row);
  MPI_Comm_split(MPI_COMM_WORLD, r % columns, r, &column);
  const CpuExecutor executor = with_axes(cpu(), {{"row", row}, {"column", column}}, {.verify = false});
  GraphBuilder builder("grid", standard_primitives());
  const Value x = builder.input("x", Type(i32, {}));
  const Value in_row = ops::psum(x, "row", columns), in_column = ops::psum(x, "column", rows);
  const Graph graph = builder.build({in_row, in_column, ops::psum(in_row, "column", rows)});
  const std::vector<Tensor> got = executor.run(graph, {Tensor::scalar(std::int32_t{r})});
  int in_my_row = 0, in_my_column = 0;
  for (int k = 0; k < n; ++k) {
    if (k / columns == r / columns) in_my_row += k;
    if (k % columns == r % columns) in_my_column += k;
  }
  CHECK(got[0].data<std::int32_t>()[0] == in_my_row);
  CHECK(got[1].data<std::int32_t>()[0] == in_my_column);
  CHECK(got[2].data<std::int32_t>()[0] == n * (n - 1) / 2);
  MPI_Comm_free(&row);
  MPI_Comm_free(&column);
}

}  // namespace
}  // namespace tidu::test
