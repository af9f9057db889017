// job.cpp - checks files against the graph: names, types, and the axis of --batched.
#include "cli/job.hpp"

#include <algorithm>
#include <numeric>
#include <ostream>

#include "graph/input_index.hpp"
#include "graph/json_tape.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cli {
namespace {

Type with_axis(Type type, std::int64_t size) {
  Shape shape{size};
  shape.insert(shape.end(), type.shape().begin(), type.shape().end());
  return type.with_shape(shape);
}

// `size` copies one after another, along a new leading axis.
Tensor repeated(const Tensor& tensor, std::int64_t size) {
  Tensor result(with_axis(tensor.type(), size));
  std::byte* to = result.mutable_bytes();
  for (std::int64_t i = 0; i < size; ++i, to += tensor.num_bytes())
    std::copy_n(tensor.bytes(), tensor.num_bytes(), to);
  return result;
}

Names input_names(const Graph& graph) {
  std::vector<std::size_t> all(graph.inputs().size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return names_at(graph, all);
}

// The first few names, and how many more there are.
std::string shown_names(const Names& names) {
  constexpr std::size_t most = 20;
  Names shown;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    shown.push_back(detail::printable(names[i], detail::longest_quotation));
  if (names.size() > most) shown.push_back(detail::str("and ", names.size() - most, " more"));
  return detail::list(shown);
}

void require_type(const Tensor& tensor, Type type, const std::string& what) {
  if (tensor.type() != type)
    throw Error(ErrorKind::type, detail::str(what, ": expected ", type, ", got ", tensor.type()));
}

}  // namespace

Job::Job(const Session& session)
    : session_(session),
      graph_(read_graph(session.arguments.graph_file, session.set)),
      names_(input_names(graph_)),
      executor_(make_executor(session)) {
  if (!graph_.externals().empty()) {
    refuse(detail::str(shown_path(session.arguments.graph_file),
                       ": expected a graph without externals, got one with ", graph_.externals().size(),
                       " (dump it together with the graph that defines them)"));
  }
  for (const std::size_t position : positions("--wrt", wrt())) {
    const Type type = graph_.type(graph_.inputs()[position]);
    if (!is_inexact(type.dtype())) {
      refuse(detail::str("--wrt: expected floating or complex inputs, got ",
                         detail::shortened(names_[position]), " of type ", type));
    }
  }
  batched_.assign(graph_.inputs().size(), false);
  const std::string& file = *session.arguments.inputs_file;
  const auto by_input = by_position(read_named_tensors(file), file);
  find_batch(by_input);
  for (std::size_t i = 0; i < by_input.size(); ++i) {
    const std::string what = detail::str(shown_path(file), ": input ", detail::shortened(names_[i]));
    if (!by_input[i] && batched_[i] && !size_)  // its extent is unknown
      refuse(detail::str(what, ": expected a tensor of type ", graph_.type(graph_.inputs()[i]),
                         " with a leading axis, got none"));
    if (!by_input[i]) refuse(detail::str(what, ": expected a tensor of type ", input_type(i), ", got none"));
    require_type(*by_input[i], input_type(i), what);
    tensors_.push_back(*by_input[i]);
  }
}

void Job::add_tangents() {
  const std::string& file = *session_.arguments.tangents_file;
  const auto given = by_position(read_named_tensors(file), file);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Type type = graph_.type(graph_.inputs()[i]);
    const std::string what = detail::str(shown_path(file), ": tangent of ", detail::shortened(names_[i]));
    if (!is_inexact(type.dtype())) {
      if (given[i]) {
        refuse(detail::str(what, ": expected none, the input of type ", type,
                           " is not differentiable, got a tensor"));
      }
      continue;
    }
    if (given[i]) require_type(*given[i], input_type(i), what);
    tensors_.push_back(given[i] ? *given[i] : Tensor::zeros(input_type(i)));
    carried_.push_back(batched_[i]);
  }
}

