"""A task at a size that Triton's interpreter can run: its module-level constants, replaced.

`SMALL` names the constants of each task; the rest of the text stays as it is, so constants that derive from
others follow. Sizes are chosen uneven: most are no multiples of a kernel's blocks, so that masks are put to
the test, and several blocks are needed where a kernel combines the results of blocks.
"""

from __future__ import annotations

import ast
from typing import Any

SMALL: dict[str, dict[str, Any]] = {
    "level1/1_Square_matrix_multiplication_": {"N": 300},
    "level1/3_Batched_matrix_multiplication": {"batch_size": 2, "m": 140, "k": 77, "n": 150},
    "level1/4_Matrix_vector_multiplication_": {"M": 7, "K": 6001},
    "level1/5_Matrix_scalar_multiplication": {"M": 37, "N": 333},
    "level1/6_Matmul_with_large_K_dimension_": {"M": 100, "N": 130, "K": 3001},
    "level1/7_Matmul_with_small_K_dimension_": {"M": 200, "N": 301, "K": 23},
    "level1/8_Matmul_with_irregular_shapes_": {"M": 205, "K": 149, "N": 321},
    "level1/9_Tall_skinny_matrix_multiplication_": {"M": 601, "N": 20},
    "level1/10_3D_tensor_matrix_multiplication": {"N": 3, "M": 70, "K": 67, "L": 150},
    "level1/11_4D_tensor_matrix_multiplication": {"b": 2, "i": 5, "j": 17, "l": 50, "k": 131},
    "level1/12_Matmul_with_diagonal_matrices_": {"M": 4133, "N": 5},
    "level1/13_Matmul_for_symmetric_matrices": {"N": 301},
    "level1/14_Matmul_for_upper_triangular_matrices": {"N": 301},
    "level1/15_Matmul_for_lower_triangular_matrices": {"M": 301},
    "level1/16_Matmul_with_transposed_A": {"M": 205, "K": 149, "N": 321},
    "level1/17_Matmul_with_transposed_B": {"M": 205, "K": 149, "N": 321},
    "level1/18_Matmul_with_transposed_both": {"M": 205, "K": 149, "N": 321},
    "level1/19_ReLU": {"batch_size": 7, "dim": 1501},
    "level1/21_Sigmoid": {"batch_size": 7, "dim": 1501},
    "level1/22_Tanh": {"batch_size": 7, "dim": 1501},
    "level1/23_Softmax": {"batch_size": 5, "dim": 20001},
    "level1/24_LogSoftmax": {"batch_size": 3, "dim": 70001},
    "level1/25_Swish": {"batch_size": 7, "dim": 1501},
    "level1/26_GELU_": {"batch_size": 7, "dim": 1501},
    "level1/27_SELU_": {"batch_size": 7, "dim": 1501},
    "level1/29_Softplus": {"batch_size": 7, "dim": 1501},
    "level1/31_ELU": {"batch_size": 7, "dim": 1501},
    "level1/33_BatchNorm": {"batch_size": 3, "features": 5, "dim1": 50, "dim2": 53},
    "level1/34_InstanceNorm": {"batch_size": 3, "features": 3, "dim1": 70, "dim2": 63},
    "level1/35_GroupNorm_": {"batch_size": 2, "features": 6, "num_groups": 3, "dim1": 70, "dim2": 63},
    "level1/36_RMSNorm_": {"batch_size": 2, "features": 11, "dim1": 30, "dim2": 23},
    "level1/37_FrobeniusNorm_": {"batch_size": 2, "features": 6, "dim1": 30, "dim2": 63},
    "level1/38_L1Norm_": {"batch_size": 9, "dim": 3001},
    "level1/39_L2Norm_": {"batch_size": 5, "dim": 20003},
    "level1/40_LayerNorm": {"batch_size": 3, "features": 6, "dim1": 30, "dim2": 53},
    "level1/41_Max_Pooling_1D": {"batch_size": 2, "features": 3, "sequence_length": 1203},
    "level1/42_Max_Pooling_2D": {"batch_size": 2, "channels": 2, "height": 30, "width": 37},
    "level1/43_Max_Pooling_3D": {"batch_size": 1, "channels": 2, "dim1": 17, "dim2": 20, "dim3": 23},
    "level1/44_Average_Pooling_1D": {"batch_size": 2, "in_channels": 3, "input_length": 1203},
    "level1/45_Average_Pooling_2D": {"batch_size": 1, "channels": 2, "height": 50, "width": 1101},
    "level1/46_Average_Pooling_3D": {"batch_size": 1, "channels": 2, "depth": 7, "height": 8, "width": 23},
    "level1/47_Sum_reduction_over_a_dimension": {"batch_size": 2, "dim1": 45, "dim2": 201},
    "level1/48_Mean_reduction_over_a_dimension": {"batch_size": 2, "dim1": 77, "dim2": 601},
    "level1/49_Max_reduction_over_a_dimension": {"batch_size": 2, "dim1": 45, "dim2": 201},
    "level1/50_conv_standard_2D__square_input__square_kernel": {"batch_size": 1},
    "level1/51_Argmax_over_a_dimension": {"batch_size": 2, "dim1": 45, "dim2": 201},
    "level1/53_Min_reduction_over_a_dimension": {"batch_size": 2, "dim1": 75, "dim2": 101},
    "level1/57_conv_transposed_2D__square_input__square_kernel": {
        "batch_size": 1,
        "in_channels": 37,
        "out_channels": 70,
        "height": 15,
        "width": 14,
    },
    "level1/63_conv_standard_2D__square_input__square_kernel": {
        "batch_size": 2,
        "in_channels": 19,
        "out_channels": 37,
        "width": 17,
        "height": 14,
    },
    "level1/67_conv_standard_1D": {"batch_size": 2, "in_channels": 37, "out_channels": 140, "length": 203},
    "level1/76_conv_standard_1D_dilated_strided__": {
        "batch_size": 2,
        "in_channels": 37,
        "out_channels": 70,
        "length": 603,
    },
    "level1/82_conv_depthwise_2D_square_input_square_kernel": {
        "batch_size": 2,
        "in_channels": 3,
        "width": 37,
        "height": 40,
    },
    "level1/85_conv_depthwise_2D_asymmetric_input_asymmetric_kernel": {
        "batch_size": 2,
        "in_channels": 3,
        "width": 150,
        "height": 13,
    },
    "level1/86_conv_depthwise_separable_2D": {
        "batch_size": 2,
        "in_channels": 35,
        "out_channels": 20,
        "width": 13,
        "height": 12,
    },
    "level1/87_conv_pointwise_2D": {
        "batch_size": 2,
        "in_channels": 35,
        "out_channels": 140,
        "width": 13,
        "height": 12,
    },
    "level1/88_MinGPTNewGelu": {"batch_size": 7, "dim": 1501},
    "level1/89_cumsum": {"batch_size": 5, "input_shape": (5003,)},
    "level1/90_cumprod": {"batch_size": 5, "input_shape": (5003,)},
    "level1/91_cumsum_reverse": {"batch_size": 5, "input_shape": (9003,)},
    "level1/92_cumsum_exclusive": {"batch_size": 5, "input_shape": (5003,)},
    "level1/93_masked_cumsum": {"batch_size": 5, "input_shape": (5003,)},
    "level1/94_MSELoss": {"batch_size": 9, "input_shape": (3001,)},
    "level1/95_CrossEntropyLoss": {"batch_size": 9, "num_classes": 301},
    "level1/96_HuberLoss": {"batch_size": 9, "input_shape": (3001,)},
    "level1/97_ScaledDotProductAttention": {
        "batch_size": 1,
        "num_heads": 2,
        "sequence_length": 83,
        "embedding_dimension": 72,
    },
    "level1/98_KLDivLoss": {"batch_size": 9, "input_shape": (3001,)},
    "level1/99_TripletMarginLoss": {"batch_size": 9, "input_shape": (3001,)},
    "level1/100_HingeLoss": {"batch_size": 67, "input_shape": (67,)},
    "level2/9_Matmul_Subtract_Multiply_ReLU": {"batch_size": 140, "in_features": 77, "out_features": 301},
    "level2/12_Gemm_Multiply_LeakyReLU": {"batch_size": 140, "in_features": 77, "out_features": 201},
    "level2/18_Matmul_Sum_Max_AvgPool_LogSumExp_LogSumExp": {
        "batch_size": 9,
        "in_features": 601,
        "out_features": 201,
    },
    "level2/22_Matmul_Scale_ResidualAdd_Clamp_LogSumExp_Mish": {
        "batch_size": 140,
        "input_size": 77,
        "hidden_size": 301,
    },
    "level2/28_BMM_InstanceNorm_Sum_ResidualAdd_Multiply": {
        "batch_size": 40,
        "in_features": 77,
        "out_features": 301,
    },
    "level2/29_Matmul_Mish_Mish": {"batch_size": 40, "in_features": 77, "out_features": 301},
    "level2/37_Matmul_Swish_Sum_GroupNorm": {
        "batch_size": 40,
        "in_features": 77,
        "out_features": 320,
        "num_groups": 10,
    },
    "level2/39_Gemm_Scale_BatchNorm": {"batch_size": 300, "in_features": 77, "out_features": 201},
    "level2/41_Gemm_BatchNorm_GELU_ReLU": {"batch_size": 300, "in_features": 77, "out_features": 201},
    "level2/56_Matmul_Sigmoid_Sum": {"batch_size": 40, "input_size": 77, "hidden_size": 301},
    "level2/62_Matmul_GroupNorm_LeakyReLU_Sum": {
        "batch_size": 40,
        "input_size": 77,
        "hidden_size": 208,
        "num_groups": 13,
    },
    "level2/67_Conv2d_GELU_GlobalAvgPool": {
        "batch_size": 2,
        "in_channels": 3,
        "out_channels": 20,
        "height": 30,
        "width": 37,
    },
    "level2/68_Matmul_Min_Subtract": {"batch_size": 40, "in_features": 77, "out_features": 201, "constant": 0.1},
    "level2/69_Conv2d_HardSwish_ReLU": {
        "batch_size": 2,
        "in_channels": 3,
        "out_channels": 20,
        "height": 20,
        "width": 27,
    },
    "level2/76_Gemm_Add_ReLU": {"batch_size": 40, "in_features": 77, "out_features": 201},
    "level2/81_Gemm_Swish_Divide_Clamp_Tanh_Clamp": {"batch_size": 40, "in_features": 77, "out_features": 201},
    "level2/86_Matmul_Divide_GELU": {"batch_size": 40, "input_size": 77, "output_size": 301},
    "level2/88_Gemm_GroupNorm_Swish_Multiply_Swish": {
        "batch_size": 40,
        "in_features": 77,
        "out_features": 224,
        "num_groups": 7,
    },
    "level2/94_Gemm_BiasAdd_Hardtanh_Mish_GroupNorm": {
        "batch_size": 40,
        "in_features": 77,
        "out_features": 224,
        "num_groups": 7,
    },
    "level2/99_Matmul_GELU_Softmax": {"batch_size": 40, "in_features": 77, "out_features": 301},
    "level3/1_MLP": {"batch_size": 130, "input_size": 77, "layer_sizes": [50, 90], "output_size": 70},
    "level3/3_DeepNarrowMLP": {
        "batch_size": 130,
        "input_size": 77,
        "hidden_layer_sizes": [70, 33, 50],
        "output_size": 70,
    },
    "level3/4_LeNet5": {"batch_size": 3, "num_classes": 20},
    "level3/13_DenseNet121TransitionLayer": {
        "batch_size": 3,
        "num_input_features": 11,
        "num_output_features": 20,
        "height": 30,
        "width": 34,
    },
    "level3/17_SqueezeNetFireModule": {
        "batch_size": 2,
        "num_input_features": 3,
        "height": 20,
        "width": 17,
        "squeeze_channels": 5,
        "expand1x1_channels": 18,
        "expand3x3_channels": 20,
    },
    "level3/43_MinGPTCausalAttention": {
        "batch_size": 2,
        "max_seqlen": 128,
        "seq_len": 101,
        "n_embd": 72,
        "n_head": 3,
    },
    "level3/50_ReLUSelfAttention": {"batch_size": 2, "max_seqlen": 101, "n_embd": 48, "n_head": 3},
}


def reduced(source: str, constants: dict[str, Any]) -> str:
    """`source` with other values for module-level constants. Raises `KeyError` for a name it does not assign."""
    tree = ast.parse(source)
    missing = set(constants)
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                missing -= _replace(node, target, constants)
    if missing:
        raise KeyError(f"the task assigns no {', '.join(sorted(missing))}")
    return ast.unparse(ast.fix_missing_locations(tree))


def _replace(node: ast.Assign, target: ast.expr, constants: dict[str, Any]) -> set[str]:
    """Put constants in place of the values of one assignment; the names that were replaced."""
    if isinstance(target, ast.Name) and target.id in constants:
        node.value = _literal(constants[target.id])
        return {target.id}
    replaced = set()
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        for index, element in enumerate(target.elts):
            if isinstance(element, ast.Name) and element.id in constants:
                node.value.elts[index] = _literal(constants[element.id])
                replaced.add(element.id)
    return replaced


def _literal(value: Any) -> ast.expr:
    return ast.parse(repr(value), mode="eval").body
