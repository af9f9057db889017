// convolution_primitives.cpp - which primitive a convolution is, into which parts it is cut, and the formats
// of its operands; see Note [Convolutions by oneDNN].
#include "cpu/convolution/convolution_primitives.hpp"

#if defined(TIDU_WITH_ONEDNN_CONVOLUTIONS)

#include <string_view>

#include "cpu/instruction_set.hpp"
#include "cpu/matmul/onednn.hpp"

namespace tidu::cpu_detail::onednn {
namespace {

using Index = std::int64_t;

constexpr Index part_bytes = 768 * 1024;   // of operands and result of a call, to stay in cache
constexpr Index wanted_parts = 16;         // where there is work for so many
constexpr double min_work = 1 << 22;       // multiply-adds of a convolution
constexpr double min_weights = 1 << 21;    // and of one for weights
constexpr double min_part_work = 1 << 22;  // and of a part
constexpr Index max_extent = 1 << 20;      // along an axis
constexpr double max_elements = 1 << 30;   // of an operand
constexpr Index min_results = 32;          // features in a part, where they are cut
constexpr Index min_sums = 512;            // terms of each weight in a call

void require(dnnl_status_t status) {
  if (status != dnnl_success) throw Refused{status};
}

Owned<dnnl_primitive_attr> attributes() {
  dnnl_primitive_attr_t attr = nullptr;
  require(dnnl_primitive_attr_create(&attr));
  Owned<dnnl_primitive_attr> owned(attr);
  require(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
  require(dnnl_primitive_attr_set_fpmath_mode(attr, dnnl_fpmath_mode_strict));
  return owned;
}

Memory queried(const dnnl_primitive_desc_t desc, dnnl_query_t what) {
  const Memory* const found = dnnl_primitive_desc_query_md(desc, what, 0);
  if (found == nullptr) throw Refused{dnnl_unimplemented};
  return *found;
}

Step made_of(const dnnl_primitive_desc_t desc) {
  dnnl_primitive_t primitive = nullptr;
  require(dnnl_primitive_create(&primitive, desc));
  Step step{Owned<dnnl_primitive>(primitive), {}};
  const Memory* const scratchpad = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
  if (scratchpad != nullptr) step.scratchpad = *scratchpad;
  return step;
}

Step step_of(const dnnl_primitive_desc_t desc) {
  const char* name = "";
  require(dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, static_cast<void*>(&name)));
  const std::string_view code = name;
  // Plain loops, and an im2col of its own: ours is faster.
  if (code.starts_with("ref") || code.find("gemm:") != std::string_view::npos)
    throw Refused{dnnl_unimplemented};
  return made_of(desc);
}

// Null where the two are the same.
Step reorder(const Memory& from, const Memory& to) {
  if (dnnl_memory_desc_equal(&from, &to) != 0) return {};
  dnnl_primitive_desc_t desc = nullptr;
  require(dnnl_reorder_primitive_desc_create(&desc, &from, engine(), &to, engine(), attributes().get()));
  const Owned<dnnl_primitive_desc> owned(desc);
  return made_of(desc);
}

Index product_of(const std::vector<ConvAxis>& axes, Index ConvAxis::*extent) {
  Index product = 1;
  for (const ConvAxis& axis : axes) product *= axis.*extent;
  return product;
}

double work_of(const ConvShape& s) {
  const auto real = [](Index n) { return static_cast<double>(n); };
  return real(s.batch) * real(s.groups) * real(s.terms) * real(s.results) *
         real(product_of(s.axes, &ConvAxis::kernel)) * real(product_of(s.axes, &ConvAxis::out));
}

// oneDNN computes with ints.
bool fits(const ConvShape& s) {
  double lhs = 1, kernel = 1, out = 1;
  const auto grow = [](double& size, Index extent) { size *= static_cast<double>(extent); };
  for (const ConvAxis& a : s.axes) {
    for (const Index n : {a.lhs, a.kernel, a.out, a.stride, a.spread, a.dilation, a.low, -a.low}) {
      if (n > max_extent) return false;
    }
    if ((a.kernel - 1) * a.dilation > max_extent || (a.lhs - 1) * a.spread > max_extent) return false;
    grow(lhs, a.lhs);
    grow(kernel, a.kernel);
    grow(out, a.out);
  }
  for (const Index n : {s.batch, s.groups, s.terms}) grow(lhs, n);
  for (const Index n : {s.groups, s.results, s.terms}) grow(kernel, n);
  for (const Index n : {s.batch, s.groups, s.results}) grow(out, n);
  return std::max({lhs, kernel, out}) < max_elements;
}

class Planner {
 public:
  // `as_transpose`: what is a forward convolution is planned as the transpose of one.
  Planner(const ConvShape& shape, int threads, bool as_transpose) : as_transpose_(as_transpose) {
    s_.shape = shape;
    s_.threads = threads;
  }

