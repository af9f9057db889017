// tree.cpp - see tree.hpp.
#include "tree.hpp"

namespace tidu::python {
namespace {

nb::dict& registry() {
  static auto& classes = *new nb::dict();
  return classes;
}
// By type: is it a named tuple, a dataclass, registered, or none of these?
enum class Class : std::uint8_t { other, named_tuple, dataclass, registered };
Class class_of(PyTypeObject* type) {
  const nb::handle object(reinterpret_cast<PyObject*>(type));
  if (registry().contains(object)) return Class::registered;
  if (PyType_IsSubtype(type, &PyTuple_Type) && nb::hasattr(object, "_fields")) return Class::named_tuple;
  if (nb::hasattr(object, "__dataclass_fields__")) return Class::dataclass;
  return Class::other;
}

nb::list sorted_keys(nb::handle dict) {
  nb::list keys = nb::steal<nb::list>(PyDict_Keys(dict.ptr()));
  if (PyList_Sort(keys.ptr()) != 0) PyErr_Clear();  // of several types: in the order of the dict
  return keys;
}

bool exports_memory(nb::handle object) {
  PyObject* const x = object.ptr();
  if (PyBytes_Check(x) || PyByteArray_Check(x) || PyMemoryView_Check(x) || PyType_Check(x)) return false;
  return PyObject_CheckBuffer(x) || PyObject_HasAttrString(x, "__dlpack__");
}

void flatten_dict(nb::handle object, Tree& tree, std::vector<Array>& leaves, Leaves what) {
  const nb::list keys = sorted_keys(object);
  const nb::object kept = nb::steal(PyList_AsTuple(keys.ptr()));
  tree.add(Tree::Kind::dict, keys.size(), kept.ptr());
  for (const nb::handle key : keys) flatten(PyDict_GetItem(object.ptr(), key.ptr()), tree, leaves, what);
}
void flatten_dataclass(nb::handle object, Tree& tree, std::vector<Array>& leaves, Leaves what) {
  const nb::object type = nb::borrow(object.type());
  const nb::object fields = nb::module_::import_("dataclasses").attr("fields")(type);
  nb::list names;
  for (const nb::handle field : nb::iter(fields)) names.append(field.attr("name"));
  tree.add(Tree::Kind::dataclass, names.size(), nb::make_tuple(type, nb::tuple(names)).ptr());
  for (const nb::handle name : names) flatten(nb::getattr(object, name), tree, leaves, what);
}
void flatten_registered(nb::handle object, Tree& tree, std::vector<Array>& leaves, Leaves what) {
  const nb::object functions = registry()[object.type()];
  const nb::object parts = functions[nb::int_(0)](object);
  const nb::object children = nb::steal(PySequence_Tuple(nb::object(parts[nb::int_(0)]).ptr()));
  if (!children.is_valid()) throw nb::python_error();
  tree.add(Tree::Kind::registered, nb::len(children),
           nb::make_tuple(nb::borrow(object.type()), parts[nb::int_(1)]).ptr());
  for (const nb::handle child : nb::iter(children)) flatten(child, tree, leaves, what);
}

}  // namespace

void add_static(nb::handle object, Tree& tree) { tree.add(Tree::Kind::fixed, 0, object.ptr()); }

void flatten(nb::handle object, Tree& tree, std::vector<Array>& leaves, Leaves what) {
  PyObject* const x = object.ptr();
  const auto add_leaf = [&](Array array) {
    tree.add(Tree::Kind::leaf, 0, nullptr);
    leaves.push_back(std::move(array));
  };
  if (const Array* const array = array_in(object)) return add_leaf(*array);
  if (PyFloat_CheckExact(x)) return add_leaf(Array(PyFloat_AS_DOUBLE(x)));
  if (x == Py_None || PyUnicode_Check(x)) return add_static(object, tree);
  if (PyLong_Check(x)) return what.whole ? add_leaf(to_array(object)) : add_static(object, tree);
  if (PyComplex_Check(x) || PyFloat_Check(x)) return add_leaf(to_array(object));
  if (PyTuple_CheckExact(x) || PyList_CheckExact(x)) {
    const bool is_tuple = PyTuple_CheckExact(x);
    const Py_ssize_t size = Py_SIZE(x);
    tree.add(is_tuple ? Tree::Kind::tuple : Tree::Kind::list, static_cast<std::size_t>(size), nullptr);
    for (Py_ssize_t i = 0; i < size; ++i)
      flatten(is_tuple ? PyTuple_GET_ITEM(x, i) : PyList_GET_ITEM(x, i), tree, leaves, what);
    return;
  }
  if (PyDict_CheckExact(x)) return flatten_dict(object, tree, leaves, what);
  switch (class_of(Py_TYPE(x))) {
    case Class::registered: return flatten_registered(object, tree, leaves, what);
    case Class::dataclass: return flatten_dataclass(object, tree, leaves, what);
    case Class::named_tuple:
      tree.add(Tree::Kind::named_tuple, static_cast<std::size_t>(PyTuple_GET_SIZE(x)), object.type().ptr());
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i)
        flatten(PyTuple_GET_ITEM(x, i), tree, leaves, what);
      return;
    case Class::other: break;
  }
  if (exports_memory(object)) return add_leaf(to_array(object));
  add_static(object, tree);
}

