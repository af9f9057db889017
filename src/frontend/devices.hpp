// devices.hpp - which executor computes on which device; where an operation on some Arrays is done; and
// graphs over several devices.
//
// Note [Where things are]: a tensor says where it lives (Tensor::device), and an operation is done where its
// operands are: on a device by the executor that to() or an ExecutorGuard has named for it, on the host by
// the thread's own. Numbers go where they are needed. Arrays are moved by to() alone, which is the operation
// device_put; operands of two devices are an error of the operation. A backward call follows the operands
// too, but is lenient: seeds come from the host, and what is there goes where the rest is.
//
// Note [Several devices]: a graph that moves values, or whose inputs are on several devices, is cut into
// stages: graphs that one executor runs, and moves. The level of a value counts the moves that lead to it, so
// that stages and moves in order of levels find their operands made.
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

/// Was an executor named for a device but the host?
extern std::atomic<bool> devices_known;
inline bool devices_in_use() { return devices_known.load(std::memory_order_relaxed); }

/// Names it for the device on which it puts work; nothing to do for one of the host.
void know_device(const DispatchExecutor& executor);
/// The one that was named last and is still there. Throws Error (invalid_argument).
const DispatchExecutor& executor_on(std::uint32_t device);
/// All that are there, one for each device.
std::vector<const DispatchExecutor*> device_executors();
/// "cpu", "cuda:0".
std::string device_name(std::uint32_t device);
/// Throws Error (invalid_argument) for the name of no known device.
std::uint32_t device_number(std::string_view name);

/// The device where operands are, when all but `lenient` ones of the host are on one. Throws Error
/// (invalid_argument) that says which is where.
std::uint32_t common_device(std::span<const std::uint32_t> devices, std::span<const Type> types, bool lenient,
                            std::string_view operation);

/// The tensor on that device: itself where it is there.
Tensor moved(const Tensor& tensor, std::uint32_t device, const DispatchExecutor& on_host);

/// How a graph runs when its inputs are on some devices.
class Stages {
 public:
  /// Throws Error (invalid_argument): see common_device.
  Stages(const Graph& graph, std::span<const std::uint32_t> devices, bool lenient);
  /// What is on the host is run by `on_host`.
  void run(const DispatchExecutor& on_host, bool linear, std::span<const Tensor* const> inputs,
           std::span<Tensor> out) const;
  /// By output.
  std::span<const std::uint32_t> output_devices() const { return output_devices_; }

 private:
  struct Item {
    std::uint32_t level = 0, device = 0;
    bool moves = false;  // from inputs[0] to outputs[0]
    std::vector<std::uint32_t> operations;
    std::vector<ValueId> inputs, outputs, dead;  // values of the whole graph; dead after it
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

/// What is known of a graph, kept in its slot.
class Spread {
 public:
  explicit Spread(const Graph& graph);
  static const Spread& of(const Graph& graph, const eager::ExecutorSlot& slot);
  /// Does it hold device_put, by itself and not within another operation?
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
