// activity.hpp - Activity: when a device did what, for profiles. Each step that is put on a stream gets an
// event that tells times before it and one behind it; whoever reads the profile later asks which have been
// passed. Nobody waits for the device, and without a profile nothing is recorded.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/runtime.hpp"
#include "tidu/eager/profile.hpp"

namespace tidu::cuda_detail {

class Activity final : public eager::ProfileSource {
 public:
  /// Times are told from now on, by the clock of `profile`. Throws Error (execution).
  Activity(std::shared_ptr<Runtime> runtime, const eager::Profile& profile);
  ~Activity() override;
  void take(std::vector<eager::ProfileEvent>& ended) override;

 private:
  friend class ActivitySpan;
  struct Span {
    Event begin, end;
    eager::ProfileEvent what;
  };
  Event mark(Stream stream);
  void drop(Event event) noexcept;
  void add(Span span);
  void resolve();
  std::shared_ptr<Runtime> runtime_;
  std::mutex mutex_;
  Event base_;
  std::int64_t base_time_ = 0;
  std::vector<Span> pending_;
  std::size_t look_at_ = 1024;  // so many pending, and those that have ended are looked for
  std::vector<eager::ProfileEvent> ended_;
};

/// What is put on a stream while it lives is one entry, if somebody profiles the device and it is ended by
/// finish().
class ActivitySpan {
 public:
  ActivitySpan(const Runtime& runtime, Stream stream);
  ActivitySpan(const ActivitySpan&) = delete;
  ActivitySpan& operator=(const ActivitySpan&) = delete;
  ~ActivitySpan();
  /// Is somebody profiling?
  explicit operator bool() const { return activity_ != nullptr; }
  void finish(std::string name, std::size_t bytes, std::string where = {});

 private:
  std::shared_ptr<Activity> activity_;
  Stream stream_;
  bool is_default_ = false;
  Event begin_;
};

}  // namespace tidu::cuda_detail
