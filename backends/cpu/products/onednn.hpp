// onednn.hpp - what calls of oneDNN have in common: they are made with one OpenMP thread.
#pragma once

#if defined(TIDU_WITH_ONEDNN)

// Of the OpenMP runtime that oneDNN was built for. Declared here because a compiler's omp.h may belong to
// another one.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int count);
}

namespace tidu::cpu_detail::onednn {

/// The number of OpenMP threads that calls from this thread, and from no other, may use: 1 while this lives.
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
