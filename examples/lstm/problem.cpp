// problem.cpp - reading of ADBench's text files.
#include "problem.hpp"

#include "common/text_reader.hpp"

namespace lstm {

Problem read_problem(const std::filesystem::path& file) {
  examples::TextReader in(file);
  constexpr std::int64_t most = 1'000'000;
  Problem p;
  p.layers = in.integer("the number of layers", 1, most);
  p.characters = in.integer("the number of characters", 2, most);
  p.bits = in.integer("the number of bits of a character", 1, most);
  p.main = tidu::Array(in.numbers({p.layers, 2, 4, p.bits}, "the gates' parameters"));
  p.extra = tidu::Array(in.numbers({3, p.bits}, "the parameters of input and output"));
  p.state = tidu::Array(in.numbers({p.layers, 2, p.bits}, "the state"));
  for (std::int64_t t = 0; t < p.characters; ++t)
    p.sequence.emplace_back(in.numbers({p.bits}, "a character"));
  in.end("the characters");
  return p;
}

}  // namespace lstm
