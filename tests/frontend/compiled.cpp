// compiled.cpp - the calls that compile() identifies, and the effect of modes while a function is traced.
#include <complex>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support.hpp"

namespace tidu::test {
namespace {

enum class CompiledMean { arithmetic, geometric };
struct CompiledWindow {
  int first, count;
};

TEST_CASE("compile() tells calls apart by arguments that are no Arrays") {
  const Array x = array({1.0, 2.0, 4.0});
  const auto power = compile([](const Array& a, int n) { return integer_pow(a, n); });
  CHECK(elements(power(x, 2)) == std::vector<double>{1, 4, 16});
  CHECK(elements(power(x, 3)) == std::vector<double>{1, 8, 64});
  CHECK(elements(power(x, 2)) == std::vector<double>{1, 4, 16});
  CHECK(elements(power(x, 2L)) == std::vector<double>{1, 4, 16});
  CHECK(power.num_traced() == 3);

  const auto any = compile([](const Array& a, const auto& how) {
    using How = std::decay_t<decltype(how)>;
    if constexpr (std::is_same_v<How, CompiledMean>) {
      return how == CompiledMean::arithmetic ? mean(a) : exp(mean(log(a)));
    } else if constexpr (std::is_same_v<How, std::string>) {
      return how == "negative" ? -a : a;
    } else if constexpr (std::is_same_v<How, CompiledWindow>) {
      return a.slice({{how.first, how.first + how.count}});
    } else if constexpr (std::is_same_v<How, std::optional<Array>>) {
      return how ? a + *how : a;
    } else if constexpr (std::is_same_v<How, bool>) {
      return how ? a * 2.0 : a;
    } else {  // a list of numbers
      Array result = a;
      for (const auto number : how) result = result * static_cast<double>(number);
      return result;
    }
  });
  CHECK(any(x, CompiledMean::geometric).item() == doctest::Approx(2.0));
  CHECK(any(x, CompiledMean::arithmetic).item() == doctest::Approx(7.0 / 3));
  CHECK(elements(any(x, std::string("negative"))) == std::vector<double>{-1, -2, -4});
  CHECK(elements(any(x, std::string("positive"))) == std::vector<double>{1, 2, 4});
  CHECK(elements(any(x, CompiledWindow{0, 2})) == std::vector<double>{1, 2});
  CHECK(elements(any(x, CompiledWindow{1, 2})) == std::vector<double>{2, 4});
  CHECK(elements(any(x, true)) == std::vector<double>{2, 4, 8});
  CHECK(elements(any(x, false)) == std::vector<double>{1, 2, 4});
  CHECK(elements(any(x, std::vector<double>{0.5, 3.0})) == std::vector<double>{1.5, 3, 6});
  CHECK(elements(any(x, std::vector<double>{0.5})) == std::vector<double>{0.5, 1, 2});
  CHECK(elements(any(x, Ints{2})) == std::vector<double>{2, 4, 8});
  CHECK(elements(any(x, Ints{3})) == std::vector<double>{3, 6, 12});
  CHECK(elements(any(x, std::optional<Array>())) == std::vector<double>{1, 2, 4});
  CHECK(elements(any(x, std::optional<Array>(x))) == std::vector<double>{2, 4, 8});
  CHECK(elements(any(x, std::optional<Array>(ones({3})))) == std::vector<double>{2, 3, 5});
}

struct CompiledLayer {
  Array w, b;
  std::optional<Array> scale;
};
struct CompiledModel {
  std::vector<CompiledLayer> layers;
  std::map<std::string, Array> extras;
  double power;
  std::string name;
};
class CompiledHidden {
 public:
  explicit CompiledHidden(Array w) : w_(std::move(w)) {}
  const Array& w() const { return w_; }
  auto tidu_fields() { return std::tie(w_, negative); }
  bool negative = false;

