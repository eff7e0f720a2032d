// Stands in front of PyTorch's header of this name: tensors, dispatch macros, and the functions that are called.
#pragma once
#pragma GCC system_header
#define KERNEL_ENV_CUT
#include <ATen/core/Tensor.h>
#include <kernel_env/operators.h>
#undef KERNEL_ENV_CUT
#include <ATen/Dispatch.h>
#include <ATen/core/grad_mode.h>
