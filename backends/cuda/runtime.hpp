// runtime.hpp - Runtime: an opened device with its pools, and the tensors whose elements lie there.
//
// Note [Device tensors]: a tensor on a device is a lazy tensor (tensor.hpp). Its storage knows an address on
// the device, the stream whose work makes the elements, and the streams that have read them since. Work on
// another stream waits for the first by an event; the memory goes back to the pool with all of these events.
// A reader on the host gets a copy, which is made once; if that copy is written to, the tensor's version says
// so, and the device is given the elements anew.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/memory.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::cuda_detail {

class Activity;
class Runtime;

/// Elements in a device's memory. See Note [Device tensors].
class DeviceStorage final : public tidu::detail::LazyStorage {
 public:
  DeviceStorage(std::shared_ptr<Runtime> runtime, Memory memory, std::size_t bytes, Stream stream);
  /// Memory of someone else's, who has it again when all work on it is done: work on the owner's stream waits
  /// for that; where there is none, who lets go of the last tensor does.
  struct Foreign {
    std::shared_ptr<void> owner;
    Stream stream;
  };
  DeviceStorage(std::shared_ptr<Runtime> runtime, std::byte* at, std::size_t bytes, Stream stream,
                Foreign foreign);
  void materialize() override;
  void discard() noexcept override;

  Runtime& runtime() const { return *runtime_; }
  std::byte* address() const { return memory_.at; }
  std::size_t bytes() const { return bytes_; }
  Stream home() const { return home_; }
  /// Work on `stream`, from now on, reads it: the stream waits for what makes the elements.
  void use_on(Stream stream);

 private:
  ~DeviceStorage();
  void give_back() noexcept;
  std::shared_ptr<Runtime> runtime_;
  Memory memory_;
  std::size_t bytes_;
  Stream home_;
  Foreign foreign_;
  std::mutex mutex_;
  std::vector<Stream> users_;  // but home_
  void read_pinned();
  void read_in_parts();
  Memory copy_;  // for the host, pinned
  struct Aligned {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte[], Aligned> pageable_;  // or this one
};

/// An opened device. Shared by executors, executables and tensors; any thread may use it.
class Runtime : public std::enable_shared_from_this<Runtime> {
 public:
  /// `number`: what Tensor::device says of its tensors.
  Runtime(std::shared_ptr<Device> device, std::size_t memory_limit, std::uint32_t number);
  ~Runtime();

  Device& device() { return *device_; }
  EventPool& events() { return events_; }
  Pool& pool() { return pool_; }
  PinnedPool& pinned() { return pinned_; }
  std::uint32_t number() const { return number_; }
  /// Where work goes when nobody says where.
  Stream default_stream() const { return default_stream_; }
  /// Who uses streams: users, whose tensors may name one after it was given back, and captures, which none of
  /// these may meet.
  enum class StreamUse : std::uint8_t { work, capture };
  /// Streams that nobody else uses until they are given back; they are never destroyed before the runtime.
  std::vector<Stream> lease_streams(std::size_t count, StreamUse use);
  void return_streams(std::span<const Stream> streams, StreamUse use) noexcept;

  /// A tensor of that type whose elements work on `stream` is to make. Throws Error (out_of_memory).
  Tensor make(Type type, Stream stream);
  /// The storage of a tensor that is on this device and has not been written to on the host since; else null.
  DeviceStorage* find(const Tensor& tensor) const;
  /// The same elements on this device, put there by work on `stream` where they are not.
  Tensor upload(const Tensor& tensor, Stream stream);
  /// Where a few bytes of the host's lie on this device for work on `stream`, which were copied there once
  /// and stay: numbers and seeds, of which programs meet few. Null for a tensor that is larger, not there
  /// yet, or one too many.
  std::byte* constant(const Tensor& tensor, Stream stream);
  /// Pinned bytes of the host that one copy takes at most; what is longer goes in parts.
  static constexpr std::size_t max_pinned = std::size_t{64} << 20;
  /// Copies to the host, by way of pinned memory, in parts each of which the stream is waited for.
  void copy_out(std::span<std::byte> to, const std::byte* from, Stream stream);
  /// Copies from the host, by way of pinned memory. `to` is for work on `stream`.
  void copy_in(std::byte* to, std::span<const std::byte> from, Stream stream);

  /// Held by who captures, shared, and by who waits for the whole device, alone: CUDA refuses to while
  /// anything is captured.
  std::shared_mutex& captures() { return captures_; }
  /// A program could not be captured: how many could not, and why the last one.
  void note_refusal(std::string why);
  std::pair<std::uint64_t, std::string> refusals() const;

  /// What is put on the device from now on is entered there, until it ends; the last one that began counts.
  void begin_activity(std::shared_ptr<Activity> activity);
  void end_activity(const Activity* activity) noexcept;
  /// Null: nobody profiles.
  std::shared_ptr<Activity> activity() const;

 private:
  std::shared_ptr<Device> device_;
  std::uint32_t number_;
  EventPool events_;
  Pool pool_;
  PinnedPool pinned_;
  Stream default_stream_;
  std::shared_mutex captures_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Activity>> activities_;
  std::atomic<bool> profiled_{false};
  struct Constant {
    Memory memory;
    Event copied;  // on the default stream; none once it is known to be over
  };
  std::mutex constants_mutex_;
  std::map<std::string, Constant> constants_;  // by bytes
  std::uint64_t refused_ = 0;
  std::string last_refusal_;
  std::vector<Stream> idle_streams_[2];  // by use
  std::size_t leased_[2] = {0, 0};
};

/// What is to be allowed when options say 0: all that the device has.
std::size_t memory_limit(const Device& device, std::size_t wanted);

}  // namespace tidu::cuda_detail
