// place.cpp - where the user's program stands, and references to Python objects that any thread may drop.
#include "core.hpp"

#include <frameobject.h>

#include <mutex>
#include <string_view>
#include <unordered_map>

namespace tidu::python {
namespace {

struct File {
  const char* name;  // null: of this package
};

// By the object that is the file's name, which is kept.
File file_of(PyObject* name) {
  static auto& files = *new std::unordered_map<PyObject*, File>();
  const auto found = files.find(name);
  if (found != files.end()) return found->second;
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) {
    PyErr_Clear();
    text = "?";
  }
  static const std::string& package = *new std::string([] {
    const nb::object file = nb::module_::import_("tidu").attr("__file__");
    const std::string path = nb::cast<std::string>(file);
    return path.substr(0, path.rfind('/') + 1);
  }());
  Py_INCREF(name);
  const bool is_ours = std::string_view(text).substr(0, package.size()) == package;
  return files.emplace(name, File{is_ours ? nullptr : text}).first->second;
}

}  // namespace

Where here() {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  Where where{};
  while (frame != nullptr) {
    PyCodeObject* const code = PyFrame_GetCode(frame);
    const File file = file_of(code->co_filename);
    Py_DECREF(code);
    if (file.name != nullptr) where = {file.name, static_cast<std::uint32_t>(PyFrame_GetLineNumber(frame))};
    PyFrameObject* const back = file.name != nullptr ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return where;
}

namespace {

struct Dropped {
  std::mutex mutex;
  std::vector<PyObject*> objects;
  bool scheduled = false;
};
Dropped& dropped() {
  static auto& list = *new Dropped();
  return list;
}
int drop_all(void*) {
  std::vector<PyObject*> objects;
  {
    Dropped& list = dropped();
    const std::lock_guard<std::mutex> lock(list.mutex);
    objects.swap(list.objects);
    list.scheduled = false;
  }
  for (PyObject* object : objects) Py_DECREF(object);
  return 0;
}

}  // namespace

// Without the lock it is dropped later, by the interpreter: to wait for the lock here, where a lock of tidu's
// may be held, could wait for ever.
void drop(PyObject* object) noexcept {
  if (object == nullptr || !Py_IsInitialized()) return;
  if (PyGILState_Check()) {
    Py_DECREF(object);
    return;
  }
  Dropped& list = dropped();
  const std::lock_guard<std::mutex> lock(list.mutex);
  list.objects.push_back(object);
  if (!list.scheduled) list.scheduled = Py_AddPendingCall(drop_all, nullptr) == 0;
}

Held::Held(nb::object object)
    : object_(new nb::handle(object.release()), [](nb::handle* held) {
        drop(held->ptr());
        delete held;
      }) {}

}  // namespace tidu::python
