// convolution_plan.cpp - the cut of a convolution into phases, blocks and matmuls; see Note [Convolution as
// matmuls].
#include <algorithm>
#include <numeric>

#include "cpu/convolution/convolution.hpp"
#include "cpu/cpu_target.hpp"
#include "cpu/layout.hpp"

namespace tidu::cpu_detail {
namespace {

using Index = std::int64_t;

constexpr Index patch_bytes = CpuTarget::near;  // of a block
constexpr Index max_phases = 1024;
constexpr Index wanted_tasks = 16;  // where there is work for so many

// The part of a phase along one spatial axis: its windows, and the kernel positions that they meet.
struct AxisPhase {
  Index first_window, windows;                     // every period-th window
  Index first_position, positions, position_step;  // of the kernel
  Index start, window_step, lhs_step;              // in lhs: of the first window's first position, and steps
};

Index up(Index x, Index y) { return (x + y - 1) / y; }

std::vector<AxisPhase> phases_of(const ConvAxis& a) {
  const Index period = a.spread / std::gcd(a.stride, a.spread);
  std::vector<AxisPhase> phases;
  for (Index w = 0; w < std::min(period, a.out); ++w) {
    const Index origin = w * a.stride - a.low;
    AxisPhase p{};
    p.first_window = w;
    p.windows = up(a.out - w, period);
    p.window_step = a.stride / std::gcd(a.stride, a.spread);
    p.position_step = a.spread / std::gcd(a.dilation, a.spread);
    p.lhs_step = a.dilation / std::gcd(a.dilation, a.spread);
    for (Index k = 0; k < std::min(a.kernel, p.position_step); ++k) {
      if ((origin + k * a.dilation) % a.spread != 0) continue;
      p.first_position = k;
      p.positions = (a.kernel - 1 - k) / p.position_step + 1;
      p.start = (origin + k * a.dilation) / a.spread;
      break;
    }
    // Positions that no window meets within lhs.
    while (p.positions > 0 && p.start + (p.windows - 1) * p.window_step < 0) {
      --p.positions;
      p.first_position += p.position_step;
      p.start += p.lhs_step;
    }
    while (p.positions > 0 && p.start + (p.positions - 1) * p.lhs_step >= a.lhs) --p.positions;
    phases.push_back(p);
  }
  return phases;
}

// The stride of axes [from, end) as one, if walking them in order is walking one; 0 where they have one
// element.
template <class Stride>
std::optional<Index> merged(const std::vector<ConvIndex>& axes, std::size_t from, const Stride& stride) {
  Index step = 0, extent = 1;
  for (std::size_t k = axes.size(); k-- > from;) {
    if (axes[k].extent == 1) continue;
    if (extent > 1 && stride(axes[k]) != step * extent) return std::nullopt;
    if (extent == 1) step = stride(axes[k]);
    extent *= axes[k].extent;
  }
  return step;
}
Index lhs_stride(const ConvIndex& axis) { return axis.lhs; }
Index other_stride(const ConvIndex& axis) { return axis.other; }

Index product_from(const std::vector<ConvIndex>& axes, std::size_t from) {
  Index product = 1;
  for (std::size_t k = from; k < axes.size(); ++k) product *= axes[k].extent;
  return product;
}

ConvCut cut_into(const std::vector<ConvIndex>& axes, Index target) {
  ConvCut cut;
  cut.axis = axes.size() - 1;
  while (cut.axis > 0 && cut.inner * axes[cut.axis].extent <= target) cut.inner *= axes[cut.axis--].extent;
  const Index extent = axes[cut.axis].extent;
  cut.chunk = std::clamp<Index>(target / cut.inner, 1, extent);
  cut.chunk = up(extent, up(extent, cut.chunk));
  cut.per_axis = up(extent, cut.chunk);
  cut.blocks = cut.per_axis;
  for (std::size_t k = 0; k < cut.axis; ++k) cut.blocks *= axes[k].extent;
  return cut;
}

// Elements of neighbouring axes that lie side by side in lhs, the last axes first.
Index run_length(const std::vector<ConvIndex>& axes) {
  Index run = 1;
  for (std::size_t k = axes.size(); k-- > 0 && (axes[k].extent == 1 || axes[k].lhs == run);)
    run *= axes[k].extent;
  return run;
}

void sort_and_drop(std::vector<ConvIndex>& axes, Index (*stride)(const ConvIndex&)) {
  std::erase_if(axes, [](const ConvIndex& axis) { return axis.extent == 1; });
  std::stable_sort(axes.begin(), axes.end(),
                   [&](const ConvIndex& a, const ConvIndex& b) { return stride(a) > stride(b); });
  if (axes.empty()) axes.push_back({1, 0, 0});
}

class PhasePlanner {
 public:
  PhasePlanner(ConvState& state, ConvPhase& phase) : state_(state), s_(state.shape), p_(phase) {}

