// compiled.cpp - from a program to loaded nodes, and a run of them one after another. Replaying is in
// replay.cpp.
#include "cuda/compiled.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "cuda/activity.hpp"
#include "cuda/rules/compose.hpp"
#include "tensor/calls.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/literal.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu::cuda_detail {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

// Scratch memory for what the device's libraries work in, as far as the plan has not guessed it. Steps of a
// plan, which run one after another, work in the same.
void add_workspaces(Plan& plan, const Device& device) {
  BufferRef last;
  std::size_t last_bytes = 0;
  for (Step& step : plan.steps) {
    const std::size_t bytes = device.workspace_bytes(step);
    const auto grow = [&](auto& each) {
      if (each.workspace_bytes >= bytes) return;
      if (last_bytes < bytes) {
        last = take_scratch(plan, bytes);
        last_bytes = bytes;
      }
      each.workspace = last;
      each.workspace_bytes = bytes;
    };
    std::visit(Overloaded{[&](SolverStep& solver) { grow(solver); }, [&](SortStep& sort) { grow(sort); },
                          [](auto&) {}},
               step);
  }
}

// Steps fewer than these are launched as fast as a capture of them.
constexpr std::size_t min_replayed = 3;

// Made once: few bytes, or a tensor of the host's.
bool is_constant(const Graph& graph, const Node& node, std::size_t max_bytes) {
  if (!node.operands.empty()) return false;
  for (const std::uint32_t operation : node.operations)
    if (!graph.operation(operation).primitive().has_trait(Trait::constant)) return false;
  for (const Step& step : node.plan.steps)
    if (std::holds_alternative<LiteralStep>(step)) return true;
  std::size_t bytes = 0;
  for (const ValueId result : node.results) bytes += graph.type(result).bytes();
  return bytes <= max_bytes;
}

}  // namespace

bool prefers_cudnn() {
  const char* const wanted = std::getenv("TIDU_CONVOLUTIONS");
  const std::string_view word = wanted != nullptr && *wanted != '\0' ? wanted : "own";
  if (word != "own" && word != "cudnn") {
    throw Error(
        ErrorKind::invalid_argument,
        detail::str("[cuda] expected TIDU_CONVOLUTIONS to be own or cudnn, got ", detail::printable(word)));
  }
  return word == "cudnn";
}

Compiled::Compiled(std::shared_ptr<Runtime> runtime, Graph optimized, const CompileOptions& options)
    : runtime_(std::move(runtime)), graph_(std::move(optimized)), options_(options) {
  const Graph& graph = graph_;
  for (const ValueId input : graph.inputs()) input_types_.push_back(graph.type(input));
  for (const ValueId output : graph.outputs()) output_types_.push_back(graph.type(output));
  NodeOptions node_options;
  node_options.fuse = options.fuse;
  node_options.multiprocessors = runtime_->device().properties().multiprocessors;
  node_options.tf32 = options.tf32;
  node_options.cudnn = options.cudnn;
  std::vector<Node> constants, nodes;
  for (Node& node : plan_nodes(graph, node_options)) {
    add_workspaces(node.plan, runtime_->device());
    for (Step& step : node.plan.steps)
      if (std::holds_alternative<CollectiveStep>(step))
        bind_axes(step, options.axes.get(), graph.operation(node.operations.front()).name());
    const bool constant = is_constant(graph, node, options_.constant_bytes);
    (constant ? constants : nodes).push_back(std::move(node));
  }
  layout_ = lay_out(graph, passes::alias_roots(graph), constants, nodes);
  streams_of_nodes_ = spread(find_dependencies(nodes, layout_), options.streams);
  make_constants(constants);
  load(std::move(nodes));
}

Compiled::~Compiled() {
  for (const Replay& replay : replays_) runtime_->device().destroy_graph(replay.graph);
}

void Compiled::explain(const Error& error, const Node& node) const {
  std::string message = error.what();
  if (!node.operations.empty()) {
    message += detail::str("\n  ", describe_operation(graph_, node.operations.front()));
    if (node.operations.size() > 1)
      message += detail::str(" and ", node.operations.size() - 1, " more in one kernel");
  }
  error.with_message(message)->raise();
  throw Error(error.kind(), message);  // raise() has thrown
}

Kernel Compiled::load_kernel(const Node& node, const Launch& launch) {
  try {
    return runtime_->device().load(*launch.kernel);
  } catch (const Error& error) {
    explain(error, node);
  }
}

