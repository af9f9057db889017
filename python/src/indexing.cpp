// indexing.cpp - x[key] and x.at[key]: ints, slices, ..., None, integer and bool Arrays, as in NumPy.
#include "core.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu::python {
namespace {

std::optional<std::int64_t> bound(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  Py_ssize_t value = 0;  // as in a slice of Python: a position out of range is the end
  value = PyNumber_AsSsize_t(object.ptr(), nullptr);
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

// A mask's positions, along each of its axes.
std::vector<Array> nonzero(const Array& mask, Where where) {
  const Tensor tensor = mask.tensor(where);
  const Shape& shape = tensor.shape();
  std::vector<std::vector<std::int64_t>> positions(shape.size());
  const bool* const elements = tensor.data<bool>();
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    if (!elements[i]) continue;
    std::int64_t rest = i;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      positions[axis].push_back(rest % shape[axis]);
      rest /= shape[axis];
    }
  }
  std::vector<Array> arrays;
  for (const auto& list : positions) {
    arrays.push_back(
        Array(Tensor::from({static_cast<std::int64_t>(list.size())}, std::span<const std::int64_t>(list))));
  }
  return arrays;
}

// The subscripts of a key, and the Arrays that they refer to.
class Key {
 public:
  Key(const Array& x, nb::handle key, bool is_read) : x_(x), where_(place(x)), is_read_(is_read) {
    if (!PyTuple_Check(key.ptr())) {
      items_.push_back(item_of(key));
    } else {
      for (const nb::handle item : nb::iter(key)) items_.push_back(item_of(item));
    }
    std::size_t axes = 0;
    for (const Item& item : items_) axes += item.axes;
    arrays_.reserve(axes + items_.size());  // subscripts borrow them
    std::size_t axis = 0;
    for (const Item& item : items_) {
      add(item, axis);
      axis += item.axes;
      if (item.object.ptr() == Py_Ellipsis && x_.ndim() > axes) axis += x_.ndim() - axes;
    }
  }
  std::span<const Subscript> subscripts() const { return subscripts_; }
  Where where() const { return where_; }
  // For a key that is one mask, which At takes unchanged.
  const Array* mask() const {
    return items_.size() == 1 && !arrays_.empty() && arrays_[0].dtype() == bool_ ? &arrays_[0] : nullptr;
  }

 private:
  struct Item {
    nb::handle object;
    std::optional<Array> array;
    std::size_t axes;  ///< of x that it stands for
  };

  static bool is_position(nb::handle object) {
    return PyLong_Check(object.ptr()) && !PyBool_Check(object.ptr());
  }
  static Item item_of(nb::handle object) {
    if (object.is_none() || object.ptr() == Py_Ellipsis) return {object, std::nullopt, 0};
    if (PySlice_Check(object.ptr()) || is_position(object)) return {object, std::nullopt, 1};
    Array array = to_array(object);
    if (array.size() == 0 && array.dtype() == f64) array = array.to(i64);  // an empty list
    const std::size_t axes = array.dtype() == bool_ ? array.ndim() : 1;
    return {object, std::move(array), axes};
  }

