// main.cpp - the program tidu_workloads: runs a workload and prints its time, or, for bench/run.py, serves
// requests to prepare and measure workloads, one a line.
#include <sched.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/arguments.hpp"
#include "common/program.hpp"
#include "workload.hpp"

namespace {

using nlohmann::json;
using tidu::Tensor;
using workloads::Registry;
using workloads::Setting;
using workloads::Workload;
using Clock = std::chrono::steady_clock;

constexpr const char* usage =
    R"(usage: tidu_workloads WORKLOAD [options]     times of tidu and of the bound by hand
       tidu_workloads --list                 the workloads; file:DUMP is one, too: a graph with its inputs, as
                                             NAME.graph.json beside NAME.inputs.json, or one file with both
       tidu_workloads --serve [options]      requests from standard input, one a line; an answer in JSON to each:
                                             prepare WORKLOAD, tidu SECONDS, bound SECONDS, apart
  --inputs DIR    where the files of inputs are, which bench/inputs.py writes; default: build/bench/inputs
  --threads N     threads that tidu and the bound may use; default 1
  --without NAMES leaves rewrites of the CPU executor out, with commas between them: those of tidu/cpu/passes.hpp,
                  merge_loops, offset_views, tiling, in_place or fuse
  --device cuda   runs on a device instead of the CPU
  --seconds S     how long to measure each; default 1
  --json          print the times as JSON
  --alone         without the bound, for a profiler
  --program       print the program that runs, and measure nothing
  --steps         on a device: how long each step takes there, and nothing else
)";

// The maximum growth of the process during the run, in bytes, as Linux counts it, without code and other
// files that were read for the first time; nothing on other systems.
std::optional<double> measured_peak(const std::function<void()>& run) {
#ifdef __GLIBC__
  const auto kilobytes = [](const std::string& of) -> std::optional<double> {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind(of + ':', 0) == 0) return std::stod(line.substr(of.size() + 1));
    }
    return std::nullopt;
  };
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;  // the highest size begins anew
  const std::optional<double> before = kilobytes("VmRSS"), files = kilobytes("RssFile");
  run();
  const std::optional<double> highest = kilobytes("VmHWM"), more_files = kilobytes("RssFile");
  if (before && files && highest && more_files) return (*highest - *before - (*more_files - *files)) * 1024;
#else
  run();
#endif
  return std::nullopt;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Times of a run in microseconds: runs of a few microseconds are timed many at once, those on a device until
// the last of them is done there, or until it was put there.
json measure(const std::function<void()>& run, double seconds, const Workload& of) {
  const bool on_device = static_cast<bool>(of.finish);
  const double least = on_device ? 2e-3 : 50e-6;  // seconds of a sample
  constexpr std::size_t fewest = 3, most = 200'000;
  constexpr long max_waiting = 50;  // runs on a device that none has to wait for
  const auto timed = [&](long count) {
    if (of.before) of.before(count);
    const auto start = Clock::now();
    for (long i = 0; i < count; ++i) run();
    if (on_device && !of.issuing) of.finish();
    const double taken = seconds_since(start);
    if (on_device) of.finish();
    return taken;
  };
  for (int i = 0; i < (on_device ? 5 : 1); ++i) timed(1);  // captured from the second run on
  long at_once = of.issuing ? max_waiting : 1;
  while (!of.issuing) {
    const double taken = timed(at_once);
    if (taken >= least || at_once >= 100'000) break;
    at_once = taken <= 0 ? at_once * 10
                         : std::max(at_once + 1,
                                    static_cast<long>(static_cast<double>(at_once) * 1.2 * least / taken));
  }
  std::vector<double> samples;
  for (const auto start = Clock::now();
       samples.size() < fewest || (seconds_since(start) < seconds && samples.size() < most);) {
    samples.push_back(timed(at_once) * 1e6 / static_cast<double>(at_once));
  }
  std::ranges::sort(samples);
  return {{"median", samples[samples.size() / 2]},
          {"min", samples.front()},
          {"runs", static_cast<long>(samples.size()) * at_once}};
}

// The distance of two processors: the nanoseconds in which a word goes from one thread to another and back,
// in most cases.
json apart() {
  constexpr long trips = 20'000;
  alignas(128) std::atomic<long> word{0};
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  const int here = sched_getcpu();
  cpu_set_t one = allowed, others = allowed;
  if (here >= 0 && CPU_COUNT(&allowed) > 1) {
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(here), &one);
    CPU_CLR(static_cast<std::size_t>(here), &others);
  }
  std::thread other([&] {
    sched_setaffinity(0, sizeof others, &others);
    for (long i = 0; i < trips; ++i) {
      while (word.load() != 2 * i + 1) {
      }
      word.store(2 * i + 2);
    }
  });
  sched_setaffinity(0, sizeof one, &one);
  std::vector<double> times;
  for (long i = 0; i < trips; ++i) {
    const auto start = Clock::now();
    word.store(2 * i + 1);
    while (word.load() != 2 * i + 2) {
    }
    times.push_back(seconds_since(start) * 1e9);
  }
  other.join();
  sched_setaffinity(0, sizeof allowed, &allowed);
  std::ranges::sort(times);
  return {{"apart_ns", times[times.size() / 2]}};
}

