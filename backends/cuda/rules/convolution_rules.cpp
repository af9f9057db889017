// convolution_rules.cpp - conv_general_dilated as matmuls: the elements that a window meets are copied into a
// row (or a column) of a matrix, whose matmul with the kernel is the result. If no library multiplies
// (integers), or if matmuls would be too small (many groups of few results), a thread sums up each element of
// the result. cuDNN computes some convolutions if it is asked to (convolution_match.cpp).
//
// Windows are counted w = (batch, positions of the result), terms of a sum t = (feature, positions of the
// kernel) or, if the features of lhs are its last axis, t = (positions of the kernel, feature).
#include <algorithm>

#include "cuda/kernels/kernels.hpp"
#include "cuda/rules/compose.hpp"
#include "cuda/rules/library_rules.hpp"

namespace tidu::cuda_detail {
namespace {

struct Axis {
  std::int64_t lhs, kernel, out;           // extents
  std::int64_t lhs_at, kernel_at, out_at;  // strides
  std::int64_t stride, spread, dilation, low;
};

// Axes by what they mean; strides in elements.
struct Shapes {
  explicit Shapes(const PlanRequest& request);
  std::int64_t batch, groups, terms, results;  // terms: features of lhs in a group; results likewise
  std::int64_t lhs_batch, lhs_feature, kernel_result, kernel_feature, out_batch, out_feature;
  std::int64_t windows = 1, places = 1;  // of one batch entry; of the kernel
  std::vector<Axis> axes;
  IntLists specs;
};

Shapes::Shapes(const PlanRequest& request) : specs(request.op.lists("dimension_numbers")) {
  const Type types[] = {request.in[0], request.in[1], request.out[0]};
  const Ints strides[] = {dense_strides(types[0].shape()), dense_strides(types[1].shape()),
                          dense_strides(types[2].shape())};
  const auto extent = [&](std::size_t which, std::size_t axis) {
    return types[which].dim(static_cast<std::size_t>(specs[which][axis]));
  };
  const auto at = [&](std::size_t which, std::size_t axis) {
    return strides[which][static_cast<std::size_t>(specs[which][axis])];
  };
  batch = extent(0, 0);
  groups = request.op.integer("feature_group_count");
  terms = extent(1, 1);
  results = extent(1, 0) / groups;
  lhs_batch = at(0, 0);
  lhs_feature = at(0, 1);
  kernel_result = at(1, 0);
  kernel_feature = at(1, 1);
  out_batch = at(2, 0);
  out_feature = at(2, 1);
  const Ints &window_strides = request.op.ints("window_strides"), &spread = request.op.ints("lhs_dilation"),
             &dilation = request.op.ints("rhs_dilation");
  const IntLists& padding = request.op.lists("padding");
  for (std::size_t k = 0; k < window_strides.size(); ++k) {
    axes.push_back({extent(0, k + 2), extent(1, k + 2), extent(2, k + 2), at(0, k + 2), at(1, k + 2),
                    at(2, k + 2), window_strides[k], spread[k], dilation[k], padding[k][0]});
    windows *= axes.back().out;
    places *= axes.back().kernel;
  }
}

std::string number(std::int64_t value) { return "(i64)" + std::to_string(value) + "ll"; }

// "const i64 NAME0 = …;" for the coordinates of `place` in these extents, the last one fastest.
std::string coordinates(const std::string& name, const std::string& place, const Ints& extents) {
  std::string text = "    i64 " + name + "_rest = " + place + ";\n";
  for (std::size_t k = extents.size(); k-- > 0;) {
    const std::string n = name + std::to_string(k);
    text += "    const i64 " + n + " = " + name + "_rest % " + number(extents[k]) + ";\n";
    text += "    " + name + "_rest /= " + number(extents[k]) + ";\n";
  }
  return text;
}

// Adds to `from` where the window at coordinates w meets the kernel's place at coordinates q, and says in
// `inside` whether there is an element.
std::string meeting(const Shapes& s) {
  std::string text;
  for (std::size_t k = 0; k < s.axes.size(); ++k) {
    const Axis& axis = s.axes[k];
    const std::string n = std::to_string(k);
    text += "    i64 at" + n + " = w" + n + " * " + number(axis.stride) + " + q" + n + " * " +
            number(axis.dilation) + " - " + number(axis.low) + ";\n";
    text += "    inside = inside && at" + n + " >= 0";
    if (axis.spread != 1) text += " && at" + n + " % " + number(axis.spread) + " == 0";
    text += ";\n    at" + n + " /= " + number(axis.spread) + ";\n";
    text += "    inside = inside && at" + n + " < " + number(axis.lhs) + ";\n";
    text += "    from += at" + n + " * " + number(axis.lhs_at) + ";\n";
  }
  return text;
}

Ints extents_of(const Shapes& s, std::int64_t Axis::*extent) {
  Ints list;
  for (const Axis& axis : s.axes) list.push_back(axis.*extent);
  return list;
}

// One thread sums up one element. Where there is none of x it is 0, as in patches.
void append_direct(Plan& plan, const Shapes& s, const PlanRequest& request) {
  const std::string memory(memory_name(request.out[0].dtype()));
  std::string text = elements_begin("const " + memory + "* __restrict__ x, const " + memory +
                                    "* __restrict__ kernel, " + memory + "* __restrict__ y");
  const std::int64_t features = s.groups * s.results;
  text += "    const i64 feature = (i64)(at % (u64)" + number(features) + "), window = (i64)(at / (u64)" +
          number(features) + ");\n";
  text += coordinates("w", "window % " + number(s.windows), extents_of(s, &Axis::out));
  text += "    const i64 n = window / " + number(s.windows) + ";\n";
  text += "    decltype(value(x[0])) sum{};\n";
  text += "    for (i64 place = 0; place < " + number(s.places) + "; ++place) {\n";
  text += coordinates("q", "place", extents_of(s, &Axis::kernel));
  text += "    bool inside = true;\n    i64 from = n * " + number(s.lhs_batch) + " + feature / " +
          number(s.results) + " * " + number(s.terms * s.lhs_feature) + ";\n";
  text += meeting(s);
  text += "    i64 with = feature * " + number(s.kernel_result);
  for (std::size_t k = 0; k < s.axes.size(); ++k)
    text += " + q" + std::to_string(k) + " * " + number(s.axes[k].kernel_at);
  text += ";\n    for (i64 c = 0; c < " + number(s.terms) +
          "; ++c) {\n      decltype(value(x[0])) v{};\n      if (inside) v = value(x[from + c * " +
          number(s.lhs_feature) + "]);\n      sum = op::add_product(sum, v, value(kernel[with + c * " +
          number(s.kernel_feature) + "]));\n    }\n    }\n";
  text += "    i64 to = n * " + number(s.out_batch) + " + feature * " + number(s.out_feature);
  for (std::size_t k = 0; k < s.axes.size(); ++k)
    text += " + w" + std::to_string(k) + " * " + number(s.axes[k].out_at);
  text += ";\n    store(y[to], sum);\n  }\n}\n";
  plan.steps.emplace_back(launch_elements("convolution", text, s.batch * s.windows * features,
                                          {argument(operand(0)), argument(operand(1)), argument(result())},
                                          request.multiprocessors));
}

// What windows meet, as matrices by group: strides of windows, of their batch entries and of terms.
struct Patches {
  BufferRef at;
  std::int64_t group, entry, window, term;
};

// Patches of `entries` batch entries from the first one on; terms or windows are next to each other.
void append_patches(Plan& plan, const Shapes& s, const Patches& patches, bool features_last,
                    std::int64_t first, std::int64_t entries, const PlanRequest& request) {
  const std::string memory(memory_name(request.in[0].dtype()));
  std::string text = elements_begin("const " + memory + "* __restrict__ x, " + memory +
                                    "* __restrict__ y, const i64 first, const i64 windows");
  const std::string terms = number(s.terms * s.places);
  if (features_last) {
    text += "    const i64 t = (i64)at % " + terms + ", rest = (i64)at / " + terms +
            ", w = rest % windows, g = rest / windows;\n";
    text += "    const i64 c = t % " + number(s.terms) + ", q = t / " + number(s.terms) + ";\n";
  } else {
    text += "    const i64 w = (i64)at % windows, rest = (i64)at / windows, t = rest % " + terms +
            ", g = rest / " + terms + ";\n";
    text += "    const i64 c = t / " + number(s.places) + ", q = t % " + number(s.places) + ";\n";
  }
  text += coordinates("w", "w % " + number(s.windows), extents_of(s, &Axis::out));
  text += coordinates("q", "q", extents_of(s, &Axis::kernel));
  text += "    bool inside = true;\n    i64 from = (first + w / " + number(s.windows) + ") * " +
          number(s.lhs_batch) + " + (g * " + number(s.terms) + " + c) * " + number(s.lhs_feature) + ";\n";
  text += meeting(s);
  text += "    " + memory + " v = {};\n    if (inside) v = x[from];\n    y[at] = v;\n  }\n}\n";
  plan.steps.emplace_back(launch_elements(
      "convolution_patches", text, s.groups * entries * s.windows * s.terms * s.places,
      {argument(operand(0)), argument(patches.at), argument(first), argument(entries * s.windows)},
      request.multiprocessors));
}

// The kernel as matrices by group: strides of results and of terms, which are one axis.
struct KernelMatrix {
  BufferRef at;
  std::int64_t group, result, term;
};
KernelMatrix kernel_matrix(Plan& plan, const Shapes& s, bool features_last, const PlanRequest& request) {
  const Type type = request.in[1];
  Ints terms(s.specs[1].begin() + 2, s.specs[1].end());
  terms.insert(features_last ? terms.end() : terms.begin(), s.specs[1][1]);
  const auto merged = merge_axes(type.shape(), terms);
  const std::int64_t count = s.terms * s.places;
  if (merged && lies_as_matrix(s.results, count, s.kernel_result, merged->stride))
    return {operand(1), s.results * s.kernel_result, s.kernel_result, count == 1 ? 1 : merged->stride};
  Ints permutation{s.specs[1][0]};
  permutation.insert(permutation.end(), terms.begin(), terms.end());
  const BufferRef copy = take_scratch(plan, type.bytes());
  append_transposed(plan, type, permutation, operand(1), copy, request);
  return {copy, s.results * count, count, 1};
}

// Are windows the places of lhs themselves?
bool meets_itself(const Shapes& s) {
  return std::all_of(s.axes.begin(), s.axes.end(), [](const Axis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.spread == 1 && axis.low == 0 && axis.lhs == axis.out;
  });
}
bool in_order(const Ints& spec, bool features_last) {
  Ints wanted{0};
  const auto spatial = static_cast<std::int64_t>(spec.size()) - 2;
  wanted.push_back(features_last ? spatial + 1 : 1);
  for (std::int64_t k = 0; k < spatial; ++k) wanted.push_back(features_last ? k + 1 : k + 2);
  return spec == wanted;
}
BufferRef moved(BufferRef place, std::int64_t elements, DType dtype) {
  place.offset += static_cast<std::size_t>(elements) * size_of(dtype);
  return place;
}

// A convolution as matmuls of patches and the kernel, some batch entries at a time.
class PatchMatmuls {
 public:
  PatchMatmuls(Plan& plan, const Shapes& shapes, const PlanRequest& request);
  void append();

