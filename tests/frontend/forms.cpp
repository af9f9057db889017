// forms.cpp - derivatives by structures have the structure of their argument or result; tree_leaves and
// tree_map.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "support.hpp"

namespace tidu::test {
namespace {

struct FormedLayer {
  Array w, b;
};
struct FormedNet {
  std::vector<FormedLayer> layers;
  std::optional<Array> scale;
  double slope = 0.5;
};

FormedNet random_net(unsigned seed) {
  return {{{random_array({3, 4}, seed), random_array({4}, seed + 1)},
           {random_array({4, 2}, seed + 2), random_array({2}, seed + 3)}},
          random_array({}, seed + 4)};
}
Array predict(const FormedNet& net, Array x) {
  for (const FormedLayer& layer : net.layers) {
    const Array y = matmul(x, layer.w) + layer.b;
    x = sin(y) + net.slope * y;
  }
  return net.scale ? x * *net.scale : x;
}
Array energy(const FormedNet& net, const Array& x) { return sum(square(predict(net, x))); }
// The same of its parameters one by one.
Array energy_of_five(const Array& w1, const Array& b1, const Array& w2, const Array& b2, const Array& scale,
                     const Array& x) {
  return energy(FormedNet{{{w1, b1}, {w2, b2}}, scale}, x);
}
std::vector<Array> expected_gradients(const FormedNet& net, const Array& x) {
  return grad(energy_of_five, {0, 1, 2, 3, 4})(net.layers[0].w, net.layers[0].b, net.layers[1].w,
                                               net.layers[1].b, *net.scale, x);
}
void check_same(const std::vector<Array>& got, const std::vector<Array>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i].shape() == expected[i].shape());
    CHECK(distance(got[i], expected[i]) < 1e-12);
  }
}

TEST_CASE("a tuple alone is one argument, as a pair is") {
  using Two = std::tuple<Array, Array>;
  const auto f = [](const Two& both) { return sum(std::get<0>(both) * square(std::get<1>(both))); };
  const Array x = array({1.0, 2.0}), y = array({3.0, -1.0});
  const Two both(x, y);
  CHECK(f(both).item() == 11.0);
  const Two slopes = grad(f)(both);
  CHECK(elements(std::get<0>(slopes)) == std::vector<double>{9, 1});
  CHECK(elements(std::get<1>(slopes)) == std::vector<double>{6, -4});
  CHECK(value_and_grad(f)(both).first.item() == 11.0);
  CHECK(compile(f)(both).item() == 11.0);
  CHECK(elements(std::get<0>(compile(grad(f))(both))) == std::vector<double>{9, 1});
  CHECK(vmap(f)(Two(stack({x, y}), stack({y, x}))).shape() == Shape{2});
  CHECK(elements(std::get<1>(jacrev(f)(both))) == std::vector<double>{6, -4});
  CHECK(trace(f, both).outputs().size() == 1);
  CHECK(std::get<1>(vjp(f, both).second(array(1.0))).shape() == Shape{2});
}

