// arguments.cpp - a table of commands and one of options, from which parsing, errors and help all follow.
#include "cli/arguments.hpp"

#include <algorithm>
#include <charconv>
#include <ostream>

#include "graph/json_tape.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cli {
namespace {

struct Command {
  std::string_view name;
  std::string_view synopsis;
  std::string_view help;
  std::string_view result;  ///< the printed result; "\n" begins a further line
};

constexpr Command commands[] = {
    {"eval", "GRAPH.json --inputs IN.json", "run the graph", R"({"outputs": [tensor, ...]})"},
    {"jvp", "GRAPH.json --inputs IN.json --tangents T.json", "the derivative along tangents of the inputs",
     R"({"outputs": [...], "tangents": [tensor or null, ...]}, tangents aligned with the outputs)"},
    {"vjp", "GRAPH.json --inputs IN.json --cotangents C.json",
     "cotangents of the inputs from cotangents of the outputs",
     R"({"outputs": [...], "gradients": {"x": tensor or null, ...}}, one for every floating or complex input)"},
    {"grad", "GRAPH.json --inputs IN.json [--wrt x,y]",
     "value and gradients of a graph with one floating scalar output",
     R"({"outputs": [value], "gradients": {"x": tensor or null, ...}})"},
    {"hvp", "GRAPH.json --inputs IN.json --tangents T.json",
     "value, gradients and Hessian-vector products of a graph with one floating scalar output",
     R"({"outputs": [value], "gradients": {"x": ...}, "hvp": {"x": tensor or null, ...}})"},
    {"jac", "GRAPH.json --inputs IN.json [--wrt x,y] [--mode forward|reverse]",
     "Jacobians of every output by every input, each of shape output + input",
     R"({"outputs": [...], "jacobians": [{"x": tensor or null, ...}, ...]}, aligned with the outputs)"},
    {"check", "GRAPH.json --inputs IN.json",
     "are the derivatives right? jvp against differences, vjp against jvp, batch against a loop",
     "text: how well they agree (exit status 0), or which rule of which primitive is at fault (exit status "
     "3)"},
    {"dump", "GRAPH.json [--stage STAGE] [--format FORMAT] [--keys]",
     "the graph, its derivative merged with it, or the program that runs",
     "the stage in that format; its json loads again, for instance to `eval` a derivative"},
    {"ops", "[--format text|md|json]", "which primitive has which rules and kernels",
     "a table: how the jvp comes about, whether there are transpose and batch rules, the dtypes of the\n"
     "kernels of every executor"},
};

struct Option {
  std::string_view name;
  std::string_view value;     ///< its argument: words to choose from, or a form; empty for a flag
  std::string_view commands;  ///< those that take it
  std::string_view help;      ///< "\n" begins a further line
  bool required = false;
};

constexpr std::string_view that_derive = "eval jvp vjp grad hvp jac";
constexpr std::string_view that_run = "eval jvp vjp grad hvp jac check";
constexpr Option all_options[] = {
    {"--inputs", "IN.json", that_run, "a tensor for every input: {\"x\": tensor, ...}", true},
    {"--tangents", "T.json", "jvp hvp",
     "tangents of floating and complex inputs: {\"x\": tensor, ...};\nzero for an input that is not named",
     true},
    {"--cotangents", "C.json", "vjp",
     "a list aligned with the outputs; null where there is none: [tensor, null, ...]", true},
    {"--wrt", "x,y", "grad",
     "the inputs to differentiate by; every floating and complex one when left out.\n"
     "Names that hold commas stand in a JSON array: '[\"a,b\", \"c\"]'"},
    {"--wrt", "x,y", "jac",
     "the inputs to differentiate by; every floating one when left out (complex ones are refused).\n"
     "Names that hold commas stand in a JSON array: '[\"a,b\", \"c\"]'"},
    {"--mode", "forward|reverse", "jac",
     "one pass per element of the inputs, or of the outputs (the default); the numbers are the same, of the\n"
     "output's dtype forward and of the input's in reverse"},
    {"--batched", "x,y", "eval jvp vjp grad",
     "map the graph over a leading axis that these inputs carry, and with them their tangents, all\n"
     "cotangents, all outputs, and all gradients: those are per example, also of inputs not named.\n"
     "Names that hold commas stand in a JSON array: '[\"a,b\", \"c\"]'"},
    {"--backend", "NAME", that_run, "the executor that runs the graph: "},
    {"--threads", "N", that_run, "how many threads the executor may use; its own choice when left out"},
    {"--eager", "", that_derive,
     "execute and record one operation after another and run the tape backward, instead of compiling"},
    {"--profile", "FILE", that_derive,
     "with --eager: write what ran when to a file, which chrome://tracing and Perfetto show"},
    {"--stage", "primal|linear|transposed|program", "dump",
     "primal: the graph as it stands (the default)\n"
     "linear: with inputs x.tangent, and the tangents of the outputs after the outputs\n"
     "transposed: with inputs cotangent.0, cotangent.1, ..., and the gradients after the outputs\n"
     "program: as it runs, equal operations merged and dead ones dropped; as text with its memory"},
    {"--format", "text|json|dot|svg|html", "dump",
     "text when left out; svg needs Graphviz; html is one file to look at in a browser"},
    {"--keys", "", "dump", "write the content address of every value, as html always does"},
    {"--format", "text|md|json", "ops", "text when left out"},
};

// The parts of `text` between separators, empty ones too.
std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(separator, from), text.size());
    parts.emplace_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

