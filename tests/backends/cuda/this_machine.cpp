// this_machine.cpp - opening the device once.
#include "cuda/this_machine.hpp"

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string_view>

#include "tidu/graph/error.hpp"

namespace tidu::test {

namespace {

bool insists() {
  const char* const wanted = std::getenv("TIDU_TEST_DEVICE");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

}  // namespace

const CudaExecutor* this_machine() {
  // Never destroyed: threads may end after main.
  static const CudaExecutor* const executor = []() -> const CudaExecutor* {
    auto made = std::make_unique<CudaExecutor>();
    try {
      made->open();
      return made.release();
    } catch (const Error& error) {
      if (insists()) throw;
      std::cout << "SKIPPED: " << error.what() << '\n';
      return nullptr;
    }
  }();
  return executor;
}

const CudaExecutor* chosen_device() { return insists() ? this_machine() : nullptr; }

std::vector<Tensor> run_there(const CudaExecutor& device, const Graph& graph, std::span<const Tensor> inputs,
                              bool fuse) {
  return device.compile(graph, CudaCompileOptions{.fuse = fuse}).run(inputs);
}

}  // namespace tidu::test
