// stages.cpp - graphs over several devices. See Note [Several devices].
#include <algorithm>

#include "frontend/devices.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::frontend_detail {
namespace {

// The device of values without operands, which are made on the device where they are used.
constexpr std::uint32_t anywhere = ~std::uint32_t{0};

bool is_move(const Operation& operation) { return &operation.primitive() == &prim::device_put; }

// Distinguishes entries for stages from entries for programs, for all executors.
class SpreadIdentity : public eager::ExecutorIdentity {
 public:
  static std::uint64_t get() {
    static const SpreadIdentity identity;
    return identity.id();
  }
};

}  // namespace

// The device of each value, and the number of moves before it.
struct Stages::DeviceOfValue {
  std::vector<std::uint32_t> device, level;

  DeviceOfValue(const Graph& graph, std::span<const std::uint32_t> inputs, bool lenient)
      : device(graph.num_values(), anywhere), level(graph.num_values(), 0) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      device[graph.inputs()[i]] = inputs[i];
      level[graph.inputs()[i]] = 1;
    }
    for (std::size_t i = 0; i < graph.num_operations(); ++i) place(graph, graph.operation(i), lenient);
    // A value without operands is made on the device of its first use.
    for (std::size_t i = graph.num_operations(); i-- > 0;) {
      const Operation operation = graph.operation(i);
      std::uint32_t here = device[operation.output()];
      if (here == anywhere) here = 0;
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
        device[operation.output(slot)] = here;
      if (is_move(operation)) continue;
      for (const ValueId input : operation.inputs())
        if (device[input] == anywhere) device[input] = here;
    }
  }

  void place(const Graph& graph, const Operation& operation, bool lenient) {
    std::vector<std::uint32_t> devices;
    std::vector<Type> types;
    std::uint32_t here = anywhere, depth = 0;
    for (const ValueId input : operation.inputs()) {
      if (device[input] == anywhere) continue;
      devices.push_back(device[input]);
      types.push_back(graph.type(input));
    }
    if (is_move(operation)) {
      here = device_number(operation.op().string("device"));
      depth = level[operation.input(0)] + 1;
    } else if (!devices.empty()) {
      here = common_device(devices, types, lenient, operation.name());
      depth = 1;
      for (const ValueId input : operation.inputs()) {
        const bool elsewhere = device[input] != here && device[input] != anywhere;
        depth = std::max(depth, level[input] + (elsewhere ? 1U : 0U));
      }
    }
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      device[operation.output(slot)] = here;
      level[operation.output(slot)] = depth;
    }
  }
};

Stages::Stages(const Graph& graph, std::span<const std::uint32_t> devices, bool lenient)
    : num_values_(graph.num_values()),
      input_values_(graph.inputs().begin(), graph.inputs().end()),
      output_values_(graph.outputs().begin(), graph.outputs().end()) {
  const DeviceOfValue places(graph, devices, lenient);
  for (const ValueId output : output_values_) output_devices_.push_back(places.device[output]);
  cut(graph, places);
  connect(graph);
}

// Moves of a level precede the stages of that level, one for each device.
void Stages::cut(const Graph& graph, const DeviceOfValue& places) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> stages;  // by level and device
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    if (operation.num_outputs() == 0) continue;
    const std::uint32_t level = places.level[operation.output()], device = places.device[operation.output()];
    if (is_move(operation)) {
      Item& item = items_.emplace_back();
      item.level = level;
      item.device = device;
      item.moves = true;
      item.inputs = {operation.input(0)};
      item.outputs = {operation.output()};
      continue;
    }
    const auto [found, is_new] = stages.emplace(std::pair(level, device), items_.size());
    if (is_new) {
      items_.emplace_back();
      items_.back().level = level;
      items_.back().device = device;
    }
    items_[found->second].operations.push_back(i);
  }
  std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    return std::pair(a.level, !a.moves) < std::pair(b.level, !b.moves);
  });
}

