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


# Faults of the executor's calls of CUDA and its libraries, which the CUDA platform in host memory finds.
MATMULS = "backends/cuda/libraries/library_matmul.cpp"
SOLVER = "backends/cuda/libraries/library_solver.cpp"
CONVOLUTIONS = "backends/cuda/libraries/library_convolutions.cpp"
CALLS = "backends/cuda/runtime_device.cpp"
CAPTURES = "backends/cuda/replay.cpp"
STORAGE = "backends/cuda/runtime.cpp"
POOLS = "backends/cuda/memory.cpp"


def glue(family, *what, wide=""):
    mutation("glue " + family, *what, programs=("test_cuda_platform",), wide=wide)


glue("libraries", "the transposes of a matmul's operands are exchanged", MATMULS,
     "first = s.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,\n                          second = s.a_transposed",
     "first = s.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,\n                          second = s.b_transposed")
glue("libraries", "cuBLASLt is not told how its operands are aligned", MATMULS,
     "prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(at.b));",
     "prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{256});")
glue("libraries", "a matmul adds the vector of the call that it was chosen for", MATMULS,
     "if (!entry->is_there) return false;\n  if (step.has_bias) {",
     "if (!entry->is_there) return false;\n  if (false) {")
glue("libraries", "a matmul is put on CUDA's default stream", MATMULS,
     "entry->workspace_bytes,\n                   stream_of(stream)));",
     "entry->workspace_bytes,\n                   stream_of(Stream{})));")
glue("libraries", "a matmul has less workspace than its algorithm needs", MATMULS,
     "at.at(step.workspace) : nullptr, entry->workspace_bytes,",
     "at.at(step.workspace) : nullptr, entry->workspace_bytes / 2,", wide="no matmul runs")
glue("libraries", "the upper triangle is factored for the lower", SOLVER,
     "lower_half = CUBLAS_FILL_MODE_LOWER", "lower_half = CUBLAS_FILL_MODE_UPPER")
glue("convolutions", "a convolution is put on the stream of the call before", CONVOLUTIONS,
     '''  f.check("cudnnSetStream", f.SetStream(state_->handle, stream_of(stream)));\n''',
     "  if (entry->workspace_bytes == 0)\n"
     '''    f.check("cudnnSetStream", f.SetStream(state_->handle, stream_of(stream)));\n''')
glue("convolutions", "operands of f32 are rounded to tf32 without leave", CONVOLUTIONS,
     "return s.dtype == DType::f32 && !s.tf32; }", "return s.dtype == DType::f64 && !s.tf32; }")
glue("convolutions", "an algorithm whose results differ from run to run is chosen", CONVOLUTIONS,
     "offer.determinism != CUDNN_DETERMINISTIC ||\n", "\n")
glue("captures", "an event is asked for while it is captured", CALLS,
     '''check(cudaEventRecord(native(event), native(stream)), "cudaEventRecord");''',
     '''check(cudaEventRecord(native(event), native(stream)), "cudaEventRecord");\n'''
     "    (void)cudaEventQuery(native(event));")
glue("captures", "a capture ends while a stream of it still works", CAPTURES,
     "device.record(end, streams[lane]);\n    device.wait(streams[0], end);", "device.record(end, streams[lane]);")
glue("captures", "a captured step does not wait for what it reads", CAPTURES,
     "for (const std::uint32_t other : streams_of_nodes_.waits[n]) device.wait(stream, done[other]);\n", "")
glue("captures", "a graph that was instantiated is never destroyed", CALLS,
     '''error = cudaGraphInstantiate(&made, graph, 0);\n  cudaGraphDestroy(graph);''',
     '''error = cudaGraphInstantiate(&made, graph, 0);''')
glue("streams", "a stream does not wait for what another one has made", STORAGE,
     "users_.push_back(stream);\n  }\n  runtime_->events().join(stream, home_);", "users_.push_back(stream);\n  }")
glue("streams", "memory is given back as if its own stream alone had used it", STORAGE,
     "users_.empty() ? std::span<const Stream>(&home_, 1) : users_", "std::span<const Stream>(&home_, 1)")
glue("streams", "memory that one stream uses is given to another", POOLS,
     "[stream](const Use& use) { return use.stream == stream; });\n  };",
     "[](const Use&) { return true; });\n  };")
glue("memory", "elements are read on the host before the copy has ended", STORAGE,
     '''span.finish("to host", bytes_);\n    runtime_->device().synchronize(home_);''',
     '''span.finish("to host", bytes_);''')
glue("memory", "pinned memory is used again while a copy reads it", POOLS,
     "device_.record(event, stream);\n    const std::lock_guard lock(mutex_);\n    pending_.push_back({memory, event});",
     "device_.record(event, stream);\n    const std::lock_guard lock(mutex_);\n    events_.release(event);\n"
     "    keep(memory);")
glue("errors", "an error of a launch is not looked at", CALLS,
     "  check(cudaLaunchKernel(", "  static_cast<void>(cudaGetLastError());\n"
     "  const auto ignore = [](cudaError_t, const char*) {};\n  ignore(cudaLaunchKernel(")
glue("errors", "an error at the end of a capture is not looked at", CALLS,
     "  if (ended != cudaSuccess) {\n    destroy_graph(previous);\n    raise(ended, \"cudaStreamEndCapture\");\n  }\n", "")
