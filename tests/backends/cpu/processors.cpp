// The default number of threads of an executor: as many as the process may use, whatever the machine has.
#include "cpu/processors.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "cpu/compare.hpp"

using namespace tidu;
namespace fs = std::filesystem;

namespace {

// Files of control groups, as they are mounted.
class ControlGroups {
 public:
  ControlGroups() : mount_(fs::temp_directory_path() / ("tidu-groups-" + std::to_string(::getpid()))) {
    fs::create_directories(mount_);
  }
  ControlGroups(const ControlGroups&) = delete;
  ControlGroups& operator=(const ControlGroups&) = delete;
  ~ControlGroups() {
    std::error_code ignored;
    fs::remove_all(mount_, ignored);
  }
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((mount_ / file).parent_path());
    std::ofstream(mount_ / file) << text << '\n';
  }
  int granted(const std::string& listed) const {
    return cpu_detail::granted_processors(listed, mount_.string());
  }

 private:
  fs::path mount_;
};

}  // namespace

TEST_CASE("control groups grant the minimum of their own limits and those around them, rounded up") {
  const ControlGroups groups;
  CHECK(groups.granted("") == 0);
  CHECK(groups.granted("0::/a/b\n") == 0);  // no files: as much as there is
  groups.put("a/cpu.max", "max 100000");
  CHECK(groups.granted("0::/a/b\n") == 0);
  groups.put("a/b/cpu.max", "350000 100000");
  CHECK(groups.granted("0::/a/b\n") == 4);
  CHECK(groups.granted("0::/a\n") == 0);
  groups.put("a/cpu.max", "200000 100000");
  CHECK(groups.granted("0::/a/b\n") == 2);
  groups.put("a/cpu.max", "1000 100000");
  CHECK(groups.granted("0::/a/b") == 1);
  groups.put("a/cpu.max", "nonsense");
  CHECK(groups.granted("0::/a/b\n") == 4);
  // Version 1, beside a version 2 that has no controllers.
  groups.put("cpu,cpuacct/cpu.cfs_quota_us", "-1");
  groups.put("cpu,cpuacct/cpu.cfs_period_us", "100000");
  CHECK(groups.granted("4:cpu,cpuacct:/c\n0::/\n") == 0);
  groups.put("cpu,cpuacct/c/cpu.cfs_quota_us", "250000");
  groups.put("cpu,cpuacct/c/cpu.cfs_period_us", "100000");
  CHECK(groups.granted("4:cpu,cpuacct:/c\n0::/\n") == 3);
  CHECK(groups.granted("4:cpu,cpuacct:/not/mounted\n0::/\n") == 0);
  CHECK(groups.granted("4:cpuset:/c\n4:cpuacct:/c\nno colons\n:\n") == 0);
  // A container whose path is not mounted, its group being at the root.
  groups.put("cpu,cpuacct/cpu.cfs_quota_us", "600000");
  CHECK(groups.granted("4:cpu,cpuacct:/not/mounted\n") == 6);
}

TEST_CASE("an executor takes no more threads than its process may run on") {
  std::thread([] {
    cpu_set_t allowed, one;
    CPU_ZERO(&allowed);
    REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    CHECK(cpu_detail::usable_processors() >= 1);
    CHECK(cpu_detail::usable_processors() <= CPU_COUNT(&allowed));
    CPU_ZERO(&one);
    for (std::size_t i = 0; CPU_COUNT(&one) == 0; ++i)
      if (CPU_ISSET(i, &allowed)) CPU_SET(i, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(cpu_detail::usable_processors() == 1);
    GraphBuilder builder("sine");
    const Graph sine = builder.build({ops::sin(builder.input("x", Type(f64, {3})))});
    CHECK(CpuExecutor().compile(sine).threads() == 1);
    CpuOptions options;
    options.threads = 3;  // who asks for more has them
    CHECK(CpuExecutor(options).compile(sine).threads() == 3);
  }).join();
}