// For each stage its inputs from others, its outputs for others, its graph, and the last reader of each
// value.
void Stages::connect(const Graph& graph) {
  constexpr std::size_t nobody = ~std::size_t{0};
  std::vector<std::size_t> made(num_values_, nobody), last(num_values_, nobody);
  for (std::size_t n = 0; n < items_.size(); ++n) {
    for (const ValueId output : items_[n].outputs) made[output] = n;
    for (const std::uint32_t i : items_[n].operations) {
      const Operation operation = graph.operation(i);
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) made[operation.output(slot)] = n;
    }
  }
  std::vector<bool> given(num_values_, false);
  for (std::size_t n = 0; n < items_.size(); ++n) {
    Item& item = items_[n];
    for (const std::uint32_t i : item.operations)
      for (const ValueId input : graph.operation(i).inputs())
        if (made[input] != n) item.inputs.push_back(input);
    std::sort(item.inputs.begin(), item.inputs.end());
    item.inputs.erase(std::unique(item.inputs.begin(), item.inputs.end()), item.inputs.end());
    for (const ValueId input : item.inputs) {
      given[input] = true;
      last[input] = n;
    }
  }
  for (const ValueId output : output_values_) {
    given[output] = true;
    last[output] = nobody;
  }
  for (std::size_t n = 0; n < items_.size(); ++n) {
    Item& item = items_[n];
    for (const ValueId input : item.inputs)
      if (last[input] == n) item.dead.push_back(input);
    if (item.moves) continue;
    GraphBuilder::Options options;
    options.record_where = false;
    GraphBuilder builder(graph.name(), graph.primitives(), options);
    std::map<ValueId, Value> values;
    for (const ValueId input : item.inputs)
      values.emplace(input, builder.input(detail::str('x', input), graph.type(input)));
    std::vector<Value> outputs;
    for (const std::uint32_t i : item.operations) {
      const Operation operation = graph.operation(i);
      std::vector<Value> operands;
      for (const ValueId input : operation.inputs()) operands.push_back(values.at(input));
      const Values results = builder.emit(operation.op(), operands);
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
        const ValueId value = operation.output(slot);
        values.emplace(value, results[slot]);
        if (!given[value]) continue;
        item.outputs.push_back(value);
        outputs.push_back(results[slot]);
      }
    }
    item.graph = builder.build(outputs);
  }
}

void Stages::run(const DispatchExecutor& on_host, bool linear, std::span<const Tensor* const> inputs,
                 std::span<Tensor> out) const {
  std::vector<Tensor> values(num_values_);
  for (std::size_t i = 0; i < inputs.size(); ++i) values[input_values_[i]] = *inputs[i];
  for (const Item& item : items_) {
    if (item.moves) {
      values[item.outputs[0]] = moved(values[item.inputs[0]], item.device, on_host);
    } else if (!item.outputs.empty()) {
      const DispatchExecutor& executor = item.device == 0 || on_host.current_placement().device == item.device
                                             ? on_host
                                             : executor_on(item.device);
      std::vector<const Tensor*> operands;
      for (const ValueId input : item.inputs) operands.push_back(&values[input]);
      const eager::GraphCall call{item.graph, *item.slot, executor.current_placement()};
      eager::Operands<Tensor> results =
          (linear ? executor.run_transposed_linear(call, operands) : executor.execute_forward(call, operands))
              .value();
      for (std::size_t i = 0; i < item.outputs.size(); ++i) values[item.outputs[i]] = std::move(results[i]);
    }
    for (const ValueId value : item.dead) values[value] = Tensor();
  }
  for (std::size_t i = 0; i < output_values_.size(); ++i) out[i] = values[output_values_[i]];
}

Spread::Spread(const Graph& graph) {
  for (std::size_t i = 0; i < graph.num_operations() && !moves_; ++i) moves_ = is_move(graph.operation(i));
}

const Spread& Spread::of(const Graph& graph, const eager::ExecutorSlot& slot) {
  return slot.get<Spread>(SpreadIdentity::get(), [&] { return Spread(graph); });
}

const Stages& Spread::stages(const Graph& graph, std::span<const std::uint32_t> devices, bool lenient) const {
  std::vector<std::uint32_t> key(devices.begin(), devices.end());
  key.push_back(lenient ? 1 : 0);
  const std::lock_guard lock(known_->mutex);
  std::unique_ptr<const Stages>& stages = known_->by_devices[std::move(key)];
  if (stages == nullptr) stages = std::make_unique<const Stages>(graph, devices, lenient);
  return *stages;
}

}  // namespace tidu::frontend_detail
