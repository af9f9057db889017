// vector_mvec.cpp - the system's side of generated code: the vectors that this machine has, the addresses of
// libmvec's functions, and executable memory. Without vector code, stubs.
#include "cpu/fusion/rows.hpp"
#include "cpu/fusion/straight_line.hpp"
#include "cpu/fusion/vector_ir.hpp"
#include "cpu/instruction_set.hpp"

#if defined(TIDU_WITH_LANES)
#include <immintrin.h>
#include <sys/mman.h>

#include <cstring>

namespace tidu::cpu_detail {

// The functions of libmvec for 4 and 8 elements (AVX2), 8 and 16 (AVX-512).
// clang-format off
#define TIDU_FOR_UNARY(DO) \
  DO(exp) DO(exp2) DO(expm1) DO(log) DO(log1p) DO(sin) DO(cos) DO(tan) DO(asin) DO(acos) DO(atan) \
  DO(sinh) DO(cosh) DO(tanh) DO(asinh) DO(acosh) DO(atanh) DO(cbrt) DO(erf) DO(erfc)
// clang-format on
#define TIDU_FOR_BINARY(DO) DO(pow) DO(atan2)
#define TIDU_DECLARE_UNARY(NAME)     \
  __m256d _ZGVdN4v_##NAME(__m256d);  \
  __m256 _ZGVdN8v_##NAME##f(__m256); \
  __m512d _ZGVeN8v_##NAME(__m512d);  \
  __m512 _ZGVeN16v_##NAME##f(__m512);
#define TIDU_DECLARE_BINARY(NAME)             \
  __m256d _ZGVdN4vv_##NAME(__m256d, __m256d); \
  __m256 _ZGVdN8vv_##NAME##f(__m256, __m256); \
  __m512d _ZGVeN8vv_##NAME(__m512d, __m512d); \
  __m512 _ZGVeN16vv_##NAME##f(__m512, __m512);
extern "C" {
TIDU_FOR_UNARY(TIDU_DECLARE_UNARY)
TIDU_FOR_BINARY(TIDU_DECLARE_BINARY)
}

#define TIDU_ADDRESS(f) reinterpret_cast<const void*>(&(f))
#define TIDU_UNARY_ROW(NAME)                                                                           \
  {TIDU_ADDRESS(_ZGVdN8v_##NAME##f), TIDU_ADDRESS(_ZGVdN4v_##NAME), TIDU_ADDRESS(_ZGVeN16v_##NAME##f), \
   TIDU_ADDRESS(_ZGVeN8v_##NAME)},
#define TIDU_BINARY_ROW(NAME)                                                                             \
  {TIDU_ADDRESS(_ZGVdN8vv_##NAME##f), TIDU_ADDRESS(_ZGVdN4vv_##NAME), TIDU_ADDRESS(_ZGVeN16vv_##NAME##f), \
   TIDU_ADDRESS(_ZGVeN8vv_##NAME)},
// In the order of VectorFunction; f32 and f64 for AVX2, then for AVX-512.
const void* address_of(VectorFunction function, bool is_f64, bool is_512) {
  static const void* const addresses[][4] = {TIDU_FOR_UNARY(TIDU_UNARY_ROW) TIDU_FOR_BINARY(TIDU_BINARY_ROW)};
  static_assert(static_cast<std::size_t>(VectorFunction::atan2) + 1 ==
                sizeof addresses / sizeof addresses[0]);
  return addresses[static_cast<std::size_t>(function)][(is_512 ? 2 : 0) + (is_f64 ? 1 : 0)];
}

bool can_generate(VectorUnits units) {
  return cpu_has(units == VectorUnits::avx512 ? InstructionSet::avx512 : InstructionSet::avx2);
}

std::shared_ptr<const void> executable_copy(std::span<const std::uint8_t> code) {
  void* const at = mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  std::shared_ptr<const void> memory(at, [size = code.size()](void* p) { munmap(p, size); });
  std::memcpy(at, code.data(), code.size());
  return mprotect(at, code.size(), PROT_READ | PROT_EXEC) == 0 ? memory : nullptr;
}

}  // namespace tidu::cpu_detail

#else

namespace tidu::cpu_detail {

bool can_generate(VectorUnits) { return false; }
int xbyak_version() { return 0; }
MachineCode assemble(const VectorProgram&, VectorUnits) { return {}; }
MachineCode assemble(const RowsCode&, VectorUnits) { return {}; }
MachineCode assemble(const StraightLineCode&, VectorUnits) { return {}; }
std::shared_ptr<const void> executable_copy(std::span<const std::uint8_t>) { return nullptr; }

}  // namespace tidu::cpu_detail

#endif
