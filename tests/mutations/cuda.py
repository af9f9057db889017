# cuda.py - faults of kernels that the strict emulator finds, for scripts/mutations.py. Other tests run the host's
# branch of the prelude, thread after thread, and notice half of them.

TYPES = "backends/cuda/kernels/prelude/types.cuh"
TILES = "backends/cuda/rules/layout_rules.cpp"


def fault(family, *what, wide=""):
    mutation("strict " + family, *what, programs=("test_cuda",), wide=wide)


REDUCED = "sums and softmax are in most graphs"
fault("reductions", "what a block reduced before is written over while it is read", TYPES,
      "  if (block_threads() == 32) return x;\n  barrier();\n", "  if (block_threads() == 32) return x;\n")
fault("reductions", "a block's partial results are read before they are written", TYPES,
      "if (thread_index() % 32 == 0) of_warp[thread_index() / 32] = x;\n  barrier();\n",
      "if (thread_index() % 32 == 0) of_warp[thread_index() / 32] = x;\n", wide=REDUCED)
fault("reductions", "partial results of columns are read before they are written", TYPES,
      "of_thread[thread_index()] = x;\n  barrier();\n", "of_thread[thread_index()] = x;\n", wide=REDUCED)
fault("scans", "what a block scanned before is written over while it is read", TYPES,
      "  barrier();\n  if (lane == 31) of_warp[warp] = x;", "  if (lane == 31) of_warp[warp] = x;")
fault("packs", "elements are loaded ahead beyond the last", "backends/cuda/kernels/packs.cpp",
      '''each + "  if (c < " + last + ") { " + loads(place)''', '''each + "  { " + loads(place)''',
      wide="what crashes is noticed by all")
fault("packs", "accesses of sixteen bytes at any address", TYPES,
      "FN bool aligned16(const void* at) { return ((u64)at & 15u) == 0; }",
      "FN bool aligned16(const void* at) { return true; }")
fault("reductions", "every lane stores the result", "backends/cuda/kernels/reduce_kernel.cpp",
      "if (live && lane == 0) {", "if (live) {")
fault("reductions", "lanes take the value of another lane than that of the tree", TYPES,
      "__shfl_xor_sync(0xffffffffu, w.at[i], mask)", "__shfl_up_sync(0xffffffffu, w.at[i], mask)")
fault("device", "the device's infinity is a number", "backends/cuda/kernels/prelude/functions.cuh",
      "((R)__longlong_as_double(0x7ff0000000000000ll))", "((R)1e30)")
fault("tiles", "a tile is read before it is written", TILES,
      r'''+ c];\n    }\n    together::barrier();\n";''', r'''+ c];\n    }\n";''', wide="tiles are in most transposes")
fault("tiles", "a tile is written over while it is read", TILES,
      r'''", to = " + out + ";\n    together::barrier();\n";''', r'''", to = " + out + ";\n";''')
fault("scans", "a warp leaves out work between barriers", TYPES,
      "const u32 lane = thread_index() % 32, warp = thread_index() / 32, warps = block_threads() / 32;\n",
      "const u32 lane = thread_index() % 32, warp = thread_index() / 32, warps = block_threads() / 32;\n"
      "  if (warp == 7) { barrier(); barrier(); total = x; return x; }\n")
fault("reductions", "a partial result is not written", TYPES,
      "if (thread_index() % 32 == 0) of_warp", "if (thread_index() % 32 == 0 && thread_index() != 32) of_warp",
      wide=REDUCED)
