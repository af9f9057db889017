// folds.cpp - the folds of the standard set.
#include "cuda/kernels/folds.hpp"

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

std::string Fold::one(const std::string& element, const std::string& index) const {
  if (places) return function + "::one(" + element + ", (i64)(" + index + "))";
  return lifted ? function + "::one(" + element + ")" : element;
}
std::string Fold::get(const std::string& accumulated) const {
  if (places) return "(" + std::string(value_name(dtype)) + ")" + accumulated + ".index";
  return lifted ? function + "::get(" + accumulated + ")" : accumulated;
}

bool is_fold(const Op& op, Type operand) {
  if (monoid_of(op.name()).empty()) return false;
  if (op.name() == "logsumexp" && is_complex(operand.dtype())) return false;
  return true;
}

Fold fold_of(const Op& op, Type operand, Type result) {
  Fold fold;
  const std::string element(value_name(operand.dtype()));
  fold.function = "monoid::" + std::string(monoid_of(op.name())) + "<" + element;
  if (is_place(op)) fold.function += op.name() == "argmax" ? ", 1" : ", -1";
  fold.function += ">";
  fold.dtype = result.dtype();
  fold.places = is_place(op);
  fold.lifted = op.name() == "logsumexp";
  const DType dtype = operand.dtype();
  const std::size_t size = dtype == f16 || dtype == bf16 ? 4 : size_of(dtype);
  fold.accumulator = fold.places   ? "monoid::place<" + element + ">"
                     : fold.lifted ? "monoid::exponentials<" + element + ">"
                                   : element;
  fold.bytes = fold.places ? 16 : fold.lifted ? 2 * size : size;
  return fold;
}

Ints folded_axes(const Op& op) { return is_place(op) ? Ints{op.integer("axis")} : op.ints("axes"); }

FoldShape::FoldShape(const Shape& whole, const Ints& axes) : shape(whole) {
  for (std::size_t k = 0; k < whole.size(); ++k) {
    const bool drops = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(k)) != axes.end();
    (drops ? reduced : kept) *= whole[k];
    if (!runs.empty() && (folded.back() == drops || whole[k] == 1)) {
      runs.back() *= whole[k];
      continue;
    }
    if (!runs.empty() && runs.back() == 1) {  // so far of one point
      runs.back() = whole[k];
      folded.back() = drops;
      continue;
    }
    runs.push_back(whole[k]);
    folded.push_back(drops);
  }
  rows = runs.empty() || folded.back() || reduced == 1;
}

Writer::Index FoldShape::index(Writer& writer, const std::string& o, const std::string& r) const {
  Shape kept_runs, folded_runs;
  for (std::size_t k = 0; k < runs.size(); ++k) (folded[k] ? folded_runs : kept_runs).push_back(runs[k]);
  const std::vector<std::string> of_kept = writer.axes(writer.by_place(kept_runs, o)),
                                 of_folded = writer.axes(writer.by_place(folded_runs, r));
  std::vector<std::string> at;
  std::size_t next_kept = 0, next_folded = 0;
  for (std::size_t k = 0; k < runs.size(); ++k)
    at.push_back(folded[k] ? of_folded[next_folded++] : of_kept[next_kept++]);
  return writer.reshaped(writer.by_axes(runs, std::move(at)), shape);
}

std::string FoldShape::place(const std::string& o, const std::string& r) const {
  if (runs.size() > 2) return {};
  const std::string extent = std::to_string(rows ? reduced : kept) + "u";
  return rows ? o + " * " + extent + " + " + r : r + " * " + extent + " + " + o;
}

}  // namespace tidu::cuda_detail
