// Loops over many complex numbers: every element equals the result for one number alone; exp by generated
// code up to rounding.
#include "cpu/compare.hpp"
#include "optimizer/simplify_support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace complex_cases {

bool same_part(double a, double b, double relative) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b ? std::signbit(a) == std::signbit(b) : std::fabs(a - b) <= relative * std::fabs(b);
}

// Each element of op on many against that of one.
void check_alone(const Op& op, const std::vector<Tensor>& inputs, double relative) {
  std::vector<Type> many, one;
  for (const Tensor& input : inputs) {
    many.push_back(input.type());
    one.emplace_back(input.dtype(), Shape{});
  }
  const Executable single = cpu().compile(graph_of(op, one));
  const Tensor got = cpu().run(graph_of(op, many), std::span<const Tensor>(inputs))[0];
  for (std::int64_t i = 0; i < got.size(); ++i) {
    std::vector<Tensor> elements;
    for (const Tensor& input : inputs) {
      Tensor element(Type(input.dtype(), {}));
      const std::size_t size = size_of(input.dtype());
      std::memcpy(element.mutable_bytes(), input.bytes() + static_cast<std::size_t>(i) * size, size);
      elements.push_back(std::move(element));
    }
    const std::complex<double> a = got.at(i), b = single.run(elements)[0].at(0);
    const double scale =
        relative * std::abs(b) / std::max(std::fabs(b.real()), 1e-300);  // e^x cos y, near a root
    CHECK_MESSAGE((same_part(a.real(), b.real(), relative == 0 ? 0 : std::max(relative, scale)) &&
                   same_part(a.imag(), b.imag(), relative)),
                  op.name(), " of ", elements[0].at(0), ": ", a, ", alone ", b);
  }
}

TEST_CASE("many complex numbers have the results of each alone, infinities, NaN and zeros among them") {
  for (const DType dtype : {c64, c128}) {
    for (const std::int64_t count : {3, 64, 65, 400}) {
      const Type type(dtype, {count});
      const Tensor x = special_tensor(type, [](std::size_t i) { return i % 20; });
      const Tensor y = special_tensor(type, [](std::size_t i) { return (i / 20 + i * 3) % 20; });
      std::mt19937_64 random(37);
      const Tensor plain = random_tensor(type, {}, random), others = random_tensor(type, {-30, 30}, random);
      for (const Primitive* const op : {&prim::abs, &prim::sign, &prim::square, &prim::neg}) {
        check_alone(Op::make(*op), {x}, 0);
        check_alone(Op::make(*op), {plain}, 0);
      }
      for (const Primitive* const op : {&prim::mul, &prim::multiply_no_nan}) {
        check_alone(Op::make(*op), {x, y}, 0);
        check_alone(Op::make(*op), {plain, x}, 0);
        check_alone(Op::make(*op), {plain, others}, 0);
      }
      const double relative = dtype == c64 ? 2e-6 : 5e-15;
      for (const Tensor& each : {x, y, plain, others}) check_alone(Op::make(prim::exp), {each}, relative);
    }
  }
}

TEST_CASE("fusions of complex operations") {
  std::mt19937_64 random(38);
  for (const DType dtype : {c64, c128}) {
    for (const std::int64_t count : {64, 1000, 40000}) {
      const Type type(dtype, {count});
      GraphBuilder builder("complex");
      const Value z = builder.input("z", type), w = builder.input("w", type);
      const Value e = ops::exp(ops::mul(ops::square(z), w));
      const Graph graph = builder.build({e, ops::abs(e), ops::sign(ops::mul(e, z)), ops::mul(w, w)});
      for (const std::string& text : differences(
               graph, {random_tensor(type, {-1, 1}, random), random_tensor(type, {-1, 1}, random)}, cpu()))
        CHECK_MESSAGE(false, text);
    }
  }
  finish_checks();
}

TEST_CASE("the sign of complex numbers whose magnitude overflows is a unit") {
  const auto check = [](auto large) {
    using T = decltype(large);
    GraphBuilder g("sign");
    const std::vector<std::complex<T>> numbers{
        {large, large}, {-large, 0}, {0, 0}, {std::numeric_limits<T>::denorm_min(), 0}};
    const Tensor x = Tensor::from<std::complex<T>>({4}, numbers);
    const Graph graph = g.build({ops::sign(g.input("x", x.type()))});
    for (const Tensor& got :
         {cpu().run(graph, std::span(&x, 1))[0], reference().run(graph, std::span(&x, 1))[0]}) {
      CHECK(std::abs(got.at(0) - std::complex(std::sqrt(0.5), std::sqrt(0.5))) < 1e-6);
      CHECK(got.at(1) == std::complex(-1.0, 0.0));
      CHECK(got.at(2) == std::complex(0.0, 0.0));
      CHECK(got.at(3) == std::complex(1.0, 0.0));
    }
  };
  check(3e38F);
  check(1.5e308);
}

}  // namespace complex_cases
