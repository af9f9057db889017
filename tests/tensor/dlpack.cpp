// DLPack: every dtype exported and imported without a copy, strides and flags, owners and lifetimes of
// memory, and errors. dlpack/exchange.py tests the exchange with other libraries.
#include "tidu/dlpack.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tensor/dlpack_structs.hpp"

namespace {

using namespace tidu;

// Foreign memory, with its description. Counts calls of the deleter.
struct Foreign {
  std::vector<double> memory{0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> shape{2, 3}, strides{3, 1};
  int deleted = 0;
  DLManagedTensorVersioned versioned{{1, 7}, this, count<DLManagedTensorVersioned>, 0, describe()};
  DLManagedTensor legacy{describe(), this, count<DLManagedTensor>};

  template <class Managed>
  static void count(Managed* managed) {
    ++static_cast<Foreign*>(managed->manager_ctx)->deleted;
  }
  DLTensor describe() { return {memory.data(), {1, 0}, 2, {2, 64, 1}, shape.data(), strides.data(), 0}; }
};

std::string refusal(const std::function<void()>& body, ErrorKind kind) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("every dtype and rank goes out and comes in again over the same memory") {
  const DLDataType codes[] = {{6, 8, 1},  {0, 32, 1}, {0, 64, 1}, {2, 16, 1}, {4, 16, 1},
                              {2, 32, 1}, {2, 64, 1}, {5, 64, 1}, {5, 128, 1}};
  for (const DType dtype : {bool_, i32, i64, f16, bf16, f32, f64, c64, c128}) {
    for (const Shape& shape : {Shape{}, Shape{4}, Shape{2, 1, 3}, Shape{3, 0, 2}}) {
      CAPTURE(to_string(Type(dtype, shape)));
      Tensor x = Tensor::zeros(Type(dtype, shape));
      DLPack out = to_mutable_dlpack(x);
      const DLTensor& told = out->dl_tensor;
      CHECK(std::memcmp(&told.dtype, &codes[static_cast<std::size_t>(dtype)], sizeof(DLDataType)) == 0);
      CHECK(out->version.major == 1);
      CHECK(out->flags == 0);
      CHECK(told.device.device_type == 1);
      CHECK(told.byte_offset == 0);
      CHECK(Shape(told.shape, told.shape + told.ndim) == shape);
      if (shape.size() == 3 && x.size() != 0) CHECK(Shape(told.strides, told.strides + 3) == Shape{3, 3, 1});
      CHECK((told.data == nullptr) == (x.size() == 0));

      Tensor y = from_dlpack(out.release());
      CHECK(y.type() == x.type());
      if (x.size() == 0) continue;
      CHECK(y.bytes() == x.bytes());
      y.mutable_bytes()[0] = std::byte{1};
      CHECK(x.bytes()[0] == std::byte{1});
      CHECK(from_dlpack(to_legacy_dlpack(x).release()).bytes() == x.bytes());
    }
  }
}

TEST_CASE("a read-only export is flagged, and comes back read-only") {
  Tensor x = Tensor::from<double>({2}, {1, 2});
  const auto before = x.version();
  DLPack out = to_dlpack(x);
  CHECK(out->flags == 1);
  CHECK(x.version() == before);
  CHECK_FALSE(x.exclusive());
  Tensor y = from_dlpack(out.release());
  CHECK_FALSE(y.writable());
  CHECK(has(refusal([&] { (void)to_mutable_dlpack(y); }, ErrorKind::invalid_argument), "read-only"));
  CHECK(has(refusal([&] { (void)to_legacy_dlpack(y); }, ErrorKind::invalid_argument), "read-only"));
  y = Tensor();
  CHECK(x.exclusive());
  (void)to_mutable_dlpack(x);
  CHECK(x.version() == before + 1);
  CHECK(x.exclusive());
}

TEST_CASE("the memory stays while either side holds it, and is freed by any thread") {
  DLPack out;
  {
    Tensor x = Tensor::from<double>({3}, {1, 2, 3});
    out = to_mutable_dlpack(x);
  }
  CHECK(static_cast<const double*>(out->dl_tensor.data)[2] == 3.0);
  std::thread([held = std::move(out)]() mutable { held.reset(); }).join();

  Foreign foreign;
  {
    Tensor row;
    {
      const Tensor y = from_dlpack(&foreign.versioned);
      CHECK(y.data<double>() == foreign.memory.data());
      row = y.view(Type(f64, {3}), 24);
    }
    CHECK(foreign.deleted == 0);
    foreign.memory[5] = 50;
    CHECK(row.at(2) == 50.0);
    row.mutable_data<double>()[0] = -1;
    CHECK(foreign.memory[3] == -1.0);
    CHECK_FALSE(row.exclusive());
    std::thread([held = std::move(row)]() mutable { held = Tensor(); }).join();
  }
  CHECK(foreign.deleted == 1);

  Foreign without;
  without.legacy.deleter = nullptr;
  CHECK(from_dlpack(&without.legacy).at(4) == 4.0);
}

TEST_CASE("offsets, strides of axes of one element and absent strides are understood") {
  Foreign foreign;
  foreign.versioned.dl_tensor.strides = nullptr;
  CHECK(from_dlpack(&foreign.versioned).at(5) == 5.0);
  foreign.versioned.dl_tensor.byte_offset = 8;
  foreign.shape = {1, 5};
  foreign.strides = {77, 1};
  foreign.versioned.dl_tensor.strides = foreign.strides.data();
  CHECK(from_dlpack(&foreign.versioned).at(0) == 1.0);
  foreign.versioned.dl_tensor.ndim = 0;
  CHECK(from_dlpack(&foreign.versioned).item<double>() == 1.0);
  foreign.versioned.flags = 3;
  CHECK_FALSE(from_dlpack(&foreign.versioned).writable());
  CHECK(foreign.deleted == 4);
}

TEST_CASE("other layouts are refused, or copied where that is asked for") {
  struct Case {
    Shape shape, strides;
    std::uint64_t offset;
    std::vector<double> expected;
  };
  const Case cases[] = {{{3, 2}, {1, 3}, 0, {0, 3, 1, 4, 2, 5}},
                        {{3}, {2, 0}, 8, {1, 3, 5}},
                        {{2, 2}, {0, 1}, 0, {0, 1, 0, 1}},
                        {{2, 3}, {-3, -1}, 40, {5, 4, 3, 2, 1, 0}}};
  for (const Case& c : cases) {
    Foreign foreign;
    foreign.shape = c.shape;
    foreign.strides = c.strides;
    DLTensor& told = foreign.versioned.dl_tensor;
    told.ndim = static_cast<std::int32_t>(c.shape.size());
    told.shape = foreign.shape.data();
    told.strides = foreign.strides.data();
    told.byte_offset = c.offset;
    const std::string why =
        refusal([&] { (void)from_dlpack(&foreign.versioned); }, ErrorKind::invalid_argument);
    CHECK(has(why, "got strides ["));
    CHECK(foreign.deleted == 1);
    const Tensor copied = from_dlpack(&foreign.versioned, DLPackLayout::copy);
    CHECK(foreign.deleted == 2);
    CHECK(copied.exclusive());
    CHECK(std::vector(copied.elements<double>().begin(), copied.elements<double>().end()) == c.expected);
  }
  Foreign foreign;
  alignas(8) std::byte bytes[28];
  const double values[] = {1.5, 2.5, 3.5};
  std::memcpy(bytes + 4, values, sizeof values);
  foreign.legacy.dl_tensor = {bytes, {1, 0}, 1, {2, 64, 1}, foreign.shape.data(), nullptr, 4};
  CHECK(has(refusal([&] { (void)from_dlpack(&foreign.legacy); }, ErrorKind::invalid_argument),
            "not aligned to 8 bytes"));
  CHECK(from_dlpack(&foreign.legacy, DLPackLayout::copy).at(1) == 2.5);
  CHECK(foreign.deleted == 2);
}

TEST_CASE("bools of other bytes than 0 and 1 are refused, or become true where they are copied") {
  Foreign foreign;
  std::uint8_t bytes[] = {0, 1, 2, 255};
  foreign.shape = {4};
  foreign.versioned.dl_tensor = {bytes, {1, 0}, 1, {6, 8, 1}, foreign.shape.data(), nullptr, 0};
  const auto elements = [](const Tensor& tensor) {
    std::vector<int> all;
    for (std::int64_t i = 0; i < tensor.size(); ++i) all.push_back(std::to_integer<int>(tensor.bytes()[i]));
    return all;
  };
  CHECK(has(refusal([&] { (void)from_dlpack(&foreign.versioned); }, ErrorKind::invalid_argument),
            "got the byte 2 as element 2 of bool[4]"));
  CHECK(foreign.deleted == 1);
  CHECK(elements(from_dlpack(&foreign.versioned, DLPackLayout::copy)) == std::vector<int>{0, 1, 1, 1});
  CHECK(foreign.deleted == 2);
  foreign.strides = {-1};  // from the last one back
  foreign.versioned.dl_tensor.strides = foreign.strides.data();
  foreign.versioned.dl_tensor.byte_offset = 3;
  CHECK(elements(from_dlpack(&foreign.versioned, DLPackLayout::copy)) == std::vector<int>{1, 1, 1, 0});
  foreign.versioned.dl_tensor.strides = nullptr;
  foreign.versioned.dl_tensor.byte_offset = 0;
  bytes[2] = bytes[3] = 0;
  for (const DLPackLayout layout : {DLPackLayout::refuse, DLPackLayout::copy}) {
    const Tensor shared = from_dlpack(&foreign.versioned, layout);
    CHECK(static_cast<const void*>(shared.bytes()) == bytes);
  }
}

TEST_CASE("unsupported tensors are refused by name, and released once") {
  struct Case {
    ErrorKind kind;
    const char* said;
    std::function<void(DLManagedTensorVersioned&)> spoil;
  };
  const auto argument = ErrorKind::invalid_argument;
  const Case cases[] = {
      {argument, "got version 2.0",
       [](auto& m) {
         m.version = {2, 0};
       }},
      {argument, "got version 0.8",
       [](auto& m) {
         m.version = {0, 8};
       }},
      {argument, "got that of cuda:1",
       [](auto& m) {
         m.dl_tensor.device = {2, 1};
       }},
      {argument, "got that of device type 6:0",
       [](auto& m) {
         m.dl_tensor.device = {6, 0};
       }},
      {argument, "got that of device type -1:0",
       [](auto& m) {
         m.dl_tensor.device = {-1, 0};
       }},
      {ErrorKind::type, "got uint8",
       [](auto& m) {
         m.dl_tensor.dtype = {1, 8, 1};
       }},
      {ErrorKind::type, "got float64 in 2 lanes",
       [](auto& m) {
         m.dl_tensor.dtype = {2, 64, 2};
       }},
      {ErrorKind::type, "got type of code 8, bits 8",
       [](auto& m) {
         m.dl_tensor.dtype = {8, 8, 1};
       }},
      {argument, "got -1 dimensions", [](auto& m) { m.dl_tensor.ndim = -1; }},
      {argument, "no shape", [](auto& m) { m.dl_tensor.shape = nullptr; }},
      {argument, "got shape [2,-3]", [](auto& m) { m.dl_tensor.shape[1] = -3; }},
      {ErrorKind::type, "2^62", [](auto& m) { m.dl_tensor.shape[1] = std::int64_t{1} << 61; }},
      {argument, "got null", [](auto& m) { m.dl_tensor.data = nullptr; }}};
  for (const Case& c : cases) {
    CAPTURE(c.said);
    Foreign foreign;
    c.spoil(foreign.versioned);
    const std::string why = refusal([&] { (void)from_dlpack(&foreign.versioned); }, c.kind);
    CAPTURE(why);
    CHECK(has(why, c.said));
    CHECK(foreign.deleted == 1);
  }
  CHECK(
      has(refusal([] { (void)from_dlpack(static_cast<DLManagedTensor*>(nullptr)); }, argument), "got null"));
}
