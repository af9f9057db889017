// module.cpp - the module tidu._core.
#include "core.hpp"

NB_MODULE(_core, m) {
  using namespace tidu::python;
  nb::set_leak_warnings(false);
  bind_errors(m);
  bind_dtypes(m);
  bind_array(m);
  bind_elementwise(m);
  bind_reductions(m);
  bind_shapes(m);
  bind_creation(m);
  bind_trees(m);
  bind_transforms(m);
  bind_compile(m);
  bind_control_flow(m);
  bind_custom(m);
  bind_graph(m);
  bind_primitives(m);
  nb::module_ linalg = m.def_submodule("linalg"), nn = m.def_submodule("nn"),
              random = m.def_submodule("random");
  bind_linalg(linalg);
  bind_nn(nn);
  bind_random(random);
}
