// nvrtc.cpp - an NVRTC whose machine code is the program's text, after a line with the name of its kernel. It
// takes the options that tidu's kernels need and no others.
#include <nvrtc.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "cuda/platform/libraries/library.hpp"

using namespace tidu::test::platform;

struct _nvrtcProgram {
  std::string name, text;
  bool compiled = false;
};

namespace {

constexpr int architectures[] = {75, 80, 86, 89, 90, 100};

bool is_known(std::string_view option) {
  for (const int one : architectures)
    for (const char* const kind : {"sm_", "compute_"})
      if (option == "--gpu-architecture=" + std::string(kind) + std::to_string(one)) return true;
  return option == "--std=c++17" || option == "--device-as-default-execution-space" ||
         option == "--fmad=false";
}

std::string code_of(const _nvrtcProgram& program) {
  return program.name.substr(0, program.name.rfind(".cu")) + '\n' + program.text;
}

}  // namespace

extern "C" {

// Not a version that NVIDIA has, as compiled kernels are kept by it.
nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 0;
  *minor = 2;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(std::size(architectures));
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* list) {
  std::copy(std::begin(architectures), std::end(architectures), list);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text, const char* name, int,
                               const char* const*, const char* const*) {
  if (is_told_to_fail(__func__)) return NVRTC_ERROR_PROGRAM_CREATION_FAILURE;
  return static_cast<nvrtcResult>(make_handle(program, _nvrtcProgram{name, text}));
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  drop_handle<_nvrtcProgram>(std::exchange(*program, nullptr));
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  if (is_told_to_fail(__func__)) return NVRTC_ERROR_COMPILATION;
  if (!std::all_of(options, options + count, is_known) ||
      std::none_of(options, options + count, [](std::string_view o) { return o == "--fmad=false"; })) {
    refuse_call(0, "nvrtcCompileProgram with options that kernels are not compiled by");
    return NVRTC_ERROR_INVALID_OPTION;
  }
  program->compiled = true;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, std::size_t* bytes) {
  *bytes = 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char* log) {
  *log = '\0';
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* bytes) {
  if (is_told_to_fail(__func__) || !program->compiled) return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = code_of(*program).size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) {
  std::memcpy(code, code_of(*program).c_str(), code_of(*program).size() + 1);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, std::size_t* bytes) {
  return nvrtcGetCUBINSize(program, bytes);
}
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* code) { return nvrtcGetCUBIN(program, code); }
const char* nvrtcGetErrorString(nvrtcResult) { return "refused by the NVRTC of the tests"; }
}
