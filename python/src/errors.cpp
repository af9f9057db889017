// errors.cpp - tidu's errors as exceptions of Python's: tidu.Error and its subclasses, by kind.
#include <exception>

#include "core.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::python {
namespace {

nb::object& classes() {
  static auto& list = *new nb::object();
  return list;
}

void raise(const Error& error) {
  std::string message = error.what();
  const Where where = here();
  if (where.file != nullptr) {
    std::string line = where.file;
    line = line.substr(line.rfind('/') + 1) + ":" + std::to_string(where.line);
    if (message.find(line) == std::string::npos) message += "\n  at " + line;
  }
  const nb::object type = classes()[nb::str(std::string(to_string(error.kind())).c_str())];
  PyErr_SetString(type.ptr(), message.c_str());
}

// The exception as it was raised, with a note of where in tidu's work that was.
void raise_python(const PythonError& error) {
  const nb::object raised = error.raised().get();
  if (nb::hasattr(raised, "add_note")) raised.attr("add_note")(nb::str(error.what()));
  PyErr_SetObject(raised.type().ptr(), raised.ptr());
}

}  // namespace

PythonError python_error(ErrorKind kind, const std::string& where, nb::python_error& raised) {
  const nb::object value = nb::borrow(raised.value());
  if (raised.traceback().is_valid()) PyException_SetTraceback(value.ptr(), raised.traceback().ptr());
  return {kind,
          detail::str("[", where, "] ", nb::cast<std::string>(nb::str(value.type().attr("__name__"))), ": ",
                      nb::cast<std::string>(nb::str(value))),
          Held(value)};
}

void bind_errors(nb::module_& m) {
  m.def("_set_errors", [](nb::object by_kind) { classes() = std::move(by_kind); });
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const PythonError& error) {
      raise_python(error);
    } catch (const Error& error) {
      if (!classes().is_valid()) throw;
      raise(error);
    }
  });
}

}  // namespace tidu::python
