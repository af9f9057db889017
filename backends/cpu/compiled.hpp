// compiled.hpp - Compiled: the implementation of an Executable. It holds a list of instructions over
// addresses, the state of each kernel, and idle workspaces for later runs. Class Compiler builds it from a
// Program. A run takes or makes a workspace, executes the instructions, and returns the outputs.
//
// Note [Addresses]: the workspace has a small region for values of one element, including inputs, constants
// and outputs of one element, which are copied in before a run and out after it. A scalar step addresses its
// operands by 32-bit offsets into the small region. Every other step has a row of pointers in the workspace.
// Each run sets the pointers to inputs, outputs and the region of large values; the other pointers are set
// once.
//
// Note [Light programs]: a program of few small values finishes sooner than a pooled workspace can be found.
// Its workspace is on the stack, and each run fills it. A program of scalar steps alone needs only the small
// region.
#pragma once

#include <span>
#include <vector>

#include "cpu/arena.hpp"
#include "cpu/demanded_elements.hpp"
#include "cpu/kernel.hpp"
#include "cpu/kernel_table.hpp"
#include "tidu/cpu/executable.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::cpu_detail {

/// A step that is not scalar.
struct GeneralStep {
  RunFunction run;
  const void* state;
  std::uint32_t first_pointer;
  std::uint32_t num_operands;
};

/// The parts of a run that steps see, apart from the small region.
struct Frame {
  const GeneralStep* steps;
  std::byte* const* pointers;
  std::byte* scratch;
};

struct Workspace {
  Arena::Block small;  // already holds the constants of one element
  std::vector<std::byte*> pointers;
  std::byte* large = nullptr;  // base address of the large values in `pointers`
};

class InnerPrograms;

/// Memory that a run needs apart from workspaces and outputs, inner programs included.
struct MemoryStats {
  std::size_t constants = 0;  ///< bytes of computed constants
  std::size_t library = 0;    ///< most bytes that a library allocates in one step, on all threads
};

/// Options that inner programs inherit.
struct CompileOptions {
  int threads = 1;
  bool check_indices = false;
  int depth = 0;                        ///< above 0 in graphs that a custom kernel runs, not in loop bodies
  VectorJit* vector_jit = nullptr;      ///< generates vector code, or null
  std::int64_t repeats = 1;             ///< runs of this program for one run of the outermost
  std::size_t num_carry = 0;            ///< copy of CallSite::num_carry
  InnerPrograms* inner = nullptr;       ///< inner programs compiled so far, or null; set during compilation
  MemoryStats* memory_stats = nullptr;  ///< of the outermost program; set during compilation
};

/// Call site of an inner program: facts about its inputs and outputs. The outermost program has the default.
struct CallSite {
  /// Outputs that are accumulators: each starts with the value of an input and shares its memory. These are
  /// the last inputs, in the order of `sums`.
  std::span<const std::uint32_t> sums{};
  std::span<const ReadElements> reads{};  ///< demanded elements by output; empty: all
  std::span<const std::uint8_t> fixed{};  ///< by input: is it the same in many runs? Empty: none
  /// By output: bytes of the returned tensor that it is a part of, or 0 if that tensor is not returned.
  /// Empty: each output is a whole tensor.
  std::span<const std::size_t> wholes{};
  std::size_t num_carry = 0;  ///< number of leading outputs that the next run reads
};

/// A form of an input that is prepared once for many runs, such as a packed matrix: see Plan::prepare.
/// Preparations of the same op and operand are equal.
struct Preparation {
  std::uint32_t input;
  const OpRecord* op;
  Type type;  // of the input as an operand
  RunFunction run;
  std::shared_ptr<const void> state;
  std::size_t bytes;
};

/// Minimum bytes of an output that takes the memory of an input; a smaller one comes from the arena.
inline constexpr std::size_t min_donated = std::size_t{1} << 16;

/// Outputs that may take the memory of inputs. See donation.hpp.
struct DonatedInputs {
  /// By output: the input that an operation updates in place to become this output, or no_index. Empty: there
  /// are none.
  std::vector<std::uint32_t> changed;
  /// One step reads the inputs and writes the outputs of each set.
  std::vector<ReusableInputs> sets;
};

/// Maximum bytes of a workspace on the stack: for programs of scalar steps alone, and for other programs.
inline constexpr std::size_t scalar_stack = 1024;
inline constexpr std::size_t light_stack = 8192;
/// Maximum number of pointers of a workspace on the stack.
inline constexpr std::size_t light_pointers = 64;