  void add(const Item& item, std::size_t axis) {
    if (item.array) {
      add_array(*item.array, axis);
    } else if (item.object.is_none()) {
      subscripts_.emplace_back(newaxis, where_);
    } else if (item.object.ptr() == Py_Ellipsis) {
      subscripts_.emplace_back(ellipsis, where_);
    } else if (PySlice_Check(item.object.ptr())) {
      const auto start = bound(item.object.attr("start")), stop = bound(item.object.attr("stop"));
      const auto step = bound(item.object.attr("step"));
      subscripts_.emplace_back(Slice{start, stop, step.value_or(1)}, where_);
    } else {
      const Py_ssize_t position = PyNumber_AsSsize_t(item.object.ptr(), PyExc_IndexError);
      if (position == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
      refuse_outside(position, axis);
      subscripts_.emplace_back(static_cast<std::int64_t>(position), where_);
    }
  }
  // As IndexError, by which Python's iteration ends.
  void refuse_outside(Py_ssize_t position, std::size_t axis) const {
    if (axis >= x_.ndim()) return;  // the frontend says it
    const std::int64_t extent = x_.shape(static_cast<std::int64_t>(axis));
    if (position >= -extent && position < extent) return;
    throw nb::index_error(detail::str("index ", static_cast<std::int64_t>(position),
                                      " is out of range for axis ", axis, " of ", x_.type())
                              .c_str());
  }
  // A mask of known elements is read as the positions that it selects.
  void add_array(const Array& array, std::size_t axis) {
    if (array.dtype() != bool_ || !is_read_ || array.is_traced()) {
      arrays_.push_back(array);
      subscripts_.emplace_back(arrays_.back(), where_);
      return;
    }
    if (!extents_fit(array, axis))
      throw Error(ErrorKind::type, detail::str("[] expected a mask of the extents of the axes of ", x_.type(),
                                               " from ", axis, " on, got ", array.type()));
    for (Array& positions : nonzero(array, where_)) {
      arrays_.push_back(std::move(positions));
      subscripts_.emplace_back(arrays_.back(), where_);
    }
  }
  bool extents_fit(const Array& mask, std::size_t axis) const {
    if (mask.ndim() == 0 || axis + mask.ndim() > x_.ndim()) return false;
    return std::equal(mask.shape().begin(), mask.shape().end(),
                      x_.shape().begin() + static_cast<std::ptrdiff_t>(axis));
  }

  const Array& x_;
  Where where_;
  bool is_read_;
  std::vector<Item> items_;
  std::vector<Array> arrays_;
  std::vector<Subscript> subscripts_;
};

// x.at, and x.at[key].
struct AtOf {
  Array array;
};
struct AtPlace {
  At at;
  Array array;
};

using Update = Array (At::*)(const ArrayLike&) const;
template <Update update>
ArrayObject updated(const AtPlace& self, Arg value) {
  const Operand operand(value);
  const Where where = operand.array() != nullptr ? place(self.array, *operand.array()) : place(self.array);
  return to_python((self.at.*update)(operand.like(where)));
}

}  // namespace

Array index(const Array& x, nb::handle key) {
  const Key subscripts(x, key, true);
  return unlocked(size_of(x), [&] { return x[subscripts.subscripts()]; });
}

void bind_indexing(nb::module_& m, nb::class_<Array>& c) {
  c.def(
      "__getitem__", [](const Array& self, Arg key) { return to_python(index(self, key.object)); },
      nb::arg("key").none());
  c.def(
      "__setitem__",
      [](const Array&, Arg, Arg) {
        throw nb::type_error(
            "an Array is a value: x[key] = v does not change it. "
            "Use x = x.at[key].set(v), or x.assign(v) to write to its memory");
      },
      nb::arg("key").none(), nb::arg("value").none());
  nb::class_<AtOf>(m, "_At", "x.at[key].set(v), .add(v), ...: x with other elements at a place.")
      .def(
          "__getitem__",
          [](const AtOf& self, Arg key) {
            const Key subscripts(self.array, key.object, false);
            if (const Array* const mask = subscripts.mask())
              return AtPlace{self.array.at(Indices(*mask, subscripts.where())), self.array};
            return AtPlace{self.array.at(subscripts.subscripts()), self.array};
          },
          nb::arg("key").none());
  nb::class_<AtPlace>(m, "_AtPlace", "A place of an Array.")
      .def(
          "get", [](const AtPlace& self) { return to_python(self.at.get(place(self.array))); },
          "What is there.")
      .def("set", updated<&At::set>, nb::arg("value"), "The Array with that value there.")
      .def("add", updated<&At::add>, nb::arg("value"), "The selected elements + value, once for each index.")
      .def("multiply", updated<&At::multiply>, nb::arg("value"), "What is there * value.")
      .def("divide", updated<&At::divide>, nb::arg("value"), "What is there / value.")
      .def("min", updated<&At::min>, nb::arg("value"), "The minimum of the selected elements and value.")
      .def("max", updated<&At::max>, nb::arg("value"), "The maximum of the selected elements and value.");
  c.def_prop_ro(
      "at", [](const Array& self) { return AtOf{self}; },
      "x.at[key].set(v): the Array with other elements at a place; it is not changed itself.");
}

}  // namespace tidu::python
