// main.cpp - the program digits_eager: trains the network of ../digits as one would in PyTorch. Every
// operation runs at once and is recorded, backward() fills the gradients, and the parameters change in place.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/arguments.hpp"
#include "common/program.hpp"
#include "network.hpp"

namespace {

using namespace digits;
using Clock = std::chrono::steady_clock;

constexpr std::size_t train_rows = 1347, test_rows = 450, batch = 32;
constexpr std::int64_t hidden = 64;
constexpr double first_rate = 0.05, momentum = 0.9, weight_decay = 3e-4;  // as in ../digits

constexpr const char* usage =
    "usage: digits_eager [--data digits.csv] [--seeds N] [--epochs N] [--wanted ACCURACY]\n"
    "Trains a 2-layer network on handwritten digits eagerly (5 seeds, 40 epochs) and prints its accuracy on "
    "the\n"
    "test rows.\n"
    "Exit status: 0; 2 for wrong arguments or files; 3 when the median test accuracy is below --wanted "
    "(0.92).\n";

struct Settings {
  std::string data;
  std::size_t seeds, epochs;
  double wanted;
};

Settings settings_of(const examples::Arguments& arguments) {
  if (!arguments.words().empty())
    throw std::runtime_error("expected options, got " + arguments.words().front());
  const auto count = [&](const char* option, std::int64_t otherwise) {
    return static_cast<std::size_t>(arguments.integer(option, otherwise, 1, 1'000'000));
  };
  return {arguments.text("--data", DIGITS_CSV), count("--seeds", 5), count("--epochs", 40),
          arguments.number("--wanted", 0.92, 0, 1)};
}

// One pass over the rows in an order of its own; returns the mean loss of its steps.
double run_epoch(const Network& network, Descent& descent, const Digits& training, double rate,
                 std::vector<std::size_t>& order, std::mt19937_64& random) {
  std::shuffle(order.begin(), order.end(), random);
  const std::size_t steps = order.size() / batch;
  double sum = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    const auto rows = std::span(order).subspan(i * batch, batch);
    const tidu::Array images(training.images(rows)), labels(training.labels_of(rows));

    descent.zero_grad();
    const tidu::Array loss = cross_entropy(network.scores(images), labels);
    loss.backward();
    descent.step(rate);

    sum += loss.item();
  }
  return sum / static_cast<double>(steps);
}

// Trains from that seed; returns the accuracy on the test rows, which nothing else looks at.
double train(std::size_t seed, std::size_t epochs, const Digits& training, const Digits& test) {
  const Network network(hidden, seed);
  Descent descent(network.parameters(), momentum, weight_decay);
  std::mt19937_64 random(seed + 1000);
  std::vector<std::size_t> order(training.rows());
  std::iota(order.begin(), order.end(), std::size_t{0});

  std::chrono::duration<double, std::micro> passed{};
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    const double rate = first_rate * (1 - 0.9 * static_cast<double>(epoch) / static_cast<double>(epochs));
    const auto from = Clock::now();
    const double loss = run_epoch(network, descent, training, rate, order, random);
    passed += Clock::now() - from;
    if ((epoch + 1) % 10 != 0) continue;
    std::printf("  seed %zu  epoch %3zu  loss %.4f  training accuracy %.4f\n", seed, epoch + 1, loss,
                accuracy(network, training));
    std::fflush(stdout);
  }
  const double result = accuracy(network, test);
  const std::size_t steps_per_epoch = training.rows() / batch;
  const auto steps = static_cast<double>(epochs * steps_per_epoch);
  std::printf("  seed %zu  test accuracy %.4f, %.0f us a step of %zu rows\n", seed, result,
              passed.count() / steps, batch);
  return result;
}

int run(const Settings& settings) {
  const Digits all = read_digits(settings.data);
  if (all.rows() != train_rows + test_rows) throw std::runtime_error(settings.data + ": expected 1797 rows");
  const Digits training = all.part(0, train_rows), test = all.part(train_rows, test_rows);

  std::printf("2-layer network, eager: %zu epochs of %zu rows\n", settings.epochs, training.rows());
  std::vector<double> accuracies;
  for (std::size_t seed = 1; seed <= settings.seeds; ++seed)
    accuracies.push_back(train(seed, settings.epochs, training, test));

  const auto middle = accuracies.begin() + static_cast<std::ptrdiff_t>(accuracies.size() / 2);
  std::nth_element(accuracies.begin(), middle, accuracies.end());
  const bool good = *middle >= settings.wanted;
  std::printf("median test accuracy of %zu seed%s %.4f, %s %.2f\n", accuracies.size(),
              accuracies.size() == 1 ? "" : "s", *middle, good ? "at least" : "BELOW", settings.wanted);
  return good ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("digits_eager", usage, argc, argv, [&] {
    return run(settings_of({argc, argv, {"--data", "--seeds", "--epochs", "--wanted"}}));
  });
}
