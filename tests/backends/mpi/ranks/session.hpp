// session.hpp - the ranks that this test program was started as.
#pragma once

#include "tidu/mpi.hpp"

namespace tidu::test {

/// Lasts until the program ends.
inline const MpiSession& session() {
  static const MpiSession one;
  return one;
}

}  // namespace tidu::test
