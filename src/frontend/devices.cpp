// devices.cpp - executors by device, and the functions of Arrays that concern devices.
#include "frontend/devices.hpp"

#include "frontend/context.hpp"
#include "graph/fork_locks.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu {
namespace frontend_detail {

std::atomic<bool> devices_known{false};

namespace {

// Executors by device, in the order in which they were named.
struct Known {
  struct Entry {
    const DispatchExecutor* executor;
    std::weak_ptr<const void> lifetime;
    std::string name;
  };
  std::mutex mutex;
  std::map<std::uint32_t, std::vector<Entry>> by_device;

  static Known& get() {
    static Known* const known = [] {  // never destroyed: Arrays may outlive main
      auto* const made = new Known;
      tidu::detail::ForkLocks::add(tidu::detail::ForkRank::devices, made->mutex);
      return made;
    }();
    return *known;
  }
  // Under the lock. Null where there is none.
  const Entry* last(std::uint32_t device) {
    const auto found = by_device.find(device);
    if (found == by_device.end()) return nullptr;
    std::erase_if(found->second, [](const Entry& entry) { return entry.lifetime.expired(); });
    return found->second.empty() ? nullptr : &found->second.back();
  }
};

std::string name_of(const DispatchExecutor& executor, std::uint32_t device) {
  const auto* const named = dynamic_cast<const Executor*>(&executor);
  return detail::str(named != nullptr ? named->name() : "device", ':', device - 1);
}

}  // namespace

void know_device(const DispatchExecutor& executor) {
  const std::uint32_t device = executor.current_placement().device;
  if (device == 0) return;
  Known& known = Known::get();
  const std::lock_guard lock(known.mutex);
  const Known::Entry* const last = known.last(device);
  if (last != nullptr && last->executor == &executor) return;
  known.by_device[device].push_back({&executor, executor.lifetime(), name_of(executor, device)});
  devices_known.store(true);
}

const DispatchExecutor& executor_on(std::uint32_t device) {
  Known& known = Known::get();
  const std::lock_guard lock(known.mutex);
  if (const Known::Entry* const entry = known.last(device); entry != nullptr) return *entry->executor;
  throw Error(ErrorKind::invalid_argument,
              detail::str("expected operands on a device that some executor was named for, got device ",
                          device, ": Array::to(executor) names one"));
}

std::vector<const DispatchExecutor*> device_executors() {
  std::vector<const DispatchExecutor*> all;
  Known& known = Known::get();
  const std::lock_guard lock(known.mutex);
  for (const auto& [device, entries] : known.by_device)
    if (const Known::Entry* const entry = known.last(device); entry != nullptr)
      all.push_back(entry->executor);
  return all;
}

std::string device_name(std::uint32_t device) {
  if (device == 0) return "cpu";
  Known& known = Known::get();
  const std::lock_guard lock(known.mutex);
  const Known::Entry* const entry = known.last(device);
  return entry != nullptr ? entry->name : detail::str("device:", device - 1);
}

std::uint32_t device_number(std::string_view name) {
  if (name == "cpu") return 0;
  Known& known = Known::get();
  const std::lock_guard lock(known.mutex);
  std::string names = "cpu";
  for (const auto& [device, entries] : known.by_device) {
    const Known::Entry* const entry = known.last(device);
    if (entry == nullptr) continue;
    if (entry->name == name) return device;
    names += detail::str(", ", entry->name);
  }
  throw Error(ErrorKind::invalid_argument,
              detail::str("[device_put] expected a device that some executor was "
                          "named for (",
                          names, "), got ", detail::printable(name)));
}

std::uint32_t common_device(std::span<const std::uint32_t> devices, std::span<const Type> types, bool lenient,
                            std::string_view operation) {
  std::size_t first = 0;  // the reference for the others
  while (lenient && first < devices.size() && devices[first] == 0) ++first;
  if (first >= devices.size()) return 0;
  for (std::size_t i = first + 1; i < devices.size(); ++i) {
    if (devices[i] == devices[first] || (lenient && devices[i] == 0)) continue;
    throw Error(ErrorKind::invalid_argument,
                detail::str('[', operation, "] expected operands on one device, got ", types[first], " on ",
                            device_name(devices[first]), " as operand ", first, " and ", types[i], " on ",
                            device_name(devices[i]), " as operand ", i, ": Array::to() moves one"));
  }
  return devices[first];
}

Tensor moved(const Tensor& tensor, std::uint32_t device, const DispatchExecutor& on_host) {
  if (tensor.device() == device) return tensor;
  if (device == 0) return tensor.clone();
  const DispatchExecutor& there =
      on_host.current_placement().device == device ? on_host : executor_on(device);
  return there.put(tensor).value();
}

std::uint32_t device_for(const Context& c, std::span<const Input> operands, std::string_view operation) {
  const std::uint32_t home = c.host.executor()->current_placement().device;
  std::vector<std::uint32_t> devices;
  std::vector<Type> types;
  for (const Input& operand : operands) {
    if (operand.body == nullptr) continue;
    devices.push_back(operand.tensor->device() != 0 ? operand.tensor->device() : home);
    types.push_back(operand.tensor->type());
  }
  const std::uint32_t device = common_device(devices, types, false, operation);
  return device != home ? device : 0;
}

std::uint32_t traced_device(std::span<const Input> operands, std::string_view operation) {
  if (!devices_in_use()) return 0;
  std::vector<std::uint32_t> devices;
  std::vector<Type> types;
  for (const Input& operand : operands) {
    if (operand.body == nullptr) continue;
    const bool traced = is_traced(*operand.body);
    const std::uint32_t device = traced ? operand.body->extra->device : operand.tensor->device();
    if (device == unknown_device) continue;
    devices.push_back(device);
    types.push_back(traced ? operand.body->extra->type : operand.tensor->type());
  }
  // Under an executor of a device, values on the host are copied there.
  const bool lenient = context().host.executor()->current_placement().device != 0;
  return devices.empty() ? unknown_device : common_device(devices, types, lenient, operation);
}

std::vector<std::uint32_t> traced_devices(const Graph& graph, std::span<const Input> operands) {
  if (!devices_in_use()) return std::vector<std::uint32_t>(graph.outputs().size(), 0);
  std::vector<std::uint32_t> devices;
  for (const Input& operand : operands) {
    const std::uint32_t device =
        is_traced(*operand.body) ? operand.body->extra->device : operand.tensor->device();
    devices.push_back(device != unknown_device ? device : 0);
  }
  const auto found = Stages(graph, devices, true).output_devices();
  return {found.begin(), found.end()};
}

std::uint32_t device_of(const Array& array) {
  const Body& body = array.required();
  return is_traced(body) ? body.extra->device : body.tensor.device();
}

}  // namespace frontend_detail

using namespace frontend_detail;  // NOLINT(google-build-using-namespace): of this module

std::string Array::device(Where where) const {
  require_value(*this, "Array::device", where);
  const std::uint32_t device = device_of(*this);
  return device_name(device != unknown_device ? device : 0);
}

Array Array::to(const eager::BackwardExecutor<Tensor>& executor, Where where) const {
  know_device(executor);
  const std::uint32_t given = device_of(*this), device = executor.current_placement().device;
  const std::uint32_t from = given != unknown_device ? given : 0;
  if (from == device) return *this;
  const std::int64_t static_args[] = {device, from};
  const Input operands[] = {*this};
  return invoke(
      {"device_put", static_args, true}, operands,
      [&](Emitter&, std::span<const Value> v) {
        return ops::device_put(v[0], device_name(device), device_name(from));
      },
      where);
}

}  // namespace tidu
