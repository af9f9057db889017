// training.hpp - the descent: compiled once for a model, run from any number of seeds.
#pragma once

#include <cstdint>
#include <functional>
#include <tidu/cpu/executable.hpp>
#include <vector>

#include "data.hpp"
#include "models.hpp"

namespace digits {

struct Settings {
  std::size_t epochs = 40;
  std::size_t batch = 32;  ///< rows of a step; the few that an epoch leaves over are not used in it
  float rate = 0.05F;      ///< of the first epoch; it falls linearly to a tenth of that in the last
  double weight_decay = 0;
};

/// The result of one seed.
struct Outcome {
  std::vector<double> loss;               ///< mean over the steps of each epoch
  std::vector<double> accuracy;           ///< on the training rows, after each epoch
  std::vector<std::int32_t> predictions;  ///< for the held-out rows, made once, at the end
  double held_out_accuracy = 0;
};

class Trainer {
 public:
  /// Both tables must outlive the trainer.
  Trainer(const Model& model, const Digits& train, const Digits& held_out, const Settings& settings);

  /// Trains from parameters and an order of rows that `seed` determines. The held-out rows are predicted when
  /// training is over. `after_epoch` is called with the epochs done, loss and accuracy.
  Outcome train(std::uint64_t seed,
                const std::function<void(std::size_t, double, double)>& after_epoch) const;

 private:
  std::vector<tidu::Tensor> initial_parameters(std::uint64_t seed) const;
  std::vector<std::int32_t> predict(const tidu::Executable& predictor,
                                    const std::vector<tidu::Tensor>& parameters, const Digits& digits) const;
  Model model_;
  const Digits& train_;
  const Digits& held_out_;
  Settings settings_;
  tidu::Executable step_, predict_train_, predict_held_out_;
};

}  // namespace digits
