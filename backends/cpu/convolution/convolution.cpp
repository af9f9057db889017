// convolution.cpp - running a convolution: zeros around lhs, the kernel as matrices, then tasks that threads
// share, each a block of windows with all its terms or a part of them; see Note [Convolution as matmuls].
#include "cpu/convolution/convolution.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/convolution/convolution_onednn.hpp"
#include "cpu/convolution/convolution_padding.hpp"
#include "cpu/kernels/arithmetic.hpp"
#include "cpu/kernels/elementwise.hpp"
#include "cpu/layout.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cpu_detail {
namespace {

using Index = std::int64_t;

// A block of an index that is cut.
struct Block {
  bool last;
  Index start;               // first element of all
  Index lhs = 0, other = 0;  // offsets
};
Block block_of(const ConvCut& cut, const std::vector<ConvIndex>& axes, Index number) {
  const Index within = number % cut.per_axis;
  Index outer = number / cut.per_axis;
  Block block{within == cut.per_axis - 1, (outer * axes[cut.axis].extent + within * cut.chunk) * cut.inner,
              within * cut.chunk * axes[cut.axis].lhs, within * cut.chunk * axes[cut.axis].other};
  for (std::size_t k = cut.axis; k-- > 0; outer /= axes[k].extent) {
    block.lhs += outer % axes[k].extent * axes[k].lhs;
    block.other += outer % axes[k].extent * axes[k].other;
  }
  return block;
}

// One run: where everything lies.
class Convolve {
 public:
  using AddTo = void (*)(std::byte* sum, const std::byte* term, Index count);
  using AddProducts = void (*)(std::byte* sum, const std::byte* x, const std::byte* y, Index count);

  Convolve(const ConvState& state, const Call& call, AddTo add, AddProducts add_products)
      : s_(state),
        add_(add),
        add_products_(add_products),
        lhs_(call.in[0]),
        kernel_(call.in[1]),
        out_(call.out[0]) {
    std::byte* scratch = call.scratch;
    const auto take = [&](Index elements) {
      std::byte* const at = scratch;
      scratch += aligned(elements * s_.element);
      return at;
    };
    padded_ = take(s_.padded_size);
    packed_ = take(s_.kernel_size);
    partial_ = take(s_.partial_size);
    slots_ = scratch;
  }

  void run() {
    if (s_.clears) clear(out_, s_.out_size);
    if (s_.pads) {
      clear(padded_, s_.padded_size);
      s_.pad.run(lhs_ + s_.pad_from * s_.element, padded_ + s_.pad_to * s_.element);
      lhs_ = padded_;
    }
    if (s_.by_channels) {
      for (const ConvPhase& phase : s_.phases) run_by_channels(phase);
      return;
    }
    if (s_.kernel_size > 0)
      for_all(static_cast<Index>(s_.phases.size()) * s_.shape.groups, &Convolve::pack_kernel);
    for_all(s_.num_tasks, &Convolve::do_task);
    for (const ConvPhase& phase : s_.phases) {
      if (phase.term_groups > 1) sum_partials(phase);
    }
  }

  static Index slot_bytes(const ConvState& s) {
    return aligned(s.patch_size * s.element) + (s.long_sums ? 3 : 2) * aligned(s.result_size * s.element);
  }
  static Index scratch_bytes(const ConvState& s) {
    return aligned(s.padded_size * s.element) + aligned(s.kernel_size * s.element) +
           aligned(s.partial_size * s.element) + s.threads * slot_bytes(s);
  }

 private:
  void clear(std::byte* to, Index elements) const {
    parallel_for(s_.threads, elements * s_.element, 8 * element_grain, [to](Index begin, Index end) {
      if (begin < end) std::memset(to + begin, 0, static_cast<std::size_t>(end - begin));
    });
  }