// To so many of those that the process may run on.
void keep_to_processors(int count) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(static_cast<std::size_t>(i), &allowed) && count-- <= 0)
      CPU_CLR(static_cast<std::size_t>(i), &allowed);
  }
  sched_setaffinity(0, sizeof allowed, &allowed);
}

// The fastest of the bounds.
json measure_bound(const Workload& workload, double seconds) {
  const std::function<void()>* best = nullptr;
  double least = 0;
  for (const auto& bound : workload.bounds) {
    const double time =
        workload.bounds.size() == 1 ? 0 : measure(bound, seconds / 4, workload).at("median").get<double>();
    if (best == nullptr || time < least) {
      best = &bound;
      least = time;
    }
  }
  return best == nullptr ? json() : measure(*best, seconds, workload);
}

// Checks to compare results by: the size, sum and norm of each, and its sum weighted by cos(position); for
// results with more than 2^23 elements a regular sample.
json checks(const std::vector<Tensor>& results) {
  json all = json::array();
  for (const Tensor& tensor : results) {
    double sum = 0, squares = 0, weighted = 0;
    const auto add = [&](auto elements) {
      const std::size_t stride = std::max<std::size_t>(1, elements.size() >> 22U);
      for (std::size_t i = 0; i < elements.size(); i += stride) {
        const auto element = static_cast<double>(elements[i]);
        sum += element;
        squares += element * element;
        weighted += element * std::cos(static_cast<double>(i));
      }
    };
    if (tensor.dtype() == tidu::f32) {
      add(tensor.elements<float>());
    } else {
      add(tensor.elements<double>());
    }
    // One that is not finite would pass for none in JSON.
    if (!std::isfinite(sum) || !std::isfinite(squares) || !std::isfinite(weighted))
      throw std::runtime_error("expected results that are finite, got others");
    all.push_back({tensor.size(), sum, std::sqrt(squares), weighted});
  }
  return all;
}

Workload make(const Registry& registry, const std::string& name, const Setting& setting) {
  constexpr std::string_view file = "file:";
  if (name.starts_with(file)) return workloads::of_file(name.substr(file.size()), setting);
  const auto found = registry.find(name);
  if (found == registry.end()) throw std::runtime_error("expected a workload that --list names, got " + name);
  Workload workload = found->second(setting);
  // Workloads written by hand are for the CPU.
  if (setting.gpu != nullptr && !name.starts_with("chain/") && !name.starts_with("elementwise10/"))
    workload.bounds.clear();
  return workload;
}

// ProgramOptions without these rewrites.
tidu::ProgramOptions without(const std::string& names) {
  tidu::ProgramOptions options;
  const std::pair<const char*, bool*> others[] = {{"merge_loops", &options.merge_loops},
                                                  {"offset_views", &options.offset_views},
                                                  {"tiling", &options.block},
                                                  {"in_place", &options.in_place},
                                                  {"fuse", &options.fuse}};
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    const auto other = std::find_if(std::begin(others), std::end(others),
                                    [&](const auto& each) { return each.first == name; });
    const std::optional<tidu::CpuPass> pass = tidu::cpu_pass_of(name);
    if (other != std::end(others)) {
      *other->second = false;
    } else if (pass) {
      options.passes = options.passes.without(*pass);
    } else {
      throw std::runtime_error("expected a rewrite that --help names behind --without, got " + name);
    }
  }
  return options;
}

