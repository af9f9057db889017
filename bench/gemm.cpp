// gemm.cpp - matmuls: this library compared with Eigen, OpenBLAS, BLIS and oneDNN. Rows are
// gemm/<dtype>/<shape>/<threads>/<library>, a shape being n or m x n x k, with _ta and _tb for transposed
// operands; `own` is our own kernels where `tidu` may use oneDNN. The result is the counter GFLOP/s, that of
// the fastest repetition: other processes disturb a mean. The libraries are opened at run time, each in a
// separate link-map namespace, since OpenBLAS and BLIS export the same names; one that is not installed has
// no rows.
//
// Two threads of an OpenMP library may share a processor unless OMP_PROC_BIND=true and OMP_PLACES=cores are
// set. With these, all other threads of the process stay on one processor: measure oneDNN, BLIS and Eigen in
// one run with them, the others without.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "cpu/matmul/gemm.hpp"
#include "gemm_eigen.hpp"

namespace {

using tidu::cpu_detail::GemmCall;
using tidu::cpu_detail::GemmIsa;
using tidu::cpu_detail::GemmPlan;
using tidu::cpu_detail::GemmType;
using Index = std::int64_t;
using Run = std::function<void(const void*, const void*, void*)>;

struct Library {
  std::string name;
  bool (*has)(GemmType type);
  std::function<Run(const GemmCall&, int threads)> prepare;
};

bool has_all(GemmType) { return true; }
bool has_blas(GemmType type) { return type < GemmType::i32; }
bool has_f32(GemmType type) { return type == GemmType::f32; }

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

/// Real matmuls pass their factors by value, complex ones by address.
template <class Factor>
Run blas_matmul(void* function, const GemmCall& g, Factor one, Factor zero) {
  using Matmul =
      void (*)(int, int, int, int, int, int, Factor, const void*, int, const void*, int, Factor, void*, int);
  return [=, matmul = reinterpret_cast<Matmul>(function)](const void* a, const void* b, void* c) {
    const int rows = 101, plain = 111, transposed = 112;
    matmul(rows, g.trans_a ? transposed : plain, g.trans_b ? transposed : plain, static_cast<int>(g.m),
           static_cast<int>(g.n), static_cast<int>(g.k), one, a, static_cast<int>(g.lda), b,
           static_cast<int>(g.ldb), zero, c, static_cast<int>(g.ldc));
  };
}

template <class Count>
void add_blas(std::vector<Library>& libraries, const char* name, const char* file, const char* set_threads) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr) return;
  libraries.push_back({name, has_blas, [=](const GemmCall& g, int threads) -> Run {
                         static const std::complex<float> one32(1), zero32(0);
                         static const std::complex<double> one64(1), zero64(0);
                         symbol<void (*)(Count)>(library, set_threads)(static_cast<Count>(threads));
                         if (g.type == GemmType::f32)
                           return blas_matmul(dlsym(library, "cblas_sgemm"), g, 1.0f, 0.0f);
                         if (g.type == GemmType::f64)
                           return blas_matmul(dlsym(library, "cblas_dgemm"), g, 1.0, 0.0);
                         if (g.type == GemmType::c64) {
                           return blas_matmul<const void*>(dlsym(library, "cblas_cgemm"), g, &one32, &zero32);
                         }
                         return blas_matmul<const void*>(dlsym(library, "cblas_zgemm"), g, &one64, &zero64);
                       }});
}

void add_onednn(std::vector<Library>& libraries) {
  void* const library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
  void* const openmp = dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || openmp == nullptr) return;
  using Matmul = int (*)(char, char, Index, Index, Index, float, const float*, Index, const float*, Index,
                         float, float*, Index);
  libraries.push_back({"onednn", has_f32, [=](const GemmCall& g, int threads) -> Run {
                         symbol<void (*)(int)>(openmp, "omp_set_num_threads")(threads);
                         return [=, matmul = symbol<Matmul>(library, "dnnl_sgemm")](const void* a,
                                                                                    const void* b, void* c) {
                           matmul(g.trans_a ? 'T' : 'N', g.trans_b ? 'T' : 'N', g.m, g.n, g.k, 1,
                                  static_cast<const float*>(a), g.lda, static_cast<const float*>(b), g.ldb, 0,
                                  static_cast<float*>(c), g.ldc);
                         };
                       }});
}

