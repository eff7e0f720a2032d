#pragma once
#include <torch/types.h>
#if !defined(__CUDACC__) || defined(KERNEL_ENV_BINDINGS)
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#endif
