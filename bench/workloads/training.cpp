// training.cpp - steps of gradient descent: loss, all gradients and the update in one graph, as a user writes
// them.
#include <cmath>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <tidu/frontend/functions.hpp>
#include <tidu/frontend/hot_paths.hpp>
#include <tidu/frontend/modes.hpp>
#include <tidu/frontend/trace.hpp>
#include <tidu/frontend/transforms.hpp>
#include <tidu/frontend/windows.hpp>
#include <utility>

#include "bounds.hpp"
#include "workload.hpp"

namespace workloads {
namespace {

using namespace tidu;
using cpu_detail::GemmType;
using Arrays = std::vector<Array>;

constexpr double rate = 0.01;

// One step: the loss, then the parameters after it. Inputs: the parameters, then the data.
template <class Loss>
Graph step(const Loss& loss, const std::vector<Tensor>& parameters, const std::vector<Tensor>& data) {
  const auto as_arrays = [](const std::vector<Tensor>& tensors) {
    return Arrays(tensors.begin(), tensors.end());
  };
  return trace(
      [&loss](const Arrays& p, const Arrays& batch) {
        const auto [value, gradients] = value_and_grad(loss)(p, batch);
        Arrays results{value};
        for (std::size_t i = 0; i < p.size(); ++i) results.push_back(p[i] - rate * gradients[i]);
        return results;
      },
      as_arrays(parameters), as_arrays(data));
}

Array cross_entropy(const Array& logits, const Array& labels) {
  return -mean(take_along_axis(log_softmax(logits), expand_dims(labels, 1), 1));
}

// The step as a workload, whose parameters move on from run to run.
template <class Loss>
Workload training(const Loss& loss, const std::vector<Tensor>& parameters, const std::vector<Tensor>& data,
                  const Setting& setting, const std::vector<Matmul>& matmuls) {
  std::vector<Tensor> inputs = parameters;
  inputs.insert(inputs.end(), data.begin(), data.end());
  Workload workload = of_graph(step(loss, parameters, data), inputs, setting, 1);
  workload.bounds = matmuls_alone(GemmType::f32, matmuls, setting.threads);
  return workload;
}

// The same steps eagerly, as operations that repeat and so become hot; the bound is the step by compile().
// Both have as many threads as the process has processors.
template <class Loss>
Workload hot_loop(const Loss& loss, const std::vector<Tensor>& parameters, const std::vector<Tensor>& data) {
  const auto leaves = [parameters] {
    Arrays all;
    for (const Tensor& tensor : parameters) all.push_back(Array(tensor.clone()).set_requires_grad());
    return all;
  };
  const Arrays batch(data.begin(), data.end());
  const auto eager = [=](Arrays& p) {
    const Array value = loss(p, batch);
    for (const Array& parameter : p) parameter.zero_grad();
    value.backward();
    const NoGrad guard;
    for (Array& parameter : p) parameter -= rate * *parameter.grad();
    return value.template item<float>();
  };
  // For one step; the timed form has to compute the same, up to rounding, when it has become hot.
  const auto results = [=] {
    constexpr int steps = 12;
    constexpr double bound = 1e-4;
    Arrays plainly = leaves(), hotly = leaves();
    std::vector<Tensor> first;
    const std::uint64_t known = hot_statistics().known;
    for (int i = 0; i < steps; ++i) {
      const float value = eager(plainly);
      bool same = true;
      {
        const HotPaths guard;
        same = std::abs(eager(hotly) - value) <= bound * std::abs(value);
      }
      if (i == 0) first.push_back(Tensor::scalar(value));
      for (std::size_t k = 0; k < plainly.size(); ++k) {
        same = same && max(abs(plainly[k] - hotly[k])).template item<float>() <= bound;
        if (i == 0) first.push_back(plainly[k].tensor().clone());
      }
      if (!same) throw std::runtime_error("hot steps compute something else");
    }
    if (hot_statistics().known == known) throw std::runtime_error("expected steps to become hot, none did");
    return first;
  };
  const auto hot = [eager, p = leaves()]() mutable {
    const HotPaths guard;
    eager(p);
  };
  const auto compiled = compile([loss](const Arrays& p, const Arrays& given) {
    const auto [value, gradients] = value_and_grad(loss)(p, given);
    Arrays all{value};
    for (std::size_t i = 0; i < p.size(); ++i) all.push_back(p[i] - rate * gradients[i]);
    return all;
  });
  const auto step_compiled = [compiled, batch, p = Arrays(parameters.begin(), parameters.end())]() mutable {
    Arrays all = compiled(std::move(p), batch);
    static_cast<void>(all[0].item<float>());
    p.assign(std::make_move_iterator(all.begin() + 1), std::make_move_iterator(all.end()));
  };
  return {.results = results, .run = hot, .bounds = {step_compiled}};
}

std::vector<Tensor> dense_layers(InputFile& file, const std::vector<std::int64_t>& widths) {
  std::vector<Tensor> parameters;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    parameters.push_back(file.next({f32, {widths[i], widths[i + 1]}}));
    parameters.push_back(file.next({f32, {widths[i + 1]}}));
  }
  return parameters;
}

std::vector<Matmul> matmuls_of_layers(std::int64_t batch, const std::vector<std::int64_t>& widths) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i)
    layers.push_back(dense_layer(batch, widths[i], widths[i + 1], i > 0, static_cast<int>(i)));
  return in_order(layers);
}

