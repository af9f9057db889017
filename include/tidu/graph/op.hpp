// op.hpp - Op: an immutable, interned handle to a primitive with its attributes. Equal ops are one record:
// hashed once, cheap to copy, compared in constant time. Records are counted and freed with the last handle
// or graph that holds them.
#pragma once

#include <atomic>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tidu/graph/attribute.hpp"
#include "tidu/graph/primitive.hpp"

namespace tidu {

/// The record of an Op. Read it through Op.
struct OpRecord {
  const Primitive* primitive;                        ///< the primitive
  Attributes attributes;                             ///< in the order of the schema, defaults filled in
  Key128 key;                                        ///< of name, version and attributes
  std::uint64_t hash;                                ///< of key and of the parts that identical graphs in
                                                     ///< attributes share
  bool immortal;                                     ///< without attributes: never freed
  bool impure;                                       ///< is its primitive impure, or an operation of its
                                                     ///< graphs?
  bool collective;                                   ///< is its primitive collective, or an operation of its
                                                     ///< graphs?
  mutable std::atomic<std::uint32_t> references{0};  ///< handles and graphs that hold it
};

/// The same primitive with the same attributes. Records of one primitive differ only where a graph in an
/// attribute carries other names, so this is a comparison of pointers in nearly every case.
bool equivalent(const OpRecord& a, const OpRecord& b);

/// A primitive with its attributes.
class Op {
 public:
  /// An op of `primitive`; attributes in any order. Throws Error (attribute) for one that is missing,
  /// unknown, given twice or of the wrong kind.
  static Op make(const Primitive& primitive, Attributes attributes = {});
  /// Another handle to an existing record.
  static Op of(const OpRecord* record) { return Op(record); }

  Op(const Op& other) : Op(other.record_) {}
  Op(Op&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  Op& operator=(Op other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  ~Op() {
    if (record_ != nullptr && !record_->immortal) release(record_);
  }

  const Primitive& primitive() const { return *record_->primitive; }
  std::string_view name() const { return record_->primitive->name; }
  const Attributes& attributes() const { return record_->attributes; }
  const Key128& key() const { return record_->key; }
  const OpRecord* record() const { return record_; }

  /// The attribute of that name; throws Error (attribute) when there is none of that name and kind.
  const Attribute& attribute(std::string_view name) const;
  /// The value of an attribute of that kind, like the accessors that follow. Throws Error (attribute) as
  /// attribute().
  bool boolean(std::string_view name) const;
  /// An attribute that is an integer.
  std::int64_t integer(std::string_view name) const;
  /// An attribute that is a string.
  const std::string& string(std::string_view name) const;
  /// An attribute that is a dtype.
  DType dtype(std::string_view name) const;
  /// An attribute that is a list of integers.
  const Ints& ints(std::string_view name) const;
  /// An attribute that is a list of lists.
  const IntLists& lists(std::string_view name) const;
  /// An attribute that is a tensor.
  const Literal& literal(std::string_view name) const;
  /// An attribute that is a graph.
  Graph graph(std::string_view name) const;
  /// An attribute that is a list of graphs.
  std::vector<Graph> graphs(std::string_view name) const;

  friend bool operator==(const Op& a, const Op& b) { return equivalent(*a.record_, *b.record_); }

 private:
  explicit Op(const OpRecord* record) : record_(record) {
    if (!record->immortal) record->references.fetch_add(1, std::memory_order_relaxed);
  }
  static void release(const OpRecord* record);
  const OpRecord* record_;
};

/// The op of a primitive that needs no attributes; made once.
template <const Primitive& P>
const Op& plain_op() {
  static const Op op = Op::make(P);
  return op;
}

/// "reduce_sum axes=[0]": name and the attributes that differ from their defaults.
std::string to_string(const Op& op);
/// Writes the text of to_string.
std::ostream& operator<<(std::ostream& out, const Op& op);

}  // namespace tidu
