// job.hpp - the graph and the tensors of a command line, read and checked against each other before
// derivation or execution, so that messages name files, options and names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/io.hpp"
#include "tidu/linearize/transforms.hpp"

namespace tidu::cli {

class Job {
 public:
  /// Reads the graph and its inputs, one of the right type for each. Throws Error (dump, invalid_argument,
  /// type), which names the file or the option that is wrong.
  explicit Job(const Session& session);

  const Graph& graph() const { return graph_; }
  /// By which files and options name the inputs, and results their derivatives.
  const Names& names() const { return names_; }
  const Executor& executor() const { return *executor_; }
  /// The tensors for the inputs of the graph, then the additional ones.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// The inputs that --wrt names; empty when it is not given. Checked: known, floating or complex, no two
  /// equal.
  Names wrt() const { return session_.arguments.wrt.value_or(Names{}); }

  /// Adds the tangents of the floating and complex inputs, zero where T.json has none.
  void add_tangents();
  /// Adds the cotangents of the floating and complex outputs, zero where C.json has null.
  void add_cotangents();

  /// The result of `derive` for the graph; its errors name the graph's file.
  template <class Derive>
  auto derive(Derive&& derive) const {
    return in_file(session_.arguments.graph_file, [&] { return derive(graph_); });
  }
  /// Runs a graph whose inputs are those of the dump, then the additional ones; mapped over the leading axis
  /// with --batched.
  std::vector<Tensor> run(const Graph& graph) const;

  /// The graph of --batched and its tensors, with the axis on every floating or complex input and its
  /// additional tensors: differentiating it gives gradients per example. Without --batched the graph and the
  /// tensors unchanged.
  struct Mapped {
    Graph graph;
    std::vector<Tensor> tensors;
  };
  Mapped mapped() const;

  /// {"outputs": ...} of the first results; the command's other keys are added to it.
  JsonObject outputs_of(const std::vector<Tensor>& results) const;
  int print(const JsonObject& object) const;

 private:
  std::int64_t size() const { return size_.value_or(0); }
  bool is_batched() const { return session_.arguments.batched.has_value(); }
  Type input_type(std::size_t position) const;
  /// The inputs that an option names, each once.
  std::vector<std::size_t> positions(std::string_view option, const Names& names) const;
  std::vector<std::optional<Tensor>> by_position(const NamedTensors& given, const std::string& file) const;
  void find_batch(const std::vector<std::optional<Tensor>>& by_input);

  const Session& session_;
  Graph graph_;
  Names names_;
  std::shared_ptr<const Executor> executor_;
  std::vector<Tensor> tensors_;
  std::vector<bool> batched_;         // by input of graph_
  std::vector<bool> carried_;         // by input that was added: does it carry the axis?
  std::optional<std::int64_t> size_;  // extent of the axis, from an input
};

/// For jac without --wrt: prints to standard error the inputs that it leaves out, being complex.
void note_left_out(const Session& session, const Job& job);

}  // namespace tidu::cli
