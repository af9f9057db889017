// io.cpp - reading what the command is given and writing what it gives back.
#include "cli/io.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "graph/literal_json_impl.hpp"
#include "tensor/json_impl.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/graph/literal_json.hpp"

namespace tidu::cli {
namespace {

// Runs `body` and puts the file's name before the message of what it throws.
template <class Body>
auto in_file(const std::string& path, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    error.with_message(detail::str(path, ": ", error.what()))->raise();
    throw;
  }
}

}  // namespace

std::string read_file(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ErrorKind::invalid_argument,
                detail::str(path, ": expected a file that can be read, got: ", std::strerror(errno)));
  }
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (file.bad() || (!file.eof() && file.fail())) {
    throw Error(ErrorKind::invalid_argument,
                detail::str(path, ": expected a file that can be read to its end"));
  }
  return text;
}

Graph read_graph(const std::string& path, const PrimitiveSet& set) {
  const std::string text = read_file(path);
  return in_file(path, [&] { return graph_from_json(text, set); });
}

NamedTensors read_named_tensors(const std::string& path) {
  const std::string text = read_file(path);
  return in_file(path, [&] {
    const nlohmann::json json = detail::parse_json(text);
    if (!json.is_object())
      throw Error(ErrorKind::dump, detail::str("expected an object of tensors, got ", json.type_name()));
    NamedTensors tensors;
    for (const auto& [name, value] : json.items()) {
      try {
        tensors.emplace_back(name, detail::tensor_from_json(value));
      } catch (const Error& error) {
        error.with_message(detail::str("tensor \"", name, "\": ", error.what()))->raise();
      }
    }
    return tensors;
  });
}

std::vector<std::optional<Tensor>> read_tensor_list(const std::string& path) {
  const std::string text = read_file(path);
  return in_file(path, [&] {
    const nlohmann::json json = detail::parse_json(text);
    if (!json.is_array())
      throw Error(ErrorKind::dump, detail::str("expected a list of tensors, got ", json.type_name()));
    std::vector<std::optional<Tensor>> tensors;
    for (const auto& value : json) {
      try {
        tensors.push_back(value.is_null() ? std::nullopt
                                          : std::optional<Tensor>(detail::tensor_from_json(value)));
      } catch (const Error& error) {
        error.with_message(detail::str("tensor ", tensors.size(), ": ", error.what()))->raise();
      }
    }
    return tensors;
  });
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

namespace {

void append_tensor(std::string& text, const std::optional<Tensor>& tensor) {
  if (tensor) {
    append_json(text, tensor->type(), tensor->bytes());
  } else {
    text += "null";
  }
}

}  // namespace

void JsonObject::key(std::string_view name) {
  if (text_.size() > 1) text_ += ", ";
  text_ += json_string(name);
  text_ += ": ";
}

void JsonObject::append(const Named& tensors) {
  text_ += '{';
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0) text_ += ", ";
    text_ += json_string(tensors[i].first);
    text_ += ": ";
    append_tensor(text_, tensors[i].second);
  }
  text_ += '}';
}

void JsonObject::list(std::string_view name, const std::vector<std::optional<Tensor>>& tensors) {
  key(name);
  text_ += '[';
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0) text_ += ", ";
    append_tensor(text_, tensors[i]);
  }
  text_ += ']';
}

void JsonObject::object(std::string_view name, const Named& tensors) {
  key(name);
  append(tensors);
}

void JsonObject::list_of_objects(std::string_view name, const std::vector<Named>& objects) {
  key(name);
  text_ += '[';
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i > 0) text_ += ", ";
    append(objects[i]);
  }
  text_ += ']';
}

}  // namespace tidu::cli
