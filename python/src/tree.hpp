// tree.hpp - structures of Python objects (pytrees) taken apart into Arrays and a Tree, and put together
// again.
//
// Leaves are Arrays, objects that export their memory (NumPy's arrays), and floating and complex numbers,
// which become Arrays. Lists, tuples, dicts (by sorted keys), named tuples, dataclasses and registered
// classes are structure. All others (None, ints, bools, text, objects) are static: passed on unchanged.
#pragma once

#include "core.hpp"
#include "tidu/frontend/trace.hpp"

namespace tidu::python {

/// The further leaves of flatten() beside Arrays and floating numbers.
struct Leaves {
  bool whole = false;  ///< ints and bools too: the carries of loops
};

/// A structure without its Arrays.
class Tree {
 public:
  enum class Kind : std::uint8_t { leaf, fixed, list, tuple, named_tuple, dict, dataclass, registered };
  struct Node {
    Kind kind;
    std::uint32_t arity;
    PyObject* aux;  ///< counted: the object, the keys, or the class
  };
  Tree() = default;
  Tree(Tree&& other) noexcept : nodes_(std::move(other.nodes_)) { other.nodes_.clear(); }
  Tree& operator=(Tree&& other) noexcept {
    std::swap(nodes_, other.nodes_);
    return *this;
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() {
    for (const Node& node : nodes_) drop(node.aux);
  }
  void add(Kind kind, std::size_t arity, PyObject* aux) {
    Py_XINCREF(aux);
    nodes_.push_back({kind, static_cast<std::uint32_t>(arity), aux});
  }
  const std::vector<Node>& nodes() const { return nodes_; }
  std::size_t num_leaves() const;
  bool is_leaf() const { return nodes_.size() == 1 && nodes_[0].kind == Kind::leaf; }
  /// The structure with the objects that `leaf(i)` gives.
  template <class Leaf>
  nb::object build(const Leaf& leaf) const {
    std::size_t node = 0, next = 0;
    return build_at(node, next, leaf);
  }
  nb::object rebuild(std::span<const Array> arrays) const {
    return build([&](std::size_t i) { return to_python(arrays[i]); });
  }
  /// Are they alike, with equal static parts?
  bool same(const Tree& other) const;
  std::string text() const;

 private:
  nb::object assemble(const Node& node, std::vector<nb::object>& children) const;
  template <class Leaf>
  nb::object build_at(std::size_t& at, std::size_t& next, const Leaf& leaf) const {
    const Node& node = nodes_[at++];
    if (node.kind == Kind::leaf) return leaf(next++);
    if (node.kind == Kind::fixed) return nb::borrow(node.aux);
    std::vector<nb::object> children;
    children.reserve(node.arity);
    for (std::uint32_t i = 0; i < node.arity; ++i) children.push_back(build_at(at, next, leaf));
    return assemble(node, children);
  }

  std::vector<Node> nodes_;
};

/// Adds the parts of an object.
void flatten(nb::handle object, Tree& tree, std::vector<Array>& leaves, Leaves what = {});
/// Adds an object as it is.
void add_static(nb::handle object, Tree& tree);

/// The arguments of a call, by position and by name.
struct Call {
  Call() = default;
  Call(nb::handle args, nb::handle kwargs, Leaves what = {});
  std::vector<Tree> args;
  Tree kwargs;
  std::vector<Array> leaves;
  std::vector<std::size_t> offsets{0};  ///< of arguments by position
  /// f of these arguments with other Arrays.
  nb::object apply(nb::handle f, std::span<const Array> arrays) const;
};

/// A function of Python's, as the frontend takes it.
struct Function {
  Function(nb::handle f, std::shared_ptr<const Call> the_call, Leaves leaves = {})
      : callable(nb::borrow(f)), call(std::move(the_call)), what(leaves) {}
  Held callable;
  std::shared_ptr<const Call> call;
  Leaves what;
  std::shared_ptr<Tree> result = std::make_shared<Tree>();  ///< of its last result
  frontend_detail::FlatFunction flat() const;
};

}  // namespace tidu::python
