// transpose_epilogue.cpp - see transpose_epilogue.hpp.
#include "cpu/groups/transpose_epilogue.hpp"

#include <algorithm>

namespace tidu::cpu_detail {
namespace {

// Maximum bytes of a piece.
constexpr std::int64_t piece_bytes = std::int64_t{1} << 13;
// Entries of the axis that is cut in a piece, at least where there are as many, and a multiple of what fills
// whole lines of the caches.
constexpr std::int64_t min_entries = 4, whole_lines = 8;
// Bytes side by side in the result: a transpose by itself goes through whole tiles of it. Where the result is
// beyond the caches and an entry of the axis has many elements, fewer do. (Measured.)
constexpr std::int64_t min_run = 256, min_far_run = 16, far_entry = 128;
constexpr std::size_t far_bytes = std::size_t{1} << 22;

}  // namespace

std::optional<TransposingCopy> TransposingCopy::make(Type type, std::span<const std::int64_t> permutation,
                                                     std::int64_t columns) {
  const std::size_t rank = type.rank();
  std::vector<StridedAxis> axes(rank);
  std::int64_t stride = 1;
  for (std::size_t k = rank; k-- > 0; stride *= type.dim(k)) axes[k] = {type.dim(k), 0, stride};
  stride = 1;
  for (std::size_t k = rank; k-- > 0;) {
    StridedAxis& axis = axes[static_cast<std::size_t>(permutation[k])];
    axis.to = stride;
    stride *= axis.extent;
  }
  // The first axis of which some entries are a piece.
  TransposingCopy copy;
  copy.size_ = size_of(type.dtype());
  const std::int64_t most = piece_bytes / static_cast<std::int64_t>(copy.size_);
  std::size_t cut = 0;
  while (cut < rank && std::min(axes[cut].extent, min_entries) * axes[cut].from > most) ++cut;
  if (cut == rank || axes[cut].from % columns != 0 || type.size() == 0) return std::nullopt;
  const StridedAxis along = axes[cut];
  copy.extent_ = along.extent;
  copy.to_ = along.to;
  copy.inner_ = along.from;
  copy.at_once_ = std::min(along.extent, most / along.from);
  if (copy.at_once_ > whole_lines) copy.at_once_ -= copy.at_once_ % whole_lines;
  // What of a piece lies side by side in the result: its last axes.
  std::int64_t run = 1;
  for (std::size_t k = rank; k-- > 0;) {
    const auto axis = static_cast<std::size_t>(permutation[k]);
    if (axes[axis].extent == 1) continue;
    if (axis < cut || axes[axis].to != run) break;
    run *= axis == cut ? copy.at_once_ : axes[axis].extent;
  }
  const bool is_far = type.bytes() >= far_bytes && copy.inner_ >= far_entry;
  if (run * static_cast<std::int64_t>(copy.size_) < (is_far ? min_far_run : min_run)) return std::nullopt;
  copy.of_each_ = (copy.extent_ + copy.at_once_ - 1) / copy.at_once_;
  copy.pieces_ = copy.of_each_;
  for (std::size_t k = 0; k < cut; ++k) {
    copy.outer_.push_back({axes[k].extent, axes[k].to});
    copy.pieces_ *= axes[k].extent;
  }
  axes.erase(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(cut));
  axes[0].extent = copy.at_once_;
  copy.whole_ = StridedCopy(axes, copy.size_, 1);
  axes[0].extent = copy.extent_ - (copy.of_each_ - 1) * copy.at_once_;
  copy.last_ = StridedCopy(std::move(axes), copy.size_, 1);
  return copy;
}

std::int64_t TransposingCopy::begin(std::int64_t piece) const {
  return (piece / of_each_ * extent_ + piece % of_each_ * at_once_) * inner_;
}
std::int64_t TransposingCopy::count(std::int64_t piece) const {
  return std::min(at_once_, extent_ - piece % of_each_ * at_once_) * inner_;
}
void TransposingCopy::run(std::int64_t piece, const std::byte* from, std::byte* to) const {
  const std::int64_t along = piece % of_each_;
  std::int64_t at = along * at_once_ * to_, left = piece / of_each_;
  for (std::size_t k = outer_.size(); k-- > 0;) {
    at += left % outer_[k].extent * outer_[k].to;
    left /= outer_[k].extent;
  }
  const StridedCopy& copy = along + 1 == of_each_ ? last_ : whole_;
  copy.run(from, to + static_cast<std::size_t>(at) * size_);
}

}  // namespace tidu::cpu_detail
