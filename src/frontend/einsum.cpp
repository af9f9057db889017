// einsum.cpp - einsum and tensordot: sums of products over named axes, all by dot_general. einsum takes its
// operands from left to right. An axis that occurs in one operand only, and not in the result, is summed at
// once. Common axes of a pair that do not occur later are contracted, and those that do are a batch.
#include <algorithm>
#include <cstring>

#include "frontend/broadcast.hpp"
#include "primitives/matrices.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {
namespace {

using frontend_detail::convert;
using frontend_detail::dot_general;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::normal_axis;
using frontend_detail::promoted;
using frontend_detail::rank_of;
using frontend_detail::refuse;
using frontend_detail::require_value;

// An axis by name: a letter, or 1000 + its distance from the end of the axes of "...".
using Label = std::int64_t;
using Labels = std::vector<Label>;
constexpr Label ellipsis = 1000;

bool has(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}
std::int64_t place(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}
std::string name_of(Label label) {
  return label >= ellipsis ? std::string("...") : std::string(1, static_cast<char>(label));
}

struct Spec {
  std::vector<Labels> operands;
  Labels result;
};

class Parser {
 public:
  Parser(std::string_view spec, std::span<const Array> operands, Where where)
      : spec_(spec), operands_(operands), where_(where) {}

  Spec parse() {
    std::string text;
    for (const char c : spec_)
      if (c != ' ') text += c;
    const std::size_t arrow = text.find("->");
    const std::string left = text.substr(0, arrow);
    Spec spec;
    for (std::size_t begin = 0; begin <= left.size();) {
      const std::size_t end = std::min(left.find(',', begin), left.size());
      terms_.push_back(left.substr(begin, end - begin));
      begin = end + 1;
    }
    if (terms_.size() != operands_.size())
      fail(detail::str("expected ", terms_.size(), " operands, got ", operands_.size()));
    for (std::size_t i = 0; i < terms_.size(); ++i) spec.operands.push_back(of_operand(i));
    spec.result =
        arrow == std::string::npos ? implicit(spec.operands) : explicit_result(text.substr(arrow + 2));
    for (std::size_t i = 0; i < spec.result.size(); ++i) {
      const Label label = spec.result[i];
      if (std::none_of(spec.operands.begin(), spec.operands.end(),
                       [&](const Labels& labels) { return has(labels, label); }))
        fail(detail::str("expected axes of operands in the result, got ", detail::in_quotes(name_of(label))));
      if (place(spec.result, label) != static_cast<std::int64_t>(i))
        fail(detail::str("expected each axis once in the result, got ", detail::in_quotes(name_of(label)),
                         " twice"));
    }
    return spec;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    refuse(ErrorKind::invalid_argument, "einsum", detail::str(message, " in ", detail::in_quotes(spec_)),
           where_);
  }

  // The labels of a term, where "..." stands for `more` axes.
  Labels labels_of(const std::string& term, std::int64_t more) const {
    Labels labels;
    for (std::size_t i = 0; i < term.size(); ++i) {
      const char c = term[i];
      if (term.compare(i, 3, "...") == 0 && !std::any_of(labels.begin(), labels.end(), is_ellipsis)) {
        for (std::int64_t k = more; k > 0; --k) labels.push_back(ellipsis + k - 1);
        i += 2;
      } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        labels.push_back(c);
      } else {
        fail(detail::str("expected letters, \",\", \"->\" and \"...\", got ",
                         detail::in_quotes(term.substr(i))));
      }
    }
    return labels;
  }

  Labels of_operand(std::size_t i) {
    require_value(operands_[i], "einsum", where_);
    const Type type = operands_[i].type();
    const std::int64_t letters = static_cast<std::int64_t>(labels_of(terms_[i], 0).size());
    const std::int64_t more = static_cast<std::int64_t>(type.rank()) - letters;
    const bool open = terms_[i].find("...") != std::string::npos;
    if (more < 0 || (more > 0 && !open)) {
      fail(detail::str("expected ", open ? "at least " : "", letters, " axes as ",
                       detail::in_quotes(terms_[i]), " has for operand ", i, ", got ", type));
    }
    most_ = std::max(most_, open ? more : 0);
    return labels_of(terms_[i], more);
  }

  Labels explicit_result(const std::string& term) const { return labels_of(term, most_); }