  std::optional<PrimitiveState> plan() {
    ConvShape& c = s_.shape;
    if (c.axes.empty() || c.axes.size() > 3 || !fits(c)) return std::nullopt;
    const bool spreads =
        std::any_of(c.axes.begin(), c.axes.end(), [](const ConvAxis& a) { return a.spread != 1; });
    s_.kind = spreads                                                                      ? Kind::data
              : product_of(c.axes, &ConvAxis::kernel) > product_of(c.axes, &ConvAxis::out) ? Kind::weights
                                                                                           : Kind::forward;
    if (as_transpose_) {
      if (s_.kind != Kind::forward) return std::nullopt;
      s_.kind = Kind::data;
    }
    if (work_of(c) < (s_.kind == Kind::weights ? min_weights : min_work)) return std::nullopt;
    if (!gains() || !(s_.kind == Kind::data ? arrange_data() : arrange_forward())) return std::nullopt;
    if (s_.kind == Kind::weights && loses_depth()) return std::nullopt;
    cut();
    const OneThread one_thread;
    const Index rest = s_.members % s_.chunk;
    if (s_.chunks > 1 || rest == 0) make(s_.parts[0], s_.chunk);
    make(s_.parts[1], rest == 0 ? s_.chunk : rest);
    if (s_.kind != Kind::weights && s_.chunks > 1 &&
        dnnl_memory_desc_equal(&s_.parts[0].own_kernel, &s_.parts[1].own_kernel) == 0) {
      return std::nullopt;  // one packed kernel serves both
    }
    if (s_.kind == Kind::weights && s_.chunks > 1 &&
        dnnl_memory_desc_equal(&s_.parts[0].own_out, &s_.parts[1].own_out) == 0) {
      return std::nullopt;
    }
    return std::move(s_);
  }

 private:
  bool gains() const {
    const ConvShape& c = s_.shape;
    const Index positions = product_of(c.axes, &ConvAxis::kernel);
    switch (s_.kind) {
      case Kind::forward: return c.results >= 16 && positions > 1 && (c.terms >= 8 || positions >= 25);
      case Kind::data: return c.terms >= 8;
      case Kind::weights: break;
    }
    const bool is_matrix = std::all_of(c.axes.begin(), c.axes.end(), [](const ConvAxis& a) {
      return a.out == 1 && a.dilation == 1 && a.low == 0 && a.lhs == a.kernel;
    });
    // With AVX2, vectors of features: fewer than half of one measured slower than our own.
    const bool fills_vectors = c.batch >= 4 || cpu_has(InstructionSet::avx512);
    return c.batch * c.results >= 8 && fills_vectors && !is_matrix;
  }

