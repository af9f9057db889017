// kernel_folder.cpp - files are written under another name and renamed, so that nobody reads half of one, and
// counted again whenever a sixteenth of the limit was added: many processes may share a folder, and none of
// them knows what the others keep.
#include "cuda/kernels/kernel_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "tidu/graph/error.hpp"
#include "tidu/graph/key.hpp"

namespace tidu::cuda_detail {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view suffix = ".cubin";
constexpr std::string_view part_suffix = ".part";
// A file under its first name belongs to nobody after that time: who wrote it has ended.
constexpr std::chrono::hours part_lives{1};

std::string sum_of(const std::vector<char>& bytes) {
  return digest(std::string_view(bytes.data(), bytes.size()));
}

struct Kept {
  fs::path path;
  fs::file_time_type read;
  std::uint64_t bytes;
};

}  // namespace

std::string digest(std::string_view text) {
  return to_hex(detail::mix_bytes(Key128{}, text.data(), text.size()));
}

KernelFolder::KernelFolder(std::string path, std::uint64_t limit)
    : path_(std::move(path)), limit_(limit), unseen_(limit) {}

std::string KernelFolder::path_of(const std::string& title) const {
  return path_.empty() ? std::string() : detail::str(path_, '/', digest(title), suffix);
}

std::vector<char> KernelFolder::read(const std::string& title) const {
  if (path_.empty()) return {};
  const std::string path = path_of(title);
  std::ifstream in(path, std::ios::binary);
  std::string line, sum;
  std::size_t length = 0;
  if (!in || !std::getline(in, line) || line != title || !(in >> length >> sum) || in.get() != '\n')
    return {};
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  if (bytes.size() != length || sum_of(bytes) != sum) return {};
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return bytes;
}

void KernelFolder::keep(const std::string& title, const std::vector<char>& bytes) const {
  if (path_.empty()) return;
  std::error_code failed;
  fs::create_directories(path_, failed);
  const std::string path = path_of(title);
  const std::string part =
      detail::str(path, '.', ::getpid(), '.', reinterpret_cast<std::uintptr_t>(&bytes), part_suffix);
  {
    std::ofstream out(part, std::ios::binary);
    out << title << '\n' << bytes.size() << ' ' << sum_of(bytes) << '\n';
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) {
      fs::remove(part, failed);
      return;
    }
  }
  fs::rename(part, path, failed);
  if (failed) fs::remove(part, failed);
  if (unseen_.fetch_add(bytes.size()) + bytes.size() >= limit_ / 16) bound();
}

void KernelFolder::bound() const {
  unseen_ = 0;
  std::error_code failed;
  std::vector<Kept> files;
  std::uint64_t total = 0;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator at(path_, failed), end; !failed && at != end; at.increment(failed)) {
    const fs::path& path = at->path();
    std::error_code gone;  // another process may have removed it
    const auto read = at->last_write_time(gone);
    if (gone) continue;
    if (path.extension() == part_suffix && now - read > part_lives) fs::remove(path, gone);
    if (path.extension() != suffix) continue;
    const std::uint64_t bytes = at->file_size(gone);
    if (gone) continue;
    files.push_back({path, read, bytes});
    total += bytes;
  }
  if (total <= limit_) return;
  std::sort(files.begin(), files.end(), [](const Kept& a, const Kept& b) { return a.read < b.read; });
  const std::uint64_t enough = limit_ - limit_ / 4;  // so that it is a while until the next time
  for (const Kept& file : files) {
    if (total <= enough) break;
    std::error_code gone;
    fs::remove(file.path, gone);
    total -= file.bytes;
  }
}

}  // namespace tidu::cuda_detail
