// The folder that keeps machine code between processes: what is damaged, who shares it, and its bound.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/kernels/kernel_folder.hpp"

namespace tidu::test {
namespace {

namespace fs = std::filesystem;
using cuda_detail::KernelFolder;

constexpr std::uint64_t plenty = std::uint64_t{1} << 30;

// A name for a folder, which is removed with all that is in it.
class OwnFolder {
 public:
  OwnFolder() {
    static int made = 0;
    path_ = fs::temp_directory_path() /
            ("tidu-folder-" + std::to_string(::getpid()) + '-' + std::to_string(made++));
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& file : fs::directory_iterator(path_)) sum += file.file_size();
    return sum;
  }

 private:
  fs::path path_;
};

std::vector<char> code_of(int number, std::size_t bytes) {
  std::vector<char> code(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    code[i] = static_cast<char>(static_cast<std::size_t>(number) * 31 + i * 7);
  return code;
}

std::string title_of(int number) { return "kernel " + std::to_string(number); }

}  // namespace

TEST_CASE("[kernel folder] what was kept is there for another process, and for no other title") {
  const OwnFolder own;
  const std::vector<char> code = code_of(1, 5000);
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    KernelFolder(own.path(), plenty).keep("sm_90 one", code);
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  const KernelFolder folder(own.path(), plenty);
  CHECK(folder.read("sm_90 one") == code);
  CHECK(folder.read("sm_100 one").empty());
  // A file of another title in its place is none, whatever it is called.
  fs::copy_file(folder.path_of("sm_90 one"), folder.path_of("sm_100 one"));
  CHECK(folder.read("sm_100 one").empty());
}

TEST_CASE("[kernel folder] a file that is cut off, longer or changed is none, and is kept anew") {
  const OwnFolder own;
  const KernelFolder folder(own.path(), plenty);
  const std::vector<char> code = code_of(2, 3000);
  const auto damage = [&](const auto& change) {
    folder.keep("k", code);
    REQUIRE(folder.read("k") == code);
    change(folder.path_of("k"));
    CHECK(folder.read("k").empty());
  };
  damage([](const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); });
  damage([](const fs::path& file) { fs::resize_file(file, 0); });
  damage([](const fs::path& file) { std::ofstream(file, std::ios::binary | std::ios::app) << 'x'; });
  damage([](const fs::path& file) {
    std::fstream io(file, std::ios::binary | std::ios::in | std::ios::out);
    io.seekp(-10, std::ios::end);
    io.put('\x55');
  });
  damage([](const fs::path& file) { fs::remove(file); });
  folder.keep("k", code);
  CHECK(folder.read("k") == code);
}

TEST_CASE("[kernel folder] beyond the limit those go that were not read for longest, and nothing of others") {
  const OwnFolder own;
  constexpr std::size_t each = 10000;
  const KernelFolder folder(own.path(), 10 * each);
  folder.keep(title_of(0), code_of(0, each));
  const auto age = [&](int number, int hours) {
    fs::last_write_time(folder.path_of(title_of(number)),
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  std::ofstream(own.path() + "/notes.txt") << "not a kernel";
  std::ofstream(own.path() + "/left.1.2.part") << "of a process that was killed";
  fs::last_write_time(own.path() + "/left.1.2.part",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  std::ofstream(own.path() + "/fresh.1.3.part") << "of a process that writes it now";
  for (int number = 1; number < 9; ++number) folder.keep(title_of(number), code_of(number, each));
  for (int number = 0; number < 9; ++number) age(number, 100 - number);
  CHECK(folder.read(title_of(0)) == code_of(0, each));  // the oldest, but read just now
  for (int number = 9; number < 12; ++number) folder.keep(title_of(number), code_of(number, each));
  CHECK(own.bytes() < 10 * each + 1000);
  CHECK(folder.read(title_of(0)) == code_of(0, each));
  CHECK(folder.read(title_of(1)).empty());
  CHECK(folder.read(title_of(11)) == code_of(11, each));
  CHECK(fs::exists(own.path() + "/notes.txt"));
  CHECK_FALSE(fs::exists(own.path() + "/left.1.2.part"));
  CHECK(fs::exists(own.path() + "/fresh.1.3.part"));
}

TEST_CASE("[kernel folder] threads that keep and read the same read it whole or not at all") {
  const OwnFolder own;
  const KernelFolder folder(own.path(), 200000);  // so that files are removed meanwhile, too
  std::atomic<int> wrong{0}, found{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const int number = (i * 7 + t) % 10;
        const std::vector<char> code = code_of(number, 30000);
        const std::vector<char> read = folder.read(title_of(number));
        if (read.empty())
          folder.keep(title_of(number), code);
        else if (read == code)
          ++found;
        else
          ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(found > 0);
}

TEST_CASE("[kernel folder] where nothing can be kept nothing is, without a word") {
  const OwnFolder own;
  std::ofstream(own.path()) << "a file where the folder would be";
  const KernelFolder blocked(own.path() + "/kernels", plenty);
  blocked.keep("k", code_of(3, 100));
  CHECK(blocked.read("k").empty());
  const KernelFolder none(std::string(), plenty);
  none.keep("k", code_of(3, 100));
  CHECK(none.read("k").empty());
  CHECK(none.path_of("k").empty());
}

}  // namespace tidu::test
