// Special and complex functions against values of 40 digits (computed with mpmath), and at the edges of their
// domains.
#include "reference/run.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;
using C = std::complex<double>;

C value(std::string_view primitive, C z) { return run_op(primitive, {Tensor::scalar(z)})[0].at(0); }
double value(std::string_view primitive, double x, Attributes attributes = {}) {
  return run_op(primitive, {Tensor::scalar(x)}, std::move(attributes))[0].at(0).real();
}
double polygamma(std::int64_t m, double x) {
  return m == 0 ? value("digamma", x) : value("polygamma", x, {{"m", m}});
}

struct OfOrder {
  std::int64_t m;
  double x, want;
};
struct OfReal {
  double x, want;
};

}  // namespace

TEST_CASE("digamma and polygamma") {
  for (const OfOrder& row : std::initializer_list<OfOrder>{
           {0, 0.1, -10.423754940411076},
           {0, 1.0, -0.5772156649015329},
           {0, 25.5, 3.2189424728839198},
           {0, -0.75, -2.894120200042932},
           {0, -10.3, 4.662403493582087},
           {0, 1e-09, -1000000000.5772156},
           {1, 0.5, 4.934802200544679},
           {1, -0.75, 18.975106932284888},
           {1, 30.0, 0.033895060357739946},
           {2, 0.3, -75.27253658872604},
           {2, -2.25, 123.89694977406016},
           {3, 4.5, 0.030322508542366587},
           {5, 1.25, 32.513767681292045},
           {8, -1.5, -11.146030731869933},
       }) {
    CAPTURE(row.m);
    CAPTURE(row.x);
    CHECK(close(polygamma(row.m, row.x), row.want));
  }
  CHECK(std::abs(value("digamma", 1.4616321449683622)) < 1e-15);
  CHECK(std::isnan(value("digamma", 0.0)));
  CHECK(std::isnan(value("digamma", -3.0)));
  CHECK(value("digamma", inf) == inf);
  CHECK(polygamma(1, 0.0) == inf);
  CHECK(polygamma(1, -2.0) == inf);
  CHECK(std::isnan(polygamma(2, -2.0)));
  CHECK(polygamma(3, inf) == 0.0);
  CHECK(std::isnan(polygamma(1, not_a_number)));
}

TEST_CASE("lgamma and erf_inv") {
  for (const OfReal& row : std::initializer_list<OfReal>{
           {0.5, 0.5723649429247001},
           {3.7, 1.428072326665388},
           {-0.5, 1.2655121234846454},
           {-2.3, 0.36956666345500805},
           {100.25, 360.28455963776423},
           {1e-10, 23.025850929882736},
           {1.0000001, -5.772155829918507e-08},
       }) {
    CAPTURE(row.x);
    CHECK(close(value("lgamma", row.x), row.want));
  }
  for (const OfReal& row : std::initializer_list<OfReal>{
           {1e-10, 8.862269254527581e-11},
           {0.3, 0.2724627147267543},
           {-0.9, -1.1630871536766743},
           {0.999999, 3.458910737275499},
           {-0.9999999999, -4.572824958544925},
       }) {
    CAPTURE(row.x);
    CHECK(close(value("erf_inv", row.x), row.want));
  }
  CHECK(value("lgamma", -2.0) == inf);
  CHECK(value("erf_inv", 1.0) == inf);
  CHECK(value("erf_inv", -1.0) == -inf);
  CHECK(value("erf_inv", 0.0) == 0.0);
  CHECK(std::isnan(value("erf_inv", 1.5)));
  CHECK(std::isnan(value("erf_inv", not_a_number)));
}

