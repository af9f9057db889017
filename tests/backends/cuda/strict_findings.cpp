// What the strict emulator finds: small kernels, each with one fault, and the same without it.
#include <doctest/doctest.h>

#include <array>
#include <set>
#include <string>

#include "cuda/emulator.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::test::strict_cases {
namespace {

using namespace cuda_detail;

// One operand of 64 elements, one result of 64 and 64 in scratch memory, all f32.
constexpr std::int64_t count = 64;

struct Sample {
  const char* name;
  std::uint32_t blocks, threads;
  const char* body;   // knows x, y, s, t (the thread) and b (the block)
  const char* found;  // in what is thrown, or empty
};

constexpr Sample samples[] = {
    {"fine", 2, 32, "y[b * 32 + t] = x[b * 32 + t];", ""},
    {"reads_beyond", 1, 64, "y[t] = x[t + 1];",
     "thread 63 of block 0 reads 4 bytes outside of every array, at byte 256 from the beginning of operand "
     "0"},
    {"reads_before", 1, 64, "y[t] = x[(int)t - 1];",
     "thread 0 of block 0 reads 4 bytes outside of every array, at byte -4 from the beginning of operand 0"},
    {"writes_beyond", 1, 64, "y[t] = x[t]; if (t == 5) y[64] = 0;",
     "thread 5 of block 0 writes 4 bytes outside of every array, at byte 256 from the beginning of result 0"},
    {"writes_operand", 1, 64, "y[t] = 0; if (t == 7) const_cast<float*>(x)[7] = 1;",
     "thread 7 of block 0 writes 4 bytes at byte 28 of operand 0 (256 bytes), which is read only"},
    {"misaligned", 1, 1,
     "for (u32 i = 0; i < 64; ++i) y[i] = 0; const pack<float, 4> p = *(const pack<float, 4>*)(x + 1); y[0] "
     "= p.at[0];",
     "thread 0 of block 0 reads 16 bytes at byte 4 of operand 0 (256 bytes), misaligned"},
    {"aligned", 1, 1,
     "for (u32 i = 0; i < 64; ++i) y[i] = 0; const pack<float, 4> p = *(const pack<float, 4>*)(x + 4); y[0] "
     "= p.at[0];",
     ""},
    {"uninitialised_scratch", 1, 64, "y[t] = s[t];", "scratch memory (256 bytes), which nothing has written"},
    {"uninitialised_result", 1, 64, "y[t] += x[t];", "result 0 (256 bytes), which nothing has written"},
    {"uninitialised_shared", 2, 32,
     "SHARED float a[32]; if (b == 0) a[t] = 1; together::barrier(); y[b * 32 + t] = a[t];",
     "of block 1 reads 4 bytes at byte"},
    {"unwritten_result", 1, 64, "if (t != 3) y[t] = x[t];", "byte 12 of result 0 was written by no step"},
    {"race_of_writes", 1, 64, "y[t] = 0; together::barrier(); y[t / 2] = 1;", " with no barrier between"},
    {"race_of_read", 1, 64,
     "SHARED float a[64]; a[t] = 0; together::barrier(); a[t] = x[t]; y[t] = a[63 - t];",
     " with no barrier between"},
    {"race_of_write", 1, 64,
     "SHARED float a[64]; a[t] = x[t]; together::barrier(); y[t] = a[63 - t]; a[t] = 0;",
     " with no barrier between"},
    {"no_race", 1, 64,
     "SHARED float a[64]; a[t] = x[t]; together::barrier(); y[t] = a[63 - t]; together::barrier(); a[t] = 0;",
     ""},
    {"race_beside_shuffle", 1, 32,
     "SHARED float a[32]; a[t] = x[t]; y[t + 32] = together::lane_xor(x[t], 1); y[t] = a[31 - t];",
     "with no barrier between"},
    {"race_of_blocks", 2, 64, "y[t] = x[t];", " with no barrier between"},
    {"race_of_reading_blocks", 2, 32,
     "y[b * 32 + t] = 0; s[b * 32 + t] = 1; together::barrier(); y[t] += s[t + 32 * (1 - b)];", "of block"},
    {"missing_thread", 1, 64, "y[t] = 0; if (t != 9) together::barrier();",
     "of 64 threads of block 0, 63 wait at a barrier, 0 in a shuffle, and 1 have ended"},
    {"other_barrier", 1, 64, "y[t] = 0; if (t < 9) together::barrier(); else together::barrier();",
     "wait at different barriers"},
    {"missing_lane", 1, 64, "y[t] = 0; if (t != 9) y[t] = together::lane_xor(x[t], 1);",
     "0 wait at a barrier, 31 in a shuffle, and 33 have ended"},
    {"other_shuffle", 1, 32,
     "y[t + 32] = 0; y[t] = t == 9 ? together::lane_xor(x[t], 1) : together::lane_xor(x[t], 2);",
     "are in different shuffles"},
    {"half_a_warp", 1, 16, "for (u32 i = t; i < 64; i += 16) y[i] = together::lane_xor(x[t], 1);",
     "16 in a shuffle, and 0 have ended"},
};

Plan plan_of(const Sample& sample) {
  auto source = std::make_shared<KernelSource>();
  source->entry = std::string("strict_") + sample.name;
  source->text =
      "extern \"C\" __global__ void " + source->entry +
      "(const float* x, float* y, float* s) {\n  const u32 t = thread_index(), b = block_x();\n  " +
      sample.body + "\n}\n";
  Launch launch;
  launch.kernel = source;
  launch.grid[0] = sample.blocks;
  launch.block = sample.threads;
  for (const BufferRef& place : {operand(0), result(), scratch(0)}) {
    Argument argument;
    argument.place = place;
    launch.arguments.push_back(argument);
  }
  Plan plan;
  plan.supported = true;
  plan.scratch_bytes = count * sizeof(float);
  plan.steps.emplace_back(launch);
  return plan;
}

std::string found(Emulator& emulator, const Plan& plan) {
  const Tensor x = Tensor::zeros(Type(f32, {count}));
  Tensor y{Type(f32, {count})};
  try {
    emulator.run(plan, std::span(&x, 1), std::span(&y, 1));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("The strict emulator finds each kind of fault, whatever the order of threads") {
  if (!Emulator::is_enabled()) return;
  for (const std::uint64_t seed : {3U, 4U, 5U}) {
    const StrictScope strictly({seed});
    Emulator& emulator = Emulator::shared();
    for (const Sample& sample : samples) emulator.add(plan_of(sample));
    emulator.compile();
    for (const Sample& sample : samples) {
      const std::string text = found(emulator, plan_of(sample));
      INFO(std::string(sample.name), ", seed ", seed, ": ", text);
      if (*sample.found == '\0') {
        CHECK(text.empty());
        continue;
      }
      CHECK(text.find(sample.found) != std::string::npos);
      if (std::string_view(sample.name) == "unwritten_result") continue;
      CHECK(text.find("strict emulator, seed " + std::to_string(seed) + ": strict_" + sample.name + ": ") ==
            0);
    }
  }
}

TEST_CASE("The strict emulator says the same when a seed is repeated, and another order with another seed") {
  if (!Emulator::is_enabled()) return;
  const Plan plan = plan_of({"race_of_writes", 1, 64, "y[t] = 0; together::barrier(); y[t / 2] = 1;", ""});
  std::set<std::string> texts;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
    const StrictScope strictly({seed});
    const std::string text = found(Emulator::shared(), plan);
    CHECK(text == found(Emulator::shared(), plan));
    texts.insert(text.substr(text.find("thread ")));
  }
  CHECK(texts.size() > 1);
}

TEST_CASE("The strict emulator knows what copies, sorts and libraries have written") {
  if (!Emulator::is_enabled()) return;
  const StrictScope strictly({1});
  Plan plan = plan_of({"copied", 1, 64, "y[t] = s[t];", ""});
  const Step launch = plan.steps[0];
  const std::string unwritten = found(Emulator::shared(), plan);
  CHECK(unwritten.find("scratch memory (256 bytes), which nothing has written") != std::string::npos);
  plan.steps = {CopyStep{operand(0), scratch(0), 256}, launch};
  CHECK(found(Emulator::shared(), plan) == "");
  plan.steps = {CopyStep{operand(0), scratch(0), 252}, launch};
  CHECK(found(Emulator::shared(), plan).find("thread 63 of block 0 reads 4 bytes at byte 252 of scratch") !=
        std::string::npos);
  plan.steps = {ClearStep{scratch(0), 256}, launch};
  CHECK(found(Emulator::shared(), plan) == "");
  plan.steps = {ClearStep{scratch(0), 128}, CopyStep{scratch(0), result(), 256}};
  CHECK(found(Emulator::shared(), plan) ==
        "strict emulator: a copy reads byte 128 of scratch memory, which nothing has written");
}

TEST_CASE("The strict emulator's grids may have fewer blocks where kernels take any number") {
  if (!Emulator::is_enabled()) return;
  const Plan strided =
      plan_of({"strided", 4, 16, "for (u32 i = b * 16 + t; i < 64; i += grid_x() * 16) y[i] = x[i];", ""});
  const Plan plain = plan_of({"plain", 4, 16, "y[b * 16 + t] = x[b * 16 + t];", ""});
  for (const std::uint32_t blocks : {1U, 2U, 3U, 0U}) {
    const StrictScope strictly({1, blocks});
    CHECK(found(Emulator::shared(), strided) == "");
    CHECK(found(Emulator::shared(), plain) == "");
  }
}

}  // namespace tidu::test::strict_cases
