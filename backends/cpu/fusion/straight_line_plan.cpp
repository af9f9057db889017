// straight_line_plan.cpp - which operations of a schedule form straight-line kernels, and their code.
//
// Note [Cuts]: a stretch of operations is cut at the position within reach of the last cut where the hash of
// the last few operations is smallest. So a repeated sequence is cut at the same positions each time,
// wherever it begins (content-defined chunking).
#include <algorithm>
#include <array>
#include <unordered_map>

#include "cpu/fusion/straight_line.hpp"
#include "cpu/is_any_of.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

// Minimum and maximum operations of a block that is cut from a longer stretch.
constexpr std::size_t min_operations = 32;
constexpr std::size_t max_operations = 160;
// Minimum operations of any block.
constexpr std::size_t min_at_end = 4;
// How often code runs in one run of the program, at least: generating it takes as long as running what it
// does some hundred times.
constexpr std::int64_t min_equal = 8;

// The kind of an operation in straight-line kernels.
struct Kind {
  enum class Of : std::uint8_t { none, element_wise, reduction, repeat };
  Of of = Of::none;
  DType dtype = bool_;        // of its floating elements
  std::int64_t elements = 1;  // of its longest array
};

class StraightLineFinder {
 public:
  StraightLineFinder(const Program& program, const CompileOptions& options, const std::vector<bool>& excluded)
      : graph_(program.graph()),
        g_(graph_.data()),
        roots_(program.roots()),
        splats_(program.splats()),
        schedule_(program.schedule()),
        options_(options),
        excluded_(excluded) {}

  std::vector<StraightLineBlock> find() {
    for (std::size_t i = 0; i < schedule_.nodes.size(); i += schedule_.nodes[i].size) {
      const ScheduleNode& node = schedule_.nodes[i];
      const bool can = node.kind == NodeKind::operation && (excluded_.empty() || !excluded_[node.index]);
      const Kind kind = can ? kind_of(node.index) : Kind();
      if (kind.of == Kind::Of::none) {
        finish_stretch();
        continue;
      }
      const auto differs = [&] {
        return (kind.dtype != bool_ && dtype_ != bool_ && kind.dtype != dtype_) ||
               (kind.elements != 1 && elements_ != 1 && kind.elements != elements_);
      };
      if (differs()) finish_stretch();
      if (kind.dtype != bool_) dtype_ = kind.dtype;
      if (kind.elements != 1) elements_ = kind.elements;
      if (stretch_.empty()) first_ = i;
      stretch_.push_back(kind.elements);
    }
    finish_stretch();
    std::unordered_map<std::uint64_t, std::int64_t> equal;
    for (const Piece& piece : pieces_) equal[piece.hash] += options_.repeats;
    std::erase_if(pieces_, [&](const Piece& piece) { return equal[piece.hash] < min_equal; });
    if (pieces_.empty()) return {};
    find_last_reads();
    for (const Piece& piece : pieces_) draft(piece);
    return compiled();
  }

 private:
  // Consecutive operations, and a hash of them without their operands.
  struct Piece {
    std::size_t first = 0, count = 0;
    DType dtype = f32;
    std::int64_t elements = 0;
    std::uint64_t hash = 0;
  };
  struct Draft {
    StraightLineBlock block;
    StraightLineCode code;
  };

  std::span<const ValueId> operands(std::uint32_t operation) const {
    const OperationRecord& record = g_.operations[operation];
    return {g_.operands.data() + record.first_input, record.num_inputs};
  }

