// host_kernels.cpp - the text of a batch of kernels, the compiler's command, and symbols of its library.
#include "cuda/host_kernels.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "cuda/kernels/prelude.hpp"

namespace tidu::test {
namespace {

using namespace cuda_detail;

constexpr std::string_view calling = R"(
#ifndef UNCHECKED
#define UNCHECKED
#endif
template <unsigned... i> struct tidu_indices {};
template <unsigned n, unsigned... i> struct tidu_count { typedef typename tidu_count<n - 1, n - 1, i...>::type type; };
template <unsigned... i> struct tidu_count<0, i...> { typedef tidu_indices<i...> type; };
template <class... A, unsigned... i>
UNCHECKED static void tidu_call(void (*f)(A...), void** arguments, tidu_indices<i...>) {
  f(*static_cast<A*>(arguments[i])...);
}
template <class... A>
UNCHECKED static void tidu_call(void (*f)(A...), void** arguments) {
  tidu_call(f, arguments, typename tidu_count<sizeof...(A)>::type());
}
)";

std::filesystem::path folder() {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tidu-emulated-" + std::to_string(getuid()));
  std::filesystem::create_directories(path);
  return path;
}

// Only g++ makes a callback of each access: clang++ leaves out those of structures, which it copies by
// memcpy.
std::string compiler(KernelBranch branch) {
  const char* const variable = std::getenv("CXX");
  const std::string chosen = variable != nullptr && *variable != '\0' ? variable : "c++";
  if (branch == KernelBranch::host) return chosen;
  return chosen.find("g++") != std::string::npos && chosen.find("clang") == std::string::npos ? chosen
                                                                                              : "g++";
}

// Not optimised: most kernels run for less than that takes, and accesses of sixteen bytes stay whole.
constexpr std::string_view compiler_options = " -std=c++17 -O0 -fPIC -w -ffp-contract=off";

// What the compiler does of one text: to a library. A sanitizer's runtime is not linked.
std::string command_for(KernelBranch branch, const std::string& source, const std::string& made) {
  if (branch != KernelBranch::device)
    return compiler(branch) + std::string(compiler_options) + " -shared -o '" + made + "' '" + source + "'";
  return compiler(branch) + std::string(compiler_options) + " -fsanitize=thread -c -o '" + source + ".o' '" +
         source + "' && " + compiler(branch) + " -shared -o '" + made + "' '" + source + ".o' && rm '" +
         source + ".o'";
}

// Path of the library made of the text.
std::filesystem::path library_of(const std::string& text, KernelBranch branch) {
  const std::filesystem::path at = folder();
  const std::string name = "k" + std::to_string(std::hash<std::string>()(command_for(branch, "", "") + text));
  const std::filesystem::path library = at / (name + ".so");
  if (std::filesystem::exists(library)) return library;
  const std::string unique = name + "-" + std::to_string(getpid());
  const std::filesystem::path source = at / (unique + ".cpp"), made = at / (unique + ".so"),
                              log = at / (unique + ".log");
  std::ofstream(source) << text;
  const std::string command =
      "{ " + command_for(branch, source.string(), made.string()) + "; } > '" + log.string() + "' 2>&1";
  if (std::system(command.c_str()) != 0) {
    std::ifstream file(log);
    std::string words((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    throw std::runtime_error("emulator: expected " + source.string() + " to compile, got\n" +
                             words.substr(0, 4000));
  }
  std::filesystem::rename(made, library);
  std::filesystem::remove(source);
  std::filesystem::remove(log);
  return library;
}

// All of them after one prelude, each with a function that calls it.
std::string text_of(const KernelSources& kernels, KernelBranch branch) {
  std::string text;
  if (branch != KernelBranch::host) text = strict_text();
  for (const std::string_view part : prelude_parts()) text += part;
  if (branch != KernelBranch::host) {
    replace_ptx(text);
  } else {
    text += "\ntidu_block tidu_now;\n";
  }
  text += calling;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const std::string& entry = kernels[i]->entry;
    text += "namespace k" + std::to_string(i) + " {\n" + kernels[i]->text + "}\n";
    text += "extern \"C\" UNCHECKED void tidu_call_" + entry + "(void** arguments) { tidu_call(&k" +
            std::to_string(i) + "::" + entry + ", arguments); }\n";
  }
  return text;
}

// What a command writes.
std::string output_of(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("emulator: expected to run " + command);
  std::string text;
  std::array<char, 4096> part;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), got);
  if (pclose(pipe) != 0) throw std::runtime_error("emulator: expected " + command + " to succeed");
  return text;
}

// The static variables of a library, which are the arrays that its kernels have in shared memory. nm writes
// "address size type name" with types b, B, u or V for them.
std::vector<StrictMemory> shared_memory_of(const std::filesystem::path& library, std::byte* base) {
  std::vector<StrictMemory> arrays;
  std::istringstream lines(output_of("nm -S -C '" + library.string() + "'"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::size_t address = 0, size = 0;
    char type = 0;
    std::string name;
    if (!(words >> std::hex >> address >> size >> type)) continue;
    std::getline(words >> std::ws, name);
    if (std::string_view("bBuV").find(type) == std::string_view::npos || name == "tidu_strict") continue;
    arrays.emplace_back("shared memory " + name, base + address, size, StrictMemory::Kind::shared, false);
  }
  return arrays;
}

void load_batch(const KernelSources& kernels, KernelBranch branch,
                std::unordered_map<std::string, HostKernel>& entries) {
  const std::filesystem::path path = library_of(text_of(kernels, branch), branch);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(std::string("emulator: ") + dlerror());
  std::shared_ptr<std::vector<StrictMemory>> shared;
  if (branch != KernelBranch::host) {
    auto** const device = static_cast<StrictDevice**>(dlsym(library, "tidu_strict"));
    *device = &strict_device();
    Dl_info info;
    dladdr(device, &info);
    if (branch == KernelBranch::device)
      shared = std::make_shared<std::vector<StrictMemory>>(
          shared_memory_of(path, static_cast<std::byte*>(info.dli_fbase)));
  }
  for (const auto& kernel : kernels) {
    HostKernel entry;
    entry.call = reinterpret_cast<void (*)(void**)>(dlsym(library, ("tidu_call_" + kernel->entry).c_str()));
    entry.block = dlsym(library, "tidu_now");
    entry.waits = kernel->text.find("together::") != std::string::npos;
    entry.any_grid = kernel->text.find("grid_x()") != std::string::npos;
    entry.shared = shared;
    entries[kernel->entry] = entry;
  }
}

}  // namespace

void load_kernels(const KernelSources& kernels, KernelBranch branch,
                  std::unordered_map<std::string, HostKernel>& entries) {
  constexpr std::size_t batch = 150;
  const std::size_t parts = (kernels.size() + batch - 1) / batch;
  std::vector<KernelSources> batches(parts);
  for (std::size_t i = 0; i < kernels.size(); ++i) batches[i % parts].push_back(kernels[i]);
  // Two compilers at a time; what each says is thrown when its library is loaded.
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < parts; i = next++) {
      try {
        library_of(text_of(batches[i], branch), branch);
      } catch (const std::runtime_error&) {
        continue;
      }
    }
  };
  if (parts > 1) {
    std::thread other(work);
    work();
    other.join();
  }
  for (const KernelSources& part : batches) load_batch(part, branch, entries);
}

}  // namespace tidu::test
