// kept_memory.hpp - device memory that a program keeps: work on one stream makes what is there, work on any
// stream reads it. Nobody outside knows of it, so that a stream of the caller's may end before the memory
// does: no stream is kept for it, but an event behind the last use on each.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/runtime.hpp"

namespace tidu::cuda_detail {

/// Any thread may use it.
class KeptMemory {
 public:
  /// For work on `home`, a stream of the runtime's. Throws Error (out_of_memory).
  KeptMemory(Runtime& runtime, std::size_t bytes, Stream home);
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
  ~KeptMemory();
  std::byte* address() const { return memory_.at; }
  /// All that makes what is there was put on the home stream.
  void made();
  /// Work on `stream` that reads it, from here on until the use ends: the stream waits for what makes it.
  class Use {
   public:
    Use(KeptMemory& memory, Stream stream);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { memory_.end_use(stream_); }

   private:
    KeptMemory& memory_;
    Stream stream_;
  };

 private:
  void end_use(Stream stream) noexcept;

  Runtime& runtime_;
  Stream home_;
  Memory memory_;
  std::mutex mutex_;
  Event made_;                                  // none once it is known to be over
  std::vector<std::pair<Stream, Event>> uses_;  // the last ones on streams but home_
  bool is_lost_ = false;                        // nobody knows when its last use is over
};

}  // namespace tidu::cuda_detail