namespace {

// Whether a collective is captured all ranks must decide alike, and what decides it (addresses, what the
// cache holds) is each one's own.
bool exchanges(const Step& step) {
  const auto* const collective = std::get_if<CollectiveStep>(&step);
  return collective != nullptr && collective->ranks > 1;
}

}  // namespace

void Compiled::load(std::vector<Node> nodes) {
  can_replay_ = options_.replay;
  for (Node& node : nodes) {
    LoadedNode loaded{std::move(node), {}, static_cast<std::uint32_t>(spots_.size())};
    for (const Step& step : loaded.node.plan.steps) {
      const auto* const launch = std::get_if<Launch>(&step);
      if (launch != nullptr) loaded.kernels.push_back(load_kernel(loaded.node, *launch));
      can_replay_ = can_replay_ && !std::holds_alternative<LiteralStep>(step) && !exchanges(step) &&
                    runtime_->device().can_capture(step);
    }
    for (const ValueId value : loaded.node.operands) spots_.push_back(layout_.spots[value]);
    for (const ValueId value : loaded.node.results) spots_.push_back(layout_.spots[value]);
    num_steps_ += loaded.node.plan.steps.size();
    nodes_.push_back(std::move(loaded));
  }
  num_steps_ += layout_.copies.size();
  can_replay_ = can_replay_ && num_steps_ >= min_replayed;
}

// On the default stream; work on another stream waits for it.
void Compiled::make_constants(const std::vector<Node>& constants) {
  if (layout_.constant_bytes == 0) return;
  const Stream stream = runtime_->default_stream();
  constants_ = std::make_unique<KeptMemory>(*runtime_, layout_.constant_bytes, stream);
  for (const Node& node : constants) {
    const Tensor scratch =
        runtime_->make(Type(DType::boolean, {static_cast<std::int64_t>(node.plan.scratch_bytes)}), stream);
    std::vector<Memory> table;
    LoadedNode loaded{node, {}, 0};
    for (const Step& step : node.plan.steps)
      if (const auto* const launch = std::get_if<Launch>(&step))
        loaded.kernels.push_back(load_kernel(node, *launch));
    for (const ValueId value : node.results)
      table.push_back({constants_->address() + layout_.spots[value].offset, layout_.spots[value].bytes});
    const std::size_t bytes = node.plan.scratch_bytes;
    const Bindings at{{}, table, {runtime_->find(scratch)->address(), bytes}};
    issue_steps(loaded, at, stream);
  }
  constants_->made();
}

std::byte* Compiled::address(const Spot& spot, const Addresses& at) const {
  switch (spot.home) {
    case Home::input: return at.inputs[spot.index];
    case Home::output: return at.outputs[spot.index];
    case Home::workspace: return at.workspace + spot.offset;
    case Home::constant:  // there is no memory where all constants are empty
      return constants_ != nullptr ? constants_->address() + spot.offset : nullptr;
    default: return nullptr;
  }
}

void Compiled::bind(const Addresses& at, std::vector<Memory>& table) const {
  table.resize(spots_.size());
  for (std::size_t i = 0; i < spots_.size(); ++i) table[i] = {address(spots_[i], at), spots_[i].bytes};
}

void Compiled::issue_steps(const LoadedNode& node, const Bindings& at, Stream stream) const {
  Device& device = runtime_->device();
  const Kernel* kernel = node.kernels.data();
  for (const Step& step : node.node.plan.steps) {
    std::visit(
        Overloaded{
            [&](const Launch& launch) { device.launch(launch, *kernel++, at, stream); },
            [&](const CopyStep& copy) { device.copy(at.at(copy.to), at.at(copy.from), copy.bytes, stream); },
            [&](const ClearStep& clear) { device.clear(at.at(clear.at), clear.bytes, stream); },
            [&](const LiteralStep& literal) {
              runtime_->copy_in(at.at(literal.to), {literal.literal.bytes(), literal.literal.type().bytes()},
                                stream);
            },
            [&](const auto& library) { device.run(library, at, stream); }},
        step);
  }
}

void Compiled::issue(const LoadedNode& node, const Addresses& at, const std::vector<Memory>& table,
                     Stream stream) const {
  const std::size_t operands = node.node.operands.size(), results = node.node.results.size();
  const Memory* const first = table.data() + node.first_memory;
  const auto index = static_cast<std::size_t>(&node - nodes_.data());
  const Bindings bindings{{first, operands},
                          {first + operands, results},
                          {at.workspace + layout_.scratch[index], node.node.plan.scratch_bytes}};
  try {
    issue_steps(node, bindings, stream);
  } catch (const Error& error) {
    explain(error, node.node);
  }
}

