// arguments.cpp - one table of commands and options, from which parsing, refusals and help all follow.
#include "cli/arguments.hpp"

#include <algorithm>
#include <charconv>
#include <ostream>

#include "tidu/graph/error.hpp"

namespace tidu::cli {
namespace {

struct Option {
  std::string_view name;
  std::string_view value;  ///< what stands behind it; empty for a flag
  std::string_view help;
};

constexpr Option options[] = {
    {"--inputs", "IN.json", "input name -> tensor"},
    {"--tangents", "T.json", "input name -> tensor; an input that is not named has tangent zero"},
    {"--cotangents", "C.json", "a list aligned with the outputs; null: none"},
    {"--wrt", "x,y", "the inputs to differentiate by; every floating or complex one when left out"},
    {"--mode", "forward|reverse", "how Jacobians are made; reverse when left out"},
    {"--batched", "x,y",
     "map the graph over a leading axis that these inputs (and their tangents, all cotangents, "
     "outputs and gradients) carry"},
    {"--backend", "NAME", "the executor"},
    {"--threads", "N", "threads that the executor may use; its own choice when left out"},
    {"--stage", "primal|linear|transposed|program", "what to dump; primal when left out"},
    {"--format", "FORMAT", "dump: text, json, dot or svg; ops: text, md or json; text when left out"},
    {"--keys", "", "write the content address of every value"},
};

struct Command {
  std::string_view name;
  std::string_view synopsis;
  std::string_view help;
  std::string_view allowed;   ///< options, separated by spaces
  std::string_view required;  ///< likewise
};

constexpr std::string_view run_options = " --inputs --backend --threads";
constexpr Command commands[] = {
    {"eval", "GRAPH.json --inputs IN.json", "outputs", " --batched", " --inputs"},
    {"jvp", "GRAPH.json --inputs IN.json --tangents T.json", "outputs and tangents", " --tangents --batched",
     " --inputs --tangents"},
    {"vjp", "GRAPH.json --inputs IN.json --cotangents C.json",
     "outputs and cotangents of every floating or complex input", " --cotangents --batched",
     " --inputs --cotangents"},
    {"grad", "GRAPH.json --inputs IN.json [--wrt x,y]",
     "of a graph with one scalar output: value and gradients", " --wrt --batched", " --inputs"},
    {"hvp", "GRAPH.json --inputs IN.json --tangents T.json", "value, gradients and Hessian-vector products",
     " --tangents", " --inputs --tangents"},
    {"jac", "GRAPH.json --inputs IN.json [--wrt x,y] [--mode forward|reverse]",
     "outputs and Jacobians, each of shape output + input", " --wrt --mode", " --inputs"},
    {"check", "GRAPH.json --inputs IN.json",
     "jvp against differences, vjp against jvp, and which primitive is at fault when they disagree (exit "
     "status 3)",
     "", " --inputs"},
    {"dump", "GRAPH.json [--stage STAGE] [--format FORMAT] [--keys]",
     "the graph, its linear or transposed graph merged with it, or the program that runs",
     " --stage --format --keys", ""},
    {"ops", "[--format text|md|json]", "which primitive has which rule and kernel", " --format", ""},
};

bool contains_word(std::string_view words, std::string_view word) {
  for (std::size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

bool takes(const Command& command, std::string_view option) {
  if (contains_word(command.allowed, option)) return true;
  const bool runs = command.name != "dump" && command.name != "ops";
  return runs && contains_word(run_options, option);
}

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorKind::invalid_argument, message); }

const Command* find_command(std::string_view name) {
  const auto* found = std::find_if(std::begin(commands), std::end(commands),
                                   [&](const Command& c) { return c.name == name; });
  return found == std::end(commands) ? nullptr : found;
}

std::vector<std::string> split(std::string_view option, std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    names.emplace_back(text.substr(from, comma - from));
    if (names.back().empty())
      refuse(detail::str(option, ": expected names separated by commas, got \"", text, '"'));
    from = comma + 1;
  }
  return names;
}

std::string one_of(std::string_view option, const std::string& value,
                   std::initializer_list<std::string_view> words) {
  if (std::find(words.begin(), words.end(), value) == words.end()) {
    refuse(detail::str(option, ": expected one of ", detail::list(words), ", got \"", value, '"'));
  }
  return value;
}

void set_option(Arguments& arguments, std::string_view option, const std::string& value) {
  if (option == "--inputs") arguments.inputs_file = value;
  if (option == "--tangents") arguments.tangents_file = value;
  if (option == "--cotangents") arguments.cotangents_file = value;
  if (option == "--wrt") arguments.wrt = split(option, value);
  if (option == "--batched") arguments.batched = split(option, value);
  if (option == "--mode") arguments.mode = one_of(option, value, {"forward", "reverse"});
  if (option == "--backend") arguments.backend = value;
  if (option == "--stage")
    arguments.stage = one_of(option, value, {"primal", "linear", "transposed", "program"});
  if (option == "--format") {
    arguments.format = arguments.command == "ops" ? one_of(option, value, {"text", "md", "json"})
                                                  : one_of(option, value, {"text", "json", "dot", "svg"});
  }
  if (option == "--keys") arguments.keys = true;
  if (option == "--threads") {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), arguments.threads);
    if (error != std::errc() || end != value.data() + value.size() || arguments.threads < 1 ||
        arguments.threads > 1024) {
      refuse(detail::str("--threads: expected a number from 1 to 1024, got \"", value, '"'));
    }
  }
}

}  // namespace

