// activity.cpp - events that tell times, put on streams and read when they have been passed.
#include "cuda/activity.hpp"

#include <algorithm>
#include <cmath>

#include "cuda/opener.hpp"
#include "tidu/cuda.hpp"

namespace tidu {
namespace cuda_detail {

// The base is recorded on a stream that has never had anything to do, so that it is passed at once.
Activity::Activity(std::shared_ptr<Runtime> runtime, const eager::Profile& profile)
    : runtime_(std::move(runtime)) {
  Device& device = runtime_->device();
  const Stream idle = device.create_stream();
  try {
    base_ = runtime_->events().acquire(true);
    device.record(base_, idle);
  } catch (...) {
    if (base_.handle != nullptr) runtime_->events().release(base_, true);
    device.destroy_stream(idle);
    throw;
  }
  base_time_ = profile.now();
  device.destroy_stream(idle);
}

Activity::~Activity() {
  for (const Span& span : pending_) {
    drop(span.begin);
    drop(span.end);
  }
  drop(base_);
}

Event Activity::mark(Stream stream) {
  const Event event = runtime_->events().acquire(true);
  try {
    runtime_->device().record(event, stream);
  } catch (...) {
    drop(event);
    throw;
  }
  return event;
}

void Activity::drop(Event event) noexcept { runtime_->events().release(event, true); }

void Activity::add(Span span) {
  const std::lock_guard lock(mutex_);
  pending_.push_back(std::move(span));
  if (pending_.size() < look_at_) return;
  resolve();
  look_at_ = std::max<std::size_t>(1024, 2 * pending_.size());
}

// Under the lock.
void Activity::resolve() {
  Device& device = runtime_->device();
  if (pending_.empty() || !device.is_done(base_)) return;
  const auto time_of = [&](Event event) {
    constexpr double nanoseconds = 1e6;  // in a millisecond
    return base_time_ + static_cast<std::int64_t>(std::llround(device.elapsed(base_, event) * nanoseconds));
  };
  std::vector<Span> left;
  left.reserve(pending_.size());
  for (Span& span : pending_) {
    if (!device.is_done(span.end)) {
      left.push_back(std::move(span));
      continue;
    }
    span.what.begin = time_of(span.begin);
    span.what.end = std::max(span.what.begin, time_of(span.end));
    drop(span.begin);
    drop(span.end);
    ended_.push_back(std::move(span.what));
  }
  pending_ = std::move(left);
}

void Activity::take(std::vector<eager::ProfileEvent>& ended) {
  const std::lock_guard lock(mutex_);
  resolve();
  std::move(ended_.begin(), ended_.end(), std::back_inserter(ended));
  ended_.clear();
}

ActivitySpan::ActivitySpan(const Runtime& runtime, Stream stream)
    : activity_(runtime.activity()), stream_(stream), is_default_(stream == runtime.default_stream()) {
  if (activity_ != nullptr) begin_ = activity_->mark(stream);
}

ActivitySpan::~ActivitySpan() {
  if (begin_.handle != nullptr) activity_->drop(begin_);
}

void ActivitySpan::finish(std::string name, std::size_t bytes, std::string where) {
  if (activity_ == nullptr) return;
  Activity::Span span;
  span.what.phase = eager::ProfilePhase::device;
  span.what.name = std::move(name);
  span.what.where = std::move(where);
  span.what.bytes = bytes;
  span.what.placement = {activity_->runtime_->number(),
                         is_default_ ? 0 : reinterpret_cast<std::uintptr_t>(stream_.handle)};
  span.end = activity_->mark(stream_);
  span.begin = begin_;
  begin_ = {};
  activity_->add(std::move(span));
}

void Runtime::begin_activity(std::shared_ptr<Activity> activity) {
  const std::lock_guard lock(mutex_);
  activities_.push_back(std::move(activity));
  profiled_.store(true, std::memory_order_release);
}

void Runtime::end_activity(const Activity* activity) noexcept {
  std::shared_ptr<Activity> ended;  // whose last reference may be this runtime's
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(activities_.begin(), activities_.end(),
                                  [&](const auto& one) { return one.get() == activity; });
  if (found == activities_.end()) return;
  ended = std::move(*found);
  activities_.erase(found);
  profiled_.store(!activities_.empty(), std::memory_order_release);
}

std::shared_ptr<Activity> Runtime::activity() const {
  if (!profiled_.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard lock(mutex_);
  return activities_.empty() ? nullptr : activities_.back();
}

}  // namespace cuda_detail

std::shared_ptr<const void> CudaExecutor::profile_device(eager::Profile& profile) const {
  const std::shared_ptr<cuda_detail::Runtime>& runtime = opener_->runtime();
  auto activity = std::make_shared<cuda_detail::Activity>(runtime, profile);
  runtime->begin_activity(activity);
  std::shared_ptr<const void> guard(activity.get(), [runtime](const void* ended) {
    runtime->end_activity(static_cast<const cuda_detail::Activity*>(ended));
  });
  profile.add(std::move(activity));
  return guard;
}

}  // namespace tidu
