// processors.hpp - the number of processors for this process, which may be fewer than the machine has.
#pragma once

#include <string>

namespace tidu::cpu_detail {

/// The number of processors that the calling thread may keep busy: those in its affinity mask (taskset,
/// cpusets), limited by the CPU quota of its control groups (containers). At least 1.
[[nodiscard]] int usable_processors();

/// The CPU quota of the control groups in processors, rounded up: the minimum over all groups and their
/// parents. 0: no limit. `listed` has the format of /proc/self/cgroup. `mount` is the directory of the
/// hierarchies: version 2 directly, and version 1 in directories named by controllers.
[[nodiscard]] int granted_processors(const std::string& listed, const std::string& mount);

}  // namespace tidu::cpu_detail
