// monoids.cuh - the prelude's third part, which every kernel has: the binary operations of reductions and
// scans, with their identities.

// `none` is the identity.
namespace monoid {
template <class T>
struct sum {
  FN T none() { return (T)0; }
  __device__ T operator()(T x, T y) const { return op::add(x, y); }
};
template <class T>
struct prod {
  FN T none() { return (T)1; }
  __device__ T operator()(T x, T y) const { return op::mul(x, y); }
};
template <class T>
struct max {
  FN T none() { return limits<T>::lowest(); }
  __device__ T operator()(T x, T y) const { return op::max(x, y); }
};
template <class T>
struct min {
  FN T none() { return limits<T>::highest(); }
  __device__ T operator()(T x, T y) const { return op::min(x, y); }
};
template <class T>
struct all {
  FN T none() { return op::not_of((T)0); }
  __device__ T operator()(T x, T y) const { return op::and_of(x, y); }
};
template <class T>
struct any {
  FN T none() { return (T)0; }
  __device__ T operator()(T x, T y) const { return op::or_of(x, y); }
};
// The greatest (sign 1) or least (sign -1) value and its index: of equals, or of NaNs, the first.
template <class T>
struct place {
  T at;
  i64 index;
};
template <class T, int sign>
struct extreme {
  FN place<T> none() {
    return {sign > 0 ? limits<T>::lowest() : limits<T>::highest(), 9223372036854775807ll};
  }
  FN place<T> one(T x, i64 index) { return {x, index}; }
  __device__ place<T> operator()(place<T> x, place<T> y) const {
    const bool x_nan = x.at != x.at, y_nan = y.at != y.at;
    const bool first = x.index < y.index;
    if (x_nan || y_nan) return x_nan && y_nan ? (first ? x : y) : x_nan ? x : y;
    if (x.at == y.at) return first ? x : y;
    return (x.at > y.at) == (sign > 0) ? x : y;
  }
};
// log of a sum of exponentials: their greatest exponent, and the sum of e^(x - greatest) over the other
// elements, which may be far below an ulp of 1. It is -1 of no elements.
template <class T>
struct exponentials {
  T greatest, others;
};
template <class T>
struct logsumexp {
  FN exponentials<T> none() { return {-INFINITE(T), (T)-1}; }
  FN exponentials<T> one(T x) { return {x, (T)0}; }
  __device__ exponentials<T> operator()(exponentials<T> x, exponentials<T> y) const {
    const T greatest = op::max(x.greatest, y.greatest);
    const bool of_x = x.greatest == greatest, of_y = y.greatest == greatest;
    const T a = of_x ? x.others : (x.others + 1) * op::exp(x.greatest - greatest);
    const T b = of_y ? y.others + (T)of_x : (y.others + 1) * op::exp(y.greatest - greatest);
    return {greatest, a + b};
  }
  FN T get(exponentials<T> x) { return x.greatest + op::log1p(x.others); }
};
// One after another, the first greatest or least stays, and so does the first NaN.
template <class T, int sign>
struct running {
  FN T none() { return sign > 0 ? limits<T>::lowest() : limits<T>::highest(); }
  __device__ T operator()(T best, T x) const {
    return best == best && (x != x || (sign > 0 ? x > best : x < best)) ? x : best;
  }
};
template <class T>
struct logaddexp {
  FN T none() { return -INFINITE(T); }
  __device__ T operator()(T x, T y) const {
    const T distance = x - y;
    if (distance != distance) return x + y;
    return op::max(x, y) + op::log1p(op::exp(-op::magnitude(distance)));
  }
};
}  // namespace monoid
