// nvrtc.cpp - NVRTC, loaded when it is first needed.
#include "cuda/nvrtc.hpp"

#include <regex>
#include <vector>

#include "cuda/dynamic_library.hpp"
#include "cuda/kernels/prelude.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::test {
namespace {

using cuda_detail::KernelSource;

struct Nvrtc {
  Nvrtc() { library.load_beside("libnvrtc-builtins.so"); }
  cuda_detail::DynamicLibrary library{"NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}};
  using Program = void*;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) =
      library.function<int(Program*, const char*, const char*, int, const char* const*, const char* const*)>(
          "nvrtcCreateProgram");
  int (*compile)(Program, int, const char* const*) =
      library.function<int(Program, int, const char* const*)>("nvrtcCompileProgram");
  int (*log_size)(Program,
                  std::size_t*) = library.function<int(Program, std::size_t*)>("nvrtcGetProgramLogSize");
  int (*log)(Program, char*) = library.function<int(Program, char*)>("nvrtcGetProgramLog");
  int (*cubin_size)(Program,
                    std::size_t*) = library.function<int(Program, std::size_t*)>("nvrtcGetCUBINSize");
  int (*destroy)(Program*) = library.function<int(Program*)>("nvrtcDestroyProgram");
};
const Nvrtc* nvrtc() {
  static const std::unique_ptr<const Nvrtc> one = []() -> std::unique_ptr<const Nvrtc> {
    try {
      return std::make_unique<const Nvrtc>();
    } catch (const Error&) {
      return nullptr;
    }
  }();
  return one.get();
}

int number_before(const std::string& log, const std::string& words) {
  std::smatch found;
  return std::regex_search(log, found, std::regex("(\\d+) " + words)) ? std::stoi(found[1]) : 0;
}

// What is said of each kernel is behind its name.
Compiled numbers_of(const std::string& log) {
  Compiled result;
  result.ok = true;
  result.registers = number_before(log, "registers");
  result.spilled_bytes = number_before(log, "bytes spill stores") + number_before(log, "bytes spill loads");
  result.stack_bytes = number_before(log, "bytes stack frame");
  result.shared_bytes = number_before(log, "bytes smem");
  return result;
}

// Without numbers.
Compiled compile_text(const KernelSource& source) {
  const Nvrtc& n = *nvrtc();
  const std::string text = cuda_detail::with_prelude(source);
  Nvrtc::Program program = nullptr;
  n.create(&program, text.c_str(), (source.entry + ".cu").c_str(), 0, nullptr, nullptr);
  const char* const options[] = {"--gpu-architecture=sm_90", "--std=c++17", "--fmad=false",
                                 "--ptxas-options=-v"};
  Compiled result;
  result.ok = n.compile(program, 4, options) == 0;
  std::size_t size = 0;
  n.log_size(program, &size);
  result.log.resize(size);
  if (size > 0) n.log(program, result.log.data());
  if (result.ok) n.cubin_size(program, &result.cubin_bytes);
  n.destroy(&program);
  return result;
}

}  // namespace

bool has_nvrtc() { return nvrtc() != nullptr; }

Compiled compile_for_device(const KernelSource& kernel) {
  Compiled whole = compile_text(kernel);
  if (!whole.ok) return whole;
  Compiled result = numbers_of(whole.log);
  result.log = std::move(whole.log);
  result.cubin_bytes = whole.cubin_bytes;
  return result;
}

std::vector<Compiled> compile_for_device(std::span<const std::shared_ptr<const KernelSource>> kernels) {
  KernelSource together{"together", {}};
  for (std::size_t i = 0; i < kernels.size(); ++i) {  // helpers of two kernels may have one name
    together.text += "namespace kernel_" + std::to_string(i) + " {\n" + kernels[i]->text + "}\n";
  }
  const Compiled whole = compile_text(together);
  std::vector<Compiled> results;
  for (const auto& kernel : kernels) {
    const std::size_t at = whole.ok ? whole.log.find('\'' + kernel->entry + '\'') : std::string::npos;
    if (at == std::string::npos) {
      results.push_back(compile_for_device(*kernel));
    } else {
      results.push_back(
          numbers_of(whole.log.substr(at, whole.log.find("Compiling entry function", at) - at)));
    }
  }
  return results;
}

}  // namespace tidu::test
