// profile.hpp - Profile: the times of recording and backward, as text and for Chrome's trace viewer. Without
// a profile it costs a branch per node.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tidu/eager/executor.hpp"

namespace tidu::eager {

/// The kind of an event: an operation run by the frontend, its recording, recomputation, a transposed graph,
/// a sum of cotangents, a hook; or, on a device, a step of a program.
enum class ProfilePhase : std::uint8_t { execute, record, forward, transposed, add, hook, device };
/// "execute", "record", …
std::string_view to_string(ProfilePhase phase);

/// One thing that took time. Times are nanoseconds of the steady clock since the profile was made.
struct ProfileEvent {
  ProfilePhase phase = ProfilePhase::record;  ///< the kind of the event
  std::string name;                           ///< of the primitive or composite graph
  std::string where;                          ///< "file:line" in the user's program, or empty
  std::uint64_t node = 0;                     ///< sequence number, 0 when there is none
  std::uint64_t bytes = 0;                    ///< of the operands that it made (or keeps, for record)
  std::int64_t begin = 0;                     ///< when it began
  std::int64_t end = 0;                       ///< when it ended
  Placement placement{};                      ///< where it ran
  std::uint32_t thread = 0;                   ///< counted from 0 in the order of first events
};

/// A source of events that are known later than they happen: a device.
class ProfileSource {
 public:
  ProfileSource() = default;
  ProfileSource(const ProfileSource&) = delete;
  ProfileSource& operator=(const ProfileSource&) = delete;
  virtual ~ProfileSource() = default;
  /// Appends the events that ended since the last call. Waits for nothing.
  virtual void take(std::vector<ProfileEvent>& ended) = 0;
};

/// Collects events; any thread may add.
class Profile {
 public:
  Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  std::int64_t now() const;
  /// Fills in the thread.
  void add(ProfileEvent event);
  /// Calls of events() ask the source, as long as this lives.
  void add(std::shared_ptr<ProfileSource> source);
  /// Events of a device appear when they have ended: to get all, wait for the device first.
  std::vector<ProfileEvent> events() const;
  /// Forgets all events.
  void clear();
  /// A JSON object of Chrome's trace event format ("X" events; pid: device, tid: thread or stream), to be
  /// opened with chrome://tracing or Perfetto.
  std::string to_chrome_trace() const;

 private:
  std::chrono::steady_clock::time_point start_;
  void take() const;
  mutable std::mutex mutex_;
  mutable std::vector<ProfileEvent> events_;
  std::vector<std::shared_ptr<ProfileSource>> sources_;
  std::vector<std::uint64_t> threads_;
};

}  // namespace tidu::eager