  void plan() {
    sort_and_drop(p_.windows, other_stride);
    sort_and_drop(p_.terms, lhs_stride);
    p_.num_windows = product_from(p_.windows, 0);
    p_.num_terms = product_from(p_.terms, 0);
    arrange_kernel_and_result();
    p_.packs_lhs = !is_matrix();
    choose_blocks();
    arrange_lhs();
    for (int last_windows = p_.window_cut.per_axis > 1 ? 0 : 1; last_windows < 2; ++last_windows) {
      for (int last_terms = p_.term_cut.per_axis > 1 ? 0 : 1; last_terms < 2; ++last_terms)
        make_cell(last_windows, last_terms);
      make_store(last_windows);
    }
    reserve();
  }

 private:
  void arrange_kernel_and_result() {
    const Index nearest = p_.windows.back().other;
    p_.windows_first = s_.results > 1 ? s_.out_feature == 1 || nearest != 1 : nearest != 1;
    const auto step = merged(p_.terms, 0, other_stride);
    const bool one_term = p_.num_terms == 1, one_result = s_.results == 1;
    if (step && (one_result || s_.kernel_result == 1) && (one_term || *step >= s_.results)) {
      p_.kernel_leading = one_term ? s_.results : *step;
    } else if (step && (one_term || *step == 1) && (one_result || s_.kernel_result >= p_.num_terms)) {
      p_.kernel_by_result = true;
      p_.kernel_leading = one_result ? p_.num_terms : s_.kernel_result;
    } else {
      pack_kernel();
    }
  }

  void pack_kernel() {
    p_.packs_kernel = true;
    p_.kernel_by_result = !p_.windows_first;
    p_.kernel_leading = p_.kernel_by_result ? p_.num_terms : s_.results;
    std::vector<StridedAxis> axes{{s_.results, p_.kernel_by_result ? p_.num_terms : 1, s_.kernel_result}};
    append(axes, p_.terms, 0, p_.kernel_by_result ? 1 : s_.results, [](const ConvIndex& axis, Index to) {
      return StridedAxis{axis.extent, to, axis.other};
    });
    p_.kernel_pack = StridedCopy(std::move(axes), static_cast<std::size_t>(state_.element), 1);
    p_.kernel_scratch = state_.kernel_size;
    state_.kernel_size += s_.groups * s_.results * p_.num_terms;
  }

  // Is the view of lhs a matrix, or one for each element of the outermost axis of the windows?
  bool is_matrix() {
    const auto term = merged(p_.terms, 0, lhs_stride), window = merged(p_.windows, 0, lhs_stride);
    const auto inner = window ? window : merged(p_.windows, 1, lhs_stride);
    if (!term || !inner) return false;
    const Index count = product_from(p_.windows, window ? 0 : 1);
    if ((*term == 1 || p_.num_terms == 1) && (count == 1 || *inner >= p_.num_terms)) {
      p_.windows_inner = false;
      p_.leading = count == 1 ? p_.num_terms : *inner;
      return true;
    }
    if ((*inner == 1 || count == 1) && (p_.num_terms == 1 || *term >= count)) {
      p_.windows_inner = true;
      p_.leading = p_.num_terms == 1 ? count : *term;
      return true;
    }
    return false;
  }

  void choose_blocks() {
    const Index elements = patch_bytes / state_.element;
    Index terms = p_.num_terms, windows = elements / terms;
    if (!p_.packs_lhs) {
      windows = std::max<Index>(4096, product_from(p_.windows, 1));
    } else if (terms > 1024) {
      terms = std::min(terms, std::max<Index>(512, elements / std::min<Index>(p_.num_windows, 128)));
      windows = elements / terms;
    }
    const Index share = p_.num_windows * s_.groups / wanted_tasks;
    windows = std::min(windows, std::max<Index>(64, share));
    if (!p_.packs_lhs && !merged(p_.windows, 0, lhs_stride))
      windows = std::max(windows, product_from(p_.windows, 1));
    p_.window_cut = cut_into(p_.windows, std::clamp<Index>(windows, 1, 8192));
    p_.term_cut = cut_into(p_.terms, terms);
    if (!p_.packs_lhs && !merged(p_.windows, p_.window_cut.axis, lhs_stride)) {
      // members of a block lie apart in lhs
      p_.separate = true;
    }
    const Index tasks = p_.window_cut.blocks * s_.groups;
    if (tasks < wanted_tasks / 2) p_.term_groups = std::min<Index>(p_.term_cut.blocks, wanted_tasks / 2);
  }

