// hand_model.hpp - the model of the hand: bones, and a surface whose vertices move with them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <tidu/tensor/tensor.hpp>
#include <vector>

namespace adbench {

/// Bone 0 is the wrist; bones 1 + 4 F to 4 + 4 F are those of finger F = 0 … 4.
struct HandModel {
  std::vector<std::int64_t> parents;  ///< by bone; -1 at a root, else less than the bone's own number
  tidu::Tensor relative;              ///< f64 [bones,4,4]: from the bone's frame to its parent's
  tidu::Tensor inverse;               ///< f64 [bones,4,4]: from the model's frame at rest to the bone's
  /// f64 [4 bones, vertices]: by bone, its weight times the vertex at rest in homogeneous coordinates.
  tidu::Tensor skin;
  std::vector<std::int32_t> triangles;  ///< vertices, three for each

  std::int64_t num_bones() const { return static_cast<std::int64_t>(parents.size()); }
  std::int64_t num_vertices() const { return skin.dim(1); }
};

/// Reads bones.txt, vertices.txt and triangles.txt. Throws std::runtime_error, naming file and line, for text
/// that is not in ADBench's format.
HandModel read_hand_model(const std::filesystem::path& directory);

}  // namespace adbench