  // Calls (this->*task)(number, slot) for every number below `count`; slots are scratch memory of a thread.
  void for_all(Index count, void (Convolve::*task)(Index, std::byte*)) {
    struct Loop {
      Convolve& self;
      void (Convolve::*task)(Index, std::byte*);
      Index count;
      std::atomic<Index> next{0};
    } loop{*this, task, count, {}};
    run_pieces(
        s_.threads, std::min<Index>(s_.threads, count),
        [](void* untyped, Index piece) {
          Loop& at = *static_cast<Loop*>(untyped);
          std::byte* const slot = at.self.slots_ + piece * slot_bytes(at.self.s_);
          for (Index i = at.next.fetch_add(1); i < at.count; i = at.next.fetch_add(1))
            (at.self.*at.task)(i, slot);
        },
        &loop);
  }

  // Each channel has a kernel of its own, and channels are contiguous in memory: the results of a window are
  // a sum of element-wise products of lines.
  void run_by_channels(const ConvPhase& phase) const {
    const Index channels = s_.shape.groups;
    const auto offset = [](const std::vector<ConvIndex>& axes, Index number) {
      Block at{false, number, 0, 0};
      for (std::size_t k = axes.size(); k-- > 0; number /= axes[k].extent) {
        at.lhs += number % axes[k].extent * axes[k].lhs;
        at.other += number % axes[k].extent * axes[k].other;
      }
      return at;
    };
    const Index grain = std::max<Index>(1, element_grain / (channels * phase.num_terms));
    parallel_for(s_.threads, phase.num_windows, grain, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        const Block window = offset(phase.windows, i);
        std::byte* const sum = out_ + (phase.out_at + window.other) * s_.element;
        std::memset(sum, 0, static_cast<std::size_t>(channels * s_.element));
        for (Index t = 0; t < phase.num_terms; ++t) {
          const Block term = offset(phase.terms, t);
          add_products_(sum, lhs_ + (phase.lhs_at + window.lhs + term.lhs) * s_.element,
                        kernel_ + (phase.kernel_at + term.other) * s_.element, channels);
        }
      }
    });
  }

  Index packed_at(const ConvPhase& phase, Index group) const {
    return phase.kernel_scratch + group * s_.shape.results * phase.num_terms;
  }

  void pack_kernel(Index number, std::byte*) {
    const ConvPhase& phase = s_.phases[static_cast<std::size_t>(number / s_.shape.groups)];
    const Index group = number % s_.shape.groups;
    if (!phase.packs_kernel) return;
    const Index from = phase.kernel_at + group * s_.shape.results * s_.shape.kernel_result;
    phase.kernel_pack.run(kernel_ + from * s_.element, packed_ + packed_at(phase, group) * s_.element);
  }

  // The kernel of a group from term `term` on.
  const std::byte* kernel_of(const ConvPhase& phase, Index group, Index term) const {
    const Index at = term * (phase.kernel_by_result ? 1 : phase.kernel_leading);
    if (phase.packs_kernel) return packed_ + (packed_at(phase, group) + at) * s_.element;
    const Index from = phase.kernel_at + group * s_.shape.results * s_.shape.kernel_result;
    return kernel_ + (from + at) * s_.element;
  }

  std::byte* partial_of(const ConvPhase& phase, Index term_group, Index group, Index window) const {
    const Index at = ((term_group * s_.shape.groups + group) * phase.num_windows + window) * s_.shape.results;
    return partial_ + (phase.partial_scratch + at) * s_.element;
  }

  void do_task(Index number, std::byte* slot) {
    const auto after = std::upper_bound(s_.phases.begin(), s_.phases.end(), number,
                                        [](Index n, const ConvPhase& p) { return n < p.first_task; });
    const ConvPhase& phase = *(after - 1);
    number -= phase.first_task;
    const Index window_block = number % phase.window_cut.blocks;
    number /= phase.window_cut.blocks;
    const Index term_group = number % phase.term_groups, group = number / phase.term_groups;
    const Block windows = block_of(phase.window_cut, phase.windows, window_block);
    std::byte* const patches = slot;
    std::byte* const results = patches + aligned(s_.patch_size * s_.element);
    std::byte* const more = results + aligned(s_.result_size * s_.element);
    std::byte* const several = more + aligned(s_.result_size * s_.element);
    std::byte* const out =
        out_ + (phase.out_at + windows.other + group * s_.shape.results * s_.shape.out_feature) * s_.element;
    std::byte* const sum = phase.direct            ? out
                           : phase.term_groups > 1 ? partial_of(phase, term_group, group, windows.start)
                                                   : results;
    const std::byte* lhs =
        lhs_ + (phase.lhs_at + windows.lhs + group * s_.shape.terms * s_.shape.lhs_feature) * s_.element;

    const Index per_group = (phase.term_cut.blocks + phase.term_groups - 1) / phase.term_groups;
    const Index first = std::min(term_group * per_group, phase.term_cut.blocks);
    const Index end = std::min(first + per_group, phase.term_cut.blocks);
    for (Index t = first; t < end; ++t) {
      const Block terms = block_of(phase.term_cut, phase.terms, t);
      const ConvCell& cell = phase.cells[(windows.last ? 2U : 0U) + (terms.last ? 1U : 0U)];
      const std::byte* view = lhs + terms.lhs * s_.element;
      if (phase.packs_lhs) {
        cell.pack.run(view, patches);
        view = patches;
      }
      const std::byte* const kernel = kernel_of(phase, group, terms.start);
      // The first matmuls_together matmuls are accumulated in `sum`. Further ones are accumulated in
      // `several`, which is added to `sum` after as many.
      const Index within = (t - first) % matmuls_together, elements = cell.windows * s_.shape.results;
      std::byte* const to = t == first ? sum : within == 0 ? several : more;
      cell.matmul->run(phase.windows_first ? view : kernel, phase.windows_first ? kernel : view, to);
      const bool is_first = t - first < matmuls_together;
      if (to == more) add_(is_first ? sum : several, more, elements);
      if (!is_first && (within + 1 == matmuls_together || t + 1 == end)) add_(sum, several, elements);
    }
    if (first == end) {
      const Index elements = phase.cells[windows.last ? 3 : 1].windows * s_.shape.results;
      std::memset(sum, 0, static_cast<std::size_t>(elements * s_.element));
    }
    if (!phase.direct && phase.term_groups == 1) phase.store[windows.last ? 1 : 0].run(sum, out);
  }

  void sum_partials(const ConvPhase& phase) {
    const Index size = s_.shape.groups * phase.num_windows * s_.shape.results;
    std::byte* const sum = partial_of(phase, 0, 0, 0);
    for (Index g = 1; g < phase.term_groups; ++g) add_(sum, partial_of(phase, g, 0, 0), size);
    for (Index group = 0; group < s_.shape.groups; ++group) {
      for (Index b = 0; b < phase.window_cut.blocks; ++b) {
        const Block windows = block_of(phase.window_cut, phase.windows, b);
        const Index to = phase.out_at + windows.other + group * s_.shape.results * s_.shape.out_feature;
        phase.store[windows.last ? 1 : 0].run(partial_of(phase, 0, group, windows.start),
                                              out_ + to * s_.element);
      }
    }
  }

  const ConvState& s_;
  AddTo add_;
  AddProducts add_products_;
  const std::byte* lhs_;
  const std::byte* kernel_;
  std::byte* out_;
  std::byte *padded_, *packed_, *partial_, *slots_;
};