TEST_CASE("the gradient by a structure is such a structure") {
  const FormedNet net = random_net(1);
  const Array x = random_array({5, 3}, 9);
  const std::vector<Array> expected = expected_gradients(net, x);

  const FormedNet gradient = grad(energy)(net, x);
  check_same(tree_leaves(gradient), expected);
  CHECK(gradient.slope == 0.5);  // no Array: as it was
  const auto [value, same] = value_and_grad(energy)(net, x);
  CHECK(distance(value, energy(net, x)) == 0);
  check_same(tree_leaves(same), expected);

  const Array by_x = grad<1>(energy)(net, x);
  CHECK(distance(by_x, grad(energy_of_five, 5)(net.layers[0].w, net.layers[0].b, net.layers[1].w,
                                               net.layers[1].b, *net.scale, x)) < 1e-12);
  const auto [of_x, of_net] = grad<1, 0>(energy)(net, x);
  static_assert(std::is_same_v<decltype(of_net), const FormedNet>);
  CHECK(distance(of_x, by_x) == 0);
  check_same(tree_leaves(of_net), expected);
  const auto [third, both] = value_and_grad<0, 1>(energy)(net, x);
  CHECK(distance(third, value) == 0);
  check_same(tree_leaves(both), tree_leaves(std::tuple(of_net, of_x)));

  // Chosen at run time: an argument's form where all are of one type, else a list.
  check_same(grad(energy, 0)(net, x), expected);
  check_same(grad(energy, {0})(net, x), expected);
  const FormedNet alone = grad([&](const FormedNet& n) { return energy(n, x); }, -1)(net);
  check_same(tree_leaves(alone), expected);
  const auto of_two = [&](const FormedNet& a, const FormedNet& b) {
    return energy(a, x) * 2.0 + energy(b, x);
  };
  check_same(tree_leaves(grad(of_two, 1)(random_net(20), net)), expected);
  check_same(tree_leaves(grad(of_two, -1)(random_net(20), net)), expected);
}

TEST_CASE("an argument keeps its form beside arguments of other types") {
  const Array x = random_array({4}, 3);
  const auto power = [](const Array& a, int n) { return sum(integer_pow(a, n)); };
  const Array gradient = grad(power)(x, 3);
  CHECK(distance(gradient, 3.0 * square(x)) < 1e-12);
  CHECK(distance(value_and_grad(power)(x, 2).second, 2.0 * x) < 1e-12);
  const Array number = grad([](const Array& a, const Array& b) { return a * sum(b); })(2.0, x);
  CHECK(distance(number, sum(x)) < 1e-12);
  const auto pair =
      grad([](const std::pair<Array, Array>& p) { return sum(p.first * p.second); })(std::pair(x, 2.0 * x));
  CHECK(distance(pair.first, 2.0 * x) == 0);
  CHECK(distance(pair.second, x) == 0);
  const auto tuple =
      grad([](const std::tuple<Array>& t) { return sum(square(std::get<0>(t))); })(std::tuple(x));
  CHECK(distance(std::get<0>(tuple), 2.0 * x) == 0);
  const std::map<std::string, Array> named{{"a", x}, {"b", 3.0 * x}};
  const auto map =
      grad([](const std::map<std::string, Array>& m) { return sum(m.at("a") * m.at("b")); })(named);
  CHECK(distance(map.at("a"), 3.0 * x) == 0);
  CHECK(distance(map.at("b"), x) == 0);

  CHECK_THROWS_WITH_AS(grad<1>(power)(x, 3), doctest::Contains("holds Arrays"), Error);
  CHECK_THROWS_AS(grad(power)(arange(3, i64), 2), Error);
}

TEST_CASE("gradients in their form nest, and go through compile, vmap and jvp") {
  const FormedNet net = random_net(4), direction = random_net(30);
  const Array x = random_array({5, 3}, 10);
  const std::vector<Array> expected = expected_gradients(net, x);
  const auto compiled = compile(value_and_grad(energy));
  for (int round = 0; round < 2; ++round) check_same(tree_leaves(compiled(net, x).second), expected);
  CHECK(compiled.num_traced() == 1);

  // One example at a time, then their sum.
  const auto each = vmap(grad(energy), {std::nullopt, 0})(net, x);
  check_same(tree_leaves(tree_map([](const Array& g) { return sum(g, 0); }, each)), expected);

  // The Hessian's product by forward over reverse, and by reverse over reverse.
  const auto of_net = [&](const FormedNet& n) { return energy(n, x); };
  const auto [gradient, product] = jvp(grad(of_net), net, direction);
  check_same(tree_leaves(gradient), expected);
  check_same(tree_leaves(product), tree_leaves(hvp(of_net, net, direction)));
  const FormedNet again = grad([&](const FormedNet& n) {
    Array inner = array(0.0);
    tree_map([&](const Array& g, const Array& v) { return inner = inner + sum(g * v); }, grad(of_net)(n),
             direction);
    return inner;
  })(net);
  check_same(tree_leaves(again), tree_leaves(product));
}

