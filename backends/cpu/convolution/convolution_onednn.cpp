// convolution_onednn.cpp - running a convolution by oneDNN; see Note [Convolutions by oneDNN].
#include "cpu/convolution/convolution_onednn.hpp"

#include "cpu/convolution/convolution_primitives.hpp"

#if defined(TIDU_WITH_ONEDNN_CONVOLUTIONS)

#include <atomic>
#include <cstring>
#include <new>

#include "cpu/kernels/elementwise.hpp"
#include "cpu/matmul/onednn.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cpu_detail::onednn {
namespace {

using Index = std::int64_t;

struct Argument {
  int index;
  const Memory& type;
  const std::byte* data;
};

dnnl_status_t execute(const Step& step, std::byte* scratch, std::initializer_list<Argument> arguments) {
  dnnl_stream_t stream = nullptr;
  dnnl_status_t status = dnnl_stream_create(&stream, engine(), dnnl_stream_default_flags);
  const Owned<dnnl_stream> owned_stream(stream);
  std::array<dnnl_exec_arg_t, 4> values{};
  std::array<Owned<dnnl_memory>, 4> memories;
  int count = 0;
  const auto pass = [&](const Argument& a) {
    if (status != dnnl_success) return;
    dnnl_memory_t memory = nullptr;
    status = dnnl_memory_create(&memory, &a.type, engine(), const_cast<std::byte*>(a.data));
    memories[static_cast<std::size_t>(count)].reset(memory);
    values[static_cast<std::size_t>(count++)] = {a.index, memory};
  };
  for (const Argument& a : arguments) pass(a);
  if (dnnl_memory_desc_get_size(&step.scratchpad) > 0) pass({DNNL_ARG_SCRATCHPAD, step.scratchpad, scratch});
  if (status != dnnl_success) return status;
  return dnnl_primitive_execute(step.primitive.get(), stream, count, values.data());
}

class Run {
 public:
  Run(const PrimitiveState& state, const Call& call)
      : s_(state),
        lhs_(call.in[0] + 4 * state.lhs_at),
        kernel_(call.in[1]),
        out_(call.out[0]),
        shared_(call.scratch),
        slots_(call.scratch + state.shared_bytes()) {}

  dnnl_status_t run() {
    const Index pieces = s_.shape.groups * s_.result_parts;
    if (s_.kind == Kind::weights) {
      for_all(pieces * s_.sums, &Run::sum_weights);
      if (status_ == dnnl_success && s_.sums > 1) add_up(pieces);
      if (status_ == dnnl_success && !in_place()) for_all(pieces, &Run::give_weights);
    } else {
      if (!kernel_in_place()) for_all(pieces, &Run::pack_kernel);
      if (status_ == dnnl_success) for_all(pieces * s_.chunks, &Run::convolve);
    }
    return status_;
  }

 private:
  // Calls (this->*task)(number, slot) for every number below `count`; slots are scratch memory of a thread.
  void for_all(Index count, dnnl_status_t (Run::*task)(Index, std::byte*)) {
    struct Loop {
      Run& self;
      dnnl_status_t (Run::*task)(Index, std::byte*);
      Index count;
      std::atomic<Index> next{0};
      std::atomic<dnnl_status_t> status{dnnl_success};
    } loop{*this, task, count, {0}, {dnnl_success}};
    run_pieces(
        s_.threads, std::min<Index>(s_.threads, count),
        [](void* untyped, Index piece) {
          Loop& at = *static_cast<Loop*>(untyped);
          std::byte* const slot = at.self.slots_ + piece * at.self.s_.slot_bytes();
          const OneThread one_thread;
          for (Index i = at.next.fetch_add(1); i < at.count; i = at.next.fetch_add(1)) {
            const dnnl_status_t status = (at.self.*at.task)(i, slot);
            if (status != dnnl_success) at.status = status;
          }
        },
        &loop);
    if (loop.status != dnnl_success) status_ = loop.status;
  }