// Three layers, ReLU, cross-entropy.
Workload classifier(const Setting& setting, const std::string& name, const std::vector<std::int64_t>& widths,
                    std::int64_t batch, bool eagerly) {
  InputFile file(setting, name);
  const std::vector<Tensor> parameters = dense_layers(file, widths);
  const Tensor x = file.next({f32, {batch, widths[0]}}), labels = file.next({i32, {batch}});
  file.end();
  const auto loss = [](const Arrays& p, const Arrays& data) {
    const Array h1 = relu(matmul(data[0], p[0]) + p[1]);
    const Array h2 = relu(matmul(h1, p[2]) + p[3]);
    return cross_entropy(matmul(h2, p[4]) + p[5], data[1]);
  };
  if (eagerly) return hot_loop(loss, parameters, {x, labels});
  return training(loss, parameters, {x, labels}, setting, matmuls_of_layers(batch, widths));
}

Workload mlp_784(const Setting& setting, std::int64_t batch, bool eagerly) {
  return classifier(setting, "mlp_784_" + std::to_string(batch), {784, 512, 512, 10}, batch, eagerly);
}

// 2-16-16-1, tanh, mean squared error.
Workload mlp_2_16(const Setting& setting, bool eagerly) {
  constexpr std::int64_t batch = 32;
  const std::vector<std::int64_t> widths{2, 16, 16, 1};
  InputFile file(setting, "mlp_2_16");
  const std::vector<Tensor> parameters = dense_layers(file, widths);
  const Tensor x = file.next({f32, {batch, 2}}), y = file.next({f32, {batch, 1}});
  file.end();
  const auto loss = [](const Arrays& p, const Arrays& data) {
    const Array h1 = tanh(matmul(data[0], p[0]) + p[1]);
    const Array h2 = tanh(matmul(h1, p[2]) + p[3]);
    return mean(square(matmul(h2, p[4]) + p[5] - data[1]));
  };
  if (eagerly) return hot_loop(loss, parameters, {x, y});
  return training(loss, parameters, {x, y}, setting, matmuls_of_layers(batch, widths));
}

// 1 x 28 x 28; 5 x 5 x 16, ReLU, max pool 2; 5 x 5 x 32, ReLU, max pool 2; dense 10; cross-entropy.
Workload convnet(const Setting& setting) {
  constexpr std::int64_t batch = 64;
  InputFile file(setting, "convnet");
  const auto next = [&file](const Shape& shape) { return file.next({f32, shape}); };
  std::vector<Tensor> parameters;
  for (const Shape& shape :
       {Shape{16, 1, 5, 5}, Shape{16}, Shape{32, 16, 5, 5}, Shape{32}, Shape{512, 10}, Shape{10}})
    parameters.push_back(next(shape));
  const Tensor x = next({batch, 1, 28, 28}), labels = file.next({i32, {batch}});
  file.end();
  const auto loss = [](const Arrays& p, const Arrays& data) {
    const Array h1 = max_pool(relu(conv2d(data[0], p[0]) + reshape(p[1], {16, 1, 1})), {2, 2});
    const Array h2 = max_pool(relu(conv2d(h1, p[2]) + reshape(p[3], {32, 1, 1})), {2, 2});
    return cross_entropy(matmul(reshape(h2, {batch, 512}), p[4]) + p[5], data[1]);
  };
  // Convolutions as matmuls of windows.
  const std::vector<Matmul> matmuls =
      in_order({dense_layer(batch * 24 * 24, 25, 16, false, 0), dense_layer(batch * 8 * 8, 400, 32, true, 2),
                dense_layer(batch, 512, 10, true, 4)});
  return training(loss, parameters, {x, labels}, setting, matmuls);
}

}  // namespace

void add_training(Registry& registry) {
  for (const std::int64_t batch : {64, 256}) {
    registry["mlp_784/" + std::to_string(batch)] = [batch](const Setting& setting) {
      return mlp_784(setting, batch, false);
    };
  }
  registry["mlp_4096"] = [](const Setting& setting) {
    return classifier(setting, "mlp_4096", {1024, 4096, 4096, 1024}, 4096, false);
  };
  registry["mlp_2_16"] = [](const Setting& setting) { return mlp_2_16(setting, false); };
  registry["hot_loop"] = [](const Setting& setting) { return mlp_784(setting, 64, true); };
  registry["hot_loop/small"] = [](const Setting& setting) { return mlp_2_16(setting, true); };
  registry["convnet"] = convnet;
}

}  // namespace workloads