  // Can matmuls write to the result directly? If so, sets its leading dimension, and whether the members of a
  // block are separate GEMMs.
  void arrange_result() {
    const auto inner = merged(p_.windows, p_.window_cut.axis + 1, other_stride);
    const auto whole = merged(p_.windows, p_.window_cut.axis, other_stride);
    if (p_.term_cut.blocks > 1 || !inner) return;
    const bool members = p_.separate || !whole;
    const Index step = members ? *inner : *whole;
    const Index count = p_.window_cut.inner * (members ? 1 : p_.window_cut.chunk);
    if (p_.windows_first) {
      const bool rows = (s_.out_feature == 1 || s_.results == 1) && (count == 1 || step >= s_.results);
      if (!rows) return;
      p_.result_leading = count == 1 ? s_.results : step;
    } else {
      const bool rows = (step == 1 || count == 1) && (s_.results == 1 || s_.out_feature >= count);
      if (!rows) return;
      p_.result_leading = s_.results == 1 ? count : s_.out_feature;
    }
    p_.direct = true;
    p_.separate = members;
  }

  void arrange_lhs() {
    arrange_result();
    if (p_.packs_lhs) p_.windows_inner = run_length(p_.windows) >= run_length(p_.terms);
  }

  static Index count_of(const ConvCut& cut, const std::vector<ConvIndex>& axes, int last) {
    return last == 0 ? cut.chunk : axes[cut.axis].extent - (cut.per_axis - 1) * cut.chunk;
  }

  void make_cell(int last_windows, int last_terms) {
    ConvCell& cell = p_.cells[static_cast<std::size_t>(2 * last_windows + last_terms)];
    const Index chunk = count_of(p_.window_cut, p_.windows, last_windows);
    const Index term_chunk = count_of(p_.term_cut, p_.terms, last_terms);
    cell.terms = term_chunk * p_.term_cut.inner;
    const Index members = p_.separate ? chunk : 1;
    const Index windows = p_.window_cut.inner * (p_.separate ? 1 : chunk);
    cell.windows = chunk * p_.window_cut.inner;
    if (p_.packs_lhs) {
      const Index window_to = p_.windows_inner ? 1 : cell.terms;
      const Index term_to = p_.windows_inner ? windows : 1;
      const auto from_lhs = [](const ConvIndex& axis, Index to) {
        return StridedAxis{axis.extent, to, axis.lhs};
      };
      std::vector<StridedAxis> axes;
      append(axes, p_.windows, p_.window_cut.axis + 1, window_to, from_lhs);
      axes.push_back({chunk, p_.separate ? windows * cell.terms : window_to * p_.window_cut.inner,
                      p_.windows[p_.window_cut.axis].lhs});
      append(axes, p_.terms, p_.term_cut.axis + 1, term_to, from_lhs);
      axes.push_back({term_chunk, term_to * p_.term_cut.inner, p_.terms[p_.term_cut.axis].lhs});
      cell.pack = StridedCopy(std::move(axes), static_cast<std::size_t>(state_.element), 1);
      state_.patch_size = std::max(state_.patch_size, cell.windows * cell.terms);
    }
    const Index leading = !p_.packs_lhs ? p_.leading : p_.windows_inner ? windows : cell.terms;
    const Index member_step = !p_.packs_lhs ? p_.windows[p_.window_cut.axis].lhs : windows * cell.terms;
    GemmCall call;
    call.type = state_.type;
    call.k = cell.terms;
    call.batch = members;
    call.stride_c = p_.direct ? p_.windows[p_.window_cut.axis].other : windows * s_.results;
    if (p_.windows_first) {
      call.m = windows;
      call.n = s_.results;
      call.trans_a = p_.windows_inner;
      call.lda = leading;
      call.stride_a = members == 1 ? 0 : member_step;
      call.trans_b = p_.kernel_by_result;
      call.ldb = p_.kernel_leading;
      call.ldc = p_.direct ? p_.result_leading : s_.results;
    } else {
      call.m = s_.results;
      call.n = windows;
      call.trans_a = !p_.kernel_by_result;
      call.lda = p_.kernel_leading;
      call.trans_b = !p_.windows_inner;
      call.ldb = leading;
      call.stride_b = members == 1 ? 0 : member_step;
      call.ldc = p_.direct ? p_.result_leading : windows;
    }
    cell.matmul.emplace(call, 1);
  }

