// Streams, devices and checks, without the libraries of operators that PyTorch's header of this name brings along.
#pragma once
#include <kernel_env/cuda.h>