  // That of an operation with the same op and types was found lately, as a rule.
  Kind kind_of(std::uint32_t operation) {
    const OperationRecord& record = g_.operations[operation];
    if (record.num_inputs == 0 || record.num_inputs > 3 || record.num_outputs != 1) return {};
    Recent key{record.op, {graph_.type(record.first_output).identity()}, {}};
    std::size_t hash = reinterpret_cast<std::uintptr_t>(record.op) >> 4;
    for (std::uint32_t i = 0; i < record.num_inputs; ++i) {
      key.types[i + 1] = graph_.type(operands(operation)[i]).identity();
      hash = hash * 31 + (reinterpret_cast<std::uintptr_t>(key.types[i + 1]) >> 4);
    }
    Recent& recent = recent_[(hash ^ (hash >> 8)) % recent_.size()];
    if (recent.op != key.op || recent.types != key.types) {
      key.kind = find_kind(operation);
      recent = key;
    }
    return recent.kind;
  }
  Kind find_kind(std::uint32_t operation) const {
    const OperationRecord& record = g_.operations[operation];
    const Primitive& primitive = *record.op->primitive;
    const Type out = graph_.type(record.first_output);
    Kind kind;
    if (primitive.has_trait(Trait::impure) || primitive.has_trait(Trait::barrier)) return kind;
    std::vector<DType> dtypes;
    kind.elements = out.size();
    bool one = false;  // has something one element where another has more?
    for (const ValueId id : operands(operation)) {
      const Type type = graph_.type(id);
      dtypes.push_back(type.dtype());
      if (type.size() == 0) return {};
      one = one || type.size() != kind.elements;
      if (type.size() != 1 && kind.elements != 1 && type.size() != kind.elements) return {};
      kind.elements = std::max(kind.elements, type.size());
    }
    dtypes.push_back(out.dtype());
    for (const DType dtype : dtypes) {
      if (dtype == bool_) continue;
      if ((dtype != f32 && dtype != f64) || (kind.dtype != bool_ && kind.dtype != dtype)) return {};
      kind.dtype = dtype;
    }
    const DType dtype = kind.dtype == bool_ ? f32 : kind.dtype;
    if (kind.elements != 1 && !fits_straight_line(kind.elements, dtype, vector_bytes())) return {};
    dtypes.pop_back();
    if (primitive.has_trait(Trait::elementwise)) {
      if (one && out.size() == 1) return {};
      if (can_compute(operation, dtypes, dtype)) kind.of = Kind::Of::element_wise;
    } else if (primitive.has_trait(Trait::combines) && record.num_inputs == 1) {
      if (out.size() == 1 && kind.elements != 1 && kind.dtype != bool_ && reduction_of(operation))
        kind.of = Kind::Of::reduction;
    } else if (primitive.has_trait(Trait::repeats) && record.num_inputs == 1) {
      if (graph_.type(operands(operation)[0]).size() == 1 && dtypes[0] == out.dtype())
        kind.of = Kind::Of::repeat;
    }
    return kind;
  }
  bool can_compute(std::uint32_t operation, const std::vector<DType>& dtypes, DType dtype) const {
    const Operation at = graph_.operation(operation);
    VectorProgram code;
    code.dtype = dtype;
    std::vector<std::uint16_t> lanes;
    for (const DType each : dtypes) {
      if (each != bool_ && each != dtype) return false;
      lanes.push_back(code.add({.op = each == bool_ ? VectorOp::load_mask : VectorOp::load}));
    }
    const Type out = graph_.type(at.output());
    const auto value = add_operation(code, at.op(), dtype, lanes, out.dtype());
    if (!value || *value < lanes.size()) return false;
    for (const VectorInst& step : code.steps) {
      const auto function = static_cast<VectorFunction>(step.index);
      if (step.op == VectorOp::call && out.size() == 1 && scalar_address_of(function, true) == nullptr)
        return false;
    }
    return true;
  }
  std::optional<VectorOp> reduction_of(std::uint32_t operation) const {
    const Primitive& primitive = *g_.operations[operation].op->primitive;
    if (is_any_of(primitive, prim::reduce_sum)) return VectorOp::reduce_sum;
    if (is_any_of(primitive, prim::reduce_max)) return VectorOp::reduce_max;
    if (is_any_of(primitive, prim::reduce_min)) return VectorOp::reduce_min;
    return std::nullopt;
  }
  std::int64_t vector_bytes() const { return static_cast<std::int64_t>(options_.vector_jit->vector_bytes()); }

  std::uint32_t operation_at(std::size_t node) const { return schedule_.nodes[node].index; }