  // oneDNN's backward weights with AVX-512 step through the front padding of a 3-D source as if the first
  // window that reaches the end of the source were the first one behind the padding, and read and write
  // beyond their arrays where it is not (compute_od_loop_partial of jit_avx512_common_conv_kernel.cpp, 2.6 to
  // 3.14). One step of the window that leaves the padding behind is right, and so is a source that holds the
  // whole window at each step.
  bool loses_depth() const {
    if (s_.axes.size() != 3) return false;
    const ConvAxis& depth = s_.shape.axes[0];
    const PrimitiveAxis& window = s_.axes[0];
    return window.low > window.stride && depth.lhs < depth.out + window.stride - 1;
  }

  // Negative padding cuts lhs; what is left of it has padding of its own.
  bool arrange_forward() {
    for (ConvAxis& axis : s_.shape.axes) {
      const Index window = (axis.kernel - 1) * axis.dilation + 1;
      Index high = (axis.out - 1) * axis.stride + window - axis.lhs - axis.low;
      if (axis.low < 0) {
        s_.lhs_at -= axis.low * axis.lhs_at;
        axis.lhs += axis.low;
        axis.low = 0;
      }
      if (high < 0) {
        axis.lhs += high;
        high = 0;
      }
      if (axis.lhs < 1) return false;
      const bool forward = s_.kind == Kind::forward;
      s_.axes.push_back(
          {forward ? axis.stride : axis.dilation, forward ? axis.dilation : axis.stride, axis.low, high});
    }
    return true;
  }

  bool arrange_data() {
    for (const ConvAxis& axis : s_.shape.axes) {
      const Index window = (axis.kernel - 1) * axis.dilation + 1;
      const Index low = window - 1 - axis.low;
      const Index high = (axis.lhs - 1) * axis.spread + window - axis.out - low;
      if (axis.stride != 1 || low < 0 || high <= -axis.spread) return false;
      s_.axes.push_back({axis.spread, axis.dilation, low, std::max<Index>(high, 0)});
    }
    s_.flips = true;
    return true;
  }

  void cut() {
    const ConvShape& c = s_.shape;
    const Index lhs = product_of(c.axes, &ConvAxis::lhs), kernel = product_of(c.axes, &ConvAxis::kernel),
                out = product_of(c.axes, &ConvAxis::out);
    const auto padded = [](Index features) { return (features + 15) / 16 * 16; };
    const bool weights = s_.kind == Kind::weights;
    s_.members = weights ? c.terms : c.batch;
    s_.lhs_step = weights ? c.lhs_feature : c.lhs_batch;
    s_.other_step = weights ? c.kernel_feature : c.out_batch;
    const Index member_bytes =
        4 * (lhs * padded(weights ? c.batch : c.terms) + (weights ? kernel : out) * padded(c.results));
    const double member_work = work_of(c) / static_cast<double>(c.groups * s_.members);
    Index chunk = std::max<Index>(1, part_bytes / member_bytes);
    chunk = std::min(chunk, (s_.members * c.groups + wanted_parts - 1) / wanted_parts);
    chunk = std::max(chunk, static_cast<Index>(min_part_work / member_work));
    if (weights) chunk = std::max(chunk, min_sums / kernel);
    s_.chunk = std::clamp<Index>(chunk, 1, s_.members);
    s_.chunks = (s_.members + s_.chunk - 1) / s_.chunk;
    s_.result_parts = 1;
    const bool cuts_first = weights && c.batch * c.results * out > part_bytes / 4;
    const double part_work = member_work * static_cast<double>(s_.chunk);
    while ((cuts_first ? 1 : s_.chunks) * c.groups * s_.result_parts < wanted_parts &&
           c.results % (32 * s_.result_parts) == 0 && c.results / (2 * s_.result_parts) >= min_results &&
           part_work / static_cast<double>(2 * s_.result_parts) >= min_part_work) {
      s_.result_parts *= 2;
    }
    s_.results = c.results / s_.result_parts;
    if (weights)
      s_.sums =
          std::min(s_.chunks, (wanted_parts + c.groups * s_.result_parts - 1) / (c.groups * s_.result_parts));
  }