 private:
  static constexpr std::int64_t max_bytes = std::int64_t{256} << 20, max_groups = 16;
  /// Where patches lie, and how many batch entries at a time have theirs.
  Patches place_patches();
  void append_places_last(const Patches& patches, std::int64_t first, std::int64_t entries);
  void append_features_last(const Patches& patches, std::int64_t first, std::int64_t windows);
  Matmuls matmuls() const;
  void append_order();

  Plan& plan_;
  const Shapes& s_;
  const PlanRequest& request_;
  DType dtype_;
  std::int64_t terms_, features_;
  bool features_last_;  ///< of lhs
  bool places_last_;    ///< results lie as (batch, feature, place); else as (window, feature)
  bool ordered_;        ///< as the result has them
  bool as_it_is_;       ///< lhs has its patches in their order
  std::int64_t chunk_;
  BufferRef out_;
  KernelMatrix kernel_;
};

PatchMatmuls::PatchMatmuls(Plan& plan, const Shapes& s, const PlanRequest& request)
    : plan_(plan), s_(s), request_(request), dtype_(request.out[0].dtype()) {
  terms_ = s.terms * s.places;
  features_ = s.groups * s.results;
  features_last_ = s.lhs_feature == 1 || s.axes.empty();
  places_last_ = in_order(s.specs[2], false) && s.groups <= max_groups && s.windows > 1;
  ordered_ = places_last_ || in_order(s.specs[2], true) || (s.windows == 1 && s.out_feature == 1);
  out_ = ordered_ ? result() : take_scratch(plan, request.out[0].bytes());
  kernel_ = kernel_matrix(plan, s, features_last_, request);
  as_it_is_ = meets_itself(s) &&
              (places_last_ ? in_order(s.specs[0], false) && !features_last_ : in_order(s.specs[0], true));
  chunk_ = s.batch;
}

Patches PatchMatmuls::place_patches() {
  Patches patches{operand(0), 0, s_.lhs_batch, 0, 0};
  if (as_it_is_) {
    patches.group = s_.terms * s_.lhs_feature;
    patches.window = places_last_ ? 1 : s_.groups * s_.terms;
    patches.term = s_.lhs_feature;
  } else {
    const std::int64_t entry = s_.windows * terms_ * s_.groups * static_cast<std::int64_t>(size_of(dtype_));
    chunk_ = std::clamp<std::int64_t>(max_bytes / entry, 1, s_.batch);
    patches.at = take_scratch(plan_, static_cast<std::size_t>(chunk_ * entry));
  }
  return patches;
}

void PatchMatmuls::append() {
  Patches patches = place_patches();
  for (std::int64_t first = 0; first < s_.batch; first += chunk_) {
    const std::int64_t entries = std::min(chunk_, s_.batch - first), windows = entries * s_.windows;
    if (!as_it_is_) {
      patches.group = windows * terms_;
      patches.term = features_last_ ? 1 : windows;
      patches.window = features_last_ ? terms_ : 1;
      patches.entry = patches.window * s_.windows;
      append_patches(plan_, s_, patches, features_last_, first, entries, request_);
    }
    if (places_last_) {
      append_places_last(patches, first, entries);
    } else {
      append_features_last(patches, first, windows);
    }
  }
  if (!ordered_) append_order();
}

Matmuls PatchMatmuls::matmuls() const {
  Matmuls p;
  p.dtype = dtype_;
  p.k = terms_;
  return p;
}

// For each group the kernel times patches, a matrix for each batch entry.
void PatchMatmuls::append_places_last(const Patches& patches, std::int64_t first, std::int64_t entries) {
  Matmuls p = matmuls();
  p.batch = entries;
  p.m = s_.results;
  p.n = s_.windows;
  p.a_row = kernel_.result;
  p.a_column = kernel_.term;
  p.b_matrix = patches.entry;
  p.b_row = patches.term;
  p.b_column = patches.window;
  p.out_row = s_.windows;
  p.out_matrix = features_ * s_.windows;
  for (std::int64_t g = 0; g < s_.groups; ++g) {
    p.a = moved(kernel_.at, g * kernel_.group, dtype_);
    p.b = moved(patches.at, g * patches.group, dtype_);
    p.out = moved(out_, first * p.out_matrix + g * s_.results * s_.windows, dtype_);
    append_matmuls(plan_, p, request_);
  }
}

// Patches times the kernel, a matrix for each group.
void PatchMatmuls::append_features_last(const Patches& patches, std::int64_t first, std::int64_t windows) {
  Matmuls p = matmuls();
  p.batch = s_.groups;
  p.m = windows;
  p.n = s_.results;
  p.a = patches.at;
  p.a_matrix = patches.group;
  p.a_row = patches.window;
  p.a_column = patches.term;
  p.b = kernel_.at;
  p.b_matrix = kernel_.group;
  p.b_row = kernel_.term;
  p.b_column = kernel_.result;
  p.out = moved(out_, first * s_.windows * features_, dtype_);
  p.out_row = features_;
  p.out_matrix = s_.results;
  append_matmuls(plan_, p, request_);
}

// From (batch, places, feature) to the order of the result's axes.
void PatchMatmuls::append_order() {
  Shape shape{s_.batch};
  for (const Axis& axis : s_.axes) shape.push_back(axis.out);
  shape.push_back(features_);
  const IntLists& specs = s_.specs;
  Ints permutation(shape.size());
  permutation[static_cast<std::size_t>(specs[2][0])] = 0;
  permutation[static_cast<std::size_t>(specs[2][1])] = static_cast<std::int64_t>(shape.size()) - 1;
  for (std::size_t k = 0; k < s_.axes.size(); ++k)
    permutation[static_cast<std::size_t>(specs[2][k + 2])] = static_cast<std::int64_t>(k) + 1;
  append_transposed(plan_, Type(dtype_, shape), permutation, out_, result(), request_);
}

Plan convolution(const PlanRequest& request) {
  Plan plan;
  plan.supported = true;
  if (request.in[0].size() == 0 || request.in[1].size() == 0) {
    plan.steps.emplace_back(ClearStep{result(), request.out[0].bytes()});
    return plan;
  }
  if (request.cudnn && append_library_convolution(plan, request)) return plan;
  const Shapes s(request);
  constexpr std::int64_t few_results = 8;
  if (!is_inexact(request.out[0].dtype()) || (s.groups > 1 && s.results < few_results)) {
    append_direct(plan, s, request);
  } else {
    PatchMatmuls(plan, s, request).append();
  }
  return plan;
}

constexpr RuleEntry entries[] = {
    {"conv_general_dilated", convolution, dtypes::integers | dtypes::floats | dtypes::complexes}};

}  // namespace

RuleTable convolution_rules() { return entries; }

}  // namespace tidu::cuda_detail
