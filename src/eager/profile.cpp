// profile.cpp - collects events. trace_json.cpp writes them.
#include "tidu/eager/profile.hpp"

#include <functional>
#include <thread>

namespace tidu::eager {

std::string_view to_string(ProfilePhase phase) {
  constexpr std::string_view names[] = {"execute", "record", "forward", "transposed",
                                        "add",     "hook",   "device"};
  return names[static_cast<std::size_t>(phase)];
}

Profile::Profile() : start_(std::chrono::steady_clock::now()) {}

std::int64_t Profile::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_)
      .count();
}

void Profile::add(ProfileEvent event) {
  const std::uint64_t thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  const std::lock_guard<std::mutex> lock(mutex_);
  std::uint32_t index = 0;
  while (index < threads_.size() && threads_[index] != thread) ++index;
  if (index == threads_.size()) threads_.push_back(thread);
  event.thread = index;
  events_.push_back(std::move(event));
}

void Profile::add(std::shared_ptr<ProfileSource> source) {
  const std::lock_guard<std::mutex> lock(mutex_);
  sources_.push_back(std::move(source));
}

void Profile::take() const {
  for (const std::shared_ptr<ProfileSource>& source : sources_) source->take(events_);
}

std::vector<ProfileEvent> Profile::events() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  take();
  return events_;
}

void Profile::clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  take();
  events_.clear();
}

}  // namespace tidu::eager