  using Strides = std::vector<Index>;

  static Memory strided(std::vector<Index> dims, const Strides& strides) {
    Memory m{};
    require(dnnl_memory_desc_init_by_strides(&m, static_cast<int>(dims.size()), dims.data(), dnnl_f32,
                                             strides.data()));
    return m;
  }
  static Memory of_any_format(const Memory& like) {
    Memory m{};
    require(dnnl_memory_desc_init_by_tag(&m, like.ndims, like.dims, dnnl_f32, dnnl_format_tag_any));
    return m;
  }

  Memory operand(Index outer, Index inner, Index outer_step, Index inner_step, Index ConvAxis::*extent,
                 Index ConvAxis::*step) const {
    std::vector<Index> dims{outer, inner}, strides{outer_step, inner_step};
    for (const ConvAxis& axis : s_.shape.axes) {
      dims.push_back(axis.*extent);
      strides.push_back(axis.*step);
    }
    return strided(dims, strides);
  }

  // The flipped kernel of data: terms, results, positions, dense.
  Memory flipped_kernel() {
    const ConvShape& c = s_.shape;
    std::vector<Index> dims{c.terms, s_.results}, from{c.kernel_feature, c.kernel_result};
    for (const ConvAxis& axis : c.axes) {
      dims.push_back(axis.kernel);
      from.push_back(-axis.kernel_at);
    }
    Strides strides(dims.size());
    std::vector<StridedAxis> axes;
    Index step = 1;
    for (std::size_t k = dims.size(); k-- > 0; step *= dims[k]) {
      strides[k] = step;
      axes.push_back({dims[k], step, from[k]});
    }
    s_.flip = StridedCopy(std::move(axes), 4, 1);
    s_.flip_bytes = (step * 4 + 63) / 64 * 64;
    return strided(dims, strides);
  }

  void make(Part& p, Index members) {
    const ConvShape& c = s_.shape;
    p.members = members;
    if (s_.kind == Kind::weights) {
      p.lhs = operand(members, c.batch, c.lhs_feature, c.lhs_batch, &ConvAxis::lhs, &ConvAxis::lhs_at);
      p.kernel = operand(members, s_.results, c.kernel_feature, c.kernel_result, &ConvAxis::kernel,
                         &ConvAxis::kernel_at);
      p.out = operand(s_.results, c.batch, c.out_feature, c.out_batch, &ConvAxis::out, &ConvAxis::out_at);
    } else {
      p.lhs = operand(members, c.terms, c.lhs_batch, c.lhs_feature, &ConvAxis::lhs, &ConvAxis::lhs_at);
      p.kernel = s_.flips ? flipped_kernel()
                          : operand(s_.results, c.terms, c.kernel_result, c.kernel_feature, &ConvAxis::kernel,
                                    &ConvAxis::kernel_at);
      p.out = operand(members, s_.results, c.out_batch, c.out_feature, &ConvAxis::out, &ConvAxis::out_at);
    }
    make_convolution(p);
    const bool weights = s_.kind == Kind::weights;
    p.take_lhs = reorder(p.lhs, p.own_lhs);
    p.take_kernel = reorder(p.kernel, p.own_kernel);
    p.give_out = reorder(p.own_out, p.out);
    if (p.take_lhs.primitive) s_.lhs_bytes = std::max(s_.lhs_bytes, aligned_size(p.own_lhs));
    s_.kernel_bytes = std::max(s_.kernel_bytes, aligned_size(p.own_kernel));
    if (weights || p.give_out.primitive) s_.out_bytes = std::max(s_.out_bytes, aligned_size(p.own_out));
    for (const Step* step : {&p.take_lhs, &p.take_kernel, &p.give_out, &p.convolve})
      s_.scratch_bytes = std::max(s_.scratch_bytes, aligned_size(step->scratchpad));
  }