std::size_t Tree::num_leaves() const {
  std::size_t count = 0;
  for (const Node& node : nodes_) count += node.kind == Kind::leaf ? 1 : 0;
  return count;
}

nb::object Tree::assemble(const Node& node, std::vector<nb::object>& children) const {
  if (node.kind == Kind::dict) {
    nb::dict dict;
    for (std::size_t i = 0; i < children.size(); ++i)
      dict[nb::borrow(PyTuple_GET_ITEM(node.aux, static_cast<Py_ssize_t>(i)))] = children[i];
    return nb::object(std::move(dict));
  }
  nb::list list;
  for (nb::object& child : children) list.append(std::move(child));
  if (node.kind == Kind::list) return nb::object(std::move(list));
  const nb::object tuple = nb::steal(PyList_AsTuple(list.ptr()));
  if (node.kind == Kind::tuple) return tuple;
  if (node.kind == Kind::named_tuple) return nb::handle(node.aux)(*nb::borrow<nb::tuple>(tuple));
  const nb::handle aux(node.aux);
  const nb::object type = aux[nb::int_(0)];
  if (node.kind == Kind::registered) {
    const nb::object functions = registry()[type];
    return functions[nb::int_(1)](aux[nb::int_(1)], tuple);
  }
  const nb::object object = type.attr("__new__")(type);
  const nb::object names = aux[nb::int_(1)];
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.ptr()); ++i) {
    if (PyObject_GenericSetAttr(object.ptr(), PyTuple_GET_ITEM(names.ptr(), i),
                                PyTuple_GET_ITEM(tuple.ptr(), i)) != 0)
      throw nb::python_error();
  }
  return object;
}

bool Tree::same(const Tree& other) const {
  if (nodes_.size() != other.nodes_.size()) return false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node &a = nodes_[i], &b = other.nodes_[i];
    if (a.kind != b.kind || a.arity != b.arity) return false;
    if (a.aux == b.aux) continue;
    if (Py_TYPE(a.aux) != Py_TYPE(b.aux)) return false;
    const int equal = PyObject_RichCompareBool(a.aux, b.aux, Py_EQ);
    if (equal < 0) PyErr_Clear();
    if (equal != 1) return false;
  }
  return true;
}

std::string Tree::text() const {
  const nb::str star("*");
  return nb::cast<std::string>(nb::str(nb::repr(build([&](std::size_t) { return nb::object(star); }))));
}

Call::Call(nb::handle positional, nb::handle named, Leaves what) {
  for (const nb::handle argument : nb::iter(positional)) {
    flatten(argument, args.emplace_back(), leaves, what);
    offsets.push_back(leaves.size());
  }
  if (named.is_valid() && !named.is_none() && nb::len(named) != 0) flatten(named, kwargs, leaves, what);
}

