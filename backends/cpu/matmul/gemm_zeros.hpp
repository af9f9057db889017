// gemm_zeros.hpp - zero skipping: leaves out terms for which one operand is all zeros and the other is
// finite. Examples are the part above a triangle, and tangents of values that do not depend on the direction.
// Leaving out such a term changes no sum: 0 x is a zero, and sums begin with +0. The bits are therefore the
// same, with one exception: the sign of a zero that numbers too small for the type were rounded to may also
// depend on the division into pieces. Part of gemm_kernels.hpp, which explains TIDU_GEMM_ISA.
#pragma once

#include "cpu/matmul/gemm_tiles.hpp"
#include "cpu/matmul/gemm_vectors.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

/// Terms [begin, end) of a sum.
struct Terms {
  Index begin, end;
  Index count() const { return end - begin; }
  friend bool operator==(const Terms&, const Terms&) = default;
};

TIDU_GEMM_INLINE Terms common_terms(const Terms& x, const Terms& y) {
  const Index begin = x.begin > y.begin ? x.begin : y.begin, end = least(x.end, y.end);
  return {begin, end > begin ? end : begin};
}

/// Are these `count` scalars zeros of either sign?
template <class T>
TIDU_GEMM_INLINE bool are_zeros(const T* at, Index count) {
  Index i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    if (!is_zero<T>(load<T>(at + i))) return false;
  }
  return i == count || is_zero<T>(load_first<T>(at + i, static_cast<int>(count - i)));
}

/// The terms outside of which the rows of a panel, `width` scalars each, are zeros.
template <class T>
Terms find_terms(const T* panel, Index row, Index width, Index k) {
  Terms terms{0, k};
  while (terms.end > 0 && are_zeros(panel + (terms.end - 1) * row, width)) --terms.end;
  while (terms.begin < terms.end && are_zeros(panel + terms.begin * row, width)) ++terms.begin;
  return terms;
}

/// As find_terms for rows of A that are `lda` apart, up to whole vectors, with `scalars` scalars for each
/// term.
template <class T>
Terms find_terms_of_rows(Index rows, Index k, Index scalars, const T* a, Index lda) {
  const Index size = k * scalars;
  Index begin = size, end = 0;
  for (Index r = 0; r < rows; ++r, a += lda) {
    Index i = 0;
    while (i < begin && are_zeros(a + i, least(kLanes<T>, size - i))) i += kLanes<T>;
    begin = least(i, begin);
    i = size;
    while (i > end && are_zeros(a + (i > kLanes<T> ? i - kLanes<T> : 0), least(kLanes<T>, i))) i -= kLanes<T>;
    end = i > end ? i : end;
  }
  return begin < end ? Terms{begin / scalars, ceil_div(end, scalars)} : Terms{0, 0};
}

/// Are all rows x columns scalars finite?
template <class T>
bool are_finite(Index rows, Index columns, const T* at, Index ld) {
  if constexpr (static_cast<T>(0.5) != static_cast<T>(0)) {
    constexpr int kTogether = 4;
    constexpr Index kStep = kTogether * kLanes<T>;
    Vector<T> sums[kTogether] = {};  // sums of values that are 0 for a finite number and else NaN
    for (Index r = 0; r < rows; ++r, at += ld) {
      Index i = 0;
      for (; i + kStep <= columns; i += kStep) {
#pragma GCC unroll 4
        for (int v = 0; v < kTogether; ++v) sums[v] += load<T>(at + i + v * kLanes<T>) * T(0);
      }
      for (; i < columns; i += kLanes<T>)
        sums[0] += load_first<T>(at + i, static_cast<int>(least(kLanes<T>, columns - i))) * T(0);
    }
    const Vector<T> sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    for (int i = 0; i < kLanes<T>; ++i) {
      if (!(sum[i] == T(0))) return false;
    }
  }
  return true;
}

/// Is a matrix finite? Computed on the first call of get().
template <class T>
class Finite {
 public:
  Finite(Index rows, Index columns, const T* at, Index ld)
      : rows_(rows), columns_(columns), ld_(ld), at_(at) {}
  bool get() {
    if (!known_) {
      is_finite_ = are_finite(rows_, columns_, at_, ld_);
      known_ = true;
    }
    return is_finite_;
  }

 private:
  Index rows_, columns_, ld_;
  const T* at_;
  bool known_ = false, is_finite_ = false;
};

/// Maximum number of panels whose terms are searched at once.
inline constexpr Index kMostPanels = 64;

/// The terms of each panel of a packed B, all in one block of terms, for GemmFunctions::pack.
template <class T>
void find_terms_of_packed(Index width, Index k, const T* b, Terms* terms) {
  constexpr Index kWidth = kTileVectors * kLanes<T>;
  for (Index i = 0; i * kWidth < width; ++i)
    terms[i] = find_terms(b + i * kWidth * k, kWidth, least(kWidth, width - i * kWidth), k);
}

/// The terms of each panel of B: all requested terms, unless `find` or `take` has found terms to leave out.
class TermsOfPanels {
 public:
  /// Searches panels of `width` scalars in all, `panel` apart, with rows `row` apart. Leaves out no terms if
  /// they would be too few, or if A is not finite.
  template <class T>
  void find(Index width, Index k, const T* b, Index row, Index panel, Finite<T>& a) {
    constexpr Index kWidth = kTileVectors * kLanes<T>;
    const Index count = ceil_div(width, kWidth);
    if (count > kMostPanels) return;
    for (Index i = 0; i < count; ++i)
      terms_[i] = find_terms(b + i * panel, row, least(kWidth, width - i * kWidth), k);
    leaves_out_ = gains(count, k, a);
  }
  /// Takes the terms of `count` panels from `all`, limited to [first, first + k).
  template <class T>
  void take(Index count, Index first, Index k, const Terms* all, Finite<T>& a) {
    if (count > kMostPanels) return;
    for (Index i = 0; i < count; ++i) {
      const Terms terms = common_terms(all[i], {first, first + k});
      terms_[i] = {terms.begin - first, terms.end - first};
    }
    leaves_out_ = gains(count, k, a);
  }
  /// The terms of `own` that the panel has.
  TIDU_GEMM_INLINE Terms of(Index panel, const Terms& own) const {
    return leaves_out_ ? common_terms(own, terms_[panel]) : own;
  }
  /// The first of `count` panels after this one whose terms differ.
  TIDU_GEMM_INLINE Index next(Index panel, Index count, const Terms& own) const {
    if (!leaves_out_) return count;
    const Terms terms = of(panel, own);
    while (++panel < count && of(panel, own) == terms) {
    }
    return panel;
  }

 private:
  template <class T>
  bool gains(Index count, Index k, Finite<T>& a) const {
    Index left_out = 0;
    for (Index i = 0; i < count; ++i) left_out += k - terms_[i].count();
    // Reading all of A takes about half the time of one panel.
    return left_out >= k && left_out >= count * k / 8 && a.get();
  }

  bool leaves_out_ = false;
  Terms terms_[kMostPanels];
};

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