class Compiled {
 public:
  /// Compiles the program. Throws Error (execution, out_of_memory).
  Compiled(Program program, const CompileOptions& options, const KernelTable& kernels,
           std::shared_ptr<Arena> arena, const CallSite& call_site = {});
  ~Compiled();
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  std::vector<Tensor> run(std::span<const Tensor> inputs) const;
  void run_into(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const;
  const Program& program() const { return program_; }
  const DonatedInputs& donated() const { return donated_; }

  // For inner programs: these run over addresses, in memory of the caller. A carried input may have the
  // address of an output of its type.
  /// Bytes of that memory, aligned to 64.
  std::size_t inner_bytes() const;
  /// Fills the memory; call it once before the runs.
  void prepare_inner(std::byte* memory) const;
  /// Preparations of the inputs in CallSite::fixed. A run takes the prepared forms after its inputs, in
  /// this order.
  const std::vector<Preparation>& preparations() const { return preparations_; }
  /// The input whose memory may also be that of the output, or no_index: an operation updates the input in
  /// place to become the output, and nothing reads the input afterwards.
  std::uint32_t changed_into(std::size_t output) const {
    return donated_.changed.empty() ? no_index : donated_.changed[output];
  }
  /// Throws the errors of kernels.
  void run_inner(std::byte* memory, const std::byte* const* inputs, std::byte* const* outputs) const;

  int threads() const { return threads_; }
  std::size_t num_instructions() const { return instructions_.size(); }
  /// See Executable::peak_bytes.
  std::size_t peak_bytes() const;

 private:
  friend class Compiler;
  struct Patch {
    std::uint32_t pointer;
    std::uint32_t index;  // of the input or output
    std::size_t offset;   // into the small or large region
  };
  struct SlotCopy {       // of a value of one element, or of an output that is not written directly
    std::uint32_t index;  // of the input or output
    std::uint32_t bytes;
    std::size_t offset;  // into the small region
  };
  struct Copy {  // of an output of many elements whose slot is elsewhere
    std::uint32_t output;
    Slot from;
  };
  enum class Mode : std::uint8_t { scalars, light, pooled };  // see Note [Light programs]
  Mode find_mode(int depth) const;
  // Addresses of the regions of one run.
  struct RunMemory {
    std::byte* small;
    std::byte* large;
    std::byte* scratch;
    std::byte** pointers;
  };
  void run_scalars(const Tensor* const* inputs, Tensor* outputs) const;
  void run_light(const Tensor* const* inputs, Tensor* outputs) const;
  void run_pooled(const Tensor* const* inputs, Tensor* outputs) const;
  void run_in(const RunMemory& memory_of_run, const Tensor* const* inputs, Tensor* outputs) const;
  // The general form: input(i) and output(i) return addresses.
  template <class Inputs, class Outputs>
  void run_at(const RunMemory& memory_of_run, const Inputs& input, const Outputs& output) const;
  RunMemory inner_memory(std::byte* memory) const;
  void execute(std::byte* small, const Frame& frame) const;
  // Writes the parts of a workspace that no run changes.
  void fill_small(std::byte* small) const;
  void point_to_constants(std::byte* small, std::byte** pointers) const;
  std::unique_ptr<Workspace> take_workspace() const;
  void give_back(std::unique_ptr<Workspace> workspace) const noexcept;
  Tensor make_output(Type type) const;
  void make_outputs(Tensor* outputs) const;
  void run_reusing(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const;
  void run_made(const Tensor* const* inputs, Tensor* outputs) const;
  void explain(const Error& error, const Instruction* at) const;

  Program program_;
  DonatedInputs donated_;
  std::shared_ptr<Arena> arena_;
  std::vector<Instruction> instructions_;
  std::vector<GeneralStep> steps_;
  std::vector<std::uint32_t> operations_;  // operation in the program's graph, by instruction
  std::vector<Plan> plans_;                // owners of the kernels' states
  std::vector<Type> input_types_, output_types_;
  Mode mode_ = Mode::pooled;
  int threads_;
  std::size_t small_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
  MemoryStats memory_stats_;  // empty in an inner program, which counts its memory in that of the outermost
  std::size_t num_pointers_ = 0;
  std::vector<Patch> small_pointers_, constant_pointers_, large_pointers_, input_pointers_, output_pointers_;
  std::vector<SlotCopy> loads_, stores_, literals_;
  std::vector<Copy> copies_;
  std::vector<Preparation> preparations_;
  std::vector<std::byte> literal_bytes_;  // of `literals_`, 16 bytes each
  Arena::Block constants_;
  std::vector<const std::byte*> constant_at_;  // bytes of a constant, by value
  mutable tidu::detail::ForkMutex mutex_;  // not available in some children of fork(): then nothing is pooled
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
  mutable std::size_t workspaces_ = 0;
};

void run_general(const Instruction& i, std::byte* base, const Frame& frame);

/// The tensor that the operation carries as an attribute and returns unchanged, or null. In constants.cpp.
const Literal* carried(const OpRecord& op, Type type);

/// Throws Error (execution) with the name of the operation and the types that lack a kernel.
[[noreturn]] void no_kernel(const Graph& graph, std::uint32_t operation);

}  // namespace tidu::cpu_detail
