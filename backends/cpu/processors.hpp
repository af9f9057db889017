// processors.hpp - how many processors there are for this process, which may be fewer than the machine has.
#pragma once

#include <string>

namespace tidu::cpu_detail {

/// How many processors the calling thread may keep busy: those that it may run on (taskset, cpusets), and no
/// more than the time that its control groups grant it (containers with a share of a machine). At least 1.
[[nodiscard]] int usable_processors();

/// How many processors' time control groups grant, rounded up, the least of all groups and those around them;
/// 0: as much as there is. `listed` is as /proc/self/cgroup, and hierarchies are mounted below `mount`, that
/// of version 2 there itself, that of version 1 under the names of its controllers.
[[nodiscard]] int granted_processors(const std::string& listed, const std::string& mount);

}  // namespace tidu::cpu_detail
