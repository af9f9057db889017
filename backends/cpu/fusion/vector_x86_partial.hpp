// vector_x86_partial.hpp - x86::PartialVector: loads, stores and blends of a last vector that elements do not
// fill.
//
// The number of elements is a constant of the code. They are selected by a mask, in k2 (AVX-512) or in the
// spare register (AVX2), unless they fill a smaller register. data is to be called once, after the end of the
// code.
#pragma once

#include "cpu/fusion/vector_x86_arithmetic.hpp"

namespace tidu::cpu_detail::x86 {

class PartialVector {
 public:
  /// `left`: the number of elements, or 0 if all vectors are filled. Setting the mask may write `scratch`.
  PartialVector(Assembler& assembler, int left, const Xbyak::Reg32& scratch)
      : x_(assembler), left_(left), scratch_(scratch) {}

  int left() const { return left_; }
  /// Do the elements fill a smaller register? That needs no mask, and a later load can read the stored bytes
  /// at once, also together with the bytes after them.
  bool is_exact() const { return left_bytes() == 16 || left_bytes() == 32; }

  void set_mask() {
    if (!x_.is_512()) {
      uses_data_ = true;
      return x_.vmovups(x_.spare(), ptr[rip + data_]);
    }
    if (is_set_) return;
    x_.mov(scratch_, (1U << static_cast<unsigned>(left_)) - 1);
    x_.kmovd(k2, scratch_);
    is_set_ = keeps_;
  }
  /// From now on k2 keeps the mask until forget_mask.
  void keep_mask() { keeps_ = true; }
  void forget_mask() { is_set_ = false; }

  /// Loads the elements, and zeros in the other lanes.
  void load(const Ymm& to, const Address& from) {
    if (is_exact()) return x_.vmovups(exact(to), from);
    set_mask();
    x_.is_512() ? x_.vmovu(to | k2 | T_z, from) : x_.vmaskmov(to, x_.spare(), from);
  }
  void store(const Address& to, const Ymm& x) {
    if (is_exact()) return x_.vmovups(to, exact(x));
    set_mask();
    x_.is_512() ? x_.vmovu(to | k2, x) : x_.vmaskmov(to, x_.spare(), x);
  }
  /// r = x in the elements' lanes, unchanged in others; the mask is set.
  void blend(const Ymm& r, const Ymm& x) {
    x_.is_512() ? x_.vmova(r | k2, x) : x_.vblendvps(r, r, x, x_.spare());
  }
  /// A byte for each element, from at(0) on, to elements; other lanes are 0.
  template <class At>
  void load_bytes(const Ymm& to, const At& at) {
    const Xmm bytes(spare_register);
    x_.vxor(bytes, bytes, bytes);
    for (int i = 0; i < left_; ++i) x_.vpinsrb(bytes, bytes, at(i), static_cast<std::uint8_t>(i));
    x_.vpmovzxb(to, bytes);
  }
  template <class At>
  void store_bytes(const At& at, const Xmm& bytes) {
    for (int i = 0; i < left_; ++i) x_.vpextrb(at(i), bytes, static_cast<std::uint8_t>(i));
  }

  /// The mask in memory, if code uses it.
  void data() {
    if (!uses_data_) return;
    x_.align(64);
    x_.L(data_);
    for (int i = 0; i < x_.lanes(); ++i) {
      for (int k = 0; k < x_.element_bytes() / 4; ++k) x_.dd(i < left_ ? 0xffffffffU : 0U);
    }
  }

 private:
  int left_bytes() const { return left_ * x_.element_bytes(); }
  Xmm exact(const Ymm& x) const { return left_bytes() == 32 ? Ymm(x.getIdx()) : Xmm(x.getIdx()); }

  Assembler& x_;
  const int left_;
  const Xbyak::Reg32 scratch_;
  bool keeps_ = false, is_set_ = false;  // the mask in k2
  bool uses_data_ = false;               // is the mask in memory used?
  Label data_;
};

}  // namespace tidu::cpu_detail::x86
