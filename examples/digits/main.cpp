// main.cpp - the program digits: trains both classifiers from five seeds, tests them on rows that were not
// used in training, and draws the results.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "data.hpp"
#include "models.hpp"
#include "pictures.hpp"
#include "training.hpp"

namespace {

using namespace digits;

constexpr std::size_t train_rows = 1347, test_rows = 450, seeds = 5;
// Neighbouring rows are of the same hands, so --validate leaves out whole quarters of the training rows.
constexpr std::size_t quarters = 4;

constexpr const char* usage =
    "usage: digits [--data digits.csv] [--out DIR] [--validate]\n"
    "Trains logistic regression and a 2-layer network on handwritten digits, five seeds each, and prints "
    "their\n"
    "accuracy on the test rows. --out DIR writes training.svg and digits.svg there. --validate leaves the "
    "test\n"
    "rows alone: it measures on each quarter of the training rows after training on the other three, which "
    "is\n"
    "how settings are chosen.\n"
    "Exit status: 0; 2 for wrong arguments or files; 3 when a median test accuracy is too low.\n";

struct Candidate {
  Model model;
  Settings settings;
  double wanted;  // median accuracy
};

Report train(const Candidate& candidate, const Digits& training, const Digits& held_out) {
  const Trainer trainer(candidate.model, training, held_out, candidate.settings);
  Report report{candidate.model.name, {}};
  std::printf("%s, %zu epochs of %zu rows\n", report.name.c_str(), candidate.settings.epochs,
              training.rows());
  for (std::size_t seed = 1; seed <= seeds; ++seed) {
    report.outcomes.push_back(trainer.train(seed, [&](std::size_t epoch, double loss, double accuracy) {
      if (epoch % 10 != 0) return;
      std::printf("  seed %zu  epoch %3zu  loss %.4f  training accuracy %.4f\n", seed, epoch, loss, accuracy);
      std::fflush(stdout);
    }));
    std::printf("  seed %zu  held-out accuracy %.4f\n", seed, report.outcomes.back().held_out_accuracy);
  }
  return report;
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file);
  if (!(out << text)) throw std::runtime_error(file.string() + ": expected a file that can be written");
  std::printf("wrote %s\n", file.c_str());
}

// The weight decays among 0, 3e-4, 1e-3 and 3e-3 that --validate finds best.
std::vector<Candidate> candidates() {
  return {{logistic_regression(), {.weight_decay = 0}, 0.91}, {network(64), {.weight_decay = 3e-4}, 0.92}};
}

int validate(const Digits& training) {
  const std::size_t size = training.rows() / quarters;
  for (const Candidate& candidate : candidates()) {
    double sum = 0;
    for (std::size_t k = 0; k < quarters; ++k) {
      const Report report = train(candidate, training.without(k * size, size), training.part(k * size, size));
      sum += median_accuracy(report);
    }
    std::printf("%s: median accuracy, mean of the quarters %.4f\n", candidate.model.name.c_str(),
                sum / quarters);
  }
  return 0;
}

int run(const Digits& training, const Digits& test, const std::string& out) {
  std::vector<Report> reports;
  for (const Candidate& candidate : candidates()) reports.push_back(train(candidate, training, test));

  bool good = true;
  for (std::size_t k = 0; k < reports.size(); ++k) {
    const double median = median_accuracy(reports[k]), wanted = candidates()[k].wanted;
    std::printf("%s: median test accuracy of %zu seeds %.4f, %s %.2f\n", reports[k].name.c_str(), seeds,
                median, median >= wanted ? "at least" : "BELOW", wanted);
    good = good && median >= wanted;
  }
  if (!out.empty()) {
    std::filesystem::create_directories(out);
    write(std::filesystem::path(out) / "training.svg", draw_curves(reports));
    write(std::filesystem::path(out) / "digits.svg",
          draw_digits(test, reports.back().name, reports.back().outcomes[0]));
  }
  return good ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  std::string data = DIGITS_CSV, out;
  bool validating = false;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word == "--help") {
        std::fputs(usage, stdout);
        return 0;
      }
      if (word == "--validate") {
        validating = true;
      } else if ((word == "--data" || word == "--out") && i + 1 < argc) {
        (word == "--data" ? data : out) = argv[++i];
      } else {
        throw std::runtime_error("expected --data FILE, --out DIR or --validate, got " + word);
      }
    }
    const Digits all = read_digits(data);
    if (all.rows() != train_rows + test_rows) throw std::runtime_error(data + ": expected 1797 rows");
    const Digits training = all.part(0, train_rows);
    return validating ? validate(training) : run(training, all.part(train_rows, test_rows), out);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return 2;
  }
}
