// kernels.cpp - texts taken apart, and compiled once for the process.
#include "cuda/platform/kernels.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "cuda/kernels/prelude.hpp"

namespace tidu::test::platform {
namespace {

struct Compiled {
  std::mutex mutex;
  std::unordered_map<std::string, HostKernel> kernels;
};
Compiled& compiled() {
  static auto* const all = new Compiled;
  return *all;
}

// What follows the prelude.
std::string own_text(const std::string& text) {
  std::string_view rest = text;
  for (const std::string_view part : cuda_detail::prelude_parts())
    if (rest.starts_with(part)) rest.remove_prefix(part.size());
  return std::string(rest);
}

}  // namespace

void compile_ahead(std::span<const std::vector<cuda_detail::Node>> plans) {
  std::unordered_map<std::string, std::shared_ptr<const cuda_detail::KernelSource>> sources;
  const std::lock_guard lock(compiled().mutex);
  for (const std::vector<cuda_detail::Node>& nodes : plans) {
    for (const cuda_detail::Node& node : nodes) {
      for (const cuda_detail::Step& step : node.plan.steps) {
        const auto* const launch = std::get_if<cuda_detail::Launch>(&step);
        if (launch != nullptr && !compiled().kernels.contains(launch->kernel->entry))
          sources.emplace(launch->kernel->entry, launch->kernel);
      }
    }
  }
  KernelSources all;
  for (const auto& [entry, source] : sources) all.push_back(source);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->entry < b->entry; });
  load_kernels(all, KernelBranch::device_unchecked, compiled().kernels);
}

const HostKernel& compiled_kernel(const std::string& entry, const std::string& text) {
  const std::lock_guard lock(compiled().mutex);
  const auto found = compiled().kernels.find(entry);
  if (found != compiled().kernels.end()) return found->second;
  load_kernels(
      {std::make_shared<const cuda_detail::KernelSource>(cuda_detail::KernelSource{entry, own_text(text)})},
      KernelBranch::device_unchecked, compiled().kernels);
  return compiled().kernels.at(entry);
}

// A declaration is: extern "C" __global__ void ... ENTRY(const float* __restrict__ p0, float* q0, u64 n) {
std::vector<Parameter> parameters_of(const std::string& entry, const std::string& text) {
  const std::size_t name = text.find(' ' + entry + '(', text.find("__global__"));
  const std::size_t begin = name + entry.size() + 2, end = text.find(')', begin);
  if (name == std::string::npos || end == std::string::npos)
    throw std::runtime_error("platform: expected a declaration of " + entry);
  std::vector<Parameter> parameters;
  for (std::size_t at = begin; at < end;) {
    const std::size_t next = std::min(end, text.find(',', at));
    const std::string_view one = std::string_view(text).substr(at, next - at);
    const bool is_address = one.find('*') != std::string_view::npos;
    const bool is_const = one.substr(0, one.find('*')).find("const ") != std::string_view::npos;
    parameters.push_back(!is_address ? Parameter::value : is_const ? Parameter::reads : Parameter::writes);
    at = next + 1;
  }
  return parameters;
}

}  // namespace tidu::test::platform
