// profile.hpp - Profile: what recording and backward did when, for people and for Chrome's trace viewer. Off
// (no profile), it costs a branch per node.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tidu/eager/executor.hpp"

namespace tidu::eager {

/// What took the time: an operation run by the frontend, its recording, recomputation, a transposed graph, a
/// sum of cotangents, a hook; or, on a device, a step of a program.
enum class ProfilePhase : std::uint8_t { execute, record, forward, transposed, add, hook, device };
/// "execute", "record", …
std::string_view to_string(ProfilePhase phase);

/// One thing that took time. Times are nanoseconds of the steady clock since the profile was made.
struct ProfileEvent {
  ProfilePhase phase = ProfilePhase::record;  ///< what took the time
  std::string name;                           ///< of the primitive or composite graph
  std::string where;                          ///< "file:line" in the user's program, or empty
  std::uint64_t node = 0;                     ///< sequence number, 0 when there is none
  std::uint64_t bytes = 0;                    ///< of the operands that it made (or keeps, for record)
  std::int64_t begin = 0;                     ///< when it began
  std::int64_t end = 0;                       ///< when it ended
  Placement placement{};                      ///< where it ran
  std::uint32_t thread = 0;                   ///< counted from 0 in the order of first events
};

/// Somebody who learns later than it happens what has happened: a device.
class ProfileSource {
 public:
  ProfileSource() = default;
  ProfileSource(const ProfileSource&) = delete;
  ProfileSource& operator=(const ProfileSource&) = delete;
  virtual ~ProfileSource() = default;
  /// Appends what has ended since it was last asked. Waits for nothing.
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
  /// Will be asked by events(), as long as this lives.
  void add(std::shared_ptr<ProfileSource> source);
  /// Those of a device are there from when they have ended on: whoever wants all waits for the device first.
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
