// emulator.cpp - compiling kernels in batches, and running grids.
#include "cuda/emulator.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>

#include "cuda/fake_rules.hpp"
#include "cuda/fibers.hpp"
#include "cuda/kernels/prelude.hpp"
#include "cuda/library_emulation.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/optimizer/passes.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test {
namespace {

using namespace cuda_detail;

// As the prelude has it.
struct Block {
  std::uint32_t thread, threads, x, y, z, grid_x;
  void (*wait)();
  alignas(16) std::uint8_t exchange[1024][32];
};

constexpr std::string_view trailer = R"(
template <class... A, unsigned... i>
static void tidu_call(void (*f)(A...), void** arguments, tidu_indices<i...>) {
  f(*static_cast<A*>(arguments[i])...);
}
template <class... A>
static void tidu_call(void (*f)(A...), void** arguments) {
  tidu_call(f, arguments, typename tidu_count<sizeof...(A)>::type());
}
)";
constexpr std::string_view counting = R"(
template <unsigned... i> struct tidu_indices {};
template <unsigned n, unsigned... i> struct tidu_count { typedef typename tidu_count<n - 1, n - 1, i...>::type type; };
template <unsigned... i> struct tidu_count<0, i...> { typedef tidu_indices<i...> type; };
)";

std::filesystem::path folder() {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tidu-emulated-" + std::to_string(getuid()));
  std::filesystem::create_directories(path);
  return path;
}

std::string compiler() {
  const char* chosen = std::getenv("CXX");
  return chosen != nullptr && *chosen != '\0' ? chosen : "c++";
}

// Not optimised: most kernels run for less than that takes.
constexpr std::string_view compiler_options = " -std=c++17 -O0 -fPIC -shared -w -ffp-contract=off";

// Path of the library made of the text.
std::filesystem::path library_of(const std::string& text) {
  const std::filesystem::path at = folder();
  const std::string name =
      "k" + std::to_string(std::hash<std::string>()(compiler() + std::string(compiler_options) + text));
  const std::filesystem::path library = at / (name + ".so");
  if (std::filesystem::exists(library)) return library;
  const std::string unique = name + "-" + std::to_string(getpid());
  const std::filesystem::path source = at / (unique + ".cpp"), made = at / (unique + ".so"),
                              log = at / (unique + ".log");
  std::ofstream(source) << text;
  const std::string command = compiler() + std::string(compiler_options) + " -o '" + made.string() + "' '" +
                              source.string() + "' > '" + log.string() + "' 2>&1";
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

using Kernels = std::vector<std::shared_ptr<const KernelSource>>;

// All of them behind one prelude, each with a function that calls it.
std::string text_of(const Kernels& kernels) {
  std::string text;
  for (const auto part : {prelude_types(), prelude_functions(), prelude_complex(), prelude_special()})
    text += part;
  text += "\ntidu_block tidu_now;\n";
  text += counting;
  text += trailer;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const std::string& entry = kernels[i]->entry;
    text += "namespace k" + std::to_string(i) + " {\n" + kernels[i]->text + "}\n";
    text += "extern \"C\" void tidu_call_" + entry + "(void** arguments) { tidu_call(&k" + std::to_string(i) +
            "::" + entry + ", arguments); }\n";
  }
  return text;
}

void sort(const SortStep& step, const Emulator::Locate& at) {
  const auto key = [](const std::byte* bytes, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes, size);
    return value;
  };
  const std::size_t size = step.key_bytes;
  const std::byte *keys = at(step.keys), *values = at(step.values);
  std::byte *keys_out = at(step.keys_out), *values_out = at(step.values_out);
  const auto length = static_cast<std::size_t>(step.length);
  std::vector<std::size_t> order(length);
  for (std::size_t s = 0; s < static_cast<std::size_t>(step.segments); ++s) {
    std::iota(order.begin(), order.end(), s * length);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return key(keys + a * size, size) < key(keys + b * size, size);
    });
    for (std::size_t i = 0; i < length; ++i) {
      std::memcpy(keys_out + (s * length + i) * size, keys + order[i] * size, size);
      std::memcpy(values_out + (s * length + i) * 4, values + order[i] * 4, 4);
    }
  }
}

