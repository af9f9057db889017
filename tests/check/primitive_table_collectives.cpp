// primitive_table_collectives.cpp - the rows of collectives; see primitive_table.hpp.
#include "primitive_table.hpp"

namespace tidu::test {
namespace {

const std::vector<DType> exchanged{f64, f32, c128, c64};

Row over_one_rank(std::string_view primitive, const Shape& shape, std::string_view note,
                  const Attributes& more) {
  Row row{primitive, exchanged, {{shape}}};
  row.note = note;
  row.attributes = [more](DType, const PrimitiveSet&) {
    Attributes all{{"axis_name", "ranks"}, {"axis_size", 1}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  return row;
}

}  // namespace

void add_collectives(std::vector<Row>& t) {
  t.push_back(over_one_rank("psum", {2, 3}, "", {}));
  t.push_back(over_one_rank("all_gather", {2, 3}, "", {{"all_gather_dimension", 1}}));
  t.push_back(over_one_rank("all_gather", {2, 3}, "tiled", {{"all_gather_dimension", 1}, {"tiled", true}}));
  t.push_back(over_one_rank("reduce_scatter", {2, 1, 3}, "", {{"scatter_dimension", 1}}));
  t.push_back(over_one_rank("reduce_scatter", {2, 3}, "tiled", {{"scatter_dimension", 1}, {"tiled", true}}));
  t.push_back(over_one_rank("ppermute", {2, 3}, "", {{"perm", IntLists{{0, 0}}}}));
  t.push_back(over_one_rank("ppermute", {2, 3}, "to nobody", {{"perm", IntLists{}}}));
}

}  // namespace tidu::test
