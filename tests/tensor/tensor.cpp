// Tensor: sharing, versions, read-only and foreign memory, views, Eigen maps, and the checks that end in
// typed errors.
#include "tidu/tensor/tensor.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cstring>
#include <type_traits>
#include <vector>

#include "tidu/eigen.hpp"

namespace {

using namespace tidu;

template <class Body>
ErrorKind kind_of(Body&& body) {
  const auto result = detail::capture([&] {
    body();
    return 0;
  });
  REQUIRE_FALSE(result);
  return result.error().kind();
}

}  // namespace

TEST_CASE("a tensor holds elements in row-major order") {
  const Tensor x = Tensor::from<double>({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(to_string(x.type()) == "f64[2,3]");
  CHECK(x.size() == 6);
  CHECK(x.num_bytes() == 48);
  CHECK(x.data<double>()[4] == 5.0);
  CHECK(x.at(5) == 6.0);
  CHECK(Tensor().type() == Type(f64, {0}));
  CHECK(Tensor().elements<double>().empty());
  CHECK(Tensor::zeros(Type(c64, {3})).at(2) == std::complex<double>());
  CHECK(Tensor::scalar(bf16, 2.5).at(0) == 2.5);
  CHECK(Tensor::scalar(true).item<bool>());
  CHECK(Tensor::scalar(true).item<std::uint8_t>() == 1);
  CHECK(Tensor::scalar(std::int64_t{7}).dtype() == i64);
  CHECK(Tensor::scalar(std::complex<double>(1, 2)).at(0) == std::complex<double>(1, 2));
}

TEST_CASE("elements are aligned to 16 bytes, many to 64, and tensors of any size are apart") {
  static_assert(sizeof(Tensor) <= 24);
  std::vector<Tensor> tensors;
  for (std::int64_t size = 0; size < 3000; size += size < 700 ? 1 : 37) {
    const Tensor& x = tensors.emplace_back(Type(bool_, {size}));
    const auto at = reinterpret_cast<std::uintptr_t>(x.bytes());
    CHECK(at % (size < 512 ? 16 : 64) == 0);
    std::memset(tensors.back().mutable_bytes(), static_cast<int>(size % 251), x.num_bytes());
  }
  std::size_t wrong = 0;
  for (const Tensor& x : tensors) {
    for (const auto element : x.elements<std::uint8_t>()) wrong += element == x.size() % 251 ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a moved-from tensor is empty, and assignment works on oneself and on moved-from tensors") {
  static_assert(std::is_nothrow_move_constructible_v<Tensor> && std::is_nothrow_move_assignable_v<Tensor>);
  static_assert(std::is_nothrow_copy_constructible_v<Tensor> && std::is_nothrow_copy_assignable_v<Tensor>);
  Tensor x = Tensor::scalar(1.5);
  Tensor y = std::move(x);
  CHECK(y.item<double>() == 1.5);
  CHECK(y.exclusive());
  x = Tensor::scalar(2.5);
  CHECK(x.item<double>() == 2.5);
  Tensor& same = x;
  x = same;
  CHECK(x.exclusive());
  x = std::move(same);
  CHECK(x.item<double>() == 2.5);
  x = y;
  CHECK_FALSE(y.exclusive());
  y = std::move(x);
  CHECK(y.exclusive());
  CHECK(y.item<double>() == 1.5);
  Tensor a = Tensor::scalar(1.0), b = Tensor::scalar(2.0);
  swap(a, b);
  CHECK(a.item<double>() == 2.0);
}

TEST_CASE("the tensor without elements can be asked everything") {
  Tensor x;
  CHECK(x.bytes() != nullptr);
  CHECK(x.mutable_bytes() == x.bytes());
  CHECK(x.writable());
  CHECK_FALSE(x.exclusive());
  CHECK(x.version() == 0);
  CHECK(x.shares_storage_with(Tensor()));
  CHECK_FALSE(x.shares_storage_with(Tensor(Type(f64, {0}))));
  CHECK(x.clone().type() == x.type());
  CHECK(x.reshaped({0, 3}).shape() == Shape{0, 3});
  CHECK(x.view(Type(f32, {0}), 0).size() == 0);
  CHECK(x.to_literal().type() == x.type());
}

TEST_CASE("copies share storage, and writing counts the version up") {
  Tensor x = Tensor::from<float>({2}, {1, 2});
  CHECK(x.exclusive());
  const Tensor shared = x;
  const Tensor own = x.clone();
  CHECK_FALSE(x.exclusive());
  const auto before = shared.version();
  x.mutable_data<float>()[0] = 9;
  CHECK(shared.version() == before + 1);
  CHECK(shared.at(0) == 9.0);
  CHECK(own.at(0) == 1.0);
  CHECK(shared.shares_storage_with(x));
  CHECK_FALSE(own.shares_storage_with(x));
}

TEST_CASE("views share storage and stay within it") {
  Tensor x = Tensor::from<float>({2, 2}, {1, 2, 3, 4});
  Tensor row = x.view(Type(f32, {2}), 8);
  row.mutable_data<float>()[1] = 7;
  CHECK(x.at(3) == 7.0);
  CHECK(x.version() == 1);
  CHECK(row.view(Type(f32), 4).at(0) == 7.0);
  CHECK(x.reshaped({4}).at(2) == 3.0);
  CHECK(kind_of([&] { (void)x.reshaped({3}); }) == ErrorKind::type);
  CHECK(kind_of([&] { (void)x.view(Type(f32, {4}), 4); }) == ErrorKind::invalid_argument);
  CHECK(kind_of([&] { (void)row.view(Type(f32, {3}), 0); }) == ErrorKind::invalid_argument);
  CHECK(kind_of([&] { (void)x.view(Type(f32), 2); }) == ErrorKind::invalid_argument);
  CHECK(kind_of([&] { (void)x.view(Type(f32), ~std::size_t{0}); }) == ErrorKind::invalid_argument);
}

TEST_CASE("the memory of a literal is shared and cannot be written") {
  const double values[] = {1.0, -0.0};
  const Literal literal = Literal::of(Type(f64, {2}), std::span<const double>(values));
  Tensor x(literal);
  CHECK(x.bytes() == literal.bytes());
  CHECK_FALSE(x.writable());
  CHECK(kind_of([&] { x.mutable_data<double>()[0] = 1; }) == ErrorKind::invalid_argument);
  CHECK(x.clone().writable());
  CHECK(x.to_literal() == literal);
}

TEST_CASE("foreign memory is kept as long as a tensor is over it") {
  bool freed = false;
  {
    auto* memory = new double[2]{3.0, 4.0};
    Tensor x = Tensor::wrap(Type(f64, {2}), memory, std::shared_ptr<void>(memory, [&](void* data) {
                              delete[] static_cast<double*>(data);
                              freed = true;
                            }));
    Tensor last = x.view(Type(f64), 8);
    x = Tensor();
    CHECK_FALSE(freed);
    last.mutable_data<double>()[0] += 1;
    CHECK(memory[1] == 5.0);
  }
  CHECK(freed);
  alignas(8) std::byte bytes[32]{};
  const void* odd = bytes + 4;
  CHECK(kind_of([&] { (void)Tensor::wrap(Type(f64), odd, nullptr); }) == ErrorKind::invalid_argument);
  CHECK(kind_of([&] { (void)Tensor::wrap(Type(f64), static_cast<void*>(nullptr), nullptr); }) ==
        ErrorKind::invalid_argument);
}

TEST_CASE("misuse is a typed error") {
  const Tensor x = Tensor::from<double>({2}, {1, 2});
  CHECK(kind_of([&] { (void)x.data<float>(); }) == ErrorKind::type);
  CHECK(kind_of([&] { (void)x.data<std::int64_t>(); }) == ErrorKind::type);
  CHECK(kind_of([&] { (void)x.item<double>(); }) == ErrorKind::invalid_argument);
  CHECK(kind_of([&] { (void)x.at(2); }) == ErrorKind::invalid_argument);
  CHECK(kind_of([&] { (void)x.at(-1); }) == ErrorKind::invalid_argument);
  CHECK(kind_of([&] { (void)Tensor::from<double>({3}, {1, 2}); }) == ErrorKind::invalid_argument);
}

TEST_CASE("tensors are Eigen maps without copying, and are made from Eigen expressions") {
  Tensor x = Tensor::from<double>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto m = matrix<double>(x);
  CHECK(m.data() == x.data<double>());
  CHECK(m(1, 0) == 4.0);
  mutable_matrix<double>(x)(1, 2) = 60;
  CHECK(x.at(5) == 60.0);
  const Tensor product = tensor_from((m * m.transpose()).eval());
  CHECK(product.shape() == Shape{2, 2});
  CHECK(product.at(1) == 1 * 4 + 2 * 5 + 3 * 60.0);
  const Tensor v = tensor_from(Eigen::Vector3f(1, 2, 3));
  CHECK(v.type() == Type(f32, {3}));
  CHECK(vector<float>(v).sum() == 6.0F);
  CHECK(tensor_from(m.transpose()).at(1) == 4.0);
  CHECK(kind_of([&] { (void)matrix<double>(v); }) == ErrorKind::type);
  CHECK(kind_of([&] { (void)vector<double>(v); }) == ErrorKind::type);
}
