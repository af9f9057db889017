// primitives.cpp - every row of the table, in every dtype, for every subset of its floating and complex
// operands: jvp against differences, vjp against jvp, linearity, transposed twice, batch against a loop, to
// second order; and that no primitive of the standard set lacks anything.
#include <algorithm>
#include <bit>

#include "check/helpers.hpp"
#include "check/level.hpp"
#include "primitive_table.hpp"
#include "support/support.hpp"
#include "tidu/cpu/executor.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

CheckOptions options_for(const Row& row, const Graph& graph) {
  CheckOptions options;
  options.directions = 2;
  double epsilon = 0.0;
  for (const Type& type : graph.data().types) epsilon = std::max(epsilon, check::epsilon_of(type.dtype()));
  options.rounding_tolerance = row.tolerance * (epsilon > 1e-10 ? 1e-4 : 1e-12);
  options.difference_tolerance = row.tolerance * (epsilon > 1e-10 ? 2e-3 : 1e-8);
  return options;
}

std::string failures(const check::LevelResult& result) {
  std::string text;
  for (std::size_t k = 0; k < num_check_kinds; ++k) {
    if (result.failed[k])
      text += detail::str(describe(static_cast<CheckKind>(k)), " by ", result.failed[k]->error, "; ");
  }
  for (const std::string& note : result.notes) text += note;
  return text;
}

void test_row(const Row& row, DType dtype, std::uint64_t seed) {
  check::Subject subject = subject_of(row, dtype, seed, standard_primitives());
  const std::vector<std::size_t> inexact = check::inexact_inputs(subject.graph);
  const CheckOptions options = options_for(row, subject.graph);
  std::size_t judged = 0;
  for (std::size_t mask = 0; mask < (std::size_t{1} << inexact.size()); ++mask) {
    subject.wrt.clear();
    for (std::size_t i = 0; i < inexact.size(); ++i) {
      if ((mask >> i & 1U) != 0) subject.wrt.push_back(inexact[i]);
    }
    std::vector<check::Level> levels{{subject, check::difference_function(subject, reference())}};
    for (int order = 1; order <= row.order && !levels.empty(); ++order) {
      std::vector<check::Level> next;
      for (const check::Level& one : levels) {
        const check::LevelResult result = check::check_level(one.subject, one.function, reference(), options);
        const std::string text = failures(result);
        judged += result.comparisons[check::index(CheckKind::differences)];
        CHECK_MESSAGE(text.empty(), describe(row, dtype), ", by operands ", detail::list(subject.wrt),
                      ", order ", order, ": ", text);
        if (order < row.order) {
          std::vector<std::string> notes;
          for (check::Level& derived : check::next_order(one, seed, notes))
            next.push_back(std::move(derived));
          CHECK(notes.empty());
        }
      }
      levels = std::move(next);
    }
  }
  // At ties and bounds there is no derivative for differences to find; elsewhere they must have had a say.
  const bool kinks = row.note == "ties" || row.note == "at zero" || row.note == "at the bounds";
  CHECK((inexact.empty() || kinks || judged > 0));
}

bool needs_transpose(const Primitive& primitive) { return primitive.linearity.kind != Linearity::Kind::none; }

}  // namespace

TEST_CASE("[C8] primitives: derivatives and batch rules of every row") {
  for (const Row& row : primitive_table()) {
    for (const DType dtype : row.dtypes) {
      if (test::shortened() && dtype != row.dtypes.front()) continue;
      INFO(describe(row, dtype));
      CHECK_NOTHROW(test_row(row, dtype, 11));
    }
  }
}

TEST_CASE("[C11] primitives: nothing of a primitive is missing") {
  const std::vector<Row>& table = primitive_table();
  for (const Primitive* primitive : standard_primitives().primitives()) {
    INFO(primitive->name);
    std::vector<const Row*> rows;
    for (const Row& row : table) {
      if (row.primitive == primitive->name) rows.push_back(&row);
    }
    CHECK_MESSAGE(!rows.empty(), "no row in the table");
    CHECK_MESSAGE((primitive->infer != nullptr), "no type rule");
    CHECK_MESSAGE(
        (primitive->differentiable() || primitive->has_trait(Trait::no_tangent) || primitive->arity == 0),
        "neither a jvp nor the trait no_tangent");
    CHECK_MESSAGE((!needs_transpose(*primitive) || primitive->transpose != nullptr),
                  "linear without a transpose");
    CHECK_MESSAGE((primitive->batch != nullptr || primitive->arity == 0), "no batch rule");
    for (const Row* row : rows) {
      for (const DType dtype : row->dtypes) {
        INFO(describe(*row, dtype));
        CHECK_MESSAGE(reference().supports(*primitive, dtype), "no reference kernel");
        CHECK_MESSAGE(cpu().supports(*primitive, dtype), "no CPU kernel");
      }
    }
  }
  for (const Row& row : table)
    CHECK_MESSAGE(standard_primitives().find(row.primitive) != nullptr,
                  "a row of no primitive: ", row.primitive);
}
