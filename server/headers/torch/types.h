// PyTorch's own text over the cut ATen.h, and without autograd and operator registration.
#pragma once
#pragma GCC system_header
#include <ATen/ATen.h>
#define KERNEL_ENV_CUT
#include_next <torch/types.h>
#undef KERNEL_ENV_CUT
#include <kernel_env/others.h>
