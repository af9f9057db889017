// cond_derivatives.cpp - the JVP of cond and the transpose of the linear cond.
//
// Note [Residuals of branches]: the linear cond of a cond reads the index, and residuals of its branches in
// four ways. Values that depend on no operand are recomputed in the linear branch. An operand is read
// directly. A result of the branch is read as the result of the cond. All others become further results of
// the primal cond. Further results of one type that different branches need share a result, zero if the
// branch taken has none: for each type there are as many as the branch with the most residuals needs. A
// linear branch runs with the residuals of the same primal branch, and reads nothing else.
#include "primitives/cond.hpp"

#include <algorithm>
#include <unordered_map>

#include "tidu/primitives/elementwise.hpp"

namespace tidu::prim {
namespace {

class CondJvp {
 public:
  explicit CondJvp(JvpContext& c)
      : c_(c), branches_(c.op().graphs("branches")), num_outputs_(branches_[0].outputs().size()) {
    std::vector<bool> active;
    for (std::size_t i = 1; i < c.num_operands(); ++i) active.push_back(c.active(i));
    for (const Graph& branch : branches_) inner_.push_back(c.host().linearize(branch, active));
  }

  Derivatives emit() {
    Derivatives result = Derivatives::absent(num_outputs_);
    std::vector<std::size_t> present;  // by result of the linear cond, of the primal one
    for (std::size_t k = 0; k < num_outputs_; ++k) {
      const auto has = [k](const InnerLinearization& inner) {
        return inner.tangent_of_output[k].has_value();
      };
      if (std::any_of(inner_.begin(), inner_.end(), has)) present.push_back(k);
    }
    if (present.empty()) return result;
    find_places();
    save_residuals();

    CondBuilder builder(linear_branches());
    add_residuals(builder);
    for (std::size_t i = 1; i < c_.num_operands(); ++i) {
      if (!c_.active(i)) continue;
      const std::vector<Value> inputs = builder.add(detail::str("tangent.", i - 1), *c_.tangent(i));
      for (std::size_t b = 0; b < inputs.size(); ++b) arguments_[b].push_back(inputs[b]);
    }
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      const Graph& linear = inner_[b].linear;
      const std::vector<Value> values = inline_graph(builder.branch(b), linear, arguments_[b]);
      for (const std::size_t k : present) {
        const std::optional<std::size_t>& at = inner_[b].tangent_of_output[k];
        if (at)
          builder.add_output(b, values[linear.outputs()[*at]]);
        else
          builder.add_zero(b, type_of_output(k));
      }
    }
    const Values tangents = builder.emit(c_.primal(0));
    for (std::size_t j = 0; j < present.size(); ++j) result.set(present[j], tangents[j]);
    return result;
  }

 private:
  /// The source of a residual of a linear branch.
  struct ResidualSource {
    enum class Kind : std::uint8_t { constant, operand, result, handed_out };
    Kind kind = Kind::constant;
    std::size_t index = 0;  // of the operand, the result, or the further result
  };
  /// A further result of the primal cond.
  struct Further {
    Type type;
    std::vector<ValueId> values;  // by branch; no_index: zero
  };

  Type type_of_output(std::size_t k) const { return branches_[0].type(branches_[0].outputs()[k]); }
  ValueId residual(std::size_t b, std::size_t r) const {
    return inner_[b].primal.outputs()[num_outputs_ + r];
  }
  std::vector<Graph> linear_branches() const {
    std::vector<Graph> graphs;
    for (const InnerLinearization& inner : inner_) graphs.push_back(inner.linear);
    return graphs;
  }

  // See Note [Residuals of branches].
  void find_places() {
    sources_.resize(branches_.size());
    used_.resize(branches_.size());
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      const Graph& primal = inner_[b].primal;
      const std::vector<bool> depends = depending_on(primal, std::vector<bool>(primal.inputs().size(), true));
      std::vector<ResidualSource> known(primal.num_values());
      for (std::size_t k = num_outputs_; k-- > 0;)
        known[primal.outputs()[k]] = {ResidualSource::Kind::result, k};
      for (std::size_t i = primal.inputs().size(); i-- > 0;)
        known[primal.inputs()[i]] = {ResidualSource::Kind::operand, i + 1};
      for (std::size_t r = 0; r < inner_[b].num_residuals; ++r) {
        ResidualSource& source = known[residual(b, r)];
        if (!depends[residual(b, r)])
          source = ResidualSource();
        else if (source.kind == ResidualSource::Kind::constant)
          source = {ResidualSource::Kind::handed_out, add_further(b, residual(b, r))};
        sources_[b].push_back(source);
      }
    }
  }

