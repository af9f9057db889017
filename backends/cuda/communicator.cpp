// communicator.cpp - joining communicators, and executors with axes that are bound to them.
#include "cuda/communicator.hpp"

#include "cuda/opener.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {

CudaCommunicatorId CudaCommunicatorId::make(const CudaExecutor& executor) {
  return {executor.opener_->runtime()->device().communicator_id()};
}

CudaCommunicator CudaCommunicator::join(const CudaExecutor& executor, const CudaCommunicatorId& id, int rank,
                                        int size) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("[cuda] expected a rank of at least 0 and below the communicator's size, got ",
                            rank, " of ", size));
  }
  const std::shared_ptr<cuda_detail::Runtime>& runtime = executor.opener_->runtime();
  void* const handle = runtime->device().join(id.bytes, rank, size);
  try {
    return CudaCommunicator(std::make_shared<const cuda_detail::Communicator>(runtime, handle, rank, size));
  } catch (...) {
    runtime->device().leave(handle);
    throw;
  }
}

int CudaCommunicator::rank() const { return held_->rank; }
int CudaCommunicator::size() const { return held_->size; }

CudaExecutor with_axes(const CudaExecutor& executor, const std::vector<CudaAxis>& axes) {
  auto bound = std::make_shared<cuda_detail::Axes>();
  for (const CudaAxis& axis : axes) {
    if (axis.name.empty())
      throw Error(ErrorKind::invalid_argument, "[cuda] expected the name of an axis, got an empty one");
    if (axis.communicator.held_->runtime != executor.opener_->runtime()) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("[cuda] expected a communicator of the executor's device for axis ",
                              detail::in_quotes(axis.name), ", got one of another"));
    }
    if (!bound->emplace(axis.name, axis.communicator.held_).second)
      throw Error(ErrorKind::invalid_argument, detail::str("[cuda] expected each axis once, got ",
                                                           detail::in_quotes(axis.name), " twice"));
  }
  CudaExecutor result = executor;
  result.renew_identity();
  result.axes_ = std::move(bound);
  return result;
}

namespace cuda_detail {

void bind_axes(Step& step, const Axes* axes, std::string_view operation) {
  auto* const collective = std::get_if<CollectiveStep>(&step);
  if (collective == nullptr) return;
  const auto found = axes != nullptr ? axes->find(collective->axis_name) : Axes::const_iterator();
  if (axes == nullptr || found == axes->end()) {
    if (collective->ranks == 1) return;
    throw Error(ErrorKind::execution,
                detail::str('[', operation, "] expected the axis ", detail::in_quotes(collective->axis_name),
                            " of ", collective->ranks, " ranks to be bound to a communicator, got none"));
  }
  if (found->second->size != collective->ranks) {
    throw Error(
        ErrorKind::execution,
        detail::str('[', operation, "] expected a communicator of ", collective->ranks, " ranks for axis ",
                    detail::in_quotes(collective->axis_name), ", got one of ", found->second->size));
  }
  collective->communicator = found->second->handle;
  collective->rank = found->second->rank;
}

}  // namespace cuda_detail
}  // namespace tidu