  // See Note [Cuts].
  void finish_stretch() {
    const std::size_t count = stretch_.size();
    if (elements_ != 1 && dtype_ != bool_ && count >= min_at_end) {
      // The hash at a position covers so many operations before it.
      constexpr std::size_t window = 3;
      std::vector<std::uint64_t> at(count + window), around(count);
      for (std::size_t k = 0; k < count; ++k) {
        const Key128& key = g_.operations[operation_at(first_ + k)].op->key;
        at[k + window] = key.low + static_cast<std::uint64_t>(stretch_[k]);
        for (std::size_t j = k; j <= k + window; ++j) around[k] = mixed(around[k] + at[j]);
      }
      for (std::size_t begin = 0; begin < count;) {
        std::size_t end = count;
        if (count - begin > min_operations) {
          const auto position = [&](std::size_t k) {
            return around.begin() + static_cast<std::ptrdiff_t>(std::min(count, k));
          };
          const auto least =
              std::min_element(position(begin + min_operations), position(begin + max_operations));
          end = static_cast<std::size_t>(least - around.begin());
        }
        Piece piece{first_ + begin, end - begin, dtype_, elements_, 0};
        for (std::size_t k = begin; k < end; ++k) piece.hash = mixed(piece.hash + at[k + window]);
        if (piece.count >= min_at_end) pieces_.push_back(piece);
        begin = end;
      }
    }
    stretch_.clear();
    dtype_ = bool_;
    elements_ = 1;
  }
  static std::uint64_t mixed(std::uint64_t x) {
    x *= 0xff51afd7ed558ccdU;
    x ^= x >> 32U;
    x *= 0xc4ceb9fe1a85ec53U;
    return x ^ (x >> 29U);
  }

  void find_last_reads() {
    const std::vector<ScheduleNode>& nodes = schedule_.nodes;
    last_read_.assign(graph_.num_values(), 0);
    for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
      const auto read = [&](ValueId id) { last_read_[roots_[id]] = i; };
      if (nodes[i].kind == NodeKind::blocked_loop) {
        for (const BlockedLoop::Value& operand : schedule_.loops[nodes[i].index].operands) read(operand.id);
        continue;
      }
      const bool fusion = nodes[i].kind == NodeKind::fusion;
      const std::size_t first = nodes[i].kind == NodeKind::operation ? i : i + 1;
      for (std::size_t k = first; k < i + nodes[i].size; ++k) {
        for (const ValueId id : operands(nodes[k].index)) {
          read(id);
          if (fusion && splats_[id] != no_index) read(splats_[id]);
        }
      }
    }
    for (const ValueId id : graph_.outputs()) last_read_[roots_[id]] = nodes.size();
    virtual_register_of_.assign(graph_.num_values(), no_register);
    made_in_.assign(graph_.num_values(), 0);
  }

  void draft(const Piece& piece) {
    const std::uint32_t number = ++num_drafts_;
    Draft draft;
    draft.block.first = piece.first;
    draft.block.count = piece.count;
    draft.code.elements = piece.elements;
    VectorProgram& code = draft.code.program;
    code.dtype = piece.dtype;
    const auto set = [&](ValueId id, std::uint16_t lane) {
      virtual_register_of_[id] = lane;
      made_in_[id] = number;
    };
    const std::size_t end = piece.first + piece.count;
    for (std::size_t node = piece.first; node < end; ++node) {
      const std::uint32_t index = operation_at(node);
      const Kind::Of kind = kind_of(index).of;
      std::array<std::uint16_t, 3> lanes{};
      std::size_t num_registers = 0;
      for (const ValueId operand : operands(index)) {
        const ValueId id = roots_[operand];
        if (made_in_[id] != number) {
          set(id, code.add({.op = load_op(graph_.type(id)), .index = pointer(draft, id)}));
        }
        lanes[num_registers++] = virtual_register_of_[id];
      }
      const ValueId result = g_.operations[index].first_output;
      const Type type = graph_.type(result);
      std::uint16_t lane = lanes[0];
      if (kind == Kind::Of::reduction) {
        lane = code.add({.op = *reduction_of(index), .a = lane});
      } else if (kind == Kind::Of::element_wise) {
        const std::size_t before = code.steps.size();
        const Op op = Op::of(g_.operations[index].op);
        const auto made =
            add_operation(code, op, code.dtype, std::span(lanes).first(num_registers), type.dtype());
        if (!made) return;
        lane = *made;
        for (std::size_t i = before; type.size() == 1 && i < code.steps.size(); ++i) {
          if (code.steps[i].op == VectorOp::call) code.steps[i].bits = 1;
        }
      }
      set(result, lane);
      if (last_read_[result] < end) continue;
      const bool mask = type.dtype() == bool_, one = type.size() == 1;
      const VectorOp store = mask ? VectorOp::store_mask : one ? VectorOp::store_row : VectorOp::store;
      code.add({.op = store, .a = lane, .index = pointer(draft, result), .bits = mask && one ? 1U : 0U});
    }
    constexpr std::size_t max_steps = 4096;
    if (code.steps.size() <= max_steps) drafts_.push_back(std::move(draft));
  }
  static std::uint32_t pointer(Draft& draft, ValueId id) {
    draft.block.values.push_back(id);
    return draft.code.program.num_operands++;
  }

  std::vector<StraightLineBlock> compiled() {
    struct Equal {
      std::int64_t count = 0;
      std::shared_ptr<const StraightLineKernel> kernel;
    };
    std::unordered_map<std::uint64_t, Equal> equal;
    std::vector<std::uint64_t> hashes;
    for (const Draft& draft : drafts_) {
      hashes.push_back(draft.code.hash());
      equal[hashes.back()].count += options_.repeats;
    }
    std::vector<StraightLineBlock> blocks;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      Equal& known = equal[hashes[i]];
      if (known.count < min_equal) continue;
      std::shared_ptr<const StraightLineKernel>& kernel = known.kernel;
      if (kernel == nullptr || !(kernel->code() == drafts_[i].code))
        kernel = options_.vector_jit->compile(drafts_[i].code);
      if (kernel == nullptr) continue;
      drafts_[i].block.kernel = kernel;
      blocks.push_back(std::move(drafts_[i].block));
    }
    return blocks;
  }

  struct Recent {
    const OpRecord* op = nullptr;
    std::array<const void*, 4> types{};
    Kind kind;
  };

  const Graph& graph_;
  const GraphData& g_;
  const std::vector<ValueId>&roots_, &splats_;
  const Schedule& schedule_;
  const CompileOptions& options_;
  const std::vector<bool>& excluded_;
  std::vector<std::size_t> last_read_;  // by root: the last node that reads it, or one after all
  std::array<Recent, 256> recent_{};
  // The present stretch.
  std::size_t first_ = 0;
  std::vector<std::int64_t> stretch_;  // by operation: elements
  DType dtype_ = bool_;
  std::int64_t elements_ = 1;
  std::vector<Piece> pieces_;
  std::vector<Draft> drafts_;
  std::vector<std::uint16_t> virtual_register_of_;  // by root, in the draft with the number made_in_
  std::vector<std::uint32_t> made_in_;
  std::uint32_t num_drafts_ = 0;  // with those that were dropped
};

}  // namespace