  void make_convolution(Part& p) {
    // Of the forward convolution that this is, or is a transpose of.
    const Memory& source = s_.kind == Kind::data ? p.out : p.lhs;
    const Memory& weights = s_.kind == Kind::weights ? p.out : p.kernel;
    const Memory& result = s_.kind == Kind::forward ? p.out : s_.kind == Kind::data ? p.lhs : p.kernel;
    const Memory x = of_any_format(source), w = of_any_format(weights), y = of_any_format(result);
    dnnl_dims_t strides{}, dilations{}, low{}, high{};
    for (std::size_t d = 0; d < s_.axes.size(); ++d) {
      strides[d] = s_.axes[d].stride;
      dilations[d] = s_.axes[d].dilation - 1;
      low[d] = s_.axes[d].low;
      high[d] = s_.axes[d].high;
    }
    const Owned<dnnl_primitive_attr> attr = attributes();
    const auto desc_of = [&](const dnnl_convolution_desc_t& what, const dnnl_primitive_desc_t hint) {
      dnnl_primitive_desc_t desc = nullptr;
      require(dnnl_primitive_desc_create(&desc, &what, attr.get(), engine(), hint));
      return Owned<dnnl_primitive_desc>(desc);
    };
    dnnl_convolution_desc_t what{};
    require(dnnl_dilated_convolution_forward_desc_init(&what, dnnl_forward_training, dnnl_convolution_direct,
                                                       &x, &w, nullptr, &y, strides, dilations, low, high));
    Owned<dnnl_primitive_desc> desc = desc_of(what, nullptr);
    if (s_.kind == Kind::forward) {
      p.own_lhs = queried(desc.get(), dnnl_query_src_md);
      p.own_kernel = queried(desc.get(), dnnl_query_weights_md);
      p.own_out = queried(desc.get(), dnnl_query_dst_md);
    } else if (s_.kind == Kind::data) {
      require(dnnl_dilated_convolution_backward_data_desc_init(&what, dnnl_convolution_direct, &x, &w, &y,
                                                               strides, dilations, low, high));
      desc = desc_of(what, desc.get());
      p.own_lhs = queried(desc.get(), dnnl_query_diff_dst_md);
      p.own_kernel = queried(desc.get(), dnnl_query_weights_md);
      p.own_out = queried(desc.get(), dnnl_query_diff_src_md);
    } else {
      require(dnnl_dilated_convolution_backward_weights_desc_init(
          &what, dnnl_convolution_direct, &x, &w, nullptr, &y, strides, dilations, low, high));
      desc = desc_of(what, desc.get());
      p.own_lhs = queried(desc.get(), dnnl_query_src_md);
      p.own_kernel = queried(desc.get(), dnnl_query_diff_dst_md);
      p.own_out = queried(desc.get(), dnnl_query_diff_weights_md);
    }
    p.convolve = step_of(desc.get());
  }

  PrimitiveState s_;
  bool as_transpose_;
};

}  // namespace

// Never destroyed: primitives of executables may outlive static destruction.
dnnl_engine_t engine() {
  static const dnnl_engine_t cpu = [] {
    dnnl_engine_t e = nullptr;
    return dnnl_engine_create(&e, dnnl_cpu, 0) == dnnl_success ? e : nullptr;
  }();
  if (cpu == nullptr) throw Refused{dnnl_unimplemented};
  return cpu;
}

// With AVX2, oneDNN has no forward convolution for wide padding, as there is around the cotangents of one
// without: it has the transpose of that.
std::optional<PrimitiveState> plan_primitives(const ConvShape& shape, int threads) {
  try {
    return Planner(shape, std::max(threads, 1), false).plan();
  } catch (const Refused&) {
    auto transposed = Planner(shape, std::max(threads, 1), true).plan();
    if (!transposed) throw;
    return transposed;
  }
}

}  // namespace tidu::cpu_detail::onednn

#endif
