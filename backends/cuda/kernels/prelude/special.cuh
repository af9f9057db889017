// special.cuh - the prelude's functions that the C library lacks, or that write to its variables, in double
// precision (formulas: backends/cpu/kernels/special.cpp).

namespace special {
const double pi = 3.14159265358979323846;
#ifdef __CUDACC__
FN double log_gamma(double x) { return ::lgamma(x); }
#else
extern "C" double lgamma_r(double, int*);
FN double log_gamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
#endif

FN double erf_inv_estimate(double x) {
  double w = -::log((1 - x) * (1 + x)), p = 0;
  if (w < 5) {
    w -= 2.5;
    const double c[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                        -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
    for (int i = 0; i < 9; ++i) p = c[i] + p * w;
  } else if (w < 16) {
    w = ::sqrt(w) - 3;
    const double c[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                        -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
    for (int i = 0; i < 9; ++i) p = c[i] + p * w;
  } else {
    w = ::sqrt(w) - 5;
    const double c[] = {5.9019797e-06,   -2.24497545e-05, 7.42424975e-05, -0.000213076222,
                        -0.000138070315, 1.01030014,      4.84990637};
    for (int i = 0; i < 7; ++i) p = c[i] + p * w;
  }
  return p * x;
}
FN double erf_inv_of(double x) {
  const double magnitude = ::fabs(x);
  if (!(magnitude < 1)) return magnitude == 1 ? ::copysign(INFINITE(double), x) : NOT_A_NUMBER(double);
  if (magnitude < 1e-8) return x * (0.5 * ::sqrt(pi));
  const double y = erf_inv_estimate(magnitude);
  const double error = magnitude < 0.75 ? ::erf(y) - magnitude : (1 - magnitude) - ::erfc(y);
  const double newton = error / (2 * 0.56418958354775628695 * ::exp(-y * y));
  return ::copysign(y - newton / (1 + y * newton), x);
}

FN double digamma_of(double x) {
  double reflected = 0;
  if (x <= 0) {
    if (x == ::floor(x)) return NOT_A_NUMBER(double);
    reflected = pi / ::tan(pi * (x - ::round(x)));
    x = 1 - x;
  }
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  const double w = 1 / (x * x);
  const double c[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  double series = 0;
  for (int i = 6; i >= 0; --i) series = (series + c[i]) * w;
  return sum + ::log(x) - 0.5 / x - series - reflected;
}

// Hurwitz' zeta(s, q) = sum (q + k)^-s, for whole s > 1, times unit^s.
FN double hurwitz_zeta(double s, double q, double unit) {
  double sum = 0;
  for (int steps = 0; q < 10 || steps < 9; ++steps, q += 1) {
    if (q < -1e5) return NOT_A_NUMBER(double);
    const double term = ::pow(q / unit, -s);
    sum += term;
    if (q > 0 && term < sum * 1e-17) return sum;
  }
  const double bernoulli[] = {1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,     5.0 / 66,
                              -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798, -174611.0 / 330};
  const double power = ::pow(q / unit, -s);
  sum += power * q / (s - 1) + 0.5 * power;
  double factor = s * power / q / 2;
  for (int j = 1; j <= 10; ++j) {
    const double term = bernoulli[j - 1] * factor;
    sum += term;
    if (::fabs(term) < ::fabs(sum) * 1e-17) break;
    const double k = 2.0 * j;
    factor *= (s + k - 1) * (s + k) / (q * q) / ((k + 1) * (k + 2));
  }
  return sum;
}
FN double polygamma_of(int m, double x) {
  if (m == 0) return digamma_of(x);
  if (x != x) return x;
  if (::fabs(x) == INFINITE(double)) return x < 0 ? NOT_A_NUMBER(double) : m % 2 == 0 ? -0.0 : 0.0;
  if (x <= 0 && x == ::floor(x)) return m % 2 == 0 ? NOT_A_NUMBER(double) : INFINITE(double);
  const double nearest = x > 0 ? x : ::fabs(x - ::round(x));
  const int unit = ::ilogb(nearest);
  double factorial = 1;
  int exponent = 0, scaled = 0;
  for (int i = 2; i <= m; ++i) {
    factorial *= i;
    if (factorial < 0x1p900) continue;
    factorial /= 0x1p900;
    scaled += 900;
  }
  const double product = ::frexp(factorial, &exponent) * hurwitz_zeta(m + 1.0, x, ::ldexp(1.0, unit));
  return ::ldexp(m % 2 == 0 ? -product : product, exponent + scaled - (m + 1) * unit);
}

template <class T>
FN T erf_inv(T x) {
  return (T)erf_inv_of((double)x);
}
template <class T>
FN T lgamma(T x) {
  return (T)log_gamma((double)x);
}
template <class T>
FN T digamma(T x) {
  return (T)digamma_of((double)x);
}
template <class T>
FN T polygamma(T x, int m) {
  return (T)polygamma_of(m, (double)x);
}
}  // namespace special
