// processors.cpp - see processors.hpp. What the files of control groups hold: Linux,
// Documentation/admin-guide/cgroup-v2.rst (cpu.max) and Documentation/scheduler/sched-bwc.rst (cpu.cfs_*).
#include "cpu/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

namespace tidu::cpu_detail {
namespace {

// What a folder's files say; 0: nothing. "max" and -1 are no limits.
int granted_in(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream both(folder + "/cpu.max");
  if (both) {
    both >> quota >> period;
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  constexpr double most = 1 << 20;
  if (!(quota > 0 && period > 0)) return 0;
  return static_cast<int>(std::ceil(std::min(quota / period, most)));
}

}  // namespace

int granted_processors(const std::string& listed, const std::string& mount) {
  int granted = 0;
  std::istringstream lines(listed);
  // "5:cpu,cpuacct:/a/b", or "0::/a/b" of version 2. In a container that sees no group around its own the
  // path may be one that is not mounted; its own group is at the root then.
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && (',' + controllers + ',').find(",cpu,") == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    for (;;) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      const int here = granted_in(mount + (controllers.empty() ? "" : "/" + controllers) + path);
      if (here > 0) granted = granted > 0 ? std::min(granted, here) : here;
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return granted;
}

int usable_processors() {
  static const int granted = [] {
    std::ostringstream listed;
    listed << std::ifstream("/proc/self/cgroup").rdbuf();
    return granted_processors(listed.str(), "/sys/fs/cgroup");
  }();
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;  // not of more than 1024 processors
  int count = known ? CPU_COUNT(&allowed) : static_cast<int>(std::thread::hardware_concurrency());
  if (granted > 0) count = std::min(count, granted);
  return std::max(1, count);
}

}  // namespace tidu::cpu_detail