void Compiled::issue_copies(const Addresses& at, Stream stream) const {
  for (const Layout::Copy& copy : layout_.copies)
    if (copy.from.bytes != 0)
      runtime_->device().copy(at.outputs[copy.output], address(copy.from, at), copy.from.bytes, stream);
}

void Compiled::run_plainly(const Addresses& at, Stream stream) const {
  std::vector<Memory> table;
  bind(at, table);
  for (const LoadedNode& node : nodes_) {
    ActivitySpan span(*runtime_, stream);
    issue(node, at, table, stream);
    if (span) enter(node.node, span);
  }
  if (layout_.copies.empty()) return;
  ActivitySpan span(*runtime_, stream);
  issue_copies(at, stream);
  if (span) span.finish("copy of results", 0);
}

// "mul+add and 3 more", where the first of them stands, and what they make.
void Compiled::enter(const Node& node, ActivitySpan& span) const {
  const Graph& graph = graph_;
  constexpr std::size_t max_names = 3;
  std::string name, where;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < std::min(max_names, node.operations.size()); ++i) {
    const Operation operation = graph.operation(node.operations[i]);
    name += detail::str(i != 0 ? "+" : "", operation.name());
    if (where.empty()) where = operation.where();
  }
  if (node.operations.size() > max_names)
    name += detail::str(" and ", node.operations.size() - max_names, " more");
  for (const ValueId result : node.results) bytes += graph.type(result).bytes();
  span.finish(std::move(name), bytes, std::move(where));
}

// All as one.
void Compiled::launch(ReplayGraph graph, Stream stream) const {
  ActivitySpan span(*runtime_, stream);
  runtime_->device().launch(graph, stream);
  if (!span) return;
  std::size_t bytes = 0;
  for (const Type type : output_types_) bytes += type.bytes();
  const std::string& name = graph_.name();
  span.finish(detail::str(name.empty() ? "program" : name, " (", num_steps_, " steps)"), bytes);
}

namespace {

// Memory of a run, given back to those who work on its stream when the run was put there.
class WorkspaceLease {
 public:
  WorkspaceLease(Pool& pool, std::size_t bytes, Stream stream)
      : pool_(pool), stream_(stream), memory_(pool.acquire(bytes, stream)) {}
  WorkspaceLease(const WorkspaceLease&) = delete;
  WorkspaceLease& operator=(const WorkspaceLease&) = delete;
  ~WorkspaceLease() { pool_.release(memory_, std::span(&stream_, 1)); }
  std::byte* at() const { return memory_.at; }

 private:
  Pool& pool_;
  Stream stream_;
  Memory memory_;
};

}  // namespace

void Compiled::run_into(std::span<const Tensor* const> inputs, std::span<Tensor> outputs,
                        Stream stream) const {
  if (inputs.size() != input_types_.size() || outputs.size() != output_types_.size())
    detail::refuse_call(graph_, inputs, outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] == nullptr || inputs[i]->type() != input_types_[i])
      detail::refuse_call(graph_, inputs, outputs.size());

  Addresses at;
  std::vector<Tensor> uploaded;  // until the run was put on the stream
  at.inputs.reserve(inputs.size());
  for (const Tensor* const input : inputs) {
    DeviceStorage* there = runtime_->find(*input);
    if (std::byte* const constant = there == nullptr ? runtime_->constant(*input, stream) : nullptr) {
      at.inputs.push_back(constant);
      continue;
    }
    if (there == nullptr) there = runtime_->find(uploaded.emplace_back(runtime_->upload(*input, stream)));
    there->use_on(stream);
    at.inputs.push_back(there->address());
  }
  std::optional<KeptMemory::Use> use;
  if (constants_ != nullptr) use.emplace(*constants_, stream);
  std::vector<Tensor> made;
  made.reserve(outputs.size());
  at.outputs.reserve(outputs.size());
  for (const Type type : output_types_)
    at.outputs.push_back(runtime_->find(made.emplace_back(runtime_->make(type, stream)))->address());
  const WorkspaceLease workspace(runtime_->pool(), layout_.workspace_bytes, stream);
  at.workspace = workspace.at();
  if (!can_replay_ || !replay(at, stream)) run_plainly(at, stream);
  std::move(made.begin(), made.end(), outputs.begin());
}

}  // namespace tidu::cuda_detail