Arguments parse_arguments(std::span<const std::string> words) {
  Arguments arguments;
  if (words.empty()) refuse("expected a command, got none");
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    arguments.help = true;
    return arguments;
  }
  const Command* command = find_command(words[0]);
  if (command == nullptr) {
    std::vector<std::string_view> names;
    for (const Command& known : commands) names.push_back(known.name);
    refuse(detail::str("expected one of ", detail::list(names), ", got \"", words[0], '"'));
  }
  arguments.command = words[0];
  std::vector<std::string_view> seen;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      arguments.help = true;
      return arguments;
    }
    if (!word.starts_with("-") || word == "-") {
      if (!arguments.graph_file.empty())
        refuse(detail::str("expected one graph file, got \"", word, "\" as a second one"));
      if (command->name == "ops") refuse(detail::str("ops: expected no file, got \"", word, '"'));
      arguments.graph_file = word;
      continue;
    }
    const auto* option =
        std::find_if(std::begin(options), std::end(options), [&](const Option& o) { return o.name == word; });
    if (option == std::end(options) || !takes(*command, word)) {
      refuse(detail::str(command->name, ": expected an option that it takes (see ", command->name,
                         " --help), got \"", word, '"'));
    }
    if (std::find(seen.begin(), seen.end(), option->name) != seen.end()) {
      refuse(detail::str(option->name, ": expected once, got twice"));
    }
    seen.push_back(option->name);
    std::string value;
    if (!option->value.empty()) {
      if (i + 1 == words.size())
        refuse(detail::str(option->name, ": expected ", option->value, ", got nothing"));
      value = words[++i];
    }
    set_option(arguments, option->name, value);
  }
  if (arguments.graph_file.empty() && command->name != "ops") {
    refuse(detail::str(command->name, ": expected a graph file, got none"));
  }
  for (const Option& option : options) {
    const bool given = std::find(seen.begin(), seen.end(), option.name) != seen.end();
    if (!given && contains_word(command->required, option.name)) {
      refuse(detail::str(command->name, ": expected ", option.name, ' ', option.value, ", got none"));
    }
  }
  return arguments;
}

void print_help(std::ostream& out, std::string_view program, std::string_view name) {
  const Command* one = find_command(name);
  if (one != nullptr) {
    out << "usage: " << program << ' ' << one->name << ' ' << one->synopsis << "\n  " << one->help << "\n\n";
    for (const Option& option : options) {
      if (!takes(*one, option.name)) continue;
      out << "  " << option.name << ' ' << option.value << "\n      " << option.help << '\n';
    }
    return;
  }
  out << "usage: " << program << " COMMAND …    differentiates graph dumps\n\n";
  for (const Command& command : commands) {
    out << "  " << program << ' ' << command.name << ' ' << command.synopsis << "\n      " << command.help
        << '\n';
  }
  out << "\n  " << program << " COMMAND --help tells the options of one.\n"
      << "  A file name of - stands for standard input. Results are one JSON object on standard output.\n"
      << "  Exit status: 0; 1 a missing rule, a failure while running; 2 arguments, files, types, names; 3 "
         "check found a fault.\n";
}

}  // namespace tidu::cli