  // Shares a further result of another branch, if it has this type.
  std::size_t add_further(std::size_t b, ValueId id) {
    const Type type = inner_[b].primal.type(id);
    std::vector<std::size_t>& of_type = further_of_type_[type.identity()];
    std::size_t& used = used_[b][type.identity()];
    if (used == of_type.size()) {
      of_type.push_back(further_.size());
      further_.push_back({type, std::vector<ValueId>(branches_.size(), no_index)});
    }
    const std::size_t index = of_type[used++];
    further_[index].values[b] = id;
    return index;
  }

  // Replaces the primal cond by one whose results the linear cond can read.
  void save_residuals() {
    bool any = false;
    for (const std::vector<ResidualSource>& sources : sources_) {
      for (const ResidualSource& source : sources)
        any = any || source.kind == ResidualSource::Kind::result ||
              source.kind == ResidualSource::Kind::handed_out;
    }
    if (!any) return;
    std::vector<Graph> graphs;
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      const Graph& primal = inner_[b].primal;
      GraphBuilder builder(primal.name(), primal.primitives());
      std::vector<Value> inputs;
      for (std::size_t i = 0; i < primal.inputs().size(); ++i) {
        const ValueId id = primal.inputs()[i];
        inputs.push_back(builder.input(primal.input_key(i), primal.type(id), primal.label(id)));
      }
      const std::vector<Value> values = inline_graph(builder, primal, inputs);
      std::vector<Value> outputs;
      for (std::size_t k = 0; k < num_outputs_; ++k) outputs.push_back(values[primal.outputs()[k]]);
      for (const Further& each : further_)
        outputs.push_back(each.values[b] == no_index ? zeros(builder, each.type) : values[each.values[b]]);
      graphs.push_back(prune(builder.build(outputs)));
    }
    results_ = ops::cond(c_.primal(0), graphs, c_.primals().subspan(1));
    c_.host().replace_results(std::span<const Value>(results_.data(), num_outputs_));
  }

  // Each operand of the linear cond once, whichever branches read it.
  void add_residuals(CondBuilder& builder) {
    std::vector<std::vector<Value>> operands(c_.num_operands()), results(num_outputs_ + further_.size());
    arguments_.resize(branches_.size());
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      const std::vector<Value> constants = constant_residuals(b, builder.branch(b));
      auto next_constant = constants.begin();
      for (std::size_t r = 0; r < sources_[b].size(); ++r) {
        const ResidualSource& source = sources_[b][r];
        if (source.kind == ResidualSource::Kind::constant) {
          arguments_[b].push_back(*next_constant++);
          continue;
        }
        const bool is_operand = source.kind == ResidualSource::Kind::operand;
        const std::size_t at =
            source.kind == ResidualSource::Kind::handed_out ? num_outputs_ + source.index : source.index;
        std::vector<Value>& inputs = (is_operand ? operands : results)[at];
        if (inputs.empty()) {
          inputs = builder.add(detail::str(is_operand ? "operand." : "residual.", at),
                               is_operand ? c_.primal(at) : results_[at]);
        }
        arguments_[b].push_back(inputs[b]);
      }
    }
  }

  // Constant residuals of the primal branch, in the order of its residuals.
  std::vector<Value> constant_residuals(std::size_t b, GraphBuilder& builder) const {
    const Graph& primal = inner_[b].primal;
    std::vector<ValueId> wanted;
    for (std::size_t r = 0; r < sources_[b].size(); ++r) {
      if (sources_[b][r].kind == ResidualSource::Kind::constant) wanted.push_back(residual(b, r));
    }
    return outputs_given(builder, primal, std::vector<Value>(primal.inputs().size()), wanted);
  }

  JvpContext& c_;
  std::vector<Graph> branches_;
  std::size_t num_outputs_;
  std::vector<InnerLinearization> inner_;             // by branch
  std::vector<std::vector<ResidualSource>> sources_;  // by branch and residual
  std::unordered_map<const void*, std::vector<std::size_t>> further_of_type_;
  std::vector<std::unordered_map<const void*, std::size_t>> used_;  // by branch: how many of each type
  std::vector<Further> further_;               // results of the primal cond after its own
  Values results_;                             // of that cond
  std::vector<std::vector<Value>> arguments_;  // by branch and input of its linear graph
};

}  // namespace

