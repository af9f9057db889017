// kernel_compiler.cpp - calls of NVRTC, and files of machine code: a line that says what the file is of, its
// length and a sum of its bytes, then the bytes. A file that says or sums up otherwise is taken for none.
#include "cuda/kernels/kernel_compiler.hpp"

#include <nvrtc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cuda/dynamic_library.hpp"
#include "cuda/kernels/prelude.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/key.hpp"

namespace tidu::cuda_detail {
namespace {

// The functions of NVRTC that are needed.
struct Nvrtc {
  DynamicLibrary library{"NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}};
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

constexpr const char* compile_options[] = {"--std=c++17", "--device-as-default-execution-space"};

Key128 sum_of(std::string_view bytes) { return detail::mix_bytes(Key128{}, bytes.data(), bytes.size()); }

std::string hex(const Key128& key) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(key.high),
                static_cast<unsigned long long>(key.low));
  return text;
}

std::vector<char> read_kept(const std::string& path, const std::string& title) {
  std::ifstream in(path, std::ios::binary);
  std::string line, sum;
  std::size_t length = 0;
  if (!in || !std::getline(in, line) || line != title || !(in >> length >> sum) || in.get() != '\n')
    return {};
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  if (bytes.size() != length || hex(sum_of({bytes.data(), bytes.size()})) != sum) return {};
  return bytes;
}

// A file of another name first, so that nobody reads half of it. What cannot be kept is compiled again.
void keep(const std::string& folder, const std::string& path, const std::string& title,
          const std::vector<char>& bytes) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const std::string part = detail::str(path, '.', ::getpid(), '.', reinterpret_cast<std::uintptr_t>(&bytes));
  {
    std::ofstream out(part, std::ios::binary);
    out << title << '\n' << bytes.size() << ' ' << hex(sum_of({bytes.data(), bytes.size()})) << '\n';
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) {
      std::filesystem::remove(part, failed);
      return;
    }
  }
  std::filesystem::rename(part, path, failed);
  if (failed) std::filesystem::remove(part, failed);
}

}  // namespace

KernelCompiler::KernelCompiler(int major, int minor, std::string folder)
    : architecture_(detail::str("sm_", major, minor)), folder_(std::move(folder)) {}

// What the file's first line says: all that its bytes depend on, the text by its sum.
std::string KernelCompiler::key_text(const std::string& program) const {
  int major = 0, minor = 0;
  const Nvrtc& nvrtc = Nvrtc::get();
  nvrtc.check(nvrtc.version(&major, &minor), "nvrtcVersion");
  std::string text = detail::str("tidu kernel 1 ", architecture_, " nvrtc ", major, '.', minor);
  for (const char* const option : compile_options) text += detail::str(' ', option);
  return detail::str(text, ' ', program.size(), ' ', hex(sum_of(program)));
}

std::string KernelCompiler::path_of(const KernelSource& source) const {
  if (folder_.empty()) return {};
  return folder_ + '/' + hex(sum_of(key_text(with_prelude(source)))) + ".cubin";
}

std::vector<char> KernelCompiler::compile(const KernelSource& source, bool* compiled) const {
  const Nvrtc& nvrtc = Nvrtc::get();
  const std::string text = with_prelude(source);
  const std::string title = key_text(text);
  const std::string path = folder_.empty() ? std::string() : folder_ + '/' + hex(sum_of(title)) + ".cubin";
  if (compiled != nullptr) *compiled = false;
  if (!path.empty()) {
    if (std::vector<char> kept = read_kept(path, title); !kept.empty()) return kept;
  }
  const ProgramHandle program(nvrtc, text, source.entry);
  const std::string architecture = "--gpu-architecture=" + architecture_;
  std::vector<const char*> options{std::begin(compile_options), std::end(compile_options)};
  options.push_back(architecture.c_str());
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
  nvrtc.check(nvrtc.cubin_size(program.get(), &size), "nvrtcGetCUBINSize");
  std::vector<char> cubin(size);
  nvrtc.check(nvrtc.cubin(program.get(), cubin.data()), "nvrtcGetCUBIN");
  if (compiled != nullptr) *compiled = true;
  if (!path.empty()) keep(folder_, path, title, cubin);
  return cubin;
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