  Labels implicit(const std::vector<Labels>& operands) const {
    Labels all, result;
    for (const Labels& labels : operands) all.insert(all.end(), labels.begin(), labels.end());
    for (std::int64_t k = most_; k > 0; --k) result.push_back(ellipsis + k - 1);
    Labels once;
    for (const Label label : all)
      if (!is_ellipsis(label) && std::count(all.begin(), all.end(), label) == 1) once.push_back(label);
    std::sort(once.begin(), once.end());
    result.insert(result.end(), once.begin(), once.end());
    return result;
  }

  static bool is_ellipsis(Label label) { return label >= ellipsis; }

  std::string_view spec_;
  std::span<const Array> operands_;
  Where where_;
  std::vector<std::string> terms_{};
  std::int64_t most_ = 0;
};

// A value whose axes have names.
struct Named {
  Value value;
  Labels labels;
};

Ints positions(const Labels& labels, const Labels& wanted) {
  Ints axes;
  for (const Label label : wanted) axes.push_back(place(labels, label));
  return axes;
}

Value permuted(Value x, const Ints& order) {
  return std::is_sorted(order.begin(), order.end()) ? x : ops::transpose(x, order);
}

// The diagonal of axes of one name, as the last axis.
Named without_repetition(Named x) {
  for (std::size_t i = 0; i < x.labels.size();) {
    const auto again =
        std::find(x.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, x.labels.end(), x.labels[i]);
    if (again == x.labels.end()) {
      ++i;
      continue;
    }
    const Label label = x.labels[i];
    const std::int64_t second = again - x.labels.begin();
    Ints order;
    Labels rest;
    for (std::size_t k = 0; k < x.labels.size(); ++k) {
      if (k == i || static_cast<std::int64_t>(k) == second) continue;
      order.push_back(static_cast<std::int64_t>(k));
      rest.push_back(x.labels[k]);
    }
    order.insert(order.end(), {static_cast<std::int64_t>(i), second});
    rest.push_back(label);
    x = {prim::diagonal(permuted(x.value, order)), rest};
    i = 0;
  }
  return x;
}

// Axes that are broadcast are left away.
Named without_ones(Named x, const std::vector<std::pair<Label, std::int64_t>>& extents) {
  Ints ones;
  Labels rest;
  for (std::size_t k = 0; k < x.labels.size(); ++k) {
    const auto extent = std::find_if(extents.begin(), extents.end(),
                                     [&](const auto& entry) { return entry.first == x.labels[k]; });
    if (x.value.shape()[k] == 1 && extent->second != 1) {
      ones.push_back(static_cast<std::int64_t>(k));
    } else {
      rest.push_back(x.labels[k]);
    }
  }
  return ones.empty() ? x : Named{ops::squeeze(x.value, ones), rest};
}

// Sums over the axes that are not in `needed`.
template <class Needed>
Named summed(Named x, const Needed& needed) {
  Ints axes;
  Labels rest;
  for (std::size_t k = 0; k < x.labels.size(); ++k) {
    if (needed(x.labels[k])) {
      rest.push_back(x.labels[k]);
    } else {
      axes.push_back(static_cast<std::int64_t>(k));
    }
  }
  if (axes.empty()) return x;
  return {is_bool(x.value.dtype()) ? ops::reduce_or(x.value, axes) : ops::reduce_sum(x.value, axes), rest};
}

template <class Needed>
Named product(const Named& x, const Named& y, const Needed& needed) {
  Labels batch, contracted, labels;
  for (const Label label : x.labels)
    if (has(y.labels, label)) (needed(label) ? batch : contracted).push_back(label);
  labels = batch;
  for (const Named* operand : {&x, &y})
    for (const Label label : operand->labels)
      if (!has(batch, label) && !has(contracted, label)) labels.push_back(label);
  return {dot_general(x.value, y.value,
                      {positions(x.labels, contracted), positions(y.labels, contracted),
                       positions(x.labels, batch), positions(y.labels, batch)}),
          labels};
}

