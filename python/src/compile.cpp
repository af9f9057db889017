// compile.cpp - jit: a function traced once for each structure and types of its arguments, and run as one
// graph. Static parts of the arguments (ints, text, objects) are part of the key, as types are.
#include <mutex>
#include <unordered_map>

#include "tree.hpp"

namespace tidu::python {
namespace {

using frontend_detail::CompiledCall;

struct Entry {
  std::vector<std::uintptr_t> key;
  std::shared_ptr<const Call> call;  ///< whose static parts are compared
  std::shared_ptr<const CompiledCall> compiled;
  std::shared_ptr<Tree> result;
};

class Compiled {
 public:
  Compiled(nb::handle f, std::vector<int> static_argnums, std::vector<std::string> static_argnames)
      : f_(nb::borrow(f)), argnums_(std::move(static_argnums)), argnames_(std::move(static_argnames)) {}

  nb::object run(nb::handle args, nb::handle kwargs) {
    auto call = std::make_shared<Call>();
    take(*call, args, kwargs);
    if (frontend_detail::any_traced(call->leaves)) return call->apply(f_.get(), call->leaves);
    std::vector<std::uintptr_t> key = key_of(*call);
    const std::uintptr_t hash = hash_of(key);
    std::shared_ptr<const Entry> entry = find(hash, key, *call);
    if (entry == nullptr) entry = trace(hash, std::move(key), call);
    const bool is_kept = std::any_of(call->leaves.begin(), call->leaves.end(),
                                     [](const Array& array) { return array.requires_grad(); });
    const Where where = is_kept ? here() : Where{};
    std::vector<Array> leaves = std::move(call->leaves);
    const std::vector<Array> outputs =
        unlocked([&] { return frontend_detail::run_compiled(*entry->compiled, std::move(leaves), where); });
    return entry->result->rebuild(outputs);
  }
  std::size_t num_traced() const { return entries_.size(); }
  nb::object function() const { return f_.get(); }

 private:
  void take(Call& call, nb::handle args, nb::handle kwargs) const {
    const Py_ssize_t count = PyTuple_GET_SIZE(args.ptr());
    call.args.reserve(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      const nb::handle argument = PyTuple_GET_ITEM(args.ptr(), i);
      Tree& tree = call.args.emplace_back();
      const bool is_static =
          std::any_of(argnums_.begin(), argnums_.end(), [&](int n) { return n == i || n + count == i; });
      is_static ? add_static(argument, tree) : flatten(argument, tree, call.leaves);
      call.offsets.push_back(call.leaves.size());
    }
    if (!kwargs.is_valid() || PyDict_GET_SIZE(kwargs.ptr()) == 0) return;
    nb::list names = nb::steal<nb::list>(PyDict_Keys(kwargs.ptr()));
    PyList_Sort(names.ptr());
    call.kwargs.add(Tree::Kind::dict, names.size(), nb::steal(PyList_AsTuple(names.ptr())).ptr());
    for (const nb::handle name : names) {
      const nb::handle argument = PyDict_GetItem(kwargs.ptr(), name.ptr());
      const bool is_static = !argnames_.empty() && std::find(argnames_.begin(), argnames_.end(),
                                                             nb::cast<std::string>(name)) != argnames_.end();
      is_static ? add_static(argument, call.kwargs) : flatten(argument, call.kwargs, call.leaves);
    }
  }