std::vector<Library> open_libraries() {
  std::vector<Library> libraries;
  libraries.push_back({"tidu", has_all, [](const GemmCall& g, int threads) -> Run {
                         return [plan = GemmPlan(g, threads)](const void* a, const void* b, void* c) {
                           plan.run(a, b, c);
                         };
                       }});
  libraries.push_back({"own", has_f32, [](const GemmCall& g, int threads) -> Run {
                         return [plan = GemmPlan(g, threads, GemmIsa::avx512)](
                                    const void* a, const void* b, void* c) { plan.run(a, b, c); };
                       }});
  libraries.push_back({"eigen", has_all, [](const GemmCall& g, int threads) -> Run {
                         tidu::bench::eigen_threads(threads);
                         return [=](const void* a, const void* b, void* c) {
                           tidu::bench::eigen_matmul(g, a, b, c);
                         };
                       }});
  add_blas<int>(libraries, "openblas", "libopenblas.so.0", "openblas_set_num_threads");
  add_blas<Index>(libraries, "blis", "libblis.so.4", "bli_thread_set_num_threads");
  add_onednn(libraries);
  return libraries;
}

struct FreeMemory {
  void operator()(void* p) const { std::free(p); }
};

/// Ones in every type whose bytes are looked at as 32-bit or 64-bit numbers; values do not change the time.
std::unique_ptr<void, FreeMemory> ones(Index count, GemmType type) {
  const Index bytes = count * tidu::cpu_detail::gemm_element_size(type);
  std::unique_ptr<void, FreeMemory> memory(
      std::aligned_alloc(64, static_cast<std::size_t>((bytes + 63) / 64 * 64)));
  if (memory == nullptr) throw std::bad_alloc();
  if (type == GemmType::f64 || type == GemmType::c128) {
    std::fill_n(static_cast<double*>(memory.get()), bytes / 8, 1.0);
  } else if (type == GemmType::i32 || type == GemmType::i64) {
    std::fill_n(static_cast<std::int32_t*>(memory.get()), bytes / 4, 1);
  } else {
    std::fill_n(static_cast<float*>(memory.get()), bytes / 4, 1.0f);
  }
  return memory;
}

void measure(benchmark::State& state, const Library& library, const GemmCall& g, int threads) {
  const auto a = ones(g.m * g.k, g.type), b = ones(g.k * g.n, g.type), c = ones(g.m * g.n, g.type);
  const Run run = library.prepare(g, threads);
  const bool is_complex = g.type == GemmType::c64 || g.type == GemmType::c128;
  const double operations = 2.0 * static_cast<double>(g.m * g.n * g.k) * (is_complex ? 4 : 1);
  const int calls = std::max(1, static_cast<int>(2e6 / operations));  // some 20 microseconds
  double best = 1e9;
  while (state.KeepRunningBatch(calls)) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) run(a.get(), b.get(), c.get());
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / calls);
  }
  state.counters["GFLOP/s"] = operations / best * 1e-9;
}

struct Shape {
  const char* name;
  Index m, n, k;
  bool trans_a = false, trans_b = false;
};

const int registered = [] {
  static const std::vector<Library> libraries = open_libraries();
  const char* const types[] = {"f32", "f64", "c64", "c128", "i32", "i64"};
  const Shape shapes[] = {{"64", 64, 64, 64},
                          {"256", 256, 256, 256},
                          {"1024", 1024, 1024, 1024},
                          {"64x512x784", 64, 512, 784},
                          {"784x512x64_ta", 784, 512, 64, true},
                          {"64x784x512_tb", 64, 784, 512, false, true},
                          {"1000x800x32", 1000, 800, 32},
                          {"1000x800x32_tb", 1000, 800, 32, false, true},
                          {"1024x1x1024", 1024, 1, 1024},
                          {"1x1024x1024", 1, 1024, 1024},
                          {"32x16x2", 32, 16, 2},
                          {"4x4x4", 4, 4, 4}};
  for (const Shape& shape : shapes) {
    for (int type = 0; type < 6; ++type) {
      for (const int threads : {1, 2}) {
        for (const Library& library : libraries) {
          GemmCall g;
          g.type = static_cast<GemmType>(type);
          g.trans_a = shape.trans_a;
          g.trans_b = shape.trans_b;
          g.m = shape.m;
          g.n = shape.n;
          g.k = shape.k;
          g.lda = g.trans_a ? g.m : g.k;
          g.ldb = g.trans_b ? g.k : g.n;
          g.ldc = g.n;
          if (!library.has(g.type)) continue;
          const std::string name = std::string("gemm/") + types[type] + "/" + shape.name + "/" +
                                   std::to_string(threads) + "/" + library.name;
          benchmark::RegisterBenchmark(name.c_str(), [&library, g, threads](benchmark::State& state) {
            measure(state, library, g, threads);
          });
        }
      }
    }
  }
  return 0;
}();

}  // namespace