// Extents by name. Throws Error (type) where they differ, but by one that is broadcast: an operand's axis of
// extent 1, of axes of one name in one operand all of them.
std::vector<std::pair<Label, std::int64_t>> extents_of(const Spec& spec, std::span<const Value> values) {
  std::vector<std::pair<Label, std::int64_t>> extents;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Labels& labels = spec.operands[i];
    const Shape& shape = values[i].shape();
    for (std::size_t k = 0; k < labels.size(); ++k) {
      const Label label = labels[k];
      const auto first = static_cast<std::size_t>(place(labels, label));
      const auto known = std::find_if(extents.begin(), extents.end(),
                                      [&](const auto& entry) { return entry.first == label; });
      if (known == extents.end()) {
        extents.emplace_back(label, shape[k]);
        continue;
      }
      const std::int64_t expected = first < k ? shape[first] : known->second;
      const bool broadcast = first == k && (expected == 1 || shape[k] == 1);
      if (expected != shape[k] && !broadcast) {
        throw Error(ErrorKind::type,
                    detail::str("[einsum] expected extent ", expected, " of ",
                                detail::in_quotes(name_of(label)), " everywhere, got ", shape[k],
                                " in dimension ", k, " of operand ", i, ", ", values[i].type()));
      }
      if (known->second == 1) known->second = shape[k];
    }
  }
  return extents;
}

Value einsum_of(const Spec& spec, std::span<const Value> v) {
  const auto extents = extents_of(spec, v);
  const std::vector<Value> values = promoted(v, v[0].dtype());
  std::vector<Named> operands;
  for (std::size_t i = 0; i < v.size(); ++i)
    operands.push_back(without_ones(without_repetition({values[i], spec.operands[i]}), extents));
  // Does the result name it, or an operand from `first` on but `but`?
  const auto needed = [&](std::size_t first, std::size_t but) {
    return [&, first, but](Label label) {
      bool found = has(spec.result, label);
      for (std::size_t i = first; i < operands.size(); ++i)
        found = found || (i != but && has(operands[i].labels, label));
      return found;
    };
  };
  for (std::size_t i = 0; i < operands.size(); ++i) operands[i] = summed(operands[i], needed(0, i));
  Named all = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) all = product(all, operands[i], needed(i + 1, i));
  return permuted(all.value, positions(all.labels, spec.result));
}

Array contract(const Array& x, const Array& y, const Ints& of_x, const Ints& of_y, Where where) {
  Ints static_args = of_x;
  static_args.insert(static_args.end(), of_y.begin(), of_y.end());
  const Input operands[] = {x, y};
  return invoke(
      {"tensordot", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const DType common = promote(v[0].dtype(), v[1].dtype());
        const Value left = convert(v[0], common);
        return dot_general(left, convert(v[1], common), {of_x, of_y, {}, {}});
      },
      where);
}

}  // namespace

Array einsum(std::string_view spec, std::span<const Array> operands, Where where) {
  const Spec parsed = Parser(spec, operands, where).parse();
  Ints static_args;
  for (std::size_t begin = 0; begin < spec.size(); begin += sizeof(std::int64_t)) {
    std::int64_t word = 0;
    std::memcpy(&word, spec.data() + begin, std::min(sizeof word, spec.size() - begin));
    static_args.push_back(word);
  }
  const std::vector<Input> inputs(operands.begin(), operands.end());
  return invoke(
      {"einsum", static_args}, inputs,
      [&](Emitter&, std::span<const Value> v) { return einsum_of(parsed, v); }, where);
}

Array tensordot(const Array& x, const Array& y, std::int64_t axes, Where where) {
  const std::size_t most = std::min(rank_of(x, "tensordot", where), rank_of(y, "tensordot", where));
  if (axes < 0 || static_cast<std::uint64_t>(axes) > most) {
    refuse(ErrorKind::invalid_argument, "tensordot",
           detail::str("expected a number of axes that ", x.type(), " and ", y.type(), " have, got ", axes),
           where);
  }
  Ints of_x, of_y;
  for (std::int64_t i = 0; i < axes; ++i) {
    of_x.push_back(static_cast<std::int64_t>(x.ndim()) - axes + i);
    of_y.push_back(i);
  }
  return contract(x, y, of_x, of_y, where);
}

Array tensordot(const Array& x, const Array& y, const std::pair<Axes, Axes>& axes, Where where) {
  Ints of_x, of_y;
  for (const std::int64_t axis : axes.first.list()) of_x.push_back(normal_axis(axis, x, "tensordot", where));
  for (const std::int64_t axis : axes.second.list()) of_y.push_back(normal_axis(axis, y, "tensordot", where));
  if (axes.first.all() || axes.second.all() || of_x.size() != of_y.size()) {
    refuse(ErrorKind::invalid_argument, "tensordot",
           detail::str("expected as many axes of ", x.type(), " as of ", y.type(), ", got ",
                       detail::list(of_x), " and ", detail::list(of_y)),
           where);
  }
  return contract(x, y, of_x, of_y, where);
}

}  // namespace tidu
