// Reductions of rows of few elements, of integers and of many small matrices: compared with the reference
// interpreter, and bit by bit with one matrix alone.
#include "cpu/compare.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace narrow_reductions_cases {
namespace {

CpuExecutor with_threads(int threads) {
  CpuOptions options;
  options.threads = threads;
  return cpu().with_options(options);
}
bool are_same(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.bytes(), b.bytes(), a.type().bytes()) == 0;
}
Op reduction(const Primitive& primitive, std::int64_t axis) {
  return Op::make(primitive, {{"axes", Ints{axis}}});
}

}  // namespace

TEST_CASE("narrow reductions: integers and bools are the reference's") {
  using namespace prim;
  std::mt19937_64 random(1);
  const auto check = [&](const Primitive& primitive, Type type, std::int64_t axis) {
    const Graph graph = graph_of(reduction(primitive, axis), {type});
    const Tensor x = random_tensor(type, {-1e6, 1e6, true}, random);
    const Tensor expected = reference().run(graph, {x})[0];
    for (const int threads : {1, 2})
      CHECK_MESSAGE(are_same(with_threads(threads).run(graph, {x})[0], expected), primitive.name, " ", type);
  };
  for (const std::int64_t rows : {0, 1, 3, 21, 22, 64, 257, 1000}) {
    if (shortened() && rows > 257) continue;
    for (const std::int64_t columns : {1, 2, 3, 5, 8, 15, 16, 17, 40}) {
      for (const Primitive* primitive : {&reduce_sum, &reduce_prod, &reduce_max, &reduce_min}) {
        for (const DType dtype : {i32, i64}) {
          if (rows == 0 && (primitive == &reduce_max || primitive == &reduce_min)) continue;
          check(*primitive, Type(dtype, {rows, columns}), 0);
          check(*primitive, Type(dtype, {7, rows, columns}), 1);
        }
      }
      for (const Primitive* primitive : {&reduce_and, &reduce_or, &reduce_max, &reduce_min}) {
        check(*primitive, Type(bool_, {rows, columns}), 0);
        check(*primitive, Type(bool_, {7, rows, columns}), 1);
      }
    }
  }
}

TEST_CASE("narrow reductions: small matrices have the bits of each alone, on any number of threads") {
  using namespace prim;
  std::mt19937_64 random(2);
  struct Case {
    std::int64_t matrices, rows, columns;
  };
  for (const Case& c :
       {Case{2, 2, 2}, {9, 3, 3}, {5, 8, 8}, {5, 32, 2}, {5, 33, 2}, {6, 2, 32}, {7, 13, 5}, {20011, 3, 3}}) {
    for (const DType dtype : {f32, f64, c64}) {
      for (const Primitive* primitive : {&reduce_sum, &reduce_prod, &reduce_max, &reduce_min}) {
        if (is_complex(dtype) && primitive != &reduce_sum) continue;
        const Type type(dtype, {c.matrices, c.rows, c.columns}), one(dtype, {c.rows, c.columns});
        Tensor x = random_tensor(type, {-2, 2}, random);
        std::memset(x.mutable_bytes(), 0, one.bytes());
        if (dtype == f64) {  // sums of -0.0
          for (std::int64_t i = 0; i < one.size(); ++i)
            x.mutable_bytes()[8 * static_cast<std::size_t>(i) + 7] = std::byte{0x80};
        }
        const Graph all = graph_of(reduction(*primitive, 1), {type}),
                    single = graph_of(reduction(*primitive, 0), {one});
        const Tensor got = with_threads(1).run(all, {x})[0];
        CHECK(are_same(with_threads(2).run(all, {x})[0], got));
        const std::size_t row = static_cast<std::size_t>(c.columns) * size_of(dtype);
        for (std::int64_t i = 0; i < c.matrices; i += 1 + c.matrices / 50) {
          Tensor matrix(one);
          const auto at = static_cast<std::size_t>(i);
          std::memcpy(matrix.mutable_bytes(), x.bytes() + at * one.bytes(), one.bytes());
          const Tensor expected = with_threads(1).run(single, {matrix})[0];
          CHECK_MESSAGE(std::memcmp(got.bytes() + at * row, expected.bytes(), row) == 0, primitive->name, " ",
                        type, " ", i);
        }
      }
    }
  }
}

}  // namespace narrow_reductions_cases
