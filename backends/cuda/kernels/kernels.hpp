// kernels.hpp - bodies made plans: kernels as text with their launches.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cuda/kernels/body.hpp"
#include "cuda/plan.hpp"
#include "cuda/rules.hpp"

namespace tidu::cuda_detail {

/// The kernel of a text that has `ENTRY` instead of its name; the name is made of `name` and the text.
std::shared_ptr<const KernelSource> make_kernel(std::string_view name, std::string text);

/// An address among a launch's arguments.
Argument argument(BufferRef place);
/// A number of 64 bits.
Argument argument(std::int64_t value);

/// "add_mul": the first few operations of a body.
std::string name_of(const Body& body);
/// The body of one operation on operands in memory.
Body body_of(const PlanRequest& request);
/// Do indices of its values need 64 bits?
bool is_wide(const Body& body);
/// "const f32* __restrict__ p0, …": one for each operand of the body.
std::string operand_parameters(const Body& body);

/// Results of as many elements each, computed element by element. A result must not be in an operand's
/// memory.
Plan plan_loop(const Body& body, int multiprocessors);

/// Results that reduce the same axes of values of one shape, and perhaps values of that shape.
Plan plan_reduction(const Body& body, int multiprocessors);

/// Values of rows, reductions over them, values computed from the results, and values of rows again that read
/// these: threads stay with a row, and pass over it once for each time that results are read. `of_rows` says
/// which pieces are reductions or depend on reductions alone, one for each row; all reductions are along rows
/// of one shape.
Plan plan_rows(const Body& body, const std::vector<bool>& of_rows, int multiprocessors);

/// How many blocks of so many threads for that much work: at least 1.
std::uint32_t blocks_for(std::int64_t work, std::int64_t per_block, int multiprocessors);
/// Bytes rounded up to the alignment of scratch memory.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// The rules, by family.
RuleTable expression_rules();
RuleTable layout_rules();
RuleTable reduction_rules();
RuleTable scan_rules();
RuleTable scatter_rules();

}  // namespace tidu::cuda_detail