template <class T>
void add_to(std::byte* sum, const std::byte* term, Index count) {
  T* x = reinterpret_cast<T*>(sum);
  const T* y = reinterpret_cast<const T*>(term);
  TIDU_INDEPENDENT
  for (Index i = 0; i < count; ++i) x[i] = Add()(x[i], y[i]);
}

template <class T>
void add_products(std::byte* sum, const std::byte* left, const std::byte* right, Index count) {
  T* z = reinterpret_cast<T*>(sum);
  const T *x = reinterpret_cast<const T*>(left), *y = reinterpret_cast<const T*>(right);
  TIDU_INDEPENDENT
  for (Index i = 0; i < count; ++i) z[i] = Add()(z[i], multiply(x[i], y[i]));
}

template <class T>
void convolve(const ConvState& s, const Call& call) {
  if (s.out_size != 0) Convolve(s, call, add_to<T>, add_products<T>).run();
}

// Computes result `i` as a plain sum, for convolutions of which matmuls would compute far more.
template <class T>
void convolve_at(const ConvState& s, const Call& call, Index i) {
  const ConvShape& c = s.shape;
  Index positions = 1, to = 0, first_window = i;
  for (std::size_t d = c.axes.size(); d-- > 0; i /= c.axes[d].out) {
    positions *= c.axes[d].kernel;
    to += i % c.axes[d].out * c.axes[d].out_at;
  }
  const Index result = i % (c.groups * c.results), batch = i / (c.groups * c.results);
  const T* const lhs =
      call.operand<T>(0) + batch * c.lhs_batch + result / c.results * c.terms * c.lhs_feature;
  const T* const kernel = call.operand<T>(1) + result * c.kernel_result;
  T sum(0);
  for (Index position = 0; position < positions; ++position) {
    Index windows = first_window, rest = position, from = 0, with = 0;
    bool inside = true;
    for (std::size_t d = c.axes.size(); d-- > 0 && inside;) {
      const ConvAxis& axis = c.axes[d];
      const Index k = rest % axis.kernel;
      const Index at = windows % axis.out * axis.stride + k * axis.dilation - axis.low;
      inside = at >= 0 && at % axis.spread == 0 && at / axis.spread < axis.lhs;
      if (inside) from += at / axis.spread * axis.lhs_at;
      with += k * axis.kernel_at;
      windows /= axis.out;
      rest /= axis.kernel;
    }
    for (Index term = 0; inside && term < c.terms; ++term)
      sum = Add()(sum, multiply(lhs[from + term * c.lhs_feature], kernel[with + term * c.kernel_feature]));
  }
  call.result<T>()[to + result * c.out_feature + batch * c.out_batch] = sum;
}