  // Features of the result that piece `number` of groups and parts begins at.
  Index result_of(Index number) const { return number * s_.results; }
  Index group_of(Index number) const { return number / s_.result_parts; }
  const std::byte* lhs_of(Index number, Index chunk) const {
    return lhs_ +
           4 * (group_of(number) * s_.shape.terms * s_.shape.lhs_feature + chunk * s_.chunk * s_.lhs_step);
  }
  const std::byte* kernel_of(Index number) const {
    return kernel_ + 4 * result_of(number) * s_.shape.kernel_result;
  }
  std::byte* out_of(Index number) const { return out_ + 4 * result_of(number) * s_.shape.out_feature; }

  bool kernel_in_place() const { return !s_.flips && !s_.parts[1].take_kernel.primitive; }
  // Do weights need no reordering and no sum?
  bool in_place() const { return s_.sums == 1 && !s_.parts[1].give_out.primitive; }

  // `data` in the primitive's format: in `reordered`, unless it has that format already.
  static const std::byte* taken(const Step& step, const Memory& from, const Memory& to, const std::byte* data,
                                std::byte* reordered, std::byte* scratch, dnnl_status_t& status) {
    if (!step.primitive) return data;
    status = execute(step, scratch, {{DNNL_ARG_FROM, from, data}, {DNNL_ARG_TO, to, reordered}});
    return reordered;
  }

  dnnl_status_t pack_kernel(Index number, std::byte* slot) {
    const Part& p = s_.parts[1];
    const std::byte* from = kernel_of(number);
    if (s_.flips) {
      Index last = 0;
      for (const ConvAxis& axis : s_.shape.axes) last += (axis.kernel - 1) * axis.kernel_at;
      std::byte* const flipped = p.take_kernel.primitive ? slot : shared_ + number * s_.kernel_bytes;
      s_.flip.run(from + 4 * last, flipped);
      if (!p.take_kernel.primitive) return dnnl_success;
      from = flipped;
    }
    return execute(
        p.take_kernel, slot + s_.flip_bytes,
        {{DNNL_ARG_FROM, p.kernel, from}, {DNNL_ARG_TO, p.own_kernel, shared_ + number * s_.kernel_bytes}});
  }

  dnnl_status_t convolve(Index number, std::byte* slot) {
    const Index chunk = number % s_.chunks;
    number /= s_.chunks;
    const Part& p = s_.part(chunk);
    std::byte* const own_out = slot + s_.lhs_bytes;
    std::byte* const scratch = own_out + s_.out_bytes;
    dnnl_status_t status = dnnl_success;
    const std::byte* const lhs =
        taken(p.take_lhs, p.lhs, p.own_lhs, lhs_of(number, chunk), slot, scratch, status);
    if (status != dnnl_success) return status;
    const std::byte* const kernel =
        kernel_in_place() ? kernel_of(number) : shared_ + number * s_.kernel_bytes;
    std::byte* const out = out_of(number) + 4 * chunk * s_.chunk * s_.other_step;
    std::byte* const to = p.give_out.primitive ? own_out : out;
    const bool data = s_.kind == Kind::data;
    status = execute(p.convolve, scratch,
                     {{data ? DNNL_ARG_DIFF_DST : DNNL_ARG_SRC, p.own_lhs, lhs},
                      {DNNL_ARG_WEIGHTS, p.own_kernel, kernel},
                      {data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_DST, p.own_out, to}});
    if (status != dnnl_success || to == out) return status;
    return execute(p.give_out, scratch, {{DNNL_ARG_FROM, p.own_out, to}, {DNNL_ARG_TO, p.out, out}});
  }

  std::byte* sum_of(Index piece, Index sum) const { return shared_ + (piece * s_.sums + sum) * s_.out_bytes; }

