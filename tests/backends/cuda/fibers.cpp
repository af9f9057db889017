// fibers.cpp - switching stacks: a few instructions on x86-64, ucontext elsewhere.
#include "cuda/fibers.hpp"

#include <ucontext.h>

#include <cstddef>
#include <memory>
#include <vector>

#if defined(__x86_64__)
// Saves what a call preserves on this stack, and goes on where the other stack was left.
extern "C" void tidu_switch_stack(void** save, void* load);
asm(R"(
.text
.type tidu_switch_stack, @function
tidu_switch_stack:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
#endif

namespace tidu::test {
namespace {

constexpr std::size_t stack_bytes = std::size_t{1} << 17;

struct Fiber {
  std::unique_ptr<std::byte[]> stack{new std::byte[stack_bytes]};
  void* at = nullptr;  // where it was left
  ucontext_t context;
  bool ended = false;
};

struct Scheduler {
  std::vector<std::unique_ptr<Fiber>> fibers;
  const std::function<void()>* body = nullptr;
  Fiber* running = nullptr;
  void* at = nullptr;
  ucontext_t context;
};
Scheduler& scheduler() {
  static Scheduler one;
  return one;
}

void leave() {
  Scheduler& s = scheduler();
#if defined(__x86_64__)
  tidu_switch_stack(&s.running->at, s.at);
#else
  swapcontext(&s.running->context, &s.context);
#endif
}
void run_body() {
  (*scheduler().body)();
  scheduler().running->ended = true;
  leave();
}

void prepare(Fiber& fiber) {
  fiber.ended = false;
#if defined(__x86_64__)
  auto top = reinterpret_cast<std::uintptr_t>(fiber.stack.get() + stack_bytes) / 16 * 16;
  auto** stack = reinterpret_cast<void**>(top);
  *--stack = nullptr;  // as after a call: 8 beside a multiple of 16
  *--stack = reinterpret_cast<void*>(&run_body);
  for (int i = 0; i < 6; ++i) *--stack = nullptr;
  fiber.at = stack;
#else
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = stack_bytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, &run_body, 0);
#endif
}
void enter(Fiber& fiber) {
  Scheduler& s = scheduler();
  s.running = &fiber;
#if defined(__x86_64__)
  tidu_switch_stack(&s.at, fiber.at);
#else
  swapcontext(&s.context, &fiber.context);
#endif
}

}  // namespace

void begin_fibers(std::uint32_t count, const std::function<void()>& body) {
  Scheduler& s = scheduler();
  s.body = &body;
  while (s.fibers.size() < count) s.fibers.push_back(std::make_unique<Fiber>());
  for (std::uint32_t i = 0; i < count; ++i) prepare(*s.fibers[i]);
}

bool resume_fiber(std::uint32_t index) {
  Fiber& fiber = *scheduler().fibers[index];
  enter(fiber);
  return !fiber.ended;
}

void fiber_wait() { leave(); }

std::span<const std::byte> fiber_stack(std::uint32_t index) {
  return {scheduler().fibers[index]->stack.get(), stack_bytes};
}

bool run_fibers(std::uint32_t count, std::uint32_t& current, const std::function<void()>& body) {
  begin_fibers(count, body);
  for (;;) {
    std::uint32_t ended = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      current = i;
      ended += resume_fiber(i) ? 0 : 1;
    }
    if (ended == count) return true;
    if (ended != 0) return false;
  }
}

}  // namespace tidu::test
