// devices.hpp - the executor of each device, the device of an operation, and graphs that span several
// devices.
//
// Note [Devices of values]: a tensor knows its device (Tensor::device), and an operation runs on the device
// of its operands: by the executor that to() or an ExecutorGuard named for the device, or on the host by the
// thread's own executor. Numbers go to the other operands' device. Only to() moves Arrays, by the operation
// device_put; operands on two devices are an error. A backward call also follows its operands, but leniently:
// seeds on the host move to the device of the other operands.
//
// Note [Several devices]: a graph that moves values, or whose inputs are on several devices, is cut into
// stages: graphs for one executor each, and moves between devices. The level of a value is the number of
// moves before it. Stages and moves run in the order of levels, so their operands are ready.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidu/eager/executor.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

using DispatchExecutor = eager::BackwardExecutor<Tensor>;

/// Was an executor named for a device other than the host?
extern std::atomic<bool> devices_known;
inline bool devices_in_use() { return devices_known.load(std::memory_order_relaxed); }

/// Names the executor for its device; no effect for the host.
void know_device(const DispatchExecutor& executor);
/// The executor that was named last for the device and still exists. Throws Error (invalid_argument).
const DispatchExecutor& executor_on(std::uint32_t device);
/// All named executors that exist, one for each device.
std::vector<const DispatchExecutor*> device_executors();
/// "cpu", "cuda:0".
std::string device_name(std::uint32_t device);
/// Throws Error (invalid_argument) for an unknown device name.
std::uint32_t device_number(std::string_view name);

/// The common device of the operands. If `lenient`, operands on the host do not count. Throws Error
/// (invalid_argument) with the device of each operand.
std::uint32_t common_device(std::span<const std::uint32_t> devices, std::span<const Type> types, bool lenient,
                            std::string_view operation);

/// The tensor on that device; the tensor itself if it is there.
Tensor moved(const Tensor& tensor, std::uint32_t device, const DispatchExecutor& on_host);

/// The execution plan of a graph whose inputs are on given devices.
class Stages {
 public:
  /// Throws Error (invalid_argument): see common_device.
  Stages(const Graph& graph, std::span<const std::uint32_t> devices, bool lenient);
  /// `on_host` runs the stages on the host.
  void run(const DispatchExecutor& on_host, bool linear, std::span<const Tensor* const> inputs,
           std::span<Tensor> out) const;
  /// By output.
  std::span<const std::uint32_t> output_devices() const { return output_devices_; }

 private:
  struct Item {
    std::uint32_t level = 0, device = 0;
    bool moves = false;  // from inputs[0] to outputs[0]
    std::vector<std::uint32_t> operations;
    std::vector<ValueId> inputs, outputs, dead;  // values of the whole graph; dead: after this item
    Graph graph;
    std::unique_ptr<eager::ExecutorSlot> slot = std::make_unique<eager::ExecutorSlot>();
  };
  struct DeviceOfValue;
  void cut(const Graph& graph, const DeviceOfValue& places);
  void connect(const Graph& graph);
  std::size_t num_values_;
  std::vector<ValueId> input_values_, output_values_;
  std::vector<std::uint32_t> output_devices_;
  std::vector<Item> items_;
};

/// The stages of a graph by devices, kept in its slot.
class Spread {
 public:
  explicit Spread(const Graph& graph);
  static const Spread& of(const Graph& graph, const eager::ExecutorSlot& slot);
  /// Does the graph contain device_put at its top level?
  bool moves() const { return moves_; }
  const Stages& stages(const Graph& graph, std::span<const std::uint32_t> devices, bool lenient) const;

 private:
  struct Known {
    std::mutex mutex;
    std::map<std::vector<std::uint32_t>, std::unique_ptr<const Stages>> by_devices;
  };
  bool moves_ = false;
  std::shared_ptr<Known> known_ = std::make_shared<Known>();
};

}  // namespace tidu::frontend_detail
