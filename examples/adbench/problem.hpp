// problem.hpp - Problem: the common interface of the problems of ADBench, and the readers that make them. A
// reader throws std::runtime_error, naming file and line, for a file that is not in its format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <tidu/graph/graph.hpp>
#include <tidu/tensor/tensor.hpp>
#include <vector>

#include "common/reference.hpp"

namespace adbench {

/// A problem at one point. The outputs of either graph, one after another, are its result.
struct Problem {
  std::string name;
  examples::Dims dims;
  tidu::Graph objective;
  tidu::Graph derivative;
  std::vector<tidu::Tensor> inputs;  ///< of both graphs
  std::string key;                   ///< name of the derivative in results
  /// For a Jacobian: rows, columns as stored. For a sparse one also the positions of its values: row r has
  /// the entries rows[r] to rows[r + 1], entry k is in column cols[k].
  std::vector<std::int64_t> jacobian_shape{}, jacobian_rows{}, jacobian_cols{};
};

/// Log-posterior of a Gaussian mixture and its gradient by [alpha | mu | icf]. `replicate`: the file has one
/// point, which stands for all.
Problem read_gmm(const std::filesystem::path& file, bool replicate);

/// Bundle adjustment: residuals of reprojection, 2 per observation, then of weights, 1 per observation, and
/// their sparse Jacobian by [cameras | points | weights].
Problem read_ba(const std::filesystem::path& file);

/// Hand tracking: residuals of the points, 3 each, and their Jacobian column by column. `complicated`: points
/// lie in triangles, at barycentric coordinates u; two columns for u, to which only the rows of its own point
/// contribute, come before those for the 26 angles.
Problem read_hand(const std::filesystem::path& file, const std::filesystem::path& model, bool complicated);

/// How the steps of the LSTM are laid out in its graph.
enum class LstmForm {
  flat,  ///< operation by operation
  call   ///< one operation, a call of the graph of a step, for each
};

/// Loss of a recurrent network that predicts characters, and its gradient by [main | extra].
Problem read_lstm(const std::filesystem::path& file, LstmForm form);

}  // namespace adbench