// The strings of a JSON array, which may hold commas; nothing where the text is something else.
std::optional<std::vector<std::string>> names_in_json(const std::string& text) {
  using detail::JsonTape;
  if (!text.starts_with('[')) return std::nullopt;
  try {
    const JsonTape tape(text);
    std::vector<std::string> names;
    for (auto at = JsonTape::first(JsonTape::root); at != tape.end(JsonTape::root); at = tape.next(at))
      names.emplace_back(tape.expect_string(at, "a name"));
    return names;
  } catch (const Error&) {  // a name that begins with a bracket
    return std::nullopt;
  }
}

std::vector<std::string> names_of(const std::string& text) {
  const auto names = names_in_json(text);
  return names && !names->empty() ? *names : split(text, ',');
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

const Command* find_command(std::string_view name) {
  const auto* found = std::find_if(std::begin(commands), std::end(commands),
                                   [&](const Command& c) { return c.name == name; });
  return found == std::end(commands) ? nullptr : found;
}

const Command& expect_command(const std::string& name) {
  if (const Command* command = find_command(name)) return *command;
  std::vector<std::string_view> names;
  for (const Command& known : commands) names.push_back(known.name);
  refuse(detail::str("expected a command, one of ", detail::list(names), ", got ", detail::in_quotes(name)));
}

std::vector<const Option*> options_of(const Command& command) {
  std::vector<const Option*> taken;
  for (const Option& option : all_options) {
    if (contains(split(option.commands, ' '), command.name)) taken.push_back(&option);
  }
  return taken;
}

const Option& expect_option(const Command& command, const std::string& word) {
  std::vector<std::string_view> names;
  for (const Option* option : options_of(command)) {
    if (option->name == word) return *option;
    names.push_back(option->name);
  }
  refuse(detail::str(command.name, ": expected one of the options ", detail::list(names), ", got ",
                     detail::in_quotes(word)));
}

void set_option(Arguments& arguments, const Option& option, const std::string& value) {
  const std::string_view name = option.name;
  if (option.value.find('|') != std::string_view::npos && !contains(split(option.value, '|'), value)) {
    refuse(detail::str(name, ": expected one of ", detail::list(split(option.value, '|')), ", got ",
                       detail::in_quotes(value)));
  }
  if (name == "--inputs") arguments.inputs_file = value;
  if (name == "--tangents") arguments.tangents_file = value;
  if (name == "--cotangents") arguments.cotangents_file = value;
  if (name == "--mode") arguments.mode = value;
  if (name == "--backend") arguments.backend = value;
  if (name == "--stage") arguments.stage = value;
  if (name == "--format") arguments.format = value;
  if (name == "--keys") arguments.keys = true;
  if (name == "--eager") arguments.eager = true;
  if (name == "--profile") arguments.profile_file = value;
  if (name == "--wrt" || name == "--batched") {
    std::vector<std::string> names = names_of(value);
    if (contains(names, ""))
      refuse(detail::str(name, ": expected names separated by commas, got ", detail::in_quotes(value)));
    (name == "--wrt" ? arguments.wrt : arguments.batched) = std::move(names);
  }
  if (name == "--threads") {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), arguments.threads);
    if (error != std::errc() || end != value.data() + value.size() || arguments.threads < 1 ||
        arguments.threads > 1024) {
      refuse(detail::str("--threads: expected a number from 1 to 1024, got ", detail::in_quotes(value)));
    }
  }
}

