// runtime.cpp - device tensors: made, uploaded, read on the host, and let go of.
#include "cuda/runtime.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "cuda/activity.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/pool.hpp"

namespace tidu::cuda_detail {
namespace {

// Distinguishes the lazy storages of this module from those of others.
constexpr char producer_of_device_tensors = 0;

}  // namespace

DeviceStorage::DeviceStorage(std::shared_ptr<Runtime> runtime, Memory memory, std::size_t bytes,
                             Stream stream)
    : runtime_(std::move(runtime)), memory_(memory), bytes_(bytes), home_(stream) {
  producer = &producer_of_device_tensors;
  device = runtime_->number();
  resident.store(this, std::memory_order_release);
}

DeviceStorage::DeviceStorage(std::shared_ptr<Runtime> runtime, std::byte* at, std::size_t bytes,
                             Stream stream, Foreign foreign)
    : DeviceStorage(std::move(runtime), Memory{at, bytes}, bytes, stream) {
  foreign_ = std::move(foreign);
}

// What fails here was said to whoever put the work there, or will be to who waits for it.
void DeviceStorage::give_back() noexcept {
  EventPool& events = runtime_->events();
  Device& gpu = runtime_->device();
  const auto part_from = [&](Stream use) {
    try {
      if (foreign_.stream.handle != nullptr) return events.join(foreign_.stream, use);
      const Event event = events.acquire();
      try {
        gpu.record(event, use);
        if (!gpu.is_done(event)) gpu.synchronize(use);
      } catch (const Error&) {
        events.release(event);
        throw;
      }
      events.release(event);
    } catch (const Error&) {
      return;
    }
  };
  part_from(home_);
  for (const Stream use : users_) part_from(use);
}

DeviceStorage::~DeviceStorage() {
  if (foreign_.owner != nullptr) {
    give_back();
  } else {
    if (!users_.empty()) users_.push_back(home_);  // has room: see use_on
    runtime_->pool().release(memory_, users_.empty() ? std::span<const Stream>(&home_, 1) : users_);
  }
  runtime_->pinned().release(copy_);
}

void DeviceStorage::discard() noexcept {
  this->~DeviceStorage();
  tidu::detail::pool_deallocate(this, sizeof(DeviceStorage));
}

void DeviceStorage::use_on(Stream stream) {
  if (stream == home_) return;
  const std::lock_guard lock(mutex_);
  if (std::find(users_.begin(), users_.end(), stream) == users_.end()) {
    users_.reserve(users_.size() + 2);
    users_.push_back(stream);
  }
  runtime_->events().join(stream, home_);
}

// Any number of threads may want it at once.
void DeviceStorage::materialize() {
  const std::lock_guard lock(mutex_);
  if (made.load(std::memory_order_acquire) != nullptr) return;
  if (bytes_ == 0) return made.store(tidu::detail::no_elements, std::memory_order_release);
  if (bytes_ > Runtime::max_pinned) return read_in_parts();
  try {
    read_pinned();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    read_in_parts();  // there is less pinned memory than that
  }
}

void DeviceStorage::read_pinned() {
  const Memory copy = runtime_->pinned().acquire(bytes_);
  try {
    ActivitySpan span(*runtime_, home_);
    runtime_->device().copy_to_host(copy.at, memory_.at, bytes_, home_);
    span.finish("to host", bytes_);
    runtime_->device().synchronize(home_);
  } catch (...) {
    runtime_->pinned().give_up(copy, home_);
    throw;
  }
  copy_ = copy;
  made.store(copy_.at, std::memory_order_release);
}

void DeviceStorage::read_in_parts() {
  decltype(pageable_) bytes(
      static_cast<std::byte*>(::operator new[](bytes_, std::align_val_t{64}, std::nothrow)));
  if (bytes == nullptr)
    throw Error(ErrorKind::out_of_memory,
                detail::str("[cuda] expected ", bytes_, " bytes of the host's memory, got none"));
  runtime_->copy_out({bytes.get(), bytes_}, memory_.at, home_);
  pageable_ = std::move(bytes);
  made.store(pageable_.get(), std::memory_order_release);
}

std::size_t memory_limit(const Device& device, std::size_t wanted) {
  const std::size_t all = device.properties().memory_bytes;
  return wanted == 0 ? all : std::min(wanted, all);
}

Runtime::Runtime(std::shared_ptr<Device> device, std::size_t limit, std::uint32_t number)
    : device_(std::move(device)),
      number_(number),
      events_(*device_),
      pool_(*device_, events_, limit),
      pinned_(*device_, events_),
      default_stream_(device_->create_stream()) {}

Runtime::~Runtime() {
  for (const auto& [bytes, constant] : constants_) {
    if (constant.copied.handle != nullptr) events_.release(constant.copied);
    pool_.release(constant.memory, std::span(&default_stream_, 1));
  }
  for (const std::vector<Stream>& streams : idle_streams_)
    for (const Stream stream : streams) device_->destroy_stream(stream);
  device_->destroy_stream(default_stream_);
}

std::vector<Stream> Runtime::lease_streams(std::size_t count, StreamUse use) {
  std::vector<Stream> streams;
  streams.reserve(count);
  const std::lock_guard lock(mutex_);
  std::vector<Stream>& idle = idle_streams_[static_cast<std::size_t>(use)];
  std::size_t& leased = leased_[static_cast<std::size_t>(use)];
  idle.reserve(idle.size() + leased + count);
  while (streams.size() < count && !idle.empty()) {
    streams.push_back(idle.back());
    idle.pop_back();
  }
  try {
    while (streams.size() < count) streams.push_back(device_->create_stream());
  } catch (...) {
    idle.insert(idle.end(), streams.begin(), streams.end());
    throw;
  }
  leased += count;
  return streams;
}

void Runtime::return_streams(std::span<const Stream> streams, StreamUse use) noexcept {
  const std::lock_guard lock(mutex_);
  std::vector<Stream>& idle = idle_streams_[static_cast<std::size_t>(use)];
  leased_[static_cast<std::size_t>(use)] -= streams.size();
  idle.insert(idle.end(), streams.begin(), streams.end());  // room was made when they were leased
}

void Runtime::note_refusal(std::string why) {
  const std::lock_guard lock(mutex_);
  ++refused_;
  last_refusal_ = std::move(why);
}

std::pair<std::uint64_t, std::string> Runtime::refusals() const {
  const std::lock_guard lock(mutex_);
  return {refused_, last_refusal_};
}

Tensor Runtime::make(Type type, Stream stream) {
  const Memory memory = pool_.acquire(type.bytes(), stream);
  void* place = nullptr;
  try {
    place = tidu::detail::pool_allocate(sizeof(DeviceStorage));
  } catch (...) {
    pool_.release(memory, std::span(&stream, 1));
    throw;
  }
  return Tensor::lazy(type, ::new (place) DeviceStorage(shared_from_this(), memory, type.bytes(), stream));
}

DeviceStorage* Runtime::find(const Tensor& tensor) const {
  tidu::detail::LazyStorage* const resident = tensor.resident();
  if (resident == nullptr || resident->producer != &producer_of_device_tensors || tensor.version() != 0)
    return nullptr;
  auto* const storage = static_cast<DeviceStorage*>(resident);
  return &storage->runtime() == this ? storage : nullptr;
}

void Runtime::copy_out(std::span<std::byte> to, const std::byte* from, Stream stream) {
  const Memory staged = pinned_.acquire_part(std::min(max_pinned, to.size()));
  try {
    for (std::size_t done = 0; done < to.size();) {
      const std::size_t bytes = std::min(staged.bytes, to.size() - done);
      ActivitySpan span(*this, stream);
      device_->copy_to_host(staged.at, from + done, bytes, stream);
      span.finish("to host", bytes);
      device_->synchronize(stream);
      std::memcpy(to.data() + done, staged.at, bytes);
      done += bytes;
    }
  } catch (...) {
    pinned_.give_up(staged, stream);
    throw;
  }
  pinned_.release(staged);
}

void Runtime::copy_in(std::byte* to, std::span<const std::byte> from, Stream stream) {
  constexpr std::size_t max_parts = 2;
  std::size_t parts = 0;  // that the stream may still read
  for (std::size_t done = 0; done < from.size();) {
    if (parts == max_parts) {  // a stream with much to do would have all of them pinned
      device_->synchronize(stream);
      parts = 0;
    }
    ++parts;
    // The last one, too: one size.
    const Memory staged = pinned_.acquire_part(std::min(max_pinned, from.size()));
    const std::span<const std::byte> part = from.subspan(done, std::min(staged.bytes, from.size() - done));
    std::memcpy(staged.at, part.data(), part.size());
    try {
      ActivitySpan span(*this, stream);
      device_->copy_to_device(to + done, staged.at, part.size(), stream);
      span.finish("to device", part.size());
    } catch (...) {
      pinned_.give_up(staged, stream);
      throw;
    }
    pinned_.release_after(staged, stream);
    done += part.size();
  }
}

std::byte* Runtime::constant(const Tensor& tensor, Stream stream) {
  constexpr std::size_t max_bytes = 16, max_kept = 1024;
  const std::size_t bytes = tensor.num_bytes();
  if (bytes == 0 || bytes > max_bytes || tensor.pending() != nullptr || tensor.resident() != nullptr)
    return nullptr;
  const std::string key(reinterpret_cast<const char*>(tensor.bytes()), bytes);
  const std::lock_guard lock(constants_mutex_);
  auto found = constants_.find(key);
  if (found == constants_.end()) {
    if (constants_.size() == max_kept) return nullptr;
    found = constants_.try_emplace(key).first;
    Constant& fresh = found->second;
    try {
      fresh.memory = pool_.acquire(bytes, default_stream_);
      fresh.copied = events_.acquire();
      copy_in(fresh.memory.at, {tensor.bytes(), bytes}, default_stream_);
      device_->record(fresh.copied, default_stream_);
    } catch (...) {
      if (fresh.copied.handle != nullptr) events_.release(fresh.copied);
      pool_.release(fresh.memory, std::span(&default_stream_, 1));
      constants_.erase(found);
      throw;
    }
  }
  Constant& constant = found->second;
  if (stream != default_stream_ && constant.copied.handle != nullptr) {
    if (device_->is_done(constant.copied)) {
      events_.release(constant.copied);
      constant.copied = {};
    } else {
      device_->wait(stream, constant.copied);
    }
  }
  return constant.memory.at;
}

Tensor Runtime::upload(const Tensor& tensor, Stream stream) {
  if (auto* const pending = tensor.pending(); pending != nullptr) pending->settle();
  if (find(tensor) != nullptr) return tensor;
  const std::byte* const bytes = tensor.bytes();
  Tensor there = make(tensor.type(), stream);
  copy_in(find(there)->address(), {bytes, tensor.num_bytes()}, stream);
  return there;
}

}  // namespace tidu::cuda_detail
