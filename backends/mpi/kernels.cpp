// kernels.cpp - the collectives over a communicator. Arrays are viewed as [outer, ranks, inner] around the
// axis that is gathered or scattered.
//
// A sum is taken in ascending order of ranks: each rank gets all ranks' parts of a range of the elements,
// adds them up, and, for psum, distributes the sums. The result does not depend on the order of a reduction
// in MPI, and each rank sends twice the array at most.
#include <complex>
#include <cstring>
#include <exception>
#include <type_traits>

#include "mpi/communicator.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/literal.hpp"

namespace tidu::mpi_detail {
namespace {

// Scratch memory of `bytes`, for a kernel whose ranks have agreed on their operation. A rank that cannot go
// on, because of the size of its axis or for lack of memory, takes part in the comparison first: the others
// would wait for it for ever.
std::vector<std::byte> agreed_scratch(const Axes& axes, const Communicator& ranks, const KernelCall& call,
                                      std::size_t bytes) {
  const bool fits = call.op().integer("axis_size") == ranks.size();
  std::vector<std::byte> scratch;
  std::exception_ptr no_memory;
  try {
    if (fits) scratch.resize(bytes);
  } catch (const std::exception&) {
    no_memory = std::current_exception();
  }
  bool same = true;
  if (axes.verify()) {
    // Ranks that differ in it do not run the same operation, of axis_size ranks, on the same types. Keys are
    // the same in every process.
    const Key128 mixed = detail::mix(call.op().key(), call.input(0).type().key());
    const std::uint64_t number = mixed.high ^ mixed.low;
    same = ranks.agrees(no_memory ? ~number : number);
  }
  if (no_memory) std::rethrow_exception(no_memory);
  if (!fits) {
    throw Error(ErrorKind::execution,
                detail::str('[', call.op().name(), "] expected a communicator of ",
                            call.op().integer("axis_size"), " ranks for axis ",
                            detail::in_quotes(call.op().string("axis_name")), ", got one of ", ranks.size()));
  }
  if (!same) {
    throw Error(
        ErrorKind::execution,
        detail::str('[', call.op().name(), "] expected all ranks of axis ",
                    detail::in_quotes(call.op().string("axis_name")),
                    " to run one operation on operands of one type, with memory for it, got others than ",
                    call.input(0).type(), " of rank ", ranks.rank()));
  }
  return scratch;
}

// out[i] = Σ_r in[r * count + i], r ascending.
template <class T, class Wide, class Load, class Store>
void add_up(const std::byte* in, std::byte* out, std::size_t ranks, std::size_t count, const Load& load,
            const Store& store) {
  for (std::size_t i = 0; i < count; ++i) {
    Wide sum{};
    for (std::size_t r = 0; r < ranks; ++r) {
      T share;
      std::memcpy(&share, in + (r * count + i) * sizeof(T), sizeof(T));
      sum = r == 0 ? load(share) : static_cast<Wide>(sum + load(share));
    }
    const T rounded = store(sum);
    std::memcpy(out + i * sizeof(T), &rounded, sizeof(T));
  }
}
void add_up(DType dtype, const std::byte* in, std::byte* out, std::size_t ranks, std::size_t count) {
  const auto plain = [&]<class T>(std::type_identity<T>) {
    add_up<T, T>(
        in, out, ranks, count, [](T x) { return x; }, [](T x) { return x; });
  };
  switch (dtype) {
    case DType::boolean: return;                                         // refused by the type rule
    case DType::i32: return plain(std::type_identity<std::uint32_t>());  // wraps around
    case DType::i64: return plain(std::type_identity<std::uint64_t>());
    case DType::f16: return add_up<std::uint16_t, float>(in, out, ranks, count, half_to_float, float_to_half);
    case DType::bf16:
      return add_up<std::uint16_t, float>(in, out, ranks, count, bfloat16_to_float, float_to_bfloat16);
    case DType::f32: return plain(std::type_identity<float>());
    case DType::f64: return plain(std::type_identity<double>());
    case DType::c64: return plain(std::type_identity<std::complex<float>>());
    case DType::c128: return plain(std::type_identity<std::complex<double>>());
  }
}

void psum(const Axes& axes, const Communicator& ranks, const KernelCall& call) {
  const Type type = call.input(0).type();
  const auto size = static_cast<std::size_t>(type.size()), n = static_cast<std::size_t>(ranks.size());
  const std::size_t part = (size + n - 1) / n, bytes = part * size_of(type.dtype());
  std::vector<std::byte> scratch = agreed_scratch(axes, ranks, call, (2 * n + 1) * bytes);
  if (size == 0) return;
  std::byte *const padded = scratch.data(), *const shares = padded + n * bytes,
                   *const sums = shares + n * bytes;
  std::memcpy(padded, call.input(0).bytes(), type.bytes());
  ranks.exchange(padded, shares, bytes);
  add_up(type.dtype(), shares, sums, n, part);
  ranks.gather(sums, padded, bytes);
  std::memcpy(call.output().mutable_bytes(), padded, type.bytes());
}

// The bytes after `dimension` of the shape that has one row for each rank there, rank by rank.
struct Rows {
  std::size_t outer = 1, inner;
};
Rows rows_of(const Shape& shape, std::int64_t dimension, DType dtype) {
  Rows rows{1, size_of(dtype)};
  for (std::size_t k = 0; k < shape.size(); ++k)
    (k < static_cast<std::size_t>(dimension) ? rows.outer : rows.inner) *= static_cast<std::size_t>(shape[k]);
  return rows;
}

void all_gather(const Axes& axes, const Communicator& ranks, const KernelCall& call) {
  const Type x = call.input(0).type();
  const Rows rows = rows_of(x.shape(), call.op().integer("all_gather_dimension"), x.dtype());
  const auto n = static_cast<std::size_t>(ranks.size());
  std::vector<std::byte> all = agreed_scratch(axes, ranks, call, rows.outer == 1 ? 0 : n * x.bytes());
  if (x.size() == 0) return;
  std::byte* out = call.output().mutable_bytes();
  if (rows.outer == 1) return ranks.gather(call.input(0).bytes(), out, rows.inner);
  ranks.gather(call.input(0).bytes(), all.data(), x.bytes());
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t o = 0; o < rows.outer; ++o)
      std::memcpy(out + (o * n + r) * rows.inner, &all[(r * rows.outer + o) * rows.inner], rows.inner);
  }
}