// Memory between bytes that nobody may write.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes, std::size_t behind = 0)
      : bytes_(bytes), memory_(bytes + behind + 2 * edge + 256, garbage) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) + edge;
    first_ = (address + 255) / 256 * 256 - reinterpret_cast<std::uintptr_t>(memory_.data()) + behind;
  }
  std::byte* data() { return memory_.data() + first_; }
  void check() const {
    const auto same = [this](std::size_t begin, std::size_t end) {
      return std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(begin),
                         memory_.begin() + static_cast<std::ptrdiff_t>(end),
                         [](std::byte b) { return b == garbage; });
    };
    if (!same(0, first_) || !same(first_ + bytes_, memory_.size()))
      throw std::runtime_error(
          "emulator: expected writes within results and scratch memory, got one outside");
  }

 private:
  static constexpr std::byte garbage{0xa5};
  static constexpr std::size_t edge = 128;
  std::size_t bytes_;
  std::vector<std::byte> memory_;
  std::size_t first_ = 0;
};

// Do results have a freedom, such as signs of eigenvectors, that derivatives follow?
bool has_freedom(const Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [](const Step& step) {
    const auto* solver = std::get_if<SolverStep>(&step);
    return solver != nullptr &&
           (solver->routine == SolverStep::Routine::syevd || solver->routine == SolverStep::Routine::gesvd);
  });
}
// The reference interpreter's choice, to compare whole graphs.
std::vector<Tensor> by_reference(const Operation& operation, const std::vector<Tensor>& operands) {
  GraphBuilder builder("operation");
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(builder.input("x" + std::to_string(i), operands[i].type()));
  const Values results = builder.emit(operation.op(), inputs);
  return reference().run(builder.build(std::span<const Value>(results.data(), results.size())), operands);
}

}  // namespace

Emulator::Emulator() = default;
Emulator::~Emulator() = default;

bool Emulator::is_enabled() {
#if defined(TIDU_ASAN) || defined(TIDU_TSAN)
  return false;
#else
  return true;
#endif
}

Emulator& Emulator::shared() {
  static Emulator emulator;
  return emulator;
}

void Emulator::add(const Plan& plan) {
  for (const Step& step : plan.steps) {
    const Launch* launch = std::get_if<Launch>(&step);
    if (launch != nullptr && entries_.count(launch->kernel->entry) == 0)
      noted_.emplace(launch->kernel->entry, launch->kernel);
  }
}