void Job::add_cotangents() {
  const std::string& file = *session_.arguments.cotangents_file;
  const auto given = read_tensor_list(file);
  if (given.size() != graph_.outputs().size()) {
    refuse(detail::str(shown_path(file), ": expected ", graph_.outputs().size(),
                       " cotangents, one per output (null: none), got ", given.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Type type = graph_.type(graph_.outputs()[i]);
    const std::string what = detail::str(shown_path(file), ": cotangent ", i);
    if (!is_inexact(type.dtype())) {
      if (given[i]) {
        refuse(detail::str(what, ": expected null, the output of type ", type,
                           " is not differentiable, got a tensor"));
      }
      continue;
    }
    const Type expected = is_batched() ? with_axis(type, size()) : type;
    if (given[i]) require_type(*given[i], expected, what);
    tensors_.push_back(given[i] ? *given[i] : Tensor::zeros(expected));
    carried_.push_back(is_batched());
  }
}

std::vector<Tensor> Job::run(const Graph& graph) const {
  return in_file(session_.arguments.graph_file, [&] {
    if (!is_batched()) return executor_->run(graph, std::span<const Tensor>(tensors_));
    BatchOptions options;
    options.inputs = batched_;
    options.inputs->insert(options.inputs->end(), carried_.begin(), carried_.end());
    return executor_->run(batch(graph, size(), options).graph, std::span<const Tensor>(tensors_));
  });
}

Job::Mapped Job::mapped() const {
  Mapped result{graph_, tensors_};
  if (!is_batched()) return result;
  BatchOptions options;
  options.inputs = batched_;
  for (std::size_t i = 0; i < result.tensors.size(); ++i) {
    const bool is_input = i < batched_.size();
    if (!is_inexact(tensors_[i].dtype()) || (is_input ? batched_[i] : carried_[i - batched_.size()]))
      continue;
    result.tensors[i] = repeated(tensors_[i], size());
    if (is_input) (*options.inputs)[i] = true;
  }
  result.graph = in_file(session_.arguments.graph_file, [&] { return batch(graph_, size(), options).graph; });
  return result;
}

JsonObject Job::outputs_of(const std::vector<Tensor>& results) const {
  JsonObject object;
  const auto end = results.begin() + static_cast<std::ptrdiff_t>(graph_.outputs().size());
  object.list("outputs", {results.begin(), end});
  return object;
}

int Job::print(const JsonObject& object) const {
  session_.out << object.text();
  return 0;
}

Type Job::input_type(std::size_t position) const {
  const Type type = graph_.type(graph_.inputs()[position]);
  return batched_[position] ? with_axis(type, size()) : type;
}

std::vector<std::size_t> Job::positions(std::string_view option, const Names& names) const {
  std::vector<std::size_t> found;
  std::vector<bool> seen(graph_.inputs().size(), false);
  const detail::InputIndex index(graph_);
  for (const std::string& name : names) {
    const auto position = index.find(name);
    if (!position) {
      const bool commas = std::any_of(names_.begin(), names_.end(), [](const std::string& each) {
        return each.find(',') != std::string::npos;
      });
      refuse(detail::str(option, ": expected names of inputs, ", shown_names(names_), ", got ",
                         detail::shortened(name),
                         commas ? " (names that hold commas stand in a JSON array, '[\"a,b\"]')" : ""));
    }
    if (seen[*position])
      refuse(detail::str(option, ": expected each input once, got ", detail::shortened(name), " twice"));
    seen[*position] = true;
    found.push_back(*position);
  }
  return found;
}

std::vector<std::optional<Tensor>> Job::by_position(const NamedTensors& given,
                                                    const std::string& file) const {
  std::vector<std::optional<Tensor>> tensors(graph_.inputs().size());
  const detail::InputIndex index(graph_);
  for (const auto& [name, tensor] : given) {
    const auto position = index.find(name);
    if (!position) {
      refuse(detail::str(shown_path(file), ": expected names of inputs, ", shown_names(names_), ", got ",
                         detail::shortened(name)));
    }
    if (tensors[*position])
      refuse(detail::str(shown_path(file), ": expected each input once, got ",
                         detail::shortened(names_[*position]), " twice, once as ", detail::shortened(name)));
    tensors[*position] = tensor;
  }
  return tensors;
}

void Job::find_batch(const std::vector<std::optional<Tensor>>& by_input) {
  if (!is_batched()) return;
  for (const std::size_t position : positions("--batched", *session_.arguments.batched)) {
    const auto& tensor = by_input[position];
    if (tensor && (tensor->rank() == 0 || (size_ && tensor->dim(0) != *size_))) {
      throw Error(ErrorKind::type,
                  detail::str("--batched: expected input ", detail::shortened(names_[position]),
                              " with a leading axis", size_ ? detail::str(" of ", *size_) : std::string(),
                              ", got ", tensor->type()));
    }
    batched_[position] = true;
    if (tensor) size_ = tensor->dim(0);
  }
}

}  // namespace tidu::cli
