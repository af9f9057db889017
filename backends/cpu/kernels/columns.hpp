// columns.hpp - rows of words, wherever they lie, brought to columns, each in one piece: squares of them are
// transposed in registers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidu::cpu_detail {

/// to[k * stride + i] = from[places[i] + k] for k in [0, columns) and i in [0, count). Of Word std::uint32_t
/// or std::uint64_t.
template <class Word>
using GatherColumns = void (*)(const Word* from, const std::int64_t* places, std::int64_t count,
                               std::int64_t columns, Word* to, std::int64_t stride);
/// That of the CPU that is there.
template <class Word>
GatherColumns<Word> gather_columns_kernel();

/// places[i] = indices[i], moved into [0, last], times step. Of Index std::int32_t or std::int64_t.
template <class Index>
void find_places(const Index* indices, std::int64_t count, std::int64_t last, std::int64_t step,
                 std::int64_t* places);

}  // namespace tidu::cpu_detail