nb::object Call::apply(nb::handle f, std::span<const Array> arrays) const {
  nb::list list;
  for (std::size_t i = 0; i < args.size(); ++i) list.append(args[i].rebuild(arrays.subspan(offsets[i])));
  const nb::object tuple = nb::steal(PyList_AsTuple(list.ptr()));
  nb::object named;
  if (!kwargs.nodes().empty()) named = kwargs.rebuild(arrays.subspan(offsets.back()));
  PyObject* const result = PyObject_Call(f.ptr(), tuple.ptr(), named.is_valid() ? named.ptr() : nullptr);
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

frontend_detail::FlatFunction Function::flat() const {
  return [f = *this](const std::vector<Array>& arrays) {
    const nb::gil_scoped_acquire acquire;
    const nb::object returned = f.call->apply(f.callable.get(), arrays);
    Tree tree;
    std::vector<Array> leaves;
    flatten(returned, tree, leaves, f.what);
    *f.result = std::move(tree);
    return leaves;
  };
}

namespace {

struct TreeDef {
  std::shared_ptr<Tree> tree;
};

nb::object mapped(nb::object f, nb::object first, nb::args rest) {
  std::vector<std::vector<Array>> leaves(1 + rest.size());
  Tree tree;
  flatten(first, tree, leaves[0]);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    Tree other;
    flatten(rest[i], other, leaves[i + 1]);
    if (leaves[i + 1].size() != leaves[0].size())
      throw Error(ErrorKind::invalid_argument,
                  detail::str("tree_map: expected structures of as many Arrays as ", tree.text(), ", got ",
                              other.text()));
  }
  return tree.build([&](std::size_t k) {
    nb::list items;
    for (const auto& list : leaves) items.append(to_python(list[k]));
    return nb::object(f(*nb::tuple(items)));
  });
}

}  // namespace

void bind_trees(nb::module_& m) {
  nb::class_<TreeDef>(m, "TreeDef", "A structure without its Arrays.")
      .def_prop_ro("num_leaves", [](const TreeDef& self) { return self.tree->num_leaves(); })
      .def(
          "unflatten",
          [](const TreeDef& self, nb::object leaves) {
            const nb::object list = nb::steal(PySequence_List(leaves.ptr()));
            if (!list.is_valid()) throw nb::python_error();
            if (nb::len(list) != self.tree->num_leaves())
              throw Error(ErrorKind::invalid_argument,
                          detail::str("unflatten: expected ", self.tree->num_leaves(), " leaves, got ",
                                      nb::len(list)));
            return self.tree->build([&](std::size_t i) { return nb::object(list[nb::int_(i)]); });
          },
          nb::arg("leaves"), "The structure with these leaves.")
      .def("__repr__", [](const TreeDef& self) { return "TreeDef(" + self.tree->text() + ")"; })
      .def("__eq__", [](const TreeDef& self, const TreeDef& other) { return self.tree->same(*other.tree); });
  m.def(
      "tree_flatten",
      [](nb::object tree) {
        TreeDef def{std::make_shared<Tree>()};
        std::vector<Array> leaves;
        flatten(tree, *def.tree, leaves);
        nb::list list;
        for (Array& leaf : leaves) list.append(to_python(std::move(leaf)));
        return nb::make_tuple(list, def);
      },
      nb::arg("tree").none(), "(leaves, TreeDef).");
  m.def("tree_map", mapped, nb::arg("f"), nb::arg("tree").none(), nb::arg("rest"),
        "The structure with each leaf replaced by f(leaf, ...), of the leaves at its position in each tree.");
  m.def(
      "register_pytree",
      [](nb::object type, nb::object flatten, nb::object unflatten) {
        registry()[type] = nb::make_tuple(flatten, unflatten);
        return type;
      },
      nb::arg("cls"), nb::arg("flatten"), nb::arg("unflatten"),
      "Makes a class a structure: flatten(object) -> (children, static), unflatten(static, children).");
}

}  // namespace tidu::python