TEST_CASE("complex exponentials and logarithms keep their digits near 0, in both parts") {
  struct Row {
    C z, log1p, expm1, exp2, logistic;
  };
  const auto parts_close = [](C got, C want) {
    return close(got.real(), want.real(), 1e-13) && close(got.imag(), want.imag(), 1e-13);
  };
  for (const Row& row : std::initializer_list<Row>{
           {C(1e-09, 1e-09), C(1e-09, 9.999999990000001e-10), C(1e-09, 1.000000001e-09),
            C(1.000000000693147, 6.931471810403984e-10), C(0.50000000025, 2.5e-10)},
           {C(0.1, -0.4), C(0.15740536992001677, -0.348771003583907),
            C(0.017929824345837075, -0.4303738268847481), C(1.030841740487911, -0.2933660871077108),
            C(0.5260029494310514, -0.10109168422225599)},
           {C(-0.08, 0.4), C(0.0031898034820195204, 0.410127340541491),
            C(-0.14975354041681369, 0.35947843736790175), C(0.9099270930301528, 0.25895512410004157),
            C(0.47919063737993234, 0.10118637702104327)},
           {C(1e-12, 2e-06), C(2.9999999999914997e-12, 1.999999999995333e-06),
            C(-1.0000000000008332e-12, 2.0000000000006665e-06), C(0.9999999999997322, 1.3862943611204074e-06),
            C(0.50000000000025, 5.000000000001666e-07)},
           {C(-0.5, 3.0), C(1.112311775762167, 1.4056476493802699),
            C(-1.6004608020736253, 0.08559361158720341), C(-0.34435705534359984, 0.6175906560458027),
            C(-1.393054468407387, 0.5126660306146696)},
           {C(0.3, 1.2), C(0.5705165022760309, 0.7454194762741583), C(-0.5108681936261993, 1.258121169197948),
            C(0.8292541549011768, 0.9099747870625499), C(0.6081626414158222, 0.3310512028601545)},
           {C(2.0, 3.0), C(1.4451858789480823, 0.7853981633974483), C(-8.315110094901103, 1.0427436562359045),
            C(-1.9479776718631256, 3.4936203270994857), C(1.1541476496139678, 0.02545268116361431)},
       }) {
    CAPTURE(row.z.real());
    CHECK(parts_close(value("log1p", row.z), row.log1p));
    CHECK(parts_close(value("expm1", row.z), row.expm1));
    CHECK(close(value("exp2", row.z), row.exp2));
    CHECK(close(value("logistic", row.z), row.logistic));
  }
  CHECK(close(value("logistic", C(-800, 1)), C(0)));
  CHECK(close(value("logistic", C(800, 1)), C(1)));
  CHECK(value("logistic", -800.0) == 0.0);
  CHECK(value("logistic", -700.0) > 0.0);
}

TEST_CASE("complex circular functions and roots") {
  struct Row {
    C z, tan, atan, acosh, sqrt;
  };
  for (const Row& row : std::initializer_list<Row>{
           {C(0.3, 1.2), C(0.08847030015632387, 0.8564692917085156),
            C(1.1471633221639823, 0.9088899541452884), C(1.0301440931678834, 1.3796666708336256),
            C(0.8766218362798459, 0.6844456471062177)},
           {C(-1.5, 0.25), C(-1.0253320612293393, 3.786108936814774),
            C(-0.9916033841961419, 0.07605284360074788), C(0.9937304660372428, 2.925421937341255),
            C(0.10171192794985975, 1.2289610719169577)},
           {C(2.0, 40.0), C(-2.731832067962775e-35, 1.0), C(1.569548668748153, 0.024942788436237526),
            C(4.383430122062476, 1.5208534710103703), C(4.585300905556885, 4.361763908615503)},
       }) {
    CAPTURE(row.z.real());
    CHECK(close(value("tan", row.z), row.tan));
    CHECK(close(value("atan", row.z), row.atan));
    CHECK(close(value("acosh", row.z), row.acosh));
    CHECK(close(value("sqrt", row.z), row.sqrt));
    CHECK(close(value("rsqrt", row.z), 1.0 / row.sqrt));
    CHECK(close(value("sin", row.z), (std::exp(C(0, 1) * row.z) - std::exp(C(0, -1) * row.z)) / C(0, 2),
                1e-13));
    CHECK(close(value("cosh", row.z), (std::exp(row.z) + std::exp(-row.z)) / 2.0, 1e-13));
  }
  CHECK(close(value("tanh", C(1000, 1)), C(1)));
  CHECK(value("tan", C(1, -1000)).imag() == -1.0);
  CHECK(close(value("cbrt", -27.0), -3.0));
  CHECK(close(value("exp2", 10.0), 1024.0));
}