json answer(const Registry& registry, const Setting& setting, Workload& workload, const std::string& line) {
  std::istringstream words(line);
  std::string request, argument;
  words >> request >> argument;
  if (request == "prepare") {
    const auto start = Clock::now();
    workload = make(registry, argument, setting);
    const double prepared = seconds_since(start);
    const std::vector<Tensor> results = workload.results();
    json reply{{"prepare_s", prepared},
               {"checks", checks(results)},
               {"has_bound", !workload.bounds.empty()},
               {"peak_bytes", workload.peak_bytes}};
    if (setting.gpu != nullptr) workloads::expect_same(workload.results(), results);
    return reply;
  }
  if (request == "apart") return apart();
  if (!workload.run) throw std::runtime_error("expected a request to prepare a workload first, got " + line);
  if (request == "tidu") return measure(workload.run, std::stod(argument), workload);
  if (request == "bound") return measure_bound(workload, std::stod(argument));
  throw std::runtime_error("expected prepare, tidu, bound or apart, got " + line);
}

int serve(const Registry& registry, const Setting& setting) {
  Workload workload;
  for (std::string line; std::getline(std::cin, line);) {
    json reply;
    try {
      reply = answer(registry, setting, workload, line);
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    std::cout << reply.dump() << std::endl;
  }
  return examples::exit_good;
}

int run(const examples::Arguments& arguments) {
  Registry registry;
  workloads::add_gmm(registry);
  workloads::add_adbench(registry);
  workloads::add_training(registry);
  workloads::add_transformer(registry);
  workloads::add_elementwise(registry);
  workloads::add_calls(registry);
  workloads::add_device(registry);
  const Setting setting{
      .program = without(arguments.text("--without", "")),
      .inputs = arguments.text("--inputs", "build/bench/inputs"),
      .threads = static_cast<int>(arguments.integer("--threads", 1, 1, 1024)),
      .gpu = arguments.text("--device", "").empty()
                 ? nullptr
                 : workloads::find_device(arguments.text("--device", ""), arguments.has("--steps"))};
  if (arguments.has("--list")) {
    for (const auto& [name, workload] : registry) std::cout << name << '\n';
    return examples::exit_good;
  }
  // Programs that take as many threads as there are processors.
  if (setting.gpu == nullptr) keep_to_processors(setting.threads);
  if (arguments.has("--serve")) return serve(registry, setting);
  if (arguments.words().size() != 1)
    throw std::runtime_error("expected the name of one workload; --help tells more");

  const std::string& name = arguments.words()[0];
  const double seconds = std::stod(arguments.text("--seconds", "1"));
  const Workload workload = make(registry, name, setting);
  if (arguments.has("--program")) {
    if (workload.text) std::cout << workload.text();
    return examples::exit_good;
  }
  if (arguments.has("--steps")) {
    if (setting.gpu == nullptr) throw std::runtime_error("expected --steps with --device cuda, got none");
    workloads::print_steps(workload, *setting.gpu);
    return examples::exit_good;
  }
  // Another one has memory that libraries keep for good from their first call on: generated code, threads.
  if (setting.gpu == nullptr) {
    workloads::Setting first = setting;
    first.own_memory = true;
    make(registry, name, first).run();
  }
  const std::optional<double> peak = measured_peak(workload.run);
  const json tidu = measure(workload.run, seconds, workload);
  const json bound = arguments.has("--alone") ? json() : measure_bound(workload, seconds);
  if (arguments.has("--json")) {
    std::cout
        << json{{"workload", name}, {"threads", setting.threads}, {"tidu", tidu}, {"bound", bound}}.dump(2)
        << '\n';
    return examples::exit_good;
  }
  const auto print = [](const char* what, const json& times) {
    if (times.is_null()) return;
    std::printf("%-6s %12.2f us median, %12.2f us least, %ld runs\n", what, times.at("median").get<double>(),
                times.at("min").get<double>(), times.at("runs").get<long>());
  };
  std::printf("%s, threads: %d, predicted peak: %.2f MiB", name.c_str(), setting.threads,
              static_cast<double>(workload.peak_bytes) / 1048576);
  if (peak) std::printf(", the process grew by %.2f MiB in its first run", *peak / 1048576);
  std::printf("\n");
  print("tidu", tidu);
  print("bound", bound);
  return examples::exit_good;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("tidu_workloads", usage, argc, argv, [&] {
    return run(examples::Arguments(argc, argv,
                                   {"--inputs", "--threads", "--seconds", "--device", "--without"},
                                   {"--list", "--serve", "--json", "--program", "--alone", "--steps"}));
  });
}