  // From the results of a block, each of its members a matrix, to where they belong.
  void make_store(int last) {
    const Index chunk = count_of(p_.window_cut, p_.windows, last);
    const Index windows = p_.window_cut.inner * (p_.separate ? 1 : chunk);
    const Index window_step = p_.windows_first ? s_.results : 1;
    if (p_.direct) return;
    state_.result_size = std::max(state_.result_size, chunk * p_.window_cut.inner * s_.results);
    std::vector<StridedAxis> axes;
    append(axes, p_.windows, p_.window_cut.axis + 1, window_step, [](const ConvIndex& axis, Index from) {
      return StridedAxis{axis.extent, axis.other, from};
    });
    axes.push_back({chunk, p_.windows[p_.window_cut.axis].other,
                    p_.separate ? windows * s_.results : window_step * p_.window_cut.inner});
    axes.push_back({s_.results, s_.out_feature, p_.windows_first ? 1 : windows});
    p_.store[static_cast<std::size_t>(last)] =
        StridedCopy(std::move(axes), static_cast<std::size_t>(state_.element), 1);
  }

  void reserve() {
    p_.num_tasks = p_.window_cut.blocks * s_.groups * p_.term_groups;
    p_.first_task = state_.num_tasks;
    state_.num_tasks += p_.num_tasks;
    if (up(p_.term_cut.blocks, p_.term_groups) > matmuls_together) state_.long_sums = true;
    if (p_.term_groups == 1) return;
    p_.partial_scratch = state_.partial_size;
    state_.partial_size += p_.term_groups * s_.groups * p_.num_windows * s_.results;
  }

  // The axes from `first` on in row-major order, the last at steps of `unit` in the dense copy.
  template <class Make>
  static void append(std::vector<StridedAxis>& to, const std::vector<ConvIndex>& axes, std::size_t first,
                     Index unit, const Make& make) {
    for (std::size_t k = axes.size(); k-- > first; unit *= axes[k].extent) to.push_back(make(axes[k], unit));
  }

  ConvState& state_;
  const ConvShape& s_;
  ConvPhase& p_;
};

// Strides of lhs with zeros around it: axes in the order they have in memory, features and batch among them.
void plan_padding(ConvState& state, const std::vector<std::pair<Index, Index>>& regions) {
  ConvShape& s = state.shape;
  struct Axis {
    Index* stride;
    Index extent, copied, skipped, start;  // skipped: of lhs; start: of the copy in the padded axis
  };
  std::vector<Axis> axes{{&s.lhs_batch, s.batch, s.batch, 0, 0},
                         {&s.lhs_feature, s.groups * s.terms, s.groups * s.terms, 0, 0}};
  for (std::size_t d = 0; d < s.axes.size(); ++d) {
    const auto [low, high] = regions[d];
    const Index first = std::max<Index>(0, low);
    axes.push_back(
        {&s.axes[d].lhs_at, high - low, std::min(high, s.axes[d].lhs) - first, first, first - low});
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return *a.stride > *b.stride; });
  std::vector<StridedAxis> copied;
  state.padded_size = 1;
  for (std::size_t k = axes.size(); k-- > 0;) {
    const Axis& a = axes[k];
    copied.push_back({std::max<Index>(a.copied, 0), state.padded_size, *a.stride});
    if (a.copied > 0) {
      state.pad_from += a.skipped * *a.stride;
      state.pad_to += a.start * state.padded_size;
    }
    *a.stride = state.padded_size;
    state.padded_size *= a.extent;
  }
  state.pads = true;
  state.pad = StridedCopy(std::move(copied), static_cast<std::size_t>(state.element), state.threads);
}

}  // namespace

