// The bytes of generated code: hashes for random programs are in tests/data/machine_code.txt, so a change
// that should not alter the code can show that it does not. TIDU_UPDATE_GOLDEN=1 writes them anew.
//
// Programs call no functions, whose addresses would be in the code, except exp and tanh, which are inline
// code.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cpu/fusion/rows.hpp"
#include "cpu/fusion/straight_line.hpp"
#include "cpu/fusion/vector_ir.hpp"
#include "cpu/instruction_set.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;
using namespace tidu::cpu_detail;

namespace machine_code_cases {
namespace {

// Random programs, the same ones everywhere.
class Programs {
 public:
  VectorProgram elements() {
    VectorProgram code;
    code.dtype = start();
    for (std::uint32_t n = 1 + below(below(4) != 0 ? 4 : 20); n > 0; --n)
      load({VectorOp::load, VectorOp::load_mask, VectorOp::splat, VectorOp::splat_mask}, code.num_operands++);
    compute(below(3) != 0 ? 20 : 100);
    store_some([&] { return code.num_results++; });
    code.steps = std::move(steps_);
    return code;
  }
  StraightLineCode run() {
    StraightLineCode code;
    code.program.dtype = start();
    code.elements = min_straight_line + below(code.program.dtype == f32 ? 25 : 9);
    std::uint32_t& pointers = code.program.num_operands;
    for (std::uint32_t n = 1 + below(5); n > 0; --n) load({VectorOp::load, VectorOp::load_mask}, pointers++);
    for (std::uint32_t n = 1 + below(4); n > 0; --n) {
      compute(8);
      put({.op = reduction(VectorOp::reduce_sum), .a = element()});
      if (below(2) == 0) put({.op = VectorOp::store_row, .a = elements_.back(), .index = pointers++});
      put({.op = VectorOp::add, .a = elements_.front(), .b = elements_.back()});
    }
    put({.op = VectorOp::store, .a = elements_.back(), .index = pointers++});
    code.program.steps = std::move(steps_);
    return code;
  }
  RowsCode rows() {
    constexpr std::array<std::int64_t, 10> columns = {16, 20, 33, 48, 64, 100, 129, 300, 1000, 1024};
    RowsCode code;
    code.dtype = start();
    code.columns = below(2) != 0 ? 16 + below(50) : columns[below(columns.size())];
    const std::uint32_t phases = 1 + below(3);
    while (code.phases.size() < phases) {
      steps_.clear();
      add_phase(code);
    }
    return code;
  }

 private:
  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(random_() % n); }
  VectorOp any(std::initializer_list<VectorOp> ops) { return ops.begin()[below(ops.size())]; }
  VectorOp reduction(VectorOp first) {
    return static_cast<VectorOp>(static_cast<std::uint32_t>(first) + below(3));
  }
  DType start() {
    steps_.clear();
    elements_.clear();
    masks_.clear();
    return dtype_ = below(2) != 0 ? f64 : f32;
  }
  void put(const VectorInst& step) {
    steps_.push_back(step);
    if (step.op >= VectorOp::store && (step.op < VectorOp::reduce_sum || step.op > VectorOp::reduce_min))
      return;
    (makes_mask(step.op) ? masks_ : elements_).push_back(static_cast<std::uint16_t>(steps_.size() - 1));
  }
  // The first of all is a load of elements.
  void load(std::initializer_list<VectorOp> ops, std::uint32_t index) {
    put({.op = steps_.empty() ? VectorOp::load : any(ops), .index = index});
  }
  std::uint16_t element() { return elements_[below(elements_.size())]; }
  std::uint16_t mask() { return masks_[below(masks_.size())]; }
  std::uint64_t bits() {
    const double value = std::array{0.0, 1.0, 2.0, 0.5, -4.0, 3.25, 1e30, 0.1}[below(8)];
    return dtype_ == f64 ? std::bit_cast<std::uint64_t>(value)
                         : std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }

  void compute(std::size_t most) {
    for (std::size_t n = 1 + below(most); n > 0; --n) compute_one();
  }
  void compute_one() {
    using enum VectorOp;
    switch (below(masks_.empty() ? 7 : 10)) {
      case 0:
      case 1: return put({.op = any({add, sub, mul, div, max, min}), .a = element(), .b = element()});
      case 2: return put({.op = any({multiply_no_nan, divide_no_nan}), .a = element(), .b = element()});
      case 3:
        return put({.op = any({integer_add, integer_mul, integer_max, bits_and, bits_xor}),
                    .a = element(),
                    .b = element()});
      case 4: return put({.op = any({neg, abs, sqrt, floor, round, to_floating}), .a = element()});
      case 5:
        if (below(3) != 0) return put({.op = immediate, .bits = bits()});
        return put({.op = call,
                    .a = element(),
                    .index = static_cast<std::uint32_t>(below(2) != 0 ? VectorFunction::exp
                                                                      : VectorFunction::tanh)});
      case 6:
        return put({.op = any({equal, less, integer_equal, integer_less}), .a = element(), .b = element()});
      case 7: return put({.op = any({mask_and, mask_or, mask_xor}), .a = mask(), .b = mask()});
      case 8: return put({.op = mask_not, .a = mask()});
      default: return put({.op = select, .a = mask(), .b = element(), .c = element()});
    }
  }
  template <class Index>
  void store_some(const Index& index) {
    for (std::uint32_t n = 1 + below(3); n > 0; --n) {
      if (!masks_.empty() && below(3) == 0) {
        put({.op = VectorOp::store_mask, .a = mask(), .index = index()});
      } else {
        put({.op = VectorOp::store, .a = element(), .index = index()});
      }
    }
  }
  // Reads values of the phases before, and reduces elements to values of its own.
  void add_phase(RowsCode& code) {
    elements_.clear();
    masks_.clear();
    const auto pointer = [&] { return code.num_pointers++; };
    for (std::uint32_t n = 1 + below(4); n > 0; --n)
      load({VectorOp::load, VectorOp::load_mask, VectorOp::load_column, VectorOp::splat, VectorOp::splat_row},
           pointer());
    for (std::uint32_t i = 0; i < code.num_slots; ++i) put({.op = VectorOp::slot, .index = i});
    if (code.num_kept != 0) put({.op = VectorOp::kept, .index = below(code.num_kept)});
    compute(12);
    if (below(2) != 0) store_some(pointer);
    if (below(3) == 0) put({.op = VectorOp::keep, .a = element(), .index = code.num_kept++});
    if (below(3) == 0)
      put({.op = reduction(VectorOp::column_sum), .a = element(), .index = pointer(), .bits = below(2)});
    if (below(3) != 0)
      put({.op = reduction(VectorOp::reduce_sum), .a = element(), .index = code.num_slots++});
    RowsCode::Phase phase{std::move(steps_), {}};
    steps_.clear();
    if (code.num_slots != 0 && below(2) != 0) {
      elements_.clear();
      masks_.clear();
      put({.op = VectorOp::slot, .index = code.num_slots - 1});
      compute(5);
      put({.op = VectorOp::store_row, .a = element(), .index = pointer()});
      put({.op = VectorOp::set_slot, .a = element(), .index = code.num_slots++});
    }
    phase.row = std::move(steps_);
    code.phases.push_back(std::move(phase));
  }

  std::mt19937_64 random_{1};
  DType dtype_ = f32;
  std::vector<VectorInst> steps_;
  std::vector<std::uint16_t> elements_, masks_;  // instructions with such values
};

// Size and hash.
std::string summary(const MachineCode& code) {
  std::uint64_t state = 0xcbf29ce484222325U;
  for (const std::uint8_t byte : code.bytes) state = (state ^ byte) * 0x100000001b3U;
  std::ostringstream out;
  out << code.bytes.size() << ' ' << std::hex << state;
  return out.str();
}

// A line for each program and unit.
std::vector<std::string> summaries() {
  constexpr int programs = 60;
  Programs random;
  std::vector<std::string> lines;
  const auto add = [&](const std::string& kind, int i, const auto& code) {
    for (const VectorUnits units : {VectorUnits::avx2, VectorUnits::avx512}) {
      lines.push_back(kind + (units == VectorUnits::avx2 ? " avx2 " : " avx512 ") + std::to_string(i) + ' ' +
                      summary(assemble(code, units)));
    }
  };
  for (int i = 0; i < programs; ++i) {
    add("elements", i, random.elements());
    add("rows", i, random.rows());
    add("run", i, random.run());
  }
  return lines;
}

}  // namespace

TEST_CASE("[vector code] generated bytes are those of the golden file") {
  if (xbyak_version() == 0) {
    MESSAGE("SKIPPED: this build generates no vector code");
    return;
  }
  const std::string version = "Xbyak " + std::to_string(xbyak_version());
  const std::filesystem::path golden = source_dir() / "tests" / "data" / "machine_code.txt";
  const std::vector<std::string> lines = summaries();
  if (std::getenv("TIDU_UPDATE_GOLDEN") != nullptr && !computes_in_halves()) {
    std::ofstream out(golden, std::ios::binary);
    out << version << '\n';
    for (const std::string& line : lines) out << line << '\n';
  }
  std::ifstream in(golden);
  std::string wanted;
  REQUIRE(std::getline(in, wanted));
  if (wanted != version) {
    MESSAGE("SKIPPED: the golden file is of ", wanted, ", and this build has ", version);
    return;
  }
  if (computes_in_halves()) MESSAGE("SKIPPED: AVX-512, for which this machine gets code of its own");
  for (const std::string& line : lines) {
    REQUIRE(std::getline(in, wanted));
    if (computes_in_halves() && line.find(" avx512 ") != std::string::npos) continue;
    CHECK(line == wanted);
  }
}

}  // namespace machine_code_cases
