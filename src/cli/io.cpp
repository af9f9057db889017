// io.cpp - reads the command's input files and writes its output.
#include "cli/io.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "graph/json_tape.hpp"
#include "tensor/json_impl.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/graph/literal_json.hpp"

namespace tidu::cli {

using detail::JsonTape;

std::string shown_path(const std::string& path) {
  return path == "-" ? "standard input" : path.empty() ? "\"\"" : std::string(detail::printable(path));
}

std::string read_file(const std::string& path) {
  const auto refuse = [&path](int why) {
    throw Error(
        ErrorKind::invalid_argument,
        detail::str(shown_path(path), ": expected a file that can be read, got: ", std::strerror(why)));
  };
  const auto close_file = [](std::FILE* file) {
    if (file != stdin) std::fclose(file);
  };
  const std::unique_ptr<std::FILE, decltype(close_file)> file(
      path == "-" ? stdin : std::fopen(path.c_str(), "rb"), close_file);
  if (file == nullptr) refuse(errno);
  std::string text;
  char buffer[1 << 16];
  for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0;)
    text.append(buffer, count);
  if (std::ferror(file.get()) != 0) refuse(errno);  // a directory, for instance
  return text;
}

void write_file(const std::string& path, const std::string& text) {
  const auto refuse = [&path](int why) {
    throw Error(
        ErrorKind::invalid_argument,
        detail::str(shown_path(path), ": expected a file that can be written, got: ", std::strerror(why)));
  };
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) refuse(errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int why = errno;
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) refuse(written ? errno : why);
}

Graph read_graph(const std::string& path, const PrimitiveSet& set) {
  const std::string text = read_file(path);
  return in_file(path, [&] { return graph_from_json(text, set); });
}

NamedTensors read_named_tensors(const std::string& path) {
  const std::string text = read_file(path);
  return in_file(path, [&] {
    const JsonTape tape(text);
    if (tape.kind(JsonTape::root) != JsonTape::Kind::object) {
      throw Error(ErrorKind::dump,
                  detail::str("expected an object of tensors, got ", tape.shown(JsonTape::root)));
    }
    std::map<std::string_view, JsonTape::Index> members;
    for (auto at = JsonTape::first(JsonTape::root); at != tape.end(JsonTape::root); at = tape.next(at + 1)) {
      if (!members.emplace(tape.string(at), at + 1).second) {
        throw Error(ErrorKind::dump,
                    detail::str("expected every name of an object once, got ", tape.shown(at), " twice"));
      }
    }
    NamedTensors tensors;
    for (const auto& [name, value] : members) {
      try {
        tensors.emplace_back(name, detail::tensor_from_json(tape, value));
      } catch (const Error& error) {
        error.with_message(detail::str("tensor ", detail::shortened(name), ": ", error.what()))->raise();
      }
    }
    return tensors;
  });
}

std::vector<std::optional<Tensor>> read_tensor_list(const std::string& path) {
  const std::string text = read_file(path);
  return in_file(path, [&] {
    const JsonTape tape(text);
    if (tape.kind(JsonTape::root) != JsonTape::Kind::array) {
      throw Error(ErrorKind::dump,
                  detail::str("expected a list of tensors, one for each output or null for zero, got ",
                              tape.shown(JsonTape::root)));
    }
    std::vector<std::optional<Tensor>> tensors;
    for (auto at = JsonTape::first(JsonTape::root); at != tape.end(JsonTape::root); at = tape.next(at)) {
      try {
        tensors.push_back(tape.kind(at) == JsonTape::Kind::null
                              ? std::nullopt
                              : std::optional<Tensor>(detail::tensor_from_json(tape, at)));
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
