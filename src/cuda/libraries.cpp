// libraries.cpp - the libraries of a device. None is bound yet.
#include "cuda/libraries.hpp"

#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

class NoLibraries final : public Libraries {
 public:
  void run(const GemmStep&, const Bindings&, Stream) override { refuse("products"); }
  void run(const SortStep&, const Bindings&, Stream) override { refuse("sorting"); }
  void run(const SolverStep&, const Bindings&, Stream) override { refuse("linear algebra"); }
  void run(const ConvolutionStep&, const Bindings&, Stream) override { refuse("convolutions"); }
  void run(const CollectiveStep&, const Bindings&, Stream) override { refuse("collectives"); }
  bool can_capture(const Step&) const override { return true; }

 private:
  [[noreturn]] static void refuse(const char* what) {
    throw Error(ErrorKind::execution, detail::str("[cuda] expected a library for ", what, ", got none"));
  }
};

}  // namespace

std::unique_ptr<Libraries> make_libraries(int) { return std::make_unique<NoLibraries>(); }

}  // namespace tidu::cuda_detail
