// tape_small_stack.cpp - [P15] [T10] a tape of a million nodes is recorded, run backward and destroyed on a
// small stack, in every way in which one may come to its end.
#include "counted.hpp"
#include "support/support.hpp"

namespace tidu::test::counted {
namespace {

// Three primitives by their derivatives, with the least possible memory per node.
class Plain final : public eager::BackwardExecutor<double> {
 public:
  Result<Values> execute_forward(const GraphCall& call, std::span<const double* const> in) const override {
    return run(call, in);
  }
  Result<Values> run_transposed_linear(const GraphCall& call,
                                       std::span<const double* const> in) const override {
    return run(call, in);
  }
  Result<double> add_operands(const eager::AddCall&, double a, const double& b) const override {
    return a + b;
  }

 private:
  static Result<Values> run(const GraphCall& call, std::span<const double* const> in) {
    std::vector<double> inputs;
    for (const double* x : in) inputs.push_back(*x);
    return Values(interpret(call.graph, inputs));
  }
};

struct Chain {
  Plain executor;
  eager::Recorder<double> recorder;
  EagerOutput leaf, end;
  std::size_t length = scaled(1000000);

  explicit Chain(std::size_t most = ~std::size_t{0}) {
    length = std::min(length, most);
    leaf.key = recorder.keys().fresh();
    leaf.requires_grad = true;
    end = leaf;
    const double x = 1.0;
    const RecordedGraph mul = RecordedGraph::of(plain_op<prim::mul>(), std::array{Type(f64), Type(f64)});
    for (std::size_t i = 0; i < length; ++i) {
      const EagerInput<double> inputs[] = {{end, x}, EagerInput<double>(x)};
      end = std::move(recorder.record_graph(mul, inputs, std::span(&x, 1))[0]);
    }
  }
  double backward(const BackwardOptions& options) {
    eager::Root<double> root;
    root.key = end.key;
    root.trace = end.trace;
    root.seed = 3.0;
    return eager::backward<double>(std::span(&root, 1), executor, options, {}, &recorder).at(leaf.key);
  }
};

TEST_CASE("[P15] [T10] a chain of a million nodes, run backward with and without keeping it") {
  Chain chain;
  CHECK(eager::NodeView(chain.end.trace).sequence() == chain.length);
  BackwardOptions options;
  options.keep_graph = true;
  CHECK(chain.backward(options) == 3.0);
  options.order = eager::Order::fifo;
  CHECK(chain.backward(options) == 3.0);
  options.keep_graph = false;
  CHECK(chain.backward(options) == 3.0);
  CHECK_THROWS_AS((void)chain.backward(options), Error);
}

TEST_CASE("[P15] [T10] a chain whose backward is recorded, and that is differentiated again") {
  Chain chain(scaled(200000));
  BackwardOptions options;
  options.create_graph = true;
  CHECK(chain.backward(options) == 3.0);
}

TEST_CASE("[P15] [T10] a chain that is dropped without backward, from either end") {
  Chain chain;
  CHECK(chain.recorder.num_recorded() == chain.length);
}

// An operand that holds the trace of its producer, as arrays of frontends do.
struct Holding {
  double value = 0.0;
  eager::Trace trace{};
};

TEST_CASE("[P15] [T10] a tape whose saved operands hold the traces of their producers") {
  eager::Recorder<Holding> recorder;
  EagerOutput leaf;
  leaf.key = recorder.keys().fresh();
  leaf.requires_grad = true;
  Holding x{1.0, {}};
  EagerOutput end = leaf;
  const RecordedGraph exp = RecordedGraph::of(plain_op<prim::exp>(), std::array{Type(f64)});
  const RecordedGraph sin = RecordedGraph::of(plain_op<prim::sin>(), std::array{Type(f64)});
  for (std::size_t i = 0; i < scaled(1000000); ++i) {
    const EagerInput<Holding> inputs[] = {{end, x}};
    const Holding y{1.0, end.trace};
    end = std::move(recorder.record_graph(i % 2 == 0 ? exp : sin, inputs, std::span(&y, 1))[0]);
    x = Holding{1.0, end.trace};
  }
  x = {};
  end = {};
  CHECK(recorder.num_recorded() == scaled(1000000));
}

}  // namespace
}  // namespace tidu::test::counted
