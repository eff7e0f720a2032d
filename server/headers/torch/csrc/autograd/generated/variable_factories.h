#ifdef KERNEL_ENV_CUT
#include <kernel_env/factories.h>
#else
#include_next <torch/csrc/autograd/generated/variable_factories.h>
#endif
