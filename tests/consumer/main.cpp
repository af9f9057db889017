// A project that uses tidu: the gradient of sin(x) x, as a graph. It is compiled without warning options, and
// its narrowing conversion and its unused variable would stop the build if tidu's own options reached it.
#include <cstdio>
#include <cstring>
#include <tidu/tidu.hpp>

int main() {
  int unused = 0;
  float narrowed = 1.0 / 3.0;

  tidu::GraphBuilder builder("f");
  const tidu::Value x = builder.input("x", tidu::DType::f64);
  const tidu::Graph f = builder.build({tidu::ops::sin(x) * x});
  const tidu::Graph df = tidu::grad(f);
  std::printf("tidu %s, expected %s\n%s", TIDU_VERSION_STRING, EXPECTED_VERSION, tidu::to_text(df).c_str());

  const bool right = std::strcmp(TIDU_VERSION_STRING, EXPECTED_VERSION) == 0 && narrowed > 0 &&
                     df.outputs().size() == 1 && df.num_operations() > f.num_operations();
  return right ? 0 : 1;
}