TEST_CASE("a pullback gives its arguments' forms") {
  const FormedNet net = random_net(6);
  const Array x = random_array({5, 3}, 11), seed = random_array({5, 2}, 12);
  const std::vector<Array> expected = [&] {
    const auto pulled = grad([&](const std::vector<Array>& p) {
      return sum(seed * predict(FormedNet{{{p[0], p[1]}, {p[2], p[3]}}, p[4]}, p[5]));
    });
    std::vector<Array> all = tree_leaves(net);
    all.push_back(x);
    return pulled(all);
  }();
  const auto [y, pullback] = vjp(predict, net, x);
  CHECK(distance(y, predict(net, x)) == 0);
  for (int round = 0; round < 2; ++round) {
    const auto [of_net, of_x] = pullback(seed);
    check_same(tree_leaves(std::tuple(of_net, of_x)), expected);
    CHECK(of_net.slope == 0.5);
  }
  const auto alone = vjp([&](const FormedNet& n) { return predict(n, x); }, net).second(seed);
  check_same(tree_leaves(alone), std::vector<Array>(expected.begin(), expected.end() - 1));
  const auto with_number = vjp([](const Array& a, int n) { return integer_pow(a, n); }, x, 2).second(x);
  CHECK(distance(std::get<0>(with_number), 2.0 * square(x)) < 1e-12);
  CHECK(std::get<1>(with_number) == 2);
  // Arrays alone are a list, as before.
  const std::vector<Array> list = vjp([](const Array& a, const Array& b) { return a * b; }, x, x).second(x);
  CHECK(distance(list[1], square(x)) == 0);
}

TEST_CASE("Jacobians have the form of the argument, or of the result") {
  const FormedLayer layer{random_array({3, 2}, 1), random_array({2}, 2)};
  const Array x = random_array({3}, 3);
  const auto apply = [](const FormedLayer& l, const Array& a) { return sin(matmul(a, l.w) + l.b); };
  const Array slope = cos(matmul(x, layer.w) + layer.b);
  const Array expected_b = slope * eye(2);
  for (const bool reverse : {false, true}) {
    const FormedLayer by_layer = reverse ? jacrev(apply)(layer, x) : jacfwd(apply)(layer, x);
    CHECK(by_layer.w.shape() == Shape{2, 3, 2});
    CHECK(distance(by_layer.b, expected_b) < 1e-12);
    const Array by_x = reverse ? jacrev<1>(apply)(layer, x) : jacfwd<1>(apply)(layer, x);
    CHECK(distance(by_x, slope.reshape({2, 1}) * layer.w.T()) < 1e-12);
    const std::vector<Array> at_run_time = reverse ? jacrev(apply, 1)(layer, x) : jacfwd(apply, 1)(layer, x);
    CHECK(distance(at_run_time.at(0), by_x) == 0);
    const auto two = [](const Array& a) { return FormedLayer{outer(a, a), 2.0 * a}; };
    const FormedLayer of_two = reverse ? jacrev(two)(x) : jacfwd(two)(x);
    CHECK(of_two.w.shape() == Shape{3, 3, 3});
    CHECK(distance(of_two.b, 2.0 * eye(3)) < 1e-12);
  }
  const auto quadratic = [](const FormedLayer& l, const Array& a) {
    return sum(square(matmul(a, l.w) + l.b));
  };
  const std::vector<Array> blocks = hessian(quadratic)(layer, x);
  REQUIRE(blocks.size() == 4);
  CHECK(distance(blocks[3], 2.0 * eye(2)) < 1e-12);
  const Array by_x = hessian<1>(quadratic)(layer, x);
  CHECK(distance(by_x, 2.0 * matmul(layer.w, layer.w.T())) < 1e-12);
}