void reduce_scatter(const Axes& axes, const Communicator& ranks, const KernelCall& call) {
  const Type y = call.output().type();
  const Rows rows = rows_of(y.shape(), call.op().integer("scatter_dimension"), y.dtype());
  const auto n = static_cast<std::size_t>(ranks.size());
  std::vector<std::byte> scratch = agreed_scratch(axes, ranks, call, 2 * n * y.bytes());
  if (y.size() == 0) return;
  const std::byte* in = call.input(0).bytes();
  std::byte *const by_rank = scratch.data(), *const shares = by_rank + n * y.bytes();
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t o = 0; o < rows.outer; ++o)
      std::memcpy(by_rank + (r * rows.outer + o) * rows.inner, in + (o * n + r) * rows.inner, rows.inner);
  }
  ranks.exchange(by_rank, shares, y.bytes());
  add_up(y.dtype(), shares, call.output().mutable_bytes(), n, static_cast<std::size_t>(y.size()));
}

void ppermute(const Axes& axes, const Communicator& ranks, const KernelCall& call) {
  (void)agreed_scratch(axes, ranks, call, 0);
  const Type x = call.input(0).type();
  if (x.size() == 0) return;
  int source = MPI_PROC_NULL, destination = MPI_PROC_NULL;
  for (const Ints& pair : call.op().lists("perm")) {
    if (pair[0] == ranks.rank()) destination = static_cast<int>(pair[1]);
    if (pair[1] == ranks.rank()) source = static_cast<int>(pair[0]);
  }
  std::byte* out = call.output().mutable_bytes();
  if (source == MPI_PROC_NULL) std::memset(out, 0, x.bytes());
  ranks.shift(call.input(0).bytes(), destination, out, source, x.bytes());
}

// Over an axis of one rank that is not bound.
void on_one_rank(const KernelCall& call) {
  const std::size_t bytes = call.output().type().bytes();
  if (bytes == 0) return;
  if (call.op().name() == "ppermute" && call.op().lists("perm").empty()) {
    std::memset(call.output().mutable_bytes(), 0, bytes);
  } else {
    std::memmove(call.output().mutable_bytes(), call.input(0).bytes(), bytes);
  }
}

}  // namespace

std::vector<std::pair<std::string_view, Kernel>> kernels(std::shared_ptr<const Axes> axes) {
  const auto bind = [&](void (*kernel)(const Axes&, const Communicator&, const KernelCall&)) -> Kernel {
    return [axes, kernel](const KernelCall& call) {
      const Communicator* ranks = axes->of(call.op());
      if (ranks == nullptr) return on_one_rank(call);
      const auto turn = ranks->turn();
      kernel(*axes, *ranks, call);
    };
  };
  return {{"psum", bind(psum)},
          {"all_gather", bind(all_gather)},
          {"reduce_scatter", bind(reduce_scatter)},
          {"ppermute", bind(ppermute)}};
}

}  // namespace tidu::mpi_detail
