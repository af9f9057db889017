// kernel_compiler.cpp - calls of NVRTC.
#include "cuda/kernels/kernel_compiler.hpp"

#include <cuda.h>
#include <nvrtc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "cuda/dynamic_library.hpp"
#include "cuda/kernels/prelude.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

// The functions of NVRTC that are needed.
struct Nvrtc {
  DynamicLibrary library{"NVRTC", versions_of("libnvrtc.so", CUDA_VERSION / 1000, {13, 12})};
  decltype(::nvrtcVersion)* version = library.function<decltype(::nvrtcVersion)>("nvrtcVersion");
  decltype(::nvrtcCreateProgram)* create =
      library.function<decltype(::nvrtcCreateProgram)>("nvrtcCreateProgram");
  decltype(::nvrtcDestroyProgram)* destroy =
      library.function<decltype(::nvrtcDestroyProgram)>("nvrtcDestroyProgram");
  decltype(::nvrtcCompileProgram)* compile =
      library.function<decltype(::nvrtcCompileProgram)>("nvrtcCompileProgram");
  decltype(::nvrtcGetProgramLogSize)* log_size =
      library.function<decltype(::nvrtcGetProgramLogSize)>("nvrtcGetProgramLogSize");
  decltype(::nvrtcGetProgramLog)* log =
      library.function<decltype(::nvrtcGetProgramLog)>("nvrtcGetProgramLog");
  decltype(::nvrtcGetCUBINSize)* cubin_size =
      library.function<decltype(::nvrtcGetCUBINSize)>("nvrtcGetCUBINSize");
  decltype(::nvrtcGetCUBIN)* cubin = library.function<decltype(::nvrtcGetCUBIN)>("nvrtcGetCUBIN");
  decltype(::nvrtcGetPTXSize)* ptx_size = library.function<decltype(::nvrtcGetPTXSize)>("nvrtcGetPTXSize");
  decltype(::nvrtcGetPTX)* ptx = library.function<decltype(::nvrtcGetPTX)>("nvrtcGetPTX");
  decltype(::nvrtcGetNumSupportedArchs)* num_supported =
      library.function<decltype(::nvrtcGetNumSupportedArchs)>("nvrtcGetNumSupportedArchs");
  decltype(::nvrtcGetSupportedArchs)* supported =
      library.function<decltype(::nvrtcGetSupportedArchs)>("nvrtcGetSupportedArchs");
  decltype(::nvrtcGetErrorString)* error_string =
      library.function<decltype(::nvrtcGetErrorString)>("nvrtcGetErrorString");

  Nvrtc() { library.load_beside("libnvrtc-builtins.so"); }
  static const Nvrtc& get() {
    static const Nvrtc* const functions = new Nvrtc;
    return *functions;
  }
  void check(nvrtcResult result, const char* what) const {
    if (result == NVRTC_SUCCESS) return;
    throw Error(ErrorKind::execution, detail::str("[cuda] ", what, ": ", error_string(result)));
  }
};

class ProgramHandle {
 public:
  ProgramHandle(const Nvrtc& nvrtc, const std::string& text, const std::string& name) : nvrtc_(nvrtc) {
    nvrtc.check(nvrtc.create(&program_, text.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr),
                "nvrtcCreateProgram");
  }
  ProgramHandle(const ProgramHandle&) = delete;
  ProgramHandle& operator=(const ProgramHandle&) = delete;
  ~ProgramHandle() { nvrtc_.destroy(&program_); }
  nvrtcProgram get() const { return program_; }

 private:
  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

// A product and a sum are two roundings: what several kernels compute is the same number in each of them,
// whoever else reads the product there.
constexpr const char* compile_options[] = {"--std=c++17", "--device-as-default-execution-space",
                                           "--fmad=false"};

}  // namespace

KernelCompiler::KernelCompiler(int major, int minor, std::string folder, std::uint64_t folder_bytes)
    : capability_(10 * major + minor), folder_(std::move(folder), folder_bytes) {}

std::string KernelCompiler::architecture() const {
  const Nvrtc& nvrtc = Nvrtc::get();
  int count = 0, newest = 0;
  nvrtc.check(nvrtc.num_supported(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> known(static_cast<std::size_t>(count));
  nvrtc.check(nvrtc.supported(known.data()), "nvrtcGetSupportedArchs");
  for (const int one : known)
    if (one <= capability_) newest = std::max(newest, one);
  // Of a GPU that is too old the compiler says so.
  return newest == capability_ || newest == 0 ? detail::str("sm_", capability_)
                                              : detail::str("compute_", newest);
}

// What the file's first line says: all that its bytes depend on, the text by its sum.
std::string KernelCompiler::key_text(const std::string& program) const {
  int major = 0, minor = 0;
  const Nvrtc& nvrtc = Nvrtc::get();
  nvrtc.check(nvrtc.version(&major, &minor), "nvrtcVersion");
  std::string text = detail::str("tidu kernel 1 ", architecture(), " nvrtc ", major, '.', minor);
  for (const char* const option : compile_options) text += detail::str(' ', option);
  return detail::str(text, ' ', program.size(), ' ', digest(program));
}

std::string KernelCompiler::path_of(const KernelSource& source) const {
  return folder_.path_of(key_text(with_prelude(source)));
}

std::vector<char> KernelCompiler::compile(const KernelSource& source, bool* compiled) const {
  const Nvrtc& nvrtc = Nvrtc::get();
  const std::string text = with_prelude(source);
  const std::string title = key_text(text);
  if (compiled != nullptr) *compiled = false;
  if (std::vector<char> kept = folder_.read(title); !kept.empty()) return kept;
  const ProgramHandle program(nvrtc, text, source.entry);
  const std::string target = architecture(), option = "--gpu-architecture=" + target;
  std::vector<const char*> options{std::begin(compile_options), std::end(compile_options)};
  options.push_back(option.c_str());
  const nvrtcResult result = nvrtc.compile(program.get(), static_cast<int>(options.size()), options.data());
  if (result != NVRTC_SUCCESS) {
    std::size_t size = 0;
    std::string log;
    if (nvrtc.log_size(program.get(), &size) == NVRTC_SUCCESS && size > 1) {
      log.resize(size);
      nvrtc.log(program.get(), log.data());
      log.resize(size - 1);
    }
    throw Error(ErrorKind::internal, detail::str("[cuda] expected kernel ", source.entry, " to compile, got ",
                                                 nvrtc.error_string(result), ":\n", log));
  }
  std::size_t size = 0;
  const bool is_ptx = target.rfind("compute_", 0) == 0;
  nvrtc.check((is_ptx ? nvrtc.ptx_size : nvrtc.cubin_size)(program.get(), &size), "nvrtcGetCUBINSize");
  std::vector<char> code(size);
  nvrtc.check((is_ptx ? nvrtc.ptx : nvrtc.cubin)(program.get(), code.data()), "nvrtcGetCUBIN");
  if (compiled != nullptr) *compiled = true;
  folder_.keep(title, code);
  return code;
}

std::string default_kernel_folder() {
  if (const char* const own = std::getenv("TIDU_KERNEL_CACHE"); own != nullptr) return own;
  if (const char* const cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return std::string(cache) + "/tidu/kernels";
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::string(home) + "/.cache/tidu/kernels";
  return {};
}

}  // namespace tidu::cuda_detail