TEST_CASE("tree_map maps the Arrays of structures, and refuses those that do not fit") {
  const FormedNet net = random_net(7), other = random_net(40);
  const FormedNet moved = tree_map([](const Array& a, const Array& b) { return a - 0.1 * b; }, net, other);
  CHECK(distance(moved.layers[1].w, net.layers[1].w - 0.1 * other.layers[1].w) < 1e-15);
  CHECK(distance(*moved.scale, *net.scale - 0.1 * *other.scale) < 1e-15);
  CHECK(tree_leaves(3).empty());
  FormedNet without = other;
  without.scale.reset();
  CHECK_THROWS_WITH_AS(tree_map([](const Array& a, const Array&) { return a; }, net, without),
                       doctest::Contains("the first has 5, the one 1 after it has 4"), Error);

  // A few steps of gradient descent, eagerly and compiled.
  const Array x = random_array({8, 3}, 13);
  const auto step = [&](const FormedNet& n, const Array& inputs) {
    return tree_map([](const Array& p, const Array& g) { return p - 0.01 * g; }, n, grad(energy)(n, inputs));
  };
  const auto compiled = compile(step);
  FormedNet a = net, b = net;
  for (int i = 0; i < 5; ++i) {
    a = step(a, x);
    b = compiled(b, x);
  }
  check_same(tree_leaves(b), tree_leaves(a));
  CHECK(energy(a, x).item() < energy(net, x).item());
}

// A class whose members are unknown does not compile among arguments and results, unless it is declared
// opaque.
struct HasConstructor {
  HasConstructor() = default;
  explicit HasConstructor(int n) : w(zeros({n})) {}
  Array w;
};
struct HasBase : FormedLayer {
  Array c;
};
struct HasList {
  Array w[2];
};
struct Told {
  explicit Told(int n) : w(ones({n})) {}
  auto tidu_fields() { return std::tie(w); }
  Array w;
};
struct Opaque {
  explicit Opaque(int n) : numbers(static_cast<std::size_t>(n)) {}
  std::set<int> few;
  std::vector<int> numbers;
};
}  // namespace
}  // namespace tidu::test

template <>
inline constexpr bool tidu::is_opaque<tidu::test::Opaque> = true;

namespace tidu::test {
namespace {

using frontend_detail::is_tree;
static_assert(!is_tree<HasConstructor> && !is_tree<HasBase> && !is_tree<HasList>);
static_assert(!is_tree<std::shared_ptr<Array>> && !is_tree<std::unordered_map<int, Array>>);
static_assert(is_tree<Told> && is_tree<FormedNet> && is_tree<Opaque> && is_tree<std::string> &&
              is_tree<double>);
static_assert(is_tree<std::function<Array(Array)>> && is_tree<Tensor> && is_tree<std::map<int, Array>>);

// The members of a structure with a member without default constructor cannot be counted: it has to list
// them.
struct HasTold {
  Told told;
  Array b;
};
struct TellsTold {
  Told told;
  Array b;
  auto tidu_fields() { return std::tie(told, b); }
};
static_assert(!is_tree<HasTold> && is_tree<TellsTold>);

TEST_CASE("a structure that tells its members may hold some without default constructor") {
  const auto f = [](const TellsTold& all) { return sum(all.told.w * all.b); };
  const TellsTold gradient = grad(f)(TellsTold{Told(2), array({3.0, 4.0})});
  CHECK(elements(gradient.told.w) == std::vector<double>{3.0, 4.0});
  CHECK(elements(gradient.b) == std::vector<double>{1.0, 1.0});
}

TEST_CASE("classes that hold no Array are passed on as they are") {
  const auto f = [](const Told& told, const Opaque& opaque, const std::string& name) {
    return sum(told.w * static_cast<double>(opaque.numbers.size() + name.size()));
  };
  const Told gradient = grad(f)(Told(2), Opaque(3), std::string("four"));
  CHECK(distance(gradient.w, array({7.0, 7.0})) == 0.0);
}

}  // namespace
}  // namespace tidu::test