  static void enter(std::vector<std::uintptr_t>& key, const Tree& tree) {
    for (const Tree::Node& node : tree.nodes()) {
      key.push_back(static_cast<std::uintptr_t>(node.kind) << 32 | node.arity);
      if (node.kind != Tree::Kind::fixed) continue;
      key.push_back(reinterpret_cast<std::uintptr_t>(Py_TYPE(node.aux)));
      const Py_hash_t hash = PyObject_Hash(node.aux);
      if (hash == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw Error(
            ErrorKind::invalid_argument,
            detail::str("[jit] expected arguments of Arrays, numbers, lists, dicts and other structures, or "
                        "objects that can be hashed, got an object of type ",
                        Py_TYPE(node.aux)->tp_name));
      }
      key.push_back(static_cast<std::uintptr_t>(hash));
    }
    key.push_back(~std::uintptr_t{0});
  }
  static std::vector<std::uintptr_t> key_of(const Call& call) {
    std::vector<std::uintptr_t> key;
    key.reserve(4 * (call.leaves.size() + call.args.size()) + 4);
    for (const Tree& tree : call.args) enter(key, tree);
    enter(key, call.kwargs);
    for (const Array& leaf : call.leaves) {
      key.push_back(reinterpret_cast<std::uintptr_t>(leaf.type().identity()));
      key.push_back(frontend_detail::device_of(leaf));
    }
    return key;
  }
  static std::uintptr_t hash_of(const std::vector<std::uintptr_t>& key) {
    std::uintptr_t hash = 1469598103934665603U;
    for (const std::uintptr_t word : key) hash = (hash ^ word) * 0x9E3779B97F4A7C15U ^ hash >> 29;
    return hash;
  }
  static bool same(const Call& a, const Call& b) {
    for (std::size_t i = 0; i < a.args.size(); ++i) {
      if (!a.args[i].same(b.args[i])) return false;
    }
    return a.kwargs.same(b.kwargs);
  }

  std::shared_ptr<const Entry> find(std::uintptr_t hash, const std::vector<std::uintptr_t>& key,
                                    const Call& call) {
    std::vector<std::shared_ptr<const Entry>> alike;  // since comparing objects may run any Python
    const auto [first, last] = entries_.equal_range(hash);
    for (auto at = first; at != last; ++at) {
      if (at->second->key == key) alike.push_back(at->second);
    }
    for (const auto& entry : alike) {
      if (same(*entry->call, call)) return entry;
    }
    return nullptr;
  }
  // Objects that Python's garbage collector has yet to free may hold Arrays of the trace: after a collection
  // the trace is checked once more.
  std::shared_ptr<const Entry> trace(std::uintptr_t hash, std::vector<std::uintptr_t> key,
                                     const std::shared_ptr<Call>& call) {
    const Function function(f_.get(), call);
    const Where where = here();
    const auto traced_once = [&] {
      return unlocked([&] {
        return frontend_detail::trace_flat(function.flat(), call->leaves, "compiled", where, true);
      });
    };
    std::optional<frontend_detail::Traced> traced;
    try {
      traced = traced_once();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_argument ||
          std::string_view(error.what()).find("keeps nothing") == std::string_view::npos)
        throw;
    }
    if (!traced) {
      nb::module_::import_("gc").attr("collect")();
      traced = traced_once();
    }
    auto compiled = std::make_shared<const CompiledCall>(
        CompiledCall{eager::RecordedGraph::of(traced->graph), std::move(traced->captured)});
    auto forms = std::make_shared<Call>();
    forms->args = std::move(call->args);  // without the data
    forms->kwargs = std::move(call->kwargs);
    auto entry = std::make_shared<const Entry>(Entry{std::move(key), forms, compiled, function.result});
    if (frontend_detail::any_traced(compiled->captured)) return entry;
    if (entries_.size() >= most_entries) entries_.clear();
    entries_.emplace(hash, entry);
    return entry;
  }

  static constexpr std::size_t most_entries = 1024;
  Held f_;
  std::vector<int> argnums_;
  std::vector<std::string> argnames_;
  std::unordered_multimap<std::uintptr_t, std::shared_ptr<const Entry>> entries_;
};

}  // namespace

void bind_compile(nb::module_& m) {
  nb::class_<Compiled>(m, "Compiled", nb::dynamic_attr(),
                       "A function that is traced and then run as one graph.")
      .def(nb::init<nb::handle, std::vector<int>, std::vector<std::string>>(), nb::arg("f"),
           nb::arg("static_argnums") = std::vector<int>(),
           nb::arg("static_argnames") = std::vector<std::string>())
      .def("__call__",
           [](Compiled& self, nb::args args, nb::kwargs kwargs) { return self.run(args, kwargs); })
      .def(
          "__get__",
          [](nb::object self, nb::object instance, nb::object) {
            if (instance.is_none()) return self;
            return nb::steal(PyMethod_New(self.ptr(), instance.ptr()));
          },
          nb::arg("instance").none(), nb::arg("owner").none() = nb::none())
      .def_prop_ro("__wrapped__", &Compiled::function)
      .def_prop_ro("num_traced", &Compiled::num_traced, "For how many lists of types it was traced.");
}

}  // namespace tidu::python
