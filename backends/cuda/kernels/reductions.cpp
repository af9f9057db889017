// reductions.cpp - the reductions of the standard set.
#include "cuda/kernels/reductions.hpp"

#include <algorithm>

namespace tidu::cuda_detail {
namespace {

bool is_place(const Op& op) { return op.name() == "argmax" || op.name() == "argmin"; }

std::string_view monoid_of(std::string_view primitive) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {
      {"reduce_sum", "sum"},      {"reduce_prod", "prod"}, {"reduce_max", "max"},
      {"reduce_min", "min"},      {"reduce_and", "all"},   {"reduce_or", "any"},
      {"logsumexp", "logsumexp"}, {"argmax", "extreme"},   {"argmin", "extreme"}};
  for (const auto& [name, monoid] : names) {
    if (name == primitive) return monoid;
  }
  return {};
}

}  // namespace

std::string Reduction::one(const std::string& element, const std::string& index) const {
  if (places) return function + "::one(" + element + ", (i64)(" + index + "))";
  return lifted ? function + "::one(" + element + ")" : element;
}
std::string Reduction::get(const std::string& accumulated) const {
  if (places) return "(" + std::string(value_name(dtype)) + ")" + accumulated + ".index";
  return lifted ? function + "::get(" + accumulated + ")" : accumulated;
}

bool is_reduction(const Op& op, Type operand) {
  if (monoid_of(op.name()).empty()) return false;
  if (op.name() == "logsumexp" && is_complex(operand.dtype())) return false;
  return true;
}

Reduction reduction_of(const Op& op, Type operand, Type result) {
  Reduction reduction;
  const std::string element(value_name(operand.dtype()));
  reduction.function = "monoid::" + std::string(monoid_of(op.name())) + "<" + element;
  if (is_place(op)) reduction.function += op.name() == "argmax" ? ", 1" : ", -1";
  reduction.function += ">";
  reduction.dtype = result.dtype();
  reduction.places = is_place(op);
  reduction.lifted = op.name() == "logsumexp";
  const DType dtype = operand.dtype();
  const std::size_t size = dtype == f16 || dtype == bf16 ? 4 : size_of(dtype);
  reduction.accumulator = reduction.places   ? "monoid::place<" + element + ">"
                          : reduction.lifted ? "monoid::exponentials<" + element + ">"
                                             : element;
  reduction.bytes = reduction.places ? 16 : reduction.lifted ? 2 * size : size;
  return reduction;
}

Ints reduced_axes(const Op& op) { return is_place(op) ? Ints{op.integer("axis")} : op.ints("axes"); }

ReductionShape::ReductionShape(const Shape& whole, const Ints& axes) : shape(whole) {
  for (std::size_t k = 0; k < whole.size(); ++k) {
    const bool drops = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(k)) != axes.end();
    (drops ? reduced : kept) *= whole[k];
    if (!runs.empty() && (is_reduced.back() == drops || whole[k] == 1)) {
      runs.back() *= whole[k];
      continue;
    }
    if (!runs.empty() && runs.back() == 1) {  // so far of one point
      runs.back() = whole[k];
      is_reduced.back() = drops;
      continue;
    }
    runs.push_back(whole[k]);
    is_reduced.push_back(drops);
  }
  rows = runs.empty() || is_reduced.back() || reduced == 1;
}

Writer::Index ReductionShape::index(Writer& writer, const std::string& o, const std::string& r) const {
  Shape kept_runs, reduced_runs;
  for (std::size_t k = 0; k < runs.size(); ++k) (is_reduced[k] ? reduced_runs : kept_runs).push_back(runs[k]);
  const std::vector<std::string> of_kept = writer.axes(writer.by_place(kept_runs, o)),
                                 of_reduced = writer.axes(writer.by_place(reduced_runs, r));
  std::vector<std::string> at;
  std::size_t next_kept = 0, next_reduced = 0;
  for (std::size_t k = 0; k < runs.size(); ++k)
    at.push_back(is_reduced[k] ? of_reduced[next_reduced++] : of_kept[next_kept++]);
  return writer.reshaped(writer.by_axes(runs, std::move(at)), shape);
}

std::string ReductionShape::place(const std::string& o, const std::string& r) const {
  if (runs.size() > 2) return {};
  const std::string extent = std::to_string(rows ? reduced : kept) + "u";
  return rows ? o + " * " + extent + " + " + r : r + " * " + extent + " + " + o;
}

}  // namespace tidu::cuda_detail