template <class T>
void convolve_one_by_one(const ConvState& s, const Call& call) {
  parallel_for(s.threads, s.out_size, 64, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) convolve_at<T>(s, call, i);
  });
}

Plan plan_convolution(const PlanRequest& request) {
  const std::optional<GemmType> type = gemm_type(request.out[0].dtype());
  if (!type) return Plan();
  ConvState state;
  state.shape = ConvShape::of(request);
  state.type = *type;
  state.element = gemm_element_size(*type);
  state.threads = std::max(request.threads, 1);
  state.out_size = request.out[0].size();
  const ConvShape& shape = state.shape;
  if (*type == GemmType::f32 && state.out_size != 0) {
    Plan plan = onednn::plan_convolution(shape, state.threads);
    if (plan) return with_zero_padding<float>(std::move(plan), shape);
  }
  // Sums over a kernel of many positions are long; matmuls compute them with smaller rounding errors.
  constexpr Index max_positions = 1024;
  Index positions = 1;
  for (const ConvAxis& axis : shape.axes) positions = std::min(max_positions + 1, positions * axis.kernel);
  const ConvShape unpadded = shape;
  state.by_channels = positions <= max_positions && shape.groups >= 8 && shape.terms == 1 &&
                      shape.results == 1 && shape.lhs_feature == 1 && shape.kernel_result == 1 &&
                      shape.out_feature == 1;
  bool matmuls = true;
  try {
    if (state.out_size != 0)
      matmuls = plan_matmuls(state, request.in[0].size() + request.in[1].size() + state.out_size);
  } catch (const GemmError& error) {
    throw Error(ErrorKind::execution, detail::str('[', request.op.name(), "] ", error.what()));
  }
  // What is padded may lie in another order.
  state.by_channels = state.by_channels && shape.lhs_feature == 1;
  return with_type(request.out[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (Boolean<T>) {
      return Plan();
    } else {
      const auto scratch = matmuls ? static_cast<std::size_t>(Convolve::scratch_bytes(state)) : 0;
      Plan plan = matmuls ? make_plan<ConvState, convolve<T>>(std::move(state), scratch)
                          : make_plan<ConvState, convolve_one_by_one<T>>(std::move(state));
      if constexpr (Integer<T>) {
        return plan;
      } else {
        return with_zero_padding<T>(std::move(plan), unpadded);
      }
    }
  });
}

constexpr KernelEntry convolution_entries[] = {{"conv_general_dilated", plan_convolution, numbers}};

}  // namespace

std::span<const KernelEntry> convolution_kernels() { return convolution_entries; }

}  // namespace tidu::cpu_detail
