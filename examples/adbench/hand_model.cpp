// hand_model.cpp - reads the files of the model of the hand.
#include "hand_model.hpp"

#include <array>
#include <stdexcept>
#include <string>

#include "common/text_reader.hpp"

namespace adbench {
namespace {

using examples::TextReader;

constexpr std::int64_t min_bones = 21;  // the wrist, and four for each of five fingers

void read_bones(HandModel& model, const std::filesystem::path& file) {
  TextReader in(file, TextReader::Layout::colons);
  std::vector<double> relative, inverse;
  while (in.next_record()) {
    const std::int64_t bone = model.num_bones();
    const std::string name = in.word("the name of a bone");
    model.parents.push_back(in.integer("the parent of " + name, -1, bone - 1));
    for (int i = 0; i < 16; ++i) relative.push_back(in.number("an element of the matrix of " + name));
    for (int i = 0; i < 16; ++i) inverse.push_back(in.number("an element of the inverse matrix of " + name));
    in.end_of_record("the inverse matrix of " + name);
  }
  const std::int64_t bones = model.num_bones();
  if (bones < min_bones) {
    throw std::runtime_error(file.string() + ": expected at least " + std::to_string(min_bones) +
                             " bones, got " + std::to_string(bones));
  }
  model.relative = tidu::Tensor::from<double>({bones, 4, 4}, relative);
  model.inverse = tidu::Tensor::from<double>({bones, 4, 4}, inverse);
}

void read_vertices(HandModel& model, const std::filesystem::path& file) {
  TextReader in(file, TextReader::Layout::colons);
  const auto rows = static_cast<std::size_t>(4 * model.num_bones());
  std::vector<double> columns;  // of the skin, one after another
  while (in.next_record()) {
    const std::array<double, 4> place{in.number("the x of a vertex"), in.number("the y of a vertex"),
                                      in.number("the z of a vertex"), 1.0};
    for (int i = 0; i < 5; ++i) in.number("the normal and the texture coordinates of a vertex");
    const std::size_t column = columns.size();
    columns.resize(column + rows, 0.0);
    const std::int64_t weights = in.integer("the number of weights of a vertex", 0, model.num_bones());
    for (std::int64_t i = 0; i < weights; ++i) {
      const std::int64_t bone = in.integer("the bone of a weight", 0, model.num_bones() - 1);
      const double weight = in.number("a weight");
      for (std::size_t k = 0; k < 4; ++k)
        columns[column + 4 * static_cast<std::size_t>(bone) + k] += weight * place[k];
    }
    in.end_of_record("the weights of a vertex");
  }
  const std::size_t vertices = columns.size() / rows;
  if (vertices == 0) throw std::runtime_error(file.string() + ": expected vertices, got none");
  model.skin = tidu::Tensor(
      tidu::Type(tidu::f64, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(vertices)}));
  const std::span<double> skin = model.skin.mutable_elements<double>();
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t j = 0; j < vertices; ++j) skin[row * vertices + j] = columns[j * rows + row];
  }
}

void read_triangles(HandModel& model, const std::filesystem::path& file) {
  TextReader in(file, TextReader::Layout::colons);
  while (in.next_record()) {
    for (int corner = 0; corner < 3; ++corner) {
      model.triangles.push_back(
          static_cast<std::int32_t>(in.integer("the vertex of a triangle", 0, model.num_vertices() - 1)));
    }
    in.end_of_record("the vertices of a triangle");
  }
}

}  // namespace

HandModel read_hand_model(const std::filesystem::path& directory) {
  HandModel model;
  read_bones(model, directory / "bones.txt");
  read_vertices(model, directory / "vertices.txt");
  read_triangles(model, directory / "triangles.txt");
  return model;
}

}  // namespace adbench
