// corpus.hpp - the files of a folder of tests/data.
#pragma once

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/support.hpp"

namespace tidu::test {

struct CorpusFile {
  std::string name, bytes;
};

/// In the order of their names; those that begin with a dot are left out.
inline std::vector<CorpusFile> corpus(std::string_view folder) {
  std::vector<CorpusFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "tests" / "data" / folder)) {
    const std::string name = entry.path().filename().string();
    if (name.front() == '.') continue;
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files.push_back({name, bytes.str()});
  }
  std::sort(files.begin(), files.end(),
            [](const CorpusFile& a, const CorpusFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace tidu::test
