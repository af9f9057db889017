// strict_plans.cpp - places of steps as parts of arrays.
#include "cuda/strict_plans.hpp"

#include <stdexcept>

namespace tidu::test {
namespace {

using namespace cuda_detail;

class Steps {
 public:
  Steps(const Bindings& at, std::vector<StrictMemory>& arrays) : at_(at), arrays_(arrays) {}

  void note(const CopyStep& step) {
    read(step.from, step.bytes, "a copy");
    array(step.to).note_written(step.to.offset, step.bytes);
  }
  void note(const ClearStep& step) { array(step.at).note_written(step.at.offset, step.bytes); }
  void note(const LiteralStep& step) {
    array(step.to).note_written(step.to.offset, step.literal.type().bytes());
  }
  void note(const SortStep& step) {
    const auto count = static_cast<std::size_t>(step.segments * step.length);
    read(step.keys, count * step.key_bytes, "a sort");
    read(step.values, count * 4, "a sort");
    array(step.keys_out).note_written(step.keys_out.offset, count * step.key_bytes);
    array(step.values_out).note_written(step.values_out.offset, count * 4);
  }
  template <class Library>
  void note(const Library&) {
    for (StrictMemory& memory : arrays_) memory.note_written();
  }

 private:
  StrictMemory& array(const BufferRef& place) {
    const std::size_t operands = at_.operands.size();
    switch (place.kind) {
      case BufferRef::Kind::operand: return arrays_[place.index];
      case BufferRef::Kind::result: return arrays_[operands + place.index];
      default: return arrays_.back();
    }
  }
  void read(const BufferRef& from, std::size_t bytes, const char* what) {
    const StrictMemory& memory = array(from);
    const std::size_t first = memory.first_unwritten(from.offset, bytes);
    if (first < from.offset + bytes)
      throw std::runtime_error(std::string("strict emulator: ") + what + " reads byte " +
                               std::to_string(first) + " of " + memory.name() +
                               ", which nothing has written");
  }

  const Bindings& at_;
  std::vector<StrictMemory>& arrays_;
};

}  // namespace

std::vector<StrictMemory> arrays_of(const Bindings& at, bool initialised) {
  std::vector<StrictMemory> arrays;
  for (std::size_t i = 0; i < at.operands.size(); ++i)
    arrays.emplace_back("operand " + std::to_string(i), at.operands[i].at, at.operands[i].bytes,
                        StrictMemory::Kind::read_only, true);
  for (std::size_t i = 0; i < at.results.size(); ++i)
    arrays.emplace_back("result " + std::to_string(i), at.results[i].at, at.results[i].bytes,
                        StrictMemory::Kind::writable, initialised);
  arrays.emplace_back("scratch memory", at.scratch.at, at.scratch.bytes, StrictMemory::Kind::writable,
                      initialised);
  return arrays;
}

void note_step(const Step& step, const Bindings& at, std::vector<StrictMemory>& arrays) {
  std::visit([&](const auto& one) { Steps(at, arrays).note(one); }, step);
}

void check_results(const Bindings& at, const std::vector<StrictMemory>& arrays) {
  for (std::size_t i = 0; i < at.results.size(); ++i) {
    const StrictMemory& memory = arrays[at.operands.size() + i];
    const std::size_t first = memory.first_unwritten(0, at.results[i].bytes);
    if (first < at.results[i].bytes)
      throw std::runtime_error("strict emulator: byte " + std::to_string(first) + " of " + memory.name() +
                               " was written by no step");
  }
}

}  // namespace tidu::test
