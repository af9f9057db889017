// parallel.cpp - one backward call on several threads.
#include "eager/call.hpp"

namespace tidu::eager::detail {

bool BackwardCall::wants_threads() const { return false; }
void BackwardCall::run_threaded() { run_alone(); }

}  // namespace tidu::eager::detail
