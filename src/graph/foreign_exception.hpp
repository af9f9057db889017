// foreign_exception.hpp - exceptions of a user's rule or kernel that are no Error.
#pragma once

#include <cxxabi.h>

#include <exception>
#include <new>
#include <string>

#include "tidu/graph/error.hpp"

namespace tidu::detail {

/// For a catch (...): the text of the exception. An Error, a failed allocation and the end of a cancelled
/// thread are rethrown.
inline std::string foreign_exception() {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  }
#ifdef __GLIBCXX__
  catch (const abi::__forced_unwind&) {
    throw;
  }
#endif
  catch (...) {
    return "something that is no std::exception";
  }
}

}  // namespace tidu::detail
