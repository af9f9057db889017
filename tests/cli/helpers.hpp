// Runs the command in this process: its status and output, input files, and small graphs.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tidu/cli/cli.hpp>
#include <vector>

namespace tidu::test {

struct Answer {
  int status = 0;
  std::string out;
  std::string err;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

inline Answer run_command(const std::vector<std::string>& words,
                          const PrimitiveSet& set = standard_primitives()) {
  std::ostringstream out, err;
  const int status = cli_main(words, out, err, "tidu", set, standard_executors());
  return {status, std::move(out).str(), std::move(err).str()};
}

/// A folder that goes with its object.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("tidu_cli." + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  /// Writes a file and gives its path.
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path(name);
  }
  std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// f(x, y) = sum(x y), of f64[3] and f64[3].
inline constexpr const char* dot_graph = R"({"format": "tidu.graph", "version": 1, "name": "dot",
 "values": [
  {"id": 0, "dtype": "f64", "shape": [3], "name": "x"},
  {"id": 1, "dtype": "f64", "shape": [3], "name": "y"},
  {"id": 2, "dtype": "f64", "shape": [3]},
  {"id": 3, "dtype": "f64", "shape": []}],
 "inputs": [0, 1],
 "operations": [
  {"op": "mul", "inputs": [0, 1], "outputs": [2]},
  {"op": "reduce_sum", "inputs": [2], "outputs": [3], "attrs": {"axes": [0]}}],
 "outputs": [3]}
)";
inline constexpr const char* dot_inputs = R"({"x": {"dtype": "f64", "shape": [3], "data": [1, 2, 3]},
 "y": {"dtype": "f64", "shape": [3], "data": [4, 5, 6]}})";

/// k, z, x -> k k, real(z) x, floor(x) of i32, c128 and f64 scalars: every sort of differentiability.
inline constexpr const char* mixed_graph = R"({"format": "tidu.graph", "version": 1, "name": "mixed",
 "values": [
  {"id": 0, "dtype": "i32", "shape": [], "name": "k"},
  {"id": 1, "dtype": "c128", "shape": [], "name": "z"},
  {"id": 2, "dtype": "f64", "shape": [], "name": "x"},
  {"id": 3, "dtype": "i32", "shape": []},
  {"id": 4, "dtype": "f64", "shape": []},
  {"id": 5, "dtype": "f64", "shape": []},
  {"id": 6, "dtype": "f64", "shape": []}],
 "inputs": [0, 1, 2],
 "operations": [
  {"op": "mul", "inputs": [0, 0], "outputs": [3]},
  {"op": "real", "inputs": [1], "outputs": [4]},
  {"op": "mul", "inputs": [4, 2], "outputs": [5]},
  {"op": "floor", "inputs": [2], "outputs": [6]}],
 "outputs": [3, 5, 6]}
)";
inline constexpr const char* mixed_inputs = R"({"k": {"dtype": "i32", "shape": [], "data": [7]},
 "z": {"dtype": "c128", "shape": [], "data": [[2, 3]]}, "x": {"dtype": "f64", "shape": [], "data": [1.5]}})";

}  // namespace tidu::test