ConvShape ConvShape::of(const PlanRequest& request) {
  const Op& op = request.op;
  const Type lhs = request.in[0], rhs = request.in[1], out = request.out[0];
  const auto lhs_at = strides_of(lhs), rhs_at = strides_of(rhs), out_at = strides_of(out);
  const IntLists& specs = op.lists("dimension_numbers");
  const auto axis = [&specs](std::size_t spec, std::size_t position) {
    return static_cast<std::size_t>(specs[spec][position]);
  };
  ConvShape s{};
  s.batch = lhs.dim(axis(0, 0));
  s.groups = op.integer("feature_group_count");
  s.terms = rhs.dim(axis(1, 1));
  s.results = rhs.dim(axis(1, 0)) / s.groups;
  s.lhs_batch = lhs_at[axis(0, 0)];
  s.lhs_feature = lhs_at[axis(0, 1)];
  s.kernel_result = rhs_at[axis(1, 0)];
  s.kernel_feature = rhs_at[axis(1, 1)];
  s.out_batch = out_at[axis(2, 0)];
  s.out_feature = out_at[axis(2, 1)];
  for (std::size_t d = 0; d + 2 < lhs.rank(); ++d) {
    const std::size_t from = axis(0, d + 2), kernel = axis(1, d + 2), to = axis(2, d + 2);
    s.axes.push_back({lhs.dim(from), rhs.dim(kernel), out.dim(to), lhs_at[from], rhs_at[kernel], out_at[to],
                      op.ints("window_strides")[d], op.ints("lhs_dilation")[d], op.ints("rhs_dilation")[d],
                      op.lists("padding")[d][0]});
  }
  return s;
}

bool plan_matmuls(ConvState& state, Index operand_sizes) {
  ConvShape& s = state.shape;
  std::vector<std::vector<AxisPhase>> by_axis;
  std::vector<std::pair<Index, Index>> regions;  // of lhs that windows reach: [low, high)
  Index count = 1;
  double padded = static_cast<double>(s.batch) * static_cast<double>(s.groups * s.terms);
  bool pads = false;
  for (const ConvAxis& axis : s.axes) {
    const Index period = axis.spread / std::gcd(axis.stride, axis.spread);
    if (std::min(period, axis.out) > max_phases) return false;
    by_axis.push_back(phases_of(axis));
    count *= static_cast<Index>(by_axis.back().size());
    if (count > max_phases) return false;
    Index low = 0, high = axis.lhs;
    bool any = false;
    for (const AxisPhase& p : by_axis.back()) {
      if (p.positions == 0) continue;
      const Index end = p.start + (p.windows - 1) * p.window_step + (p.positions - 1) * p.lhs_step + 1;
      low = any ? std::min(low, p.start) : p.start;
      high = any ? std::max(high, end) : end;
      any = true;
    }
    if (!any) {
      low = 0;
      high = axis.lhs;
    }
    pads = pads || low < 0 || high > axis.lhs;
    regions.emplace_back(low, high);
    padded *= static_cast<double>(high - low);
  }
  if (padded > 1e6 + 8.0 * static_cast<double>(operand_sizes)) return false;
  if (pads) plan_padding(state, regions);

  std::vector<std::size_t> at(s.axes.size(), 0);
  for (Index i = 0; i < count; ++i) {
    ConvPhase phase;
    phase.windows.push_back({s.batch, s.lhs_batch, s.out_batch});
    phase.terms.push_back({s.terms, s.lhs_feature, s.kernel_feature});
    for (std::size_t d = 0; d < s.axes.size(); ++d) {
      const ConvAxis& axis = s.axes[d];
      const AxisPhase& p = by_axis[d][at[d]];
      const Index period = axis.spread / std::gcd(axis.stride, axis.spread);
      phase.windows.push_back({p.windows, p.window_step * axis.lhs_at, period * axis.out_at});
      phase.terms.push_back({p.positions, p.lhs_step * axis.lhs_at, p.position_step * axis.kernel_at});
      phase.lhs_at += (p.start - (pads ? regions[d].first : 0)) * axis.lhs_at;
      phase.kernel_at += p.first_position * axis.kernel_at;
      phase.out_at += p.first_window * axis.out_at;
    }
    for (std::size_t d = s.axes.size(); d-- > 0;) {
      if (++at[d] < by_axis[d].size()) break;
      at[d] = 0;
    }
    if (product_from(phase.terms, 0) == 0) {
      state.clears = true;
      continue;
    }
    PhasePlanner(state, phase).plan();
    state.phases.push_back(std::move(phase));
  }
  return true;
}

}  // namespace tidu::cpu_detail