// Every file once: standard input can be read but once.
void check_files(const Arguments& arguments) {
  int from_standard_input = arguments.graph_file == "-" ? 1 : 0;
  for (const auto* file : {&arguments.inputs_file, &arguments.tangents_file, &arguments.cotangents_file}) {
    if (file->has_value() && **file == "-") ++from_standard_input;
  }
  if (from_standard_input > 1) {
    refuse(detail::str("expected standard input (-) for one file, got it for ", from_standard_input));
  }
}

void print_indented(std::ostream& out, std::string_view indent, std::string_view text) {
  for (const std::string& line : split(text, '\n')) out << indent << line << '\n';
}

void print_command_help(std::ostream& out, std::string_view program, const Command& command,
                        std::span<const std::string> backends) {
  out << "usage: " << program << ' ' << command.name << ' ' << command.synopsis << "\n\n"
      << command.help << "\n\nprints\n";
  print_indented(out, "  ", command.result);
  out << "\noptions\n";
  for (const Option* option : options_of(command)) {
    out << "  " << option->name << (option->value.empty() ? "" : " ") << option->value
        << (option->required ? "    (required)" : "") << '\n';
    std::string help(option->help);
    if (option->name == "--backend") {
      for (std::size_t i = 0; i < backends.size(); ++i)
        help += (i == 0 ? "" : ", ") + backends[i] + (i == 0 ? " (the default)" : "");
    }
    print_indented(out, "      ", help);
  }
  if (command.name != "ops") out << "\nA file name of - stands for standard input.\n";
}

}  // namespace

Arguments parse_arguments(std::span<const std::string> words) {
  Arguments arguments;
  if (words.empty()) refuse("expected a command, got none (--help tells them)");
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    arguments.help = true;
    if (words.size() > 1) arguments.command = expect_command(words[1]).name;
    return arguments;
  }
  const Command& command = expect_command(words[0]);
  arguments.command = words[0];
  std::optional<std::string> graph_file;
  std::vector<std::string> seen;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      arguments.help = true;
      return arguments;
    }
    if (!word.starts_with("-") || word == "-") {
      if (command.name == "ops") refuse(detail::str("ops: expected no file, got ", detail::in_quotes(word)));
      if (graph_file) {
        refuse(detail::str(command.name, ": expected one graph file, got ", detail::in_quotes(*graph_file),
                           " and ", detail::in_quotes(word)));
      }
      graph_file = word;
      continue;
    }
    const Option& option = expect_option(command, word);
    if (contains(seen, word)) refuse(detail::str(word, ": expected once, got twice"));
    seen.push_back(word);
    if (!option.value.empty() && i + 1 == words.size())
      refuse(detail::str(word, ": expected ", option.value, ", got nothing"));
    set_option(arguments, option, option.value.empty() ? std::string() : words[++i]);
  }
  if (!graph_file && command.name != "ops")
    refuse(detail::str(command.name, ": expected a graph file, got none"));
  for (const Option* option : options_of(command)) {
    if (option->required && !contains(seen, option->name))
      refuse(detail::str(command.name, ": expected ", option->name, ' ', option->value, ", got none"));
  }
  if (arguments.profile_file && !arguments.eager)
    refuse(detail::str(command.name, ": expected --profile together with --eager, got it alone"));
  if (arguments.profile_file == "-")
    refuse("--profile: expected a file, got -: the result goes to standard output");
  arguments.graph_file = graph_file.value_or("");
  check_files(arguments);
  return arguments;
}

void print_help(std::ostream& out, std::string_view program, std::string_view name,
                std::span<const std::string> backends) {
  if (const Command* command = find_command(name))
    return print_command_help(out, program, *command, backends);
  out << "usage: " << program << " COMMAND ...\n\nruns and differentiates graphs that are dumped as JSON\n\n";
  for (const Command& command : commands) {
    out << "  " << program << ' ' << command.name << ' ' << command.synopsis << '\n';
    print_indented(out, "      ", command.help);
  }
  out << "\n`" << program << " COMMAND --help` tells the options and the result of one.\n\n"
      << "A tensor is {\"dtype\": \"f64\", \"shape\": [2], \"data\": [1.5, \"nan\"]}, its data flat in "
         "row-major "
         "order\nor in arrays nested as the shape is, a complex number [re, im]. A derivative is null where "
         "no "
         "path leads to it.\n"
      << "A file name of - stands for standard input. Results go to standard output, errors to standard "
         "error.\n\n"
      << "exit status\n"
         "  0  done\n"
         "  1  a rule or kernel is missing, running failed, or memory ran out\n"
         "  2  something is wrong with arguments, files, types or names\n"
         "  3  check found a fault\n";
}

}  // namespace tidu::cli
