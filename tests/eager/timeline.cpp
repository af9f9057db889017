// timeline.cpp - profiles of recording and backward, and how they are written for Chrome's viewer.
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "support.hpp"
#include "tidu/eager/profile.hpp"

namespace tidu::test {
namespace {

using eager::Profile;
using eager::ProfileEvent;
using eager::ProfilePhase;
using nlohmann::json;

// An event by hand.
ProfileEvent event(ProfilePhase phase, const char* name, std::int64_t begin, std::int64_t end,
                   eager::Placement placement = {}) {
  ProfileEvent made;
  made.phase = phase;
  made.name = name;
  made.begin = begin;
  made.end = end;
  made.placement = placement;
  return made;
}

// The events of that kind ("X": complete, "M": names) in the order of the file.
std::vector<json> events_of(const Profile& profile, const std::string& kind) {
  const json whole = json::parse(profile.to_chrome_trace());
  std::vector<json> found;
  for (const json& one : whole["traceEvents"])
    if (one["ph"] == kind) found.push_back(one);
  return found;
}

TEST_CASE("timeline: an event in Chrome's format, to the letter") {
  Profile profile;
  ProfileEvent mul = event(ProfilePhase::transposed, "mul", 1500, 4250, {2, 140737488355328});
  mul.where = "a \"b\".cpp:7";
  mul.node = 12;
  mul.bytes = 800;
  profile.add(mul);
  CHECK(profile.to_chrome_trace() ==
        R"({"displayTimeUnit": "ns", "traceEvents": [
 {"name":"process_name","ph":"M","pid":2,"tid":0,"args":{"name":"device 2"}},
 {"name":"process_sort_index","ph":"M","pid":2,"tid":0,"args":{"sort_index":2}},
 {"name":"thread_name","ph":"M","pid":2,"tid":0,"args":{"name":"stream 140737488355328"}},
 {"name":"thread_sort_index","ph":"M","pid":2,"tid":0,"args":{"sort_index":0}},
 {"name":"transposed mul","cat":"transposed","ph":"X","ts":1.5,"dur":2.75,"pid":2,"tid":0,"args":{"op":"mul","node":12,"bytes":800,"where":"a \"b\".cpp:7","stream":140737488355328}}]}
)");
  profile.clear();
  CHECK(json::parse(profile.to_chrome_trace())["traceEvents"].empty());
}

TEST_CASE("timeline: rows are the threads of the host and the streams of devices, events in order of time") {
  Profile profile;
  profile.add(event(ProfilePhase::execute, "late", 900, 1000));
  profile.add(event(ProfilePhase::add, "add", 300, 400, {1, 77}));
  profile.add(event(ProfilePhase::hook, "\xff", 100, 200, {1, 5}));
  std::thread([&] { profile.add(event(ProfilePhase::forward, "exp", 0, 50)); }).join();
  const std::vector<json> all = events_of(profile, "X");
  REQUIRE(all.size() == 4);
  const char* names[] = {"forward exp", "hook \xef\xbf\xbd", "add add", "late"};
  for (std::size_t i = 0; i < 4; ++i) CHECK(all[i]["name"] == names[i]);
  CHECK(all[0]["tid"] != all[3]["tid"]);
  CHECK(all[1]["tid"] != all[2]["tid"]);
  CHECK(all[0]["pid"] == 0);
  CHECK(all[1]["pid"] == 1);
  std::map<std::string, std::string> rows;  // "pid.tid" -> name
  for (const json& one : events_of(profile, "M")) {
    if (one["name"] == "thread_name") rows[one["pid"].dump() + '.' + one["tid"].dump()] = one["args"]["name"];
  }
  CHECK(rows.size() == 4);
  CHECK(rows[all[1]["pid"].dump() + '.' + all[1]["tid"].dump()] == "stream 5");
  CHECK(rows[all[2]["pid"].dump() + '.' + all[2]["tid"].dump()] == "stream 77");
  CHECK(rows["0.0"] == "thread 0");
  CHECK(rows["0.1"] == "thread 1");
}

TEST_CASE("timeline: recording and backward of a small program") {
  Profile profile;
  eager::RecorderOptions recording;
  recording.profile = &profile;
  Tape tape(recording);
  const Var x = tape.leaf(Tensor::from<double>({3}, {1.0, 2.0, 3.0}));
  const Var square = tape.apply<prim::mul>({x, x}, {"model.cpp", 5});
  const Var y = tape.apply<prim::sin>({square}, {"model.cpp", 6});
  const std::size_t recorded = profile.events().size();
  CHECK(recorded == 2);
  eager::BackwardOptions options;
  options.profile = &profile;
  backward(y, Tensor::from<double>({3}, {1.0, 1.0, 1.0}), options);
  const std::vector<ProfileEvent> events = profile.events();
  std::vector<std::string> told;
  for (const ProfileEvent& one : events) {
    told.push_back(std::string(to_string(one.phase)) + ' ' + one.name + ' ' + one.where + ' ' +
                   std::to_string(one.node) + ' ' + std::to_string(one.bytes));
    CHECK(one.begin >= 0);
    CHECK(one.end >= one.begin);
    if (&one != events.data()) CHECK(one.begin >= (&one)[-1].begin);
  }
  // mul gives two cotangents of 24 bytes, which are added; it keeps its one operand for each of two inputs.
  const std::vector<std::string> expected{
      "record mul model.cpp:5 1 48",     "record sin model.cpp:6 2 24",     "forward sin model.cpp:6 2 24",
      "transposed sin model.cpp:6 2 24", "transposed mul model.cpp:5 1 48", "add add  1 24"};
  CHECK(told == expected);
  CHECK(
      std::any_of(events.begin(), events.begin() + 2, [](const ProfileEvent& e) { return e.end > e.begin; }));
}

TEST_CASE("timeline: operations that are not recorded are no events") {
  Profile profile;
  eager::RecorderOptions recording;
  recording.profile = &profile;
  Tape tape(recording);
  tape.apply<prim::sin>({tape.constant(1.0)});
  tape.apply<prim::floor>({tape.leaf(1.0)});
  CHECK(profile.events().empty());
}

}  // namespace
}  // namespace tidu::test
