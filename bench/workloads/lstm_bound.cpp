// lstm_bound.cpp - forward and backward in one loop each over the characters, rows at a time. No template of
// the standard library is used here, since this file is compiled for AVX2.
#include "lstm_bound.hpp"

#include <math.h>

namespace workloads {
namespace {

constexpr int W = static_cast<int>(lstm_width);
// The kept rows of a step of a layer: four gates, the cells, their tanh, the hidden values.
enum Kept { forget, in, out, change, cells, bent, hidden, kept_rows };

// 1 / (1 + e^-(x w + b)).
inline void sigmoid(const double* x, const double* w, const double* b, double* y) {
#pragma omp simd
  for (int j = 0; j < W; ++j) y[j] = 1 / (1 + exp(-(x[j] * w[j] + b[j])));
}
// tanh(x w + b).
inline void bend(const double* x, const double* w, const double* b, double* y) {
#pragma omp simd
  for (int j = 0; j < W; ++j) y[j] = 1 - 2 / (1 + exp(2 * (x[j] * w[j] + b[j])));
}

// One kept row of step t (-1: the state at the beginning) of layer k.
inline double* row(const LstmByHand& p, std::int64_t t, std::int64_t k, int which) {
  return p.kept + (((t + 1) * p.layers + k) * kept_rows + which) * W;
}

double forward(const LstmByHand& p) {
  for (std::int64_t k = 0; k < p.layers; ++k) {
    for (int j = 0; j < W; ++j) {
      row(p, -1, k, hidden)[j] = p.state[2 * k * W + j];
      row(p, -1, k, cells)[j] = p.state[(2 * k + 1) * W + j];
    }
  }
  static const double ones[W] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, zeros[W] = {};
  const double *scale = p.extra, *weight = p.extra + W, *bias = p.extra + 2 * W;
  double likelihood = 0;
  for (std::int64_t t = 0; t < p.steps; ++t) {
    double first[W];
    for (int j = 0; j < W; ++j) first[j] = p.sequence[t * W + j] * scale[j];
    const double* u = first;
    for (std::int64_t k = 0; k < p.layers; ++k) {
      const double *w = p.main + 8 * k * W, *b = w + 4 * W, *h = row(p, t - 1, k, hidden);
      const double* before = row(p, t - 1, k, cells);
      double *F = row(p, t, k, forget), *I = row(p, t, k, in), *O = row(p, t, k, out),
             *G = row(p, t, k, change);
      double *s = row(p, t, k, cells), *bent_s = row(p, t, k, bent), *next = row(p, t, k, hidden);
      sigmoid(u, w, b, F);
      sigmoid(h, w + W, b + W, I);
      sigmoid(u, w + 2 * W, b + 2 * W, O);
      bend(h, w + 3 * W, b + 3 * W, G);
      for (int j = 0; j < W; ++j) s[j] = before[j] * F[j] + I[j] * G[j];
      bend(s, ones, zeros, bent_s);
      for (int j = 0; j < W; ++j) next[j] = O[j] * bent_s[j];
      u = next;
    }
    // Kept for the way back: e^y / (2 + sum e^y).
    double* share = p.outputs + t * W;
    const double* target = p.sequence + (t + 1) * W;
    double sum = 0, hit = 0, targets = 0;
#pragma omp simd reduction(+ : sum, hit, targets)
    for (int j = 0; j < W; ++j) {
      const double y = u[j] * weight[j] + bias[j];
      share[j] = exp(y);
      sum += share[j];
      hit += target[j] * y;
      targets += target[j];
    }
    likelihood += hit - targets * log(2 + sum);
    for (int j = 0; j < W; ++j) share[j] *= targets / (2 + sum);
  }
  return -likelihood / static_cast<double>(p.bits * p.steps);
}

void backward(const LstmByHand& p) {
  double dh[8][W] = {}, ds[8][W] = {};
  for (std::int64_t i = 0; i < 8 * p.layers * W; ++i) p.main_gradient[i] = 0;
  for (int i = 0; i < 3 * W; ++i) p.extra_gradient[i] = 0;
  const double* weight = p.extra + W;
  const double scale = -1 / static_cast<double>(p.bits * p.steps);
  for (std::int64_t t = p.steps; t-- > 0;) {
    double du[W];
    const double *share = p.outputs + t * W, *target = p.sequence + (t + 1) * W;
    const double* top = row(p, t, p.layers - 1, hidden);
    for (int j = 0; j < W; ++j) {
      const double dy = scale * (target[j] - share[j]);
      p.extra_gradient[W + j] += dy * top[j];
      p.extra_gradient[2 * W + j] += dy;
      du[j] = dy * weight[j];
    }
    for (std::int64_t k = p.layers; k-- > 0;) {
      const double* w = p.main + 8 * k * W;
      double *gw = p.main_gradient + 8 * k * W, *gb = gw + 4 * W;
      const double *F = row(p, t, k, forget), *I = row(p, t, k, in), *O = row(p, t, k, out);
      const double *G = row(p, t, k, change), *bent_s = row(p, t, k, bent);
      const double *before = row(p, t - 1, k, cells), *h = row(p, t - 1, k, hidden);
      double first[W];
      if (k == 0) {
        for (int j = 0; j < W; ++j) first[j] = p.sequence[t * W + j] * p.extra[j];
      }
      const double* u = k == 0 ? first : row(p, t, k - 1, hidden);
#pragma omp simd
      for (int j = 0; j < W; ++j) {
        const double dhj = dh[k][j] + du[j];
        const double dsj = ds[k][j] + dhj * O[j] * (1 - bent_s[j] * bent_s[j]);
        const double dO = dhj * bent_s[j] * O[j] * (1 - O[j]);
        const double dF = dsj * before[j] * F[j] * (1 - F[j]);
        const double dI = dsj * G[j] * I[j] * (1 - I[j]);
        const double dG = dsj * I[j] * (1 - G[j] * G[j]);
        gw[j] += dF * u[j];
        gw[W + j] += dI * h[j];
        gw[2 * W + j] += dO * u[j];
        gw[3 * W + j] += dG * h[j];
        gb[j] += dF;
        gb[W + j] += dI;
        gb[2 * W + j] += dO;
        gb[3 * W + j] += dG;
        du[j] = dF * w[j] + dO * w[2 * W + j];
        dh[k][j] = dI * w[W + j] + dG * w[3 * W + j];
        ds[k][j] = dsj * F[j];
      }
    }
    for (int j = 0; j < W; ++j) p.extra_gradient[j] += du[j] * p.sequence[t * W + j];
  }
}

}  // namespace

double lstm_by_hand(const LstmByHand& p, bool derivative) {
  const double loss = forward(p);
  if (derivative) backward(p);
  return loss;
}

}  // namespace workloads