std::vector<StraightLineBlock> find_straight_line_blocks(const Program& program,
                                                         const CompileOptions& options,
                                                         const std::vector<bool>& excluded) {
  if (options.vector_jit == nullptr || !program.options().fuse) return {};
  const auto nodes = static_cast<std::int64_t>(program.schedule().nodes.size());
  if (nodes * options.repeats < min_equal * static_cast<std::int64_t>(min_at_end)) return {};
  return StraightLineFinder(program, options, excluded).find();
}

namespace {

template <class T>
const void* function_address(T (*function)(T)) {
  return reinterpret_cast<const void*>(function);
}
#define TIDU_SCALAR_ROW(NAME)                                     \
  {function_address<float>([](float x) { return std::NAME(x); }), \
   function_address<double>([](double x) { return std::NAME(x); })},

}  // namespace

// In the order of VectorFunction.
const void* scalar_address_of(VectorFunction function, bool is_f64) {
  // clang-format off
  static const void* const addresses[][2] = {
      TIDU_SCALAR_ROW(exp) TIDU_SCALAR_ROW(exp2) TIDU_SCALAR_ROW(expm1) TIDU_SCALAR_ROW(log)
      TIDU_SCALAR_ROW(log1p) TIDU_SCALAR_ROW(sin) TIDU_SCALAR_ROW(cos) TIDU_SCALAR_ROW(tan)
      TIDU_SCALAR_ROW(asin) TIDU_SCALAR_ROW(acos) TIDU_SCALAR_ROW(atan) TIDU_SCALAR_ROW(sinh)
      TIDU_SCALAR_ROW(cosh) TIDU_SCALAR_ROW(tanh) TIDU_SCALAR_ROW(asinh) TIDU_SCALAR_ROW(acosh)
      TIDU_SCALAR_ROW(atanh) TIDU_SCALAR_ROW(cbrt) TIDU_SCALAR_ROW(erf) TIDU_SCALAR_ROW(erfc)
  };
  // clang-format on
  static_assert(static_cast<std::size_t>(VectorFunction::first_of_two) ==
                sizeof addresses / sizeof addresses[0]);
  if (function >= VectorFunction::first_of_two) return nullptr;
  return addresses[static_cast<std::size_t>(function)][is_f64 ? 1 : 0];
}
#undef TIDU_SCALAR_ROW

}  // namespace tidu::cpu_detail