  dnnl_status_t sum_weights(Index number, std::byte* slot) {
    const Index piece = number / s_.sums, sum = number % s_.sums;
    std::byte* const own_kernel = slot + s_.lhs_bytes;
    std::byte* const more = own_kernel + s_.kernel_bytes;
    std::byte* const scratch = more + s_.out_bytes;
    std::byte* const total = in_place() ? out_of(piece) : sum_of(piece, sum);
    const Index begin = s_.chunks * sum / s_.sums, end = s_.chunks * (sum + 1) / s_.sums;
    for (Index chunk = begin; chunk < end; ++chunk) {
      const Part& p = s_.part(chunk);
      dnnl_status_t status = dnnl_success;
      const std::byte* const lhs =
          taken(p.take_lhs, p.lhs, p.own_lhs, lhs_of(piece, chunk), slot, scratch, status);
      if (status != dnnl_success) return status;
      const std::byte* const kernel =
          taken(p.take_kernel, p.kernel, p.own_kernel,
                kernel_of(piece) + 4 * chunk * s_.chunk * s_.other_step, own_kernel, scratch, status);
      if (status != dnnl_success) return status;
      std::byte* const to = chunk == begin ? total : more;
      status = execute(p.convolve, scratch,
                       {{DNNL_ARG_SRC, p.own_lhs, lhs},
                        {DNNL_ARG_DIFF_DST, p.own_kernel, kernel},
                        {DNNL_ARG_DIFF_WEIGHTS, p.own_out, to}});
      if (status != dnnl_success) return status;
      if (to == more) add(total, more, static_cast<Index>(dnnl_memory_desc_get_size(&p.own_out)) / 4);
    }
    return dnnl_success;
  }

  static void add(std::byte* sum, const std::byte* term, Index count) {
    float* const x = reinterpret_cast<float*>(sum);
    const float* const y = reinterpret_cast<const float*>(term);
    for (Index i = 0; i < count; ++i) x[i] += y[i];
  }

  void add_up(Index pieces) const {
    const Index size = static_cast<Index>(dnnl_memory_desc_get_size(&s_.parts[1].own_out)) / 4;
    for (Index piece = 0; piece < pieces; ++piece) {
      parallel_for(s_.threads, size, element_grain, [&](Index begin, Index end) {
        for (Index sum = 1; sum < s_.sums; ++sum)
          add(sum_of(piece, 0) + 4 * begin, sum_of(piece, sum) + 4 * begin, end - begin);
      });
    }
  }

  dnnl_status_t give_weights(Index piece, std::byte* slot) {
    const Part& p = s_.parts[1];
    if (p.give_out.primitive) {
      return execute(p.give_out, slot,
                     {{DNNL_ARG_FROM, p.own_out, sum_of(piece, 0)}, {DNNL_ARG_TO, p.out, out_of(piece)}});
    }
    std::memcpy(out_of(piece), sum_of(piece, 0), dnnl_memory_desc_get_size(&p.own_out));
    return dnnl_success;
  }

  const PrimitiveState& s_;
  const std::byte *lhs_, *kernel_;
  std::byte *out_, *shared_, *slots_;
  dnnl_status_t status_ = dnnl_success;
};

void run_convolution(const PrimitiveState& state, const Call& call) {
  const dnnl_status_t status = Run(state, call).run();
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) {
    throw Error(
        ErrorKind::execution,
        detail::str("[conv_general_dilated] expected oneDNN's convolution to succeed, got its status ",
                    static_cast<int>(status)));
  }
}

}  // namespace

Plan plan_convolution(const ConvShape& shape, int threads) {
  try {
    std::optional<PrimitiveState> state = plan_primitives(shape, threads);
    if (!state) return Plan();
    const auto scratch =
        static_cast<std::size_t>(state->shared_bytes() + state->threads * state->slot_bytes());
    return make_plan<PrimitiveState, run_convolution>(std::move(*state), scratch);
  } catch (const Refused& refused) {
    if (refused.status == dnnl_out_of_memory) throw std::bad_alloc();
    return Plan();
  }
}

}  // namespace tidu::cpu_detail::onednn

#else

namespace tidu::cpu_detail::onednn {

Plan plan_convolution(const ConvShape&, int) { return Plan(); }

}  // namespace tidu::cpu_detail::onednn

#endif
