// executor_kit_untested.cpp - the parts that a run of the executor kit did not test, as notes of the report:
// whole checks, dtypes, primitives of the executor that occur in no graph, and methods that the kit never
// calls.
#include <algorithm>
#include <set>

#include "check/executor_kit.hpp"
#include "primitives/inner_graphs.hpp"

namespace tidu::check {
namespace {

using detail::str;

struct Seen {
  std::set<DType> dtypes;
  std::vector<PrimitiveSet> sets;
  std::set<const Primitive*> primitives;
};

Seen seen_in(const std::vector<const std::vector<Trial>*>& all) {
  Seen seen;
  for (const std::vector<Trial>* trials : all) {
    for (const Trial& trial : *trials) {
      const Graph& graph = trial.graph.graph();
      if (std::find(seen.sets.begin(), seen.sets.end(), graph.primitives()) == seen.sets.end())
        seen.sets.push_back(graph.primitives());
      for (const Type type : graph.data().types) seen.dtypes.insert(type.dtype());
      prim::visit_operations(graph, [&](const Operation& operation, const Graph&) {
        seen.primitives.insert(&operation.primitive());
      });
    }
  }
  return seen;
}

// The standard primitives that an executor has which says nothing of them are those of the oracle.
void note_primitives(Kit& kit, const Seen& seen) {
  std::set<std::string_view> missing;
  for (const PrimitiveSet& set : seen.sets) {
    for (const Primitive* primitive : set.primitives()) {
      const bool has = std::any_of(seen.dtypes.begin(), seen.dtypes.end(),
                                   [&](DType dtype) { return kit.usable(*primitive, dtype); });
      if (has && !seen.primitives.contains(primitive)) missing.insert(primitive->name);
    }
  }
  if (missing.empty()) return;
  std::string names;
  for (const std::string_view name : missing) names += str(names.empty() ? "" : ", ", name);
  kit.log.note(str("primitives: ", missing.size(), " not tested, which stand in no graph: ", names,
                   " (more_graphs takes graphs of them)"));
}

void note_dtypes(Kit& kit, const Seen& seen) {
  std::string names;
  for (const DType dtype : {bool_, i32, i64, f16, bf16, f32, f64, c64, c128})
    if (!seen.dtypes.contains(dtype)) names += str(names.empty() ? "" : ", ", dtype);
  if (!names.empty()) kit.log.note(str("dtypes: not tested, as values of no graph: ", names));
}

}  // namespace

void note_untested(Kit& kit, const ExecutorReport& report) {
  if (kit.options.dtypes.empty())
    kit.log.note("random graphs and those of the kit: not tested, for options.dtypes is empty");
  for (std::size_t i = 0; i < num_executor_checks; ++i) {
    const auto check = static_cast<ExecutorCheck>(i);
    const std::string text = str(to_string(check), ": not tested");
    const bool said = std::any_of(report.notes.begin(), report.notes.end(),
                                  [&](const std::string& note) { return note.starts_with(text); });
    if (report.tested[i] == 0 && !said) kit.log.note(text);
  }
  const Seen seen = seen_in({&kit.forward, &kit.transposed});
  note_dtypes(kit, seen);
  note_primitives(kit, seen);
  kit.log.note("statistics, placements, streams and thread states, and what calls cost: never tested");
}

}  // namespace tidu::check
