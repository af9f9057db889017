// kernel_folder.hpp - machine code between processes: a folder of files, bounded in bytes. A file is a line
// that says what it is of, its length and a sum of its bytes, then the bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tidu::cuda_detail {

/// The folder. Any thread of any process may use it at any time; nothing here throws, since what cannot be
/// kept is compiled again.
class KernelFolder {
 public:
  /// Made when something is first kept there; of an empty path: nothing is kept. `limit`: most bytes of all
  /// files, beyond which those go that were not read for longest.
  explicit KernelFolder(std::string path, std::uint64_t limit);

  /// What was kept under that title, a line of all that the bytes depend on. Nothing when there is no such
  /// file, or when it is of another title, cut off or damaged.
  std::vector<char> read(const std::string& title) const;
  /// Keeps it. The file appears whole or not at all.
  void keep(const std::string& title, const std::vector<char>& bytes) const;
  /// Where that is kept, or empty.
  std::string path_of(const std::string& title) const;

 private:
  void bound() const;
  std::string path_;
  std::uint64_t limit_;
  mutable std::atomic<std::uint64_t> unseen_;  // bytes kept since files were last counted
};

/// 32 hexadecimal digits that stand for the text.
std::string digest(std::string_view text);

}  // namespace tidu::cuda_detail
