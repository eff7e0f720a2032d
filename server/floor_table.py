"""Which of KernelBench's tasks need more than their outputs, or less: data for `floors`.

A share of reads says how much of an input decides outputs beyond the tolerance. Inputs are drawn anew for each
call, but from a known distribution, and a program that guesses a part of them by its mean can pass: so sums and
scans over thousands of numbers have shares below one, and means over all, large maxima, losses and products over
half a million terms have no entry. Memory comes in sectors of 32 bytes, so leaving out single numbers saves
nothing. Outputs that are zero for every input need writing once, not in every call.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """Shares of each input tensor that must be read, in order, and of all outputs that must be written."""

    reads: tuple[float, ...]
    note: str
    writes: float = 1.0


_MAP = Rule((1.0,), "each output element depends on its own input element")
_AVERAGE = Rule((1.0,), "the windows leave no input out, and each element moves several averages")
# A number that its windows already exceed decides nothing, but mostly that shows only when it is read.
_EXTREME = Rule((0.95,), "an extreme may stand anywhere")
_CONVOLUTION = Rule((1.0,), "the kernel's places leave no input out, and each element reaches many outputs")
# Of K uniform terms, 4e-6 K^2 can be guessed before the error passes 0.01 of their sum: 3 % of 8192.
_MATMUL = Rule((0.9, 0.9), "every row and column takes part in many outputs")
# The tolerance grows with the sum, the error of guessed terms with the root of their count: later terms can be
# guessed more often, up to half of all.
_SCAN = Rule((0.4,), "the running sum takes up every element")

_WIDE = "4096x393216 -> 4096x393216"
_IMAGES = "112x64x512x512 -> 112x64x512x512"
_SQUARES = "4096x4096 4096x4096 -> 4096x4096"
_SCANNED = "32768x32768 -> 32768x32768"
_REDUCED = "128x4096x4095 -> 128x4095"
_GROUPS: tuple[tuple[Rule, dict[str, str]], ...] = (
    (
        _MATMUL,
        {
            "1_Square_matrix_multiplication_": _SQUARES,
            "2_Standard_matrix_multiplication_": "2048x8192 8192x4096 -> 2048x4096",
            "3_Batched_matrix_multiplication": "128x512x1024 128x1024x2048 -> 128x512x2048",
            "7_Matmul_with_small_K_dimension_": "32768x64 64x32768 -> 32768x32768",
            "8_Matmul_with_irregular_shapes_": "8205x2949 2949x5921 -> 8205x5921",
            "9_Tall_skinny_matrix_multiplication_": "32768x32 32x32768 -> 32768x32768",
            "10_3D_tensor_matrix_multiplication": "16x1024x2048 2048x768 -> 16x1024x768",
            "11_4D_tensor_matrix_multiplication": "8x256x512x256 256x768 -> 8x256x512x768",
            "16_Matmul_with_transposed_A": "8192x2048 8192x4096 -> 2048x4096",
            "17_Matmul_with_transposed_B": "2048x8192 4096x8192 -> 2048x4096",
            "18_Matmul_with_transposed_both": "8192x2048 4096x8192 -> 2048x4096",
        },
    ),
    (
        Rule((1.0, 1.0), "a diagonal times a matrix scales its rows"),
        {"12_Matmul_with_diagonal_matrices_": "4096 4096x4096 -> 4096x4096"},
    ),
    (
        Rule((0.45, 0.45), "half of a symmetric matrix tells the other half"),
        {"13_Matmul_for_symmetric_matrices": _SQUARES},
    ),
    (
        Rule((0.45, 0.45), "half of a triangular matrix is zero, of the product as well", 0.5),
        {
            "14_Matmul_for_upper_triangular_matrices": _SQUARES,
            "15_Matmul_for_lower_triangular_matrices": _SQUARES,
        },
    ),
    (
        _MAP,
        {
            "5_Matrix_scalar_multiplication": "65536x16384 -> 65536x16384",
            "19_ReLU": _WIDE,
            "20_LeakyReLU": _WIDE,
            "21_Sigmoid": _WIDE,
            "22_Tanh": _WIDE,
            # Zeros would pass for 23 and 37 at the configured tolerance; their extra checks see to that.
            "23_Softmax": _WIDE,
            "24_LogSoftmax": _WIDE,
            "25_Swish": _WIDE,
            "26_GELU_": _WIDE,
            "27_SELU_": _WIDE,
            "28_HardSigmoid": _WIDE,
            "29_Softplus": _WIDE,
            "30_Softsign": _WIDE,
            "31_ELU": _WIDE,
            "32_HardTanh": _WIDE,
            "33_BatchNorm": "64x64x512x512 -> 64x64x512x512",
            "34_InstanceNorm": _IMAGES,
            "35_GroupNorm_": _IMAGES,
            "36_RMSNorm_": _IMAGES,
            "37_FrobeniusNorm_": _IMAGES,
            "38_L1Norm_": "32768x65535 -> 32768x65535",
            "40_LayerNorm": "16x64x256x256 -> 16x64x256x256",
            "88_MinGPTNewGelu": "8192x8192 -> 8192x8192",
        },
    ),
    (
        _EXTREME,
        {
            "41_Max_Pooling_1D": "64x192x65536 -> 64x192x65523",
            "42_Max_Pooling_2D": "32x64x512x512 -> 32x64x511x511",
            "43_Max_Pooling_3D": "16x32x128x128x128 -> 16x32x62x62x62",
            "51_Argmax_over_a_dimension": _REDUCED,
            "52_Argmin_over_a_dimension": _REDUCED,
        },
    ),
    (
        _AVERAGE,
        {
            "44_Average_Pooling_1D": "64x128x65536 -> 64x128x65537",
            "46_Average_Pooling_3D": "16x32x128x128x256 -> 16x32x64x64x128",
        },
    ),
    (
        Rule((0.95,), "only the last two rows and columns lie beyond the windows"),
        {"45_Average_Pooling_2D": "16x64x2048x2048 -> 16x64x186x186"},
    ),
    (
        Rule((0.9,), "a sum over 4096 numbers, of which 180 can be guessed within the tolerance"),
        {"47_Sum_reduction_over_a_dimension": "128x4096x4095 -> 128x1x4095"},
    ),
    (
        Rule((0.4,), "a mean over 4096 numbers, of which 1800 can be guessed within the tolerance"),
        {"48_Mean_reduction_over_a_dimension": _REDUCED},
    ),
    (
        _CONVOLUTION,
        {
            "50_conv_standard_2D__square_input__square_kernel": "256x3x224x224 -> 256x96x55x55",
            "54_conv_standard_3D__square_input__square_kernel": "16x3x64x64x64 -> 16x64x62x62x62",
            "55_conv_standard_2D__asymmetric_input__square_kernel": "8x64x512x1024 -> 8x128x510x1022",
            "56_conv_standard_2D__asymmetric_input__asymmetric_kernel": "8x64x512x256 -> 8x128x508x250",
            "57_conv_transposed_2D__square_input__square_kernel": "8x64x1024x1024 -> 8x64x1026x1026",
            "58_conv_transposed_3D__asymmetric_input__asymmetric_kernel": "16x32x16x32x64 -> 16x16x18x36x70",
            "59_conv_standard_3D__asymmetric_input__square_kernel": "16x3x256x256x10 -> 16x64x254x254x10",
            "60_conv_standard_3D__square_input__asymmetric_kernel": "16x3x64x64x64 -> 16x64x62x60x58",
            "61_conv_transposed_3D__square_input__square_kernel": "8x48x64x64x64 -> 8x48x66x66x66",
            "62_conv_standard_2D__square_input__asymmetric_kernel": "8x32x512x512 -> 8x64x508x504",
            "63_conv_standard_2D__square_input__square_kernel": "16x16x1024x1024 -> 16x128x1022x1022",
            "64_conv_transposed_1D": "64x128x65536 -> 64x128x65538",
            "65_conv_transposed_2D__square_input__asymmetric_kernel": "8x64x512x512 -> 8x64x514x518",
            "66_conv_standard_3D__asymmetric_input__asymmetric_kernel": "8x3x16x128x128 -> 8x64x14x124x122",
            "67_conv_standard_1D": "32x64x131072 -> 32x128x131070",
            "68_conv_transposed_3D__square_input__asymmetric_kernel": "16x32x64x64x64 -> 16x64x66x68x68",
            "69_conv_transposed_2D__asymmetric_input__asymmetric_kernel": "64x64x128x256 -> 64x128x130x260",
            "70_conv_transposed_3D__asymmetric_input__square_kernel": "8x48x96x96x96 -> 8x24x98x98x98",
            "71_conv_transposed_2D__asymmetric_input__square_kernel": "8x32x512x1024 -> 8x32x514x1026",
            "72_conv_transposed_3D_asymmetric_input_asymmetric_kernel___strided_padded_grouped_": (
                "8x32x12x24x48 -> 8x32x24x48x96"
            ),
            "73_conv_transposed_3D_asymmetric_input_square_kernel__strided_padded__grouped": (
                "4x32x32x64x128 -> 4x32x63x127x255"
            ),
            "74_conv_transposed_1D_dilated": "32x32x131072 -> 32x64x131084",
            "76_conv_standard_1D_dilated_strided__": "64x64x524280 -> 64x128x174758",
            "78_conv_transposed_2D_asymmetric_input_asymmetric_kernel___padded__": (
                "8x32x512x1024 -> 8x32x512x1024"
            ),
            "80_conv_standard_2D_square_input_asymmetric_kernel___dilated____padded__": (
                "8x32x512x512 -> 8x64x508x496"
            ),
            "82_conv_depthwise_2D_square_input_square_kernel": "16x64x512x512 -> 16x64x510x510",
            "83_conv_depthwise_2D_square_input_asymmetric_kernel": "64x8x512x512 -> 64x8x510x512",
            "84_conv_depthwise_2D_asymmetric_input_square_kernel": "64x128x256x512 -> 64x128x254x510",
            "85_conv_depthwise_2D_asymmetric_input_asymmetric_kernel": "32x128x128x256 -> 32x128x126x250",
            "86_conv_depthwise_separable_2D": "16x64x512x512 -> 16x128x512x512",
            "87_conv_pointwise_2D": "16x64x1024x1024 -> 16x128x1024x1024",
        },
    ),
    (
        Rule((1.0,), "stride and dilation of 2 reach only every other output", 0.49),
        {
            "75_conv_transposed_2D_asymmetric_input_asymmetric_kernel_strided__grouped____padded____dilated__": (
                "16x32x128x256 -> 16x64x257x766"
            ),
            "79_conv_transposed_1D_asymmetric_input_square_kernel___padded____strided____dilated__": (
                "16x32x131072 -> 16x64x262145"
            ),
        },
    ),
    (
        Rule((1.0,), "stride and dilation of 2 reach only every eighth output", 0.11),
        {
            "77_conv_transposed_3D_square_input_square_kernel___padded____dilated____strided__": (
                "16x32x16x32x32 -> 16x64x33x65x65"
            )
        },
    ),
    (
        Rule((1.0,), "a stride of 5 and a kernel of 3 reach 9 of 25 outputs", 0.35),
        {
            "81_conv_transposed_2D_asymmetric_input_square_kernel___dilated____padded____strided__": (
                "16x32x64x128 -> 16x64x318x638"
            )
        },
    ),
    (_SCAN, {"89_cumsum": _SCANNED, "91_cumsum_reverse": _SCANNED, "92_cumsum_exclusive": _SCANNED}),
    (
        Rule((0.5, 0.6), "the running sum takes up every element that the mask lets through"),
        {"93_masked_cumsum": "32768x32768 32768x32768 -> 32768x32768"},
    ),
    (
        Rule((0.0, 0.0, 0.9), "over uniform queries and keys the weights are nearly equal, but each value counts"),
        {"97_ScaledDotProductAttention": "32x32x512x1024 32x32x512x1024 32x32x512x1024 -> 32x32x512x1024"},
    ),
)
_CONSTANT = Rule((), "the output is zero for every input", 0.0)
RULES: dict[str, tuple[str, Rule]] = {
    **{f"level1/{name}": (form, rule) for rule, forms in _GROUPS for name, form in forms.items()},
    "level2/80_Gemm_Max_Subtract_GELU": ("", _CONSTANT),
    "level2/83_Conv3d_GroupNorm_Min_Clamp_Dropout": ("", _CONSTANT),
}
