// Threads share the rows of large takes and the targets of large scatter_adds: the bits are those of one
// thread.
#include "cpu/compare.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace indexing_threads_cases {
namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.bytes(), b.bytes(), a.num_bytes()) == 0;
}

struct Sizes {
  Shape x;
  std::int64_t axis, count;
};

TEST_CASE("threads that share takes and scatter_adds give the bits of one, and name the first bad index") {
  std::mt19937_64 random(18);
  // One line and several, of slices of one element, few and many.
  const Sizes all[] = {{{300, 96}, 0, 2000},   {{200'000}, 0, 150'000},  {{40, 5000}, 1, 4000},
                       {{30, 50, 40}, 1, 120}, {{70'000, 3}, 0, 50'000}, {{1, 64}, 0, 3000},
                       {{3, 90'000}, 0, 2}};
  for (const Sizes& sizes : all) {
    for (const DType index : {i32, i64}) {
      if (shortened() && index == i64) continue;
      const Type x(f64, sizes.x), places(index, {sizes.count});
      Shape shape = sizes.x;
      shape[static_cast<std::size_t>(sizes.axis)] = sizes.count;
      const Type rows(f64, shape);
      const auto extent = static_cast<double>(sizes.x[static_cast<std::size_t>(sizes.axis)]);
      for (const double beyond : {0.0, 1.0}) {  // indices in range, and some beyond both ends
        const Tensor at = random_tensor(places, {-beyond, extent - 1 + beyond}, random);
        const std::vector<Tensor> taking{random_tensor(x, {}, random), at},
            adding{taking[0], at, random_tensor(rows, {}, random)};
        const char* const mode = index == i32 ? "clip" : "drop";
        const Attributes attributes{{"axis", sizes.axis}, {"mode", mode}};
        const Graph take = graph_of(Op::make(prim::take, attributes), {x, places});
        const Graph scatter = graph_of(Op::make(prim::scatter_add, attributes), {x, places, rows});
        const auto with = [](int threads, bool checks) {
          return CpuExecutor(CpuOptions{.threads = threads, .check_indices = checks});
        };
        const std::vector<Tensor> taken = with(1, false).run(take, taking),
                                  added = with(1, false).run(scatter, adding);
        if (beyond == 1.0) {
          CHECK(same_bits(taken[0], reference().run(take, taking)[0]));
          CHECK(same_bits(added[0], reference().run(scatter, adding)[0]));
        }
        for (const int threads : {2, 5}) {
          CHECK(same_bits(with(threads, false).run(take, taking)[0], taken[0]));
          CHECK(same_bits(with(threads, false).run(scatter, adding)[0], added[0]));
        }
        if (beyond == 0.0) continue;
        const auto message = [&](int threads, const Graph& graph, const std::vector<Tensor>& inputs) {
          const auto result = with(threads, true).compile(graph).try_run(inputs);
          return result.has_value() ? std::string() : std::string(result.error().what());
        };
        CHECK(message(5, take, taking) == message(1, take, taking));
        CHECK(message(5, scatter, adding) == message(1, scatter, adding));
      }
    }
  }
}

}  // namespace
}  // namespace indexing_threads_cases