void Emulator::compile() {
  constexpr std::size_t batch = 150;
  Kernels all;
  for (const auto& [entry, kernel] : noted_) all.push_back(kernel);
  noted_.clear();
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->entry < b->entry; });
  const std::size_t parts = (all.size() + batch - 1) / batch;
  std::vector<Kernels> batches(parts);
  for (std::size_t i = 0; i < all.size(); ++i) batches[i % parts].push_back(all[i]);
  // Two compilers at a time; what each says is thrown when its library is loaded.
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < parts; i = next++) {
      try {
        library_of(text_of(batches[i]));
      } catch (const std::runtime_error&) {
        continue;
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
  for (const Kernels& kernels : batches) load(kernels);
}

void Emulator::load(const Kernels& kernels) {
  void* library = dlopen(library_of(text_of(kernels)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(std::string("emulator: ") + dlerror());
  for (const auto& kernel : kernels) {
    Entry entry;
    entry.call = reinterpret_cast<void (*)(void**)>(dlsym(library, ("tidu_call_" + kernel->entry).c_str()));
    entry.block = dlsym(library, "tidu_now");
    entry.together = kernel->text.find("together::") != std::string::npos;
    entries_[kernel->entry] = entry;
  }
}

void Emulator::launch(const Launch& launch, const Locate& locate) {
  const std::lock_guard lock(mutex_);
  auto found = entries_.find(launch.kernel->entry);
  if (found == entries_.end()) {
    load({launch.kernel});
    found = entries_.find(launch.kernel->entry);
  }
  const Entry& entry = found->second;
  std::vector<std::array<std::byte, 8>> values(launch.arguments.size());
  std::vector<void*> arguments;
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const Argument& argument = launch.arguments[i];
    if (argument.is_place) {
      std::byte* const at = locate(argument.place);
      std::memcpy(values[i].data(), &at, sizeof at);
    } else {
      values[i] = argument.value;
    }
    arguments.push_back(values[i].data());
  }
  Block& block = *static_cast<Block*>(entry.block);
  block.threads = launch.block;
  block.grid_x = launch.grid[0];
  for (block.z = 0; block.z < launch.grid[2]; ++block.z) {
    for (block.y = 0; block.y < launch.grid[1]; ++block.y) {
      for (block.x = 0; block.x < launch.grid[0]; ++block.x) {
        if (entry.together) {
          block.wait = fiber_wait;
          if (!run_fibers(launch.block, block.thread, [&] { entry.call(arguments.data()); })) {
            throw std::runtime_error("emulator: expected all threads of a block of " + launch.kernel->entry +
                                     " to wait, got some that had ended");
          }
          continue;
        }
        for (block.thread = 0; block.thread < launch.block; ++block.thread) entry.call(arguments.data());
      }
    }
  }
}

void Emulator::step(const Step& step, const Locate& locate) {
  if (const auto* copy = std::get_if<CopyStep>(&step)) {
    std::memcpy(locate(copy->to), locate(copy->from), copy->bytes);
  } else if (const auto* clear = std::get_if<ClearStep>(&step)) {
    std::memset(locate(clear->at), 0, clear->bytes);
  } else if (const auto* literal = std::get_if<LiteralStep>(&step)) {
    std::memcpy(locate(literal->to), literal->literal.bytes(), literal->literal.type().bytes());
  } else if (const auto* sorting = std::get_if<SortStep>(&step)) {
    sort(*sorting, locate);
  } else if (const auto* kernel = std::get_if<Launch>(&step)) {
    launch(*kernel, locate);
  } else {
    emulate_library(step, locate);
  }
}

void Emulator::run(const Plan& plan, std::span<const Tensor> operands, std::span<Tensor> results,
                   std::size_t behind) {
  if (!plan.supported) throw std::runtime_error("emulator: expected a plan, got none");
  Guarded scratch(plan.scratch_bytes);
  std::vector<Guarded> memory, moved;
  for (const Tensor& tensor : results) memory.emplace_back(tensor.num_bytes(), behind);
  for (const Tensor& tensor : operands) {
    if (behind == 0) break;
    moved.emplace_back(tensor.num_bytes(), behind);
    if (tensor.num_bytes() > 0) std::memcpy(moved.back().data(), tensor.bytes(), tensor.num_bytes());
  }
  const Locate locate = [&](const Place& place) {
    switch (place.kind) {
      case Place::Kind::operand:
        return (moved.empty() ? const_cast<std::byte*>(operands[place.index].bytes())
                              : moved[place.index].data()) +
               place.offset;
      case Place::Kind::result: return memory[place.index].data() + place.offset;
      default: return scratch.data() + place.offset;
    }
  };
  std::vector<Memory> in, out;
  for (std::size_t i = 0; i < operands.size(); ++i)
    in.push_back({locate(operand(i)), operands[i].num_bytes()});
  for (std::size_t i = 0; i < results.size(); ++i) out.push_back({memory[i].data(), results[i].num_bytes()});
  const Bindings bindings{in, out, {scratch.data(), plan.scratch_bytes}};
  for (const Step& one : plan.steps) {
    if (const std::string rule = broken_rule(one, bindings); !rule.empty())
      throw std::runtime_error("emulator: expected a step that its library takes, got " + rule);
    step(one, locate);
  }
  scratch.check();
  for (std::size_t i = 0; i < results.size(); ++i) {
    memory[i].check();
    if (results[i].num_bytes() > 0)
      std::memcpy(results[i].mutable_bytes(), memory[i].data(), results[i].num_bytes());
  }
}

std::vector<Tensor> Emulator::run(const Graph& graph, const std::vector<Node>& nodes,
                                  std::span<const Tensor> inputs) {
  const std::vector<ValueId> roots = passes::storage_roots(graph);
  std::vector<std::optional<Tensor>> values(graph.num_values());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];
  for (const Node& node : nodes) {
    std::vector<Tensor> operands, results;
    for (const ValueId id : node.operands) {
      if (!values[id])
        throw std::runtime_error("emulator: expected nodes in order, got one that reads too soon");
      operands.push_back(*values[id]);
    }
    for (const ValueId id : node.results) results.emplace_back(graph.type(id));
    if (has_freedom(node.plan)) {
      results = by_reference(graph.operation(node.operations.at(0)), operands);
    } else {
      run(node.plan, operands, results);
    }
    for (std::size_t i = 0; i < results.size(); ++i) values[node.results[i]] = std::move(results[i]);
  }
  std::vector<Tensor> outputs;
  for (const ValueId id : graph.outputs()) {
    if (!values[roots[id]]) throw std::runtime_error("emulator: expected every output to be made");
    Tensor output(graph.type(id));
    if (output.num_bytes() > 0)
      std::memcpy(output.mutable_bytes(), values[roots[id]]->bytes(), output.num_bytes());
    outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace tidu::test
