// Left out where a header beside this one says so, and otherwise PyTorch's own.
#ifndef KERNEL_ENV_CUT
#include_next <torch/library.h>
#endif