 private:
  Array w_;
};

TEST_CASE("structures that hold Arrays are arguments and results like others") {
  const Array x = array({1.0, 2.0}), y = array({3.0, 5.0}), z = array({7.0, 11.0});
  const auto f = [](const CompiledModel& m, const Array& a) {
    Array result = a * m.power;
    for (const CompiledLayer& layer : m.layers) {
      result = result * layer.w + layer.b;
      if (layer.scale) result = result * *layer.scale;
    }
    for (const auto& [name, extra] : m.extras) result = name == m.name ? result - extra : result + extra;
    return result;
  };
  const CompiledModel first{{{x, y, std::nullopt}, {y, x, z}}, {{"a", x}, {"b", z}}, 2.0, "a"};
  CompiledModel second = first;
  second.layers[0].w = z;
  second.extras.at("b") = y;
  CompiledModel third = second;
  third.layers[0].scale = y;
  CompiledModel fourth = third, fifth = third, sixth = third;
  fourth.power = 3.0;
  fifth.name = "b";
  sixth.extras.erase("a");
  sixth.extras["c"] = x;
  const auto compiled = compile(f);
  for (int time = 0; time < 2; ++time) {
    for (const CompiledModel& model : {first, second, third, fourth, fifth, sixth})
      CHECK(elements(compiled(model, x)) == elements(f(model, x)));
  }
  CHECK(compiled.num_traced() == 5);  // the first two have the same structure
  const CompiledModel gradient = grad([&](const CompiledModel& m) { return sum(f(m, x)); })(first);
  CHECK(elements(gradient.layers.at(0).b) == elements(y * z));
  CHECK(elements(gradient.layers.at(1).scale.value()) == elements((x * 2.0 * x + y) * y + x));
  CHECK(elements(gradient.extras.at("a")) == std::vector<double>{-1, -1});
  CHECK_FALSE(gradient.layers[0].scale);
  CHECK(gradient.name == "a");
  const auto mapped = vmap([](const CompiledLayer& layer) {
    return CompiledLayer{layer.w * 2.0, sum(layer.b), std::nullopt};
  })(CompiledLayer{stack({x, y}), stack({y, z}), std::nullopt});
  CHECK(elements(mapped.w) == std::vector<double>{2, 4, 6, 10});
  CHECK(elements(mapped.b) == std::vector<double>{8, 18});

  const auto hidden = compile([](const CompiledHidden& h) { return h.negative ? -h.w() : h.w() * 2.0; });
  CompiledHidden of_y(y);
  CHECK(elements(hidden(CompiledHidden(x))) == std::vector<double>{2, 4});
  CHECK(elements(hidden(of_y)) == std::vector<double>{6, 10});
  of_y.negative = true;
  CHECK(elements(hidden(of_y)) == std::vector<double>{-3, -5});
}

struct CompiledBase {
  Array a;
};
struct CompiledDerived : CompiledBase {
  Array b;
};
struct CompiledReference {
  const Array& a;
};
struct CompiledManyFields {
  Array a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q;
};
struct CompiledAll16 {
  Array a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
};

TEST_CASE("which classes are structures is known at compile time") {
  using frontend_detail::arrays_of, frontend_detail::has_fields;
  CHECK(has_fields<CompiledModel>);
  CHECK(has_fields<CompiledHidden>);
  CHECK(has_fields<CompiledAll16>);
  CHECK_FALSE(has_fields<CompiledDerived>);
  CHECK_FALSE(has_fields<CompiledReference>);
  CHECK_FALSE(has_fields<CompiledManyFields>);
  CHECK_FALSE(has_fields<std::function<void()>>);
  CompiledAll16 all{};
  all.p = array({1.0});
  CHECK(arrays_of(all).size() == 16);
  CHECK(arrays_of(all).back().item() == 1.0);
}

TEST_CASE("compile() tells text by its characters and numbers by all of their digits") {
  const Array x = array({1.0, 2.0});
  const auto named = compile([](const Array& a, const char* name) { return name[0] == '-' ? -a : a; });
  char text[] = "-";
  CHECK(elements(named(x, text)) == std::vector<double>{-1, -2});
  text[0] = '+';
  CHECK(elements(named(x, text)) == std::vector<double>{1, 2});
  CHECK(elements(named(x, "+")) == std::vector<double>{1, 2});
  CHECK(named.num_traced() == 2);

  const auto plus = compile([](const Array& a, const std::vector<long double>& v) {
    return a + static_cast<double>((v[0] - 1.0L) * 0x1p60L);
  });
  const long double more = 1.0L + std::numeric_limits<long double>::epsilon();
  const double difference = static_cast<double>((more - 1.0L) * 0x1p60L);
  CHECK(plus(x, std::vector<long double>{1.0L})[0].item() == 1.0);
  CHECK(plus(x, std::vector<long double>{more})[0].item() == 1.0 + difference);

  const auto times =
      compile([](const Array& a, const std::complex<double>& c) { return a * c.real() + a * c.imag(); });
  CHECK(times(x, std::complex<double>(1.0, 2.0))[0].item() == 3.0);
  CHECK(times(x, std::complex<double>(1.0, 4.0))[0].item() == 5.0);
  const auto by_number = compile([](const Array& a, const Number& n) { return a * n.value(); });
  CHECK(by_number(x, Number(2))[0].item() == 2.0);
  CHECK(by_number(x, Number(3))[0].item() == 3.0);
  CHECK(by_number(x, Number(3.5))[0].item() == 3.5);
}

TEST_CASE(
    "compile() distinguishes text within structures by its characters, and other members by their values") {
  struct Options {
    std::string_view mode;
    std::int64_t times;
  };
  struct Named {
    const char* name;
    Options options;
  };
  const Array x = array({1.0, 2.0});
  const auto f = compile([](const Array& a, const Options& o) {
    return (o.mode == "neg" ? -a : a) * static_cast<double>(o.times);
  });
  std::string buffer = "neg";
  CHECK(elements(f(x, Options{buffer, 6})) == std::vector<double>{-6, -12});
  buffer = "pos";
  CHECK(elements(f(x, Options{buffer, 6})) == std::vector<double>{6, 12});
  CHECK(elements(f(x, Options{buffer, 8})) == std::vector<double>{8, 16});
  CHECK(elements(f(x, Options{"pos", 8})) == std::vector<double>{8, 16});
  CHECK(f.num_traced() == 3);
  const auto g =
      compile([](const Array& a, const Named& n) { return n.name[0] == n.options.mode[0] ? -a : a; });
  CHECK(g(x, Named{buffer.c_str(), {"pos", 1}})[0].item() == -1);
  buffer = "neg";
  CHECK(g(x, Named{buffer.c_str(), {"pos", 1}})[0].item() == 1);
}

TEST_CASE("compile() tells structures of the same Arrays apart") {
  const Array x = array({1.0, 2.0}), y = array({3.0, 5.0}), z = array({7.0, 11.0});
  const auto same = compile([](const auto& a) { return a; });
  CHECK(elements(same(x)) == std::vector<double>{1, 2});
  const std::vector<Array> listed = same(std::vector<Array>{x});
  CHECK(elements(listed.at(0)) == std::vector<double>{1, 2});
  const auto last_of_first =
      compile([](const std::vector<std::vector<Array>>& lists) { return lists[0].back(); });
  CHECK(elements(last_of_first(std::vector<std::vector<Array>>{{x, y}, {z}})) == std::vector<double>{3, 5});
  CHECK(elements(last_of_first(std::vector<std::vector<Array>>{{x}, {y, z}})) == std::vector<double>{1, 2});
}

TEST_CASE("a compiled function that uses an Array of an outer trace keeps nothing of that call") {
  const Array c = array({1.0, 2.0, 3.0}), x = array({0.5, 0.25, 2.0});
  Array w = c;
  const auto step = compile([&](const Array& y) { return y * w; });
  const auto with = [&](const Array& t) {
    w = t;
    Array result = step(x);
    w = c;
    return result;
  };
  for (int time = 0; time < 2; ++time) {
    CHECK(elements(jvp(with, c, ones({3})).second) == elements(x));
    CHECK(elements(compile(with)(c * 2.0)) == elements(c * x * 2.0));
    CHECK(elements(vmap(with)(stack({c, x}))[1]) == elements(x * x));
    CHECK(elements(hessian([&](const Array& t) { return sum(with(t) * t); })(c)[0]) ==
          std::vector<double>{1, 0, 0});
    CHECK(step.num_traced() == 0);
  }
  CHECK(elements(step(x)) == elements(c * x));
  CHECK(elements(step(x + 1.0)) == elements(c * (x + 1.0)));
  CHECK(step.num_traced() == 1);
}

TEST_CASE("values that a compiled function computes from outside parameters follow them") {
  const Array x = array({{1.0, 2.0}, {-0.5, 3.0}});
  Array w = array({{1.0, 2.0}, {3.0, -1.0}}), b = array({0.5, -0.5});
  w.set_requires_grad();
  b.set_requires_grad();
  const auto inner = compile([&](const Array& a) { return a * sum(w * w); });
  const std::vector<std::function<Array(const Array&)>> functions{
      [&](const Array& a) { return sum(square(matmul(a, w.T()) + 2.0 * b)); },
      [&](const Array& a) { return sum(a * square(w)) + sum(no_grad([&] { return w * 3.0; }) * a * b); },
      [&](const Array& a) { return sum(w.detach() * 2.0 * a * w); },
      [&](const Array& a) { return sum(inner(a)) + sum(inner(ones({2}))) * sum(b * b); },
      [&](const Array& a) { return sum(vmap([&](const Array& row) { return row * (b * b); })(a)); },
      [&](const Array& a) {
        const auto step = [&](const Array& carry, const Array& row) {
          return std::pair(carry * exp(b) + row, std::nullopt);
        };
        return sum(scan(step, zeros({2}), a).first);
      },
      [&](const Array& a) {
        return cond(
            sum(a) > 0.0, [&] { return sum(a * w * w); }, [&] { return sum(b * b); });
      },
      [&](const Array& a) {
        const auto of = [&](const Array& c) { return sum(c * c * (w * w)); };
        return sum(a * grad(of)(ones({2, 2}))) + sum(hvp(of, ones({2, 2}), w * 2.0));
      },
  };
  for (std::size_t i = 0; i < functions.size(); ++i) {
    CAPTURE(i);
    const auto compiled = compile(functions[i]);
    const auto gradients = [&](const std::function<Array(const Array&)>& f) {
      w.zero_grad();
      b.zero_grad();
      const Array loss = f(x);
      loss.backward();
      std::vector<double> all = elements(loss);
      for (const Array& leaf : {w, b})
        for (const double g : elements(leaf.grad().value_or(zeros_like(leaf)))) all.push_back(g);
      return all;
    };
    for (int time = 0; time < 8; ++time) {
      std::optional<Lazy> lazy;
      if (time == 2) lazy.emplace();
      const HotPaths hot(time > 2);
      const std::vector<double> got = gradients(compiled), expected = gradients(functions[i]);
      REQUIRE(got.size() == expected.size());
      for (std::size_t k = 0; k < got.size(); ++k) CHECK(got[k] == doctest::Approx(expected[k]));
      no_grad([&] {
        w -= 0.01;
        b += 0.02;
      });
    }
    CHECK(compiled.num_traced() == 1);
  }
  Array kept;
  const auto keeps = compile([&](const Array& a) {
    kept = w * 2.0;
    return a;
  });
  CHECK(contains(error_of([&] { (void)keeps(x); }), "returns what it computes and keeps nothing"));
}

TEST_CASE("a compiled function that stores its results outside of it is refused") {
  const Array x = array({1.0, 2.0, 3.0});
  const int line = __LINE__ + 1;
  const auto refused = [&](const auto& f) {
    const auto step = compile(f);
    const std::string error = error_of([&] { (void)step(x); });
    return contains(error,
                    "[compiled] expected a function that returns what it computes and keeps nothing") &&
           contains(error, "assigned to 1 Array outside") &&
           contains(error, "compiled.cpp:" + std::to_string(line + 1)) && step.num_traced() == 0;
  };
  Array total(0.0);
  CHECK(refused([&](const Array& a) {
    total += sum(a);
    return a * 2.0;
  }));
  CHECK(contains(error_of([&] { (void)(total + 1.0); }), "a trace that has ended"));
  std::vector<Array> list;
  CHECK(refused([&](const Array& a) {
    list.clear();
    list.push_back(sin(a));
    return a * list[0];
  }));
  CHECK(refused([&](const Array& a) { return total = a * 2.0; }));
  CHECK(refused([&](const Array& a) { return std::vector<Array>{a, total = a * 2.0, total}; }));
  CHECK(refused([&](const Array& a) { return std::pair(total = a, a); }));
  CHECK(refused([&](const Array& a) {
    total = a;
    return Array(1.0);
  }));
  CHECK(refused([&](const Array& a) {
    return compile([&](const Array& b) {
      total = b + 1.0;
      return b * a;
    })(a);
  }));
  CHECK(refused([&](const Array& a) {
    return grad([&](const Array& b) {
      total = a + 1.0;
      return sum(a * b);
    })(x);
  }));
}

TEST_CASE("a compiled function may keep data, and traced Arrays until it returns") {
  const Array x = array({1.0, 2.0, 3.0});
  Array w = x, made;
  std::vector<Array> list;
  const auto f = [&](const Array& a, const std::vector<Array>& more) {
    made = ones({3}) * 2.0;
    w = a * made;
    list = {w, w, a};
    const auto [y, pullback] = vjp([&](const Array& b) { return b * w; }, a);
    const Array result = y + pullback(w) + checkpoint([&](const Array& b) { return b * w; })(a);
    const auto inner = compile([&](const Array& b) { return b * w; });
    const Array mapped = vmap([&](const Array& b) { return inner(b) + inner(x)[0]; })(stack({a, w}));
    try {
      (void)matmul(list[0], Array(w)[0]);
    } catch (const Error&) {
    }
    w = x;
    list.clear();
    return std::tuple(result, more, result, a, w, mapped);
  };
  for (const bool lazily : {false, true}) {
    std::optional<Lazy> lazy;
    if (lazily) lazy.emplace();
    const HotPaths hot;
    const auto compiled = compile(f);
    for (int time = 0; time < 2; ++time) {
      const auto got = compiled(x, std::vector<Array>{x, x * 2.0}), expected = f(x, {x, x * 2.0});
      CHECK(elements(std::get<0>(got)) == elements(std::get<0>(expected)));
      CHECK(elements(std::get<1>(got)[1]) == elements(std::get<1>(expected)[1]));
      CHECK(elements(std::get<5>(got)[1]) == elements(std::get<5>(expected)[1]));
    }
    CHECK(compiled.num_traced() == 1);
  }
}

TEST_CASE("an Array in an optional is differentiated like any other") {
  const auto f = [](const Array& x, const std::optional<Array>& scale) {
    return sum(scale ? x * x * *scale : x);
  };
  const Array x = array({1.0, 2.0}), scale = array({3.0, 5.0});
  CHECK(elements(grad(f)(x, std::optional<Array>(scale))) == std::vector<double>{6, 20});
  CHECK(elements(grad(f, 1)(x, std::optional<Array>(scale))[0]) == std::vector<double>{1, 4});
  CHECK(elements(grad(f)(x, std::optional<Array>())) == std::vector<double>{1, 1});
  CHECK(elements(grad<1>(f)(x, std::optional<Array>(scale)).value()) == std::vector<double>{1, 4});
}

TEST_CASE("gradients do not pass values that a traced function computes under no_grad") {
  const auto f = [](const Array& x) { return sum(no_grad([&] { return x * x; }) * x); };
  const Array x = array({1.0, 2.0, 3.0});
  const std::vector<double> wanted{1, 4, 9};
  CHECK(elements(grad(f)(x)) == wanted);
  CHECK(elements(grad(compile(f))(x)) == wanted);
  CHECK(elements(compile(grad(f))(x)) == wanted);
  CHECK(elements(jacfwd(f)(x)) == wanted);
  CHECK(elements(jacrev(f)(x)) == wanted);
  CHECK(elements(vmap(grad([&](const Array& a) { return f(a); }))(stack({x, x}))[1]) == wanted);
  CHECK(jvp(f, x, ones({3})).second.item() == 14.0);
  CHECK(elements(hessian(f)(x)) == std::vector<double>(9, 0.0));
  CHECK(elements(grad(checkpoint(f))(x)) == wanted);
  const auto whole = [&](const Array& a) {
    return no_grad([&] { return call_graph(trace([](const Array& b) { return sin(b); }, x), {a})[0]; });
  };
  CHECK(elements(jacrev([&](const Array& a) { return sum(whole(a) * a); })(x)) == elements(sin(x)));
}

TEST_CASE("a function traced under no_grad has derivatives") {
  const auto cube = [](const Array& x) { return sum(x * x * x); };
  const Array x = array({1.0, 2.0});
  const auto compiled = compile(cube);
  no_grad([&] {
    CHECK(elements(jacfwd(cube)(x)) == std::vector<double>{3, 12});
    CHECK(elements(grad(cube)(x)) == std::vector<double>{3, 12});
    CHECK(compiled(x).item() == 9.0);
    CHECK(to_text(trace(cube, x)).find("stop_gradient") == std::string::npos);
  });
  CHECK(elements(grad(compiled)(x)) == std::vector<double>{3, 12});
  Array leaf = x.copy();
  leaf.set_requires_grad();
  compiled(leaf).backward();  // by the earlier trace
  CHECK(elements(*leaf.grad()) == std::vector<double>{3, 12});
}

TEST_CASE("jacfwd and jacrev refuse functions without a floating result") {
  const auto place = [](const Array& x) { return argmax(x); };
  const auto nothing = [](const Array&) { return std::vector<Array>(); };
  const Array x = array({1.0, 2.0});
  const std::string wanted = "expected a function with a floating result, got i32[]";
  CHECK(contains(error_of([&] { (void)jacrev(place)(x); }), "[jacrev] " + wanted));
  CHECK(contains(error_of([&] { (void)jacfwd(place)(x); }), "[jacfwd] " + wanted));
  CHECK(contains(error_of([&] { (void)jacrev(nothing)(x); }), "a function that returns an Array, got none"));
}

// Statics that are made before the first operation are destroyed after the statics of the library.
struct ComputesAtExit {
  ComputesAtExit() = default;
  ComputesAtExit(const ComputesAtExit&) = delete;
  ComputesAtExit& operator=(const ComputesAtExit&) = delete;
  ~ComputesAtExit() {
    if (!array.empty_handle() && sum(array * 2.0).item() != 6.0) std::abort();
  }
  Array array;
};
ComputesAtExit computes_at_exit;

TEST_CASE("static objects may compute while the program ends") {
  computes_at_exit.array = array({1.0, 2.0});
  CHECK(sum(computes_at_exit.array * 2.0).item() == 6.0);  // computes once more at the very end
}

TEST_CASE("floating numbers are Arrays to a compiled function, whole ones are as they are") {
  const auto scaled = [](const Array& x, const auto& by) { return x * by; };
  const auto compiled = compile(scaled);
  const Array x = ones({2}, f32);
  CHECK(scaled(x, 0.5).dtype() == f32);
  CHECK(compiled(x, 0.5).dtype() == f64);
  CHECK(scaled(x, Array(0.5)).dtype() == f64);
  for (const float by : {0.25F, 0.5F, 0.75F}) {
    CHECK(compiled(x, by).dtype() == f32);
    CHECK(elements(compiled(x, by)) == elements(scaled(x, by)));
  }
  CHECK(compiled.num_traced() == 2);
  const auto whole = compile(scaled);
  for (const int by : {2, 3, 2}) {
    CHECK(whole(x, by).dtype() == f32);
    CHECK(elements(whole(x, by)) == elements(scaled(x, by)));
  }
  CHECK(whole.num_traced() == 2);
  for (const int by : {2, 3, 4}) (void)whole(x, Array(by).to(f32));
  CHECK(whole.num_traced() == 3);
}

}  // namespace
}  // namespace tidu::test
