// trace_json.cpp - a Profile in Chrome's trace event format: complete events ("X") with times in
// microseconds, one process for each device, and in it one row for each thread (of the host) or stream (of
// other devices). Work on a device has separate rows, beside those of the host's enqueueing.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "tidu/eager/profile.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::eager {
namespace {

using Json = nlohmann::ordered_json;
using tidu::detail::str;

// Rows by device and thread or stream. Numbers of streams may be addresses: rows are counted instead, in the
// order of their first events.
class Rows {
 public:
  std::size_t row(const ProfileEvent& event) {
    const std::uint32_t device = event.placement.device;
    const std::uint64_t lane = device == 0 ? event.thread : event.placement.stream;
    auto& lanes = devices_[device];
    const Lane key{lane, event.phase == ProfilePhase::device};
    return device == 0 ? lanes.emplace(key, lane).first->second
                       : lanes.emplace(key, lanes.size()).first->second;
  }
  void name(Json& events) const {
    for (const auto& [device, lanes] : devices_) {
      const auto add = [&, pid = device](const char* what, std::size_t tid, Json args) {
        events.push_back(
            {{"name", what}, {"ph", "M"}, {"pid", pid}, {"tid", tid}, {"args", std::move(args)}});
      };
      add("process_name", 0, {{"name", device == 0 ? "host" : str("device ", device)}});
      add("process_sort_index", 0, {{"sort_index", device}});
      for (const auto& [lane, row] : lanes) {
        const char* const kind = device == 0 ? "thread " : lane.second ? "activity of stream " : "stream ";
        add("thread_name", row, {{"name", str(kind, lane.first)}});
        add("thread_sort_index", row, {{"sort_index", row}});
      }
    }
  }

 private:
  using Lane = std::pair<std::uint64_t, bool>;  // thread or stream, and is it the device's own activity?
  std::map<std::uint32_t, std::map<Lane, std::size_t>> devices_;
};

double microseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000.0; }

Json json_of(const ProfileEvent& event, std::size_t row) {
  Json args{{"op", event.name}};
  if (event.node != 0) args["node"] = event.node;
  args["bytes"] = event.bytes;
  if (!event.where.empty()) args["where"] = event.where;
  args["stream"] = event.placement.stream;
  return {{"name", event.phase == ProfilePhase::execute || event.phase == ProfilePhase::device
                       ? event.name
                       : str(to_string(event.phase), ' ', event.name)},
          {"cat", to_string(event.phase)},
          {"ph", "X"},
          {"ts", microseconds(event.begin)},
          {"dur", microseconds(event.end - event.begin)},
          {"pid", event.placement.device},
          {"tid", row},
          {"args", std::move(args)}};
}

}  // namespace

std::string Profile::to_chrome_trace() const {
  std::vector<ProfileEvent> sorted = events();
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ProfileEvent& a, const ProfileEvent& b) { return a.begin < b.begin; });
  Rows rows;
  Json events = Json::array();
  for (const ProfileEvent& event : sorted) events.push_back(json_of(event, rows.row(event)));
  Json named = Json::array();
  rows.name(named);
  std::string text = R"({"displayTimeUnit": "ns", "traceEvents": [)";
  bool first = true;
  for (const Json* list : {&named, &events}) {
    for (const Json& event : *list) {
      text += first ? "\n " : ",\n ";
      text += event.dump(-1, ' ', false, Json::error_handler_t::replace);
      first = false;
    }
  }
  return text + "]}\n";
}

}  // namespace tidu::eager
