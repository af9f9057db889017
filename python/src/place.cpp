// place.cpp - the source location in the user's program, and references to Python objects that any thread may
// drop.
#include "core.hpp"

#include <frameobject.h>
#include <pthread.h>

#include <mutex>
#include <string_view>
#include <unordered_map>

namespace tidu::python {
namespace {

struct File {
  const char* name;  // null: in this package
};

// The folder of this package. Not initialised under a guard of C++: a thread that waits for the guard would
// hold the interpreter lock, which the import needs to end.
const std::string& package_folder() {
  static constinit std::string* folder = nullptr;
  if (folder != nullptr) return *folder;
  const nb::object file = nb::module_::import_("tidu").attr("__file__");
  const std::string path = nb::cast<std::string>(file);
  if (folder == nullptr) folder = new std::string(path.substr(0, path.rfind('/') + 1));
  return *folder;
}

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
  const std::string& package = package_folder();
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
// A child of fork() may find the lock held by a thread that it does not have: it starts with another list,
// and the former one leaks.
std::atomic<Dropped*>& dropped() {
  static std::atomic<Dropped*>& list = *[] {
    ::pthread_atfork(nullptr, nullptr, [] { dropped().store(new Dropped()); });
    return new std::atomic<Dropped*>(new Dropped());
  }();
  return list;
}

}  // namespace

void drop_waiting() {
  std::vector<PyObject*> objects;
  {
    Dropped& list = *dropped().load();
    const std::lock_guard<std::mutex> lock(list.mutex);
    objects.swap(list.objects);
    any_waiting.store(false, std::memory_order_relaxed);
  }
  for (PyObject* object : objects) Py_DECREF(object);
}

// Without the lock it is dropped later, by the next call of this module, or by the interpreter: to wait for
// the lock here, where a lock of tidu's may be held, could wait for ever.
void drop(PyObject* object) noexcept {
  if (object == nullptr || !Py_IsInitialized()) return;
  if (PyGILState_Check()) {
    Py_DECREF(object);
    return;
  }
  Dropped& list = *dropped().load();
  const std::lock_guard<std::mutex> lock(list.mutex);
  list.objects.push_back(object);
  any_waiting.store(true, std::memory_order_relaxed);
  if (list.scheduled) return;
  list.scheduled = Py_AddPendingCall(
                       [](void*) {
                         {
                           Dropped& here = *dropped().load();
                           const std::lock_guard<std::mutex> ended(here.mutex);
                           here.scheduled = false;
                         }
                         drop_waiting();
                         return 0;
                       },
                       nullptr) == 0;
}

const Tensor& data_of(const Array& array) {
  const Tensor& tensor = array.tensor(here());
  if (tensor.pending() != nullptr) unlocked([&] { (void)tensor.bytes(); });
  return tensor;
}

Held::Held(nb::object object)
    : object_(new nb::handle(object.release()), [](nb::handle* held) {
        drop(held->ptr());
        delete held;
      }) {}

}  // namespace tidu::python
