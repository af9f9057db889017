// transformer.cpp - a transformer block: pre-norm, fused QKV, 8 heads without a mask, MLP of 4 times the
// width with the tanh form of GELU; the loss is mean(y^2), with all gradients.
#include <cmath>
#include <numbers>
#include <tidu/frontend/functions.hpp>
#include <tidu/frontend/trace.hpp>
#include <tidu/linearize/transforms.hpp>

#include "bounds.hpp"
#include "workload.hpp"

namespace workloads {
namespace {

using namespace tidu;
using cpu_detail::GemmType;
using Arrays = std::vector<Array>;

constexpr std::int64_t heads = 8;

struct Sizes {
  const char* name;
  std::int64_t batch, length, width;
};

Array layer_norm(const Array& x, const Array& weight, const Array& bias) {
  const Array centred = x - mean(x, -1, true);
  return centred * rsqrt(mean(square(centred), -1, true) + 1e-5) * weight + bias;
}

Array gelu(const Array& x) {
  return 0.5 * x * (1 + tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * pow(x, 3))));
}

// p: x, norm 1 (w, b), qkv (w, b), out (w, b), norm 2 (w, b), up (w, b), down (w, b).
Array loss(const Arrays& p) {
  const Array& x = p[0];
  const std::int64_t batch = x.shape(0), length = x.shape(1), width = x.shape(2), size = width / heads;
  const Array qkv = matmul(layer_norm(x, p[1], p[2]), p[3]) + p[4];
  const Array parts = transpose(reshape(qkv, {batch, length, 3, heads, size}), {2, 0, 3, 1, 4});
  const Array q = parts[0], k = parts[1], v = parts[2];  // [batch, heads, length, size]
  const Array scores = matmul(q, swapaxes(k, -1, -2)) * (1 / std::sqrt(static_cast<double>(size)));
  const Array mixed = reshape(transpose(matmul(softmax(scores), v), {0, 2, 1, 3}), {batch, length, width});
  const Array h = x + matmul(mixed, p[5]) + p[6];
  const Array inner = gelu(matmul(layer_norm(h, p[7], p[8]), p[9]) + p[10]);
  return mean(square(h + matmul(inner, p[11]) + p[12]));
}

std::vector<Matmul> matmuls(const Sizes& sizes) {
  const std::int64_t length = sizes.length, width = sizes.width, rows = sizes.batch * length;
  const std::int64_t size = width / heads, all = sizes.batch * heads;
  std::vector<Layer> layers;
  for (const auto& [in, out] :
       {std::pair(width, 3 * width), {width, width}, {width, 4 * width}, {4 * width, width}}) {
    layers.push_back(dense_layer(rows, in, out, true, static_cast<int>(layers.size())));
    layers.back().backward.back().updates.clear();  // gradients are results
  }
  Layer attention;
  const auto add = [&](std::vector<Matmul>& to, bool scores, bool trans_a, const char* a, const char* b,
                       const char* c) {
    to.push_back({.m = length,
                  .n = scores ? length : size,
                  .k = scores ? size : length,
                  .trans_a = trans_a,
                  .trans_b = scores,
                  .batch = all,
                  .a = a,
                  .b = b,
                  .c = c});
  };
  add(attention.forward, true, false, "q", "k", "s");     // s = q k'
  add(attention.forward, false, false, "s", "v", "y");    // y = s v
  add(attention.backward, true, false, "dy", "v", "ds");  // ds = dy v'
  add(attention.backward, false, true, "s", "dy", "dv");  // dv = s' dy
  add(attention.backward, false, false, "ds", "k", "dq");
  add(attention.backward, false, true, "ds", "q", "dk");
  return in_order({layers[0], attention, layers[1], layers[2], layers[3]});
}

Workload make(const Sizes& sizes, const Setting& setting) {
  const std::int64_t width = sizes.width;
  InputFile file(setting, std::string("transformer_") + sizes.name);
  std::vector<Tensor> inputs;
  for (const Shape& shape :
       {Shape{sizes.batch, sizes.length, width}, Shape{width}, Shape{width}, Shape{width, 3 * width},
        Shape{3 * width}, Shape{width, width}, Shape{width}, Shape{width}, Shape{width},
        Shape{width, 4 * width}, Shape{4 * width}, Shape{4 * width, width}, Shape{width}})
    inputs.push_back(file.next({f32, shape}));
  file.end();
  Workload workload =
      of_graph(value_and_grad(trace(loss, Arrays(inputs.begin(), inputs.end()))), inputs, setting);
  workload.bounds = matmuls_alone(GemmType::f32, matmuls(sizes), setting.threads);
  return workload;
}

}  // namespace

void add_transformer(Registry& registry) {
  for (const Sizes& sizes :
       {Sizes{"huge", 8, 1024, 1024}, Sizes{"large", 8, 128, 256}, Sizes{"small", 2, 16, 64}}) {
    registry[std::string("transformer/") + sizes.name] = [sizes](const Setting& setting) {
      return make(sizes, setting);
    };
  }
}

}  // namespace workloads