Derivatives jvp_cond(JvpContext& c) { return CondJvp(c).emit(); }

// ct_x = transpose(branches[index])(ct_y), zero where another branch has one
Derivatives transpose_cond(TransposeContext& c) {
  const std::vector<Graph> branches = c.op().graphs("branches");
  const std::size_t num_inputs = c.num_operands() - 1;
  std::vector<bool> linear;
  for (std::size_t i = 0; i < num_inputs; ++i) linear.push_back(c.linear(i + 1));

  struct Transposed {
    InnerTransposition inner;          // of the branch, reduced to the part that depends on linear inputs
    std::vector<std::size_t> outputs;  // these, with a cotangent
  };
  std::vector<Transposed> transposed(branches.size());
  std::vector<bool> present(num_inputs, false);
  std::vector<Graph> named;
  for (std::size_t b = 0; b < branches.size(); ++b) {
    const Graph& branch = branches[b];
    Transposed& of_branch = transposed[b];
    const std::vector<bool> depends = depending_on(branch, linear);
    for (std::size_t k = 0; k < branch.outputs().size(); ++k) {
      const ValueId id = branch.outputs()[k];
      if (depends[id] && is_inexact(branch.type(id).dtype()) && c.cotangent(k))
        of_branch.outputs.push_back(k);
    }
    named.push_back(branch);
    if (of_branch.outputs.empty()) continue;
    const std::size_t count = of_branch.outputs.size();
    const Graph wanted = restricted(branch, std::vector<bool>(num_inputs, true), of_branch.outputs);
    of_branch.inner = c.host().transpose(separated(wanted, linear), linear, std::vector<bool>(count, true));
    for (std::size_t i = 0; i < num_inputs; ++i)
      present[i] = present[i] || of_branch.inner.cotangent_of_input[i].has_value();
  }

  CondBuilder builder(named);
  std::vector<std::vector<Value>> residuals(num_inputs), cotangents(c.num_results());
  for (std::size_t i = 0; i < num_inputs; ++i) {
    if (!linear[i]) residuals[i] = builder.add(detail::str("residual.", i), c.operand(i + 1));
  }
  for (std::size_t k = 0; k < c.num_results(); ++k) {
    if (c.cotangent(k)) cotangents[k] = builder.add(detail::str("cotangent.", k), *c.cotangent(k));
  }
  Derivatives result = Derivatives::absent(c.num_operands());
  if (std::none_of(present.begin(), present.end(), [](bool each) { return each; })) return result;
  for (std::size_t b = 0; b < branches.size(); ++b) {
    const Transposed& of_branch = transposed[b];
    std::vector<Value> inputs, values;
    if (!of_branch.outputs.empty()) {
      for (std::size_t i = 0; i < num_inputs; ++i) {
        if (!linear[i]) inputs.push_back(residuals[i][b]);
      }
      for (const std::size_t k : of_branch.outputs) inputs.push_back(cotangents[k][b]);
      values = inline_graph(builder.branch(b), of_branch.inner.graph, inputs);
    }
    for (std::size_t i = 0; i < num_inputs; ++i) {
      if (!present[i]) continue;
      const bool has = !of_branch.outputs.empty() && of_branch.inner.cotangent_of_input[i];
      if (has)
        builder.add_output(b,
                           values[of_branch.inner.graph.outputs()[*of_branch.inner.cotangent_of_input[i]]]);
      else
        builder.add_zero(b, c.operand_type(i + 1));
    }
  }
  const Values results = builder.emit(c.operand(0));
  std::size_t next = 0;
  for (std::size_t i = 0; i < num_inputs; ++i) {
    if (present[i]) result.set(i + 1, results[next++]);
  }
  return result;
}

}  // namespace tidu::prim
