// io.hpp - files in and JSON out: graphs, named tensors, lists of tensors; the object that a command prints.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::cli {

/// A file as messages name it.
std::string shown_path(const std::string& path);

/// Runs `body` and prefixes the messages of its errors with the file.
template <class Body>
auto in_file(const std::string& path, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    error.with_message(detail::str(shown_path(path), ": ", error.what()))->raise();
    throw;  // not reached
  }
}

/// The whole file ("-": standard input). Throws Error (invalid_argument) when it cannot be read.
std::string read_file(const std::string& path);
/// A dump. Throws Error (invalid_argument, dump, type, attribute, unknown_primitive), which names the file.
Graph read_graph(const std::string& path, const PrimitiveSet& set);

/// Writes a file. Throws Error (invalid_argument) that names it.
void write_file(const std::string& path, const std::string& text);

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
/// A JSON object of tensors. Errors name the file.
NamedTensors read_named_tensors(const std::string& path);
/// A JSON list of tensors and nulls.
std::vector<std::optional<Tensor>> read_tensor_list(const std::string& path);

/// Builds {"outputs": [...], "gradients": {...}} piece by piece.
class JsonObject {
 public:
  void list(std::string_view name, const std::vector<std::optional<Tensor>>& tensors);
  using Named = std::vector<std::pair<std::string, std::optional<Tensor>>>;
  void object(std::string_view name, const Named& tensors);
  void list_of_objects(std::string_view name, const std::vector<Named>& objects);
  /// The object, and a newline.
  std::string text() const { return text_ + "}\n"; }

 private:
  void key(std::string_view name);
  void append(const Named& tensors);
  std::string text_ = "{";
};

/// `text` as a JSON string, with its quotes.
std::string json_string(std::string_view text);

}  // namespace tidu::cli
