// onednn.hpp - OneThread: limits calls of oneDNN to one OpenMP thread, so that their bits do not depend on
// the number of threads.
#pragma once

#if defined(TIDU_WITH_ONEDNN)

// Functions of the OpenMP runtime that oneDNN was built for. They are declared here because the compiler's
// omp.h may belong to another runtime.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int count);
}

namespace tidu::cpu_detail::onednn {

/// Limits the OpenMP threads of calls from this thread to 1 during its lifetime; other threads are not
/// affected.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace tidu::cpu_detail::onednn

#endif
