// strict.hpp - the strict emulator: runs the device branch of kernels on the host and checks what
// compute-sanitizer checks on a GPU.
//   memory          accesses outside of every array, misaligned ones, writes to operands
//   races           two threads at one byte, one of them writing, without a barrier of their block between;
//                   threads of two blocks always
//   initialisation  reads of results, scratch memory and shared memory that nothing has written
//   synchronisation barriers and shuffles that not all threads of a block or lanes of a warp reach together
// Kernels are compiled with a callback for each access of memory (strict_text.cpp). Barriers alone order the
// threads of a block: neither shuffles nor the order in which fibers happen to run hide a race. A launch ends
// at its first finding. Arithmetic is the host's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tidu::test {

/// What may differ from run to run of one launch.
struct StrictOptions {
  std::uint64_t seed = 1;        ///< of the order of threads and blocks
  std::uint32_t max_blocks = 0;  ///< so many at most in a grid whose kernel takes any number; 0: as planned
};

/// What is known of an element of an array: when it was accessed last, counted in intervals between barriers.
struct StrictCell {
  std::uint32_t write = 0, read = 0, read_by_earlier_block = 0;
  std::uint16_t writer = 0, reader = 0;  ///< threads
  bool written = false;
};

/// An array that launches access, and what is known of it from one launch to the next.
class StrictMemory {
 public:
  enum class Kind : std::uint8_t { read_only, writable, shared };
  /// `initialised`: all of it may be read from the beginning.
  StrictMemory(std::string name, std::byte* at, std::size_t bytes, Kind kind, bool initialised);

  const std::string& name() const { return name_; }
  std::uintptr_t begin() const { return begin_; }
  std::uintptr_t end() const { return begin_ + bytes_; }
  Kind kind() const { return kind_; }
  bool initialised() const { return initialised_; }
  /// Bytes of a cell: 1, or 4 in large arrays, where accesses of less are not checked for races.
  std::size_t granule() const { return granule_; }
  StrictCell& cell(std::size_t index) { return cells_.get()[index]; }

  /// All of it, or a part, was written by other work than a launch.
  void note_written() { initialised_ = true; }
  void note_written(std::size_t offset, std::size_t bytes);
  /// Offset of the first byte of the part that nothing has written, or its end.
  std::size_t first_unwritten(std::size_t offset, std::size_t bytes) const;

 private:
  struct Free {
    void operator()(StrictCell* cells) const { std::free(cells); }
  };
  std::string name_;
  std::uintptr_t begin_ = 0;
  std::size_t bytes_ = 0, granule_ = 1;
  Kind kind_ = Kind::read_only;
  bool initialised_ = false;
  std::unique_ptr<StrictCell, Free> cells_;  // none of what is read only
};

/// A kernel's grid and the arrays that it may access; arrays of shared memory begin anew in each block.
struct StrictLaunch {
  std::string kernel;
  void (*call)(void** arguments) = nullptr;  ///< one thread
  void** arguments = nullptr;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::uint32_t block = 1;
  std::span<StrictMemory> memory, shared;
};

/// Runs all threads. Throws std::runtime_error that names the seed, the kernel, the thread and its block, and
/// the address within the array, of the first finding. One launch at a time.
void run_strictly(const StrictLaunch& launch, const StrictOptions& options);

/// Launches and accesses that were checked so far.
struct StrictCounts {
  std::uint64_t launches = 0, accesses = 0;
};
StrictCounts strict_counts();

// --- for the library that holds compiled kernels

/// What stands in place of what a GPU is for kernels; strict_text.cpp has the same structure.
struct StrictDevice {
  struct Dim {
    std::uint32_t x, y, z;
  };
  Dim thread, block, threads, grid;
  void (*access)(const void* at, std::size_t bytes, bool writes, bool aligned);
  void (*barrier)(const void* called_from);
  std::uint32_t (*shuffle)(std::uint32_t mask, std::uint32_t value, std::uint32_t from,
                           std::uint32_t operation);
};
StrictDevice& strict_device();

/// The text before and after the prelude, by which the device branch is compiled on the host.
std::string_view strict_text();
/// What PTX the prelude has, in C++. Throws std::runtime_error when it has other PTX than is known.
void replace_ptx(std::string& text);

}  // namespace tidu::test
