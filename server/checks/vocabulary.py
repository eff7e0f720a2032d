"""The names under which PyTorch (in Python and in C++) and numpy compute.

Allocation, fills, views, copies and padding are not in it, nor is what cannot be told from a name; the
dispatch guard judges by what runs.
"""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The blank-separated words of `text`."""
    return frozenset(text.split())


_LINEAR = """
matmul mm bmm mv dot vdot inner outer ger addmm addmv addr addbmm baddbmm chain_matmul multi_dot einsum
tensordot kron cross bilinear linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
conv_tbc convolution matrix_exp matrix_power cdist pdist
"""
_ACTIVATIONS = """
softmax log_softmax relu relu6 prelu rrelu selu celu elu leaky_relu sigmoid logsigmoid log_sigmoid
hardsigmoid tanh hardtanh gelu silu mish softplus softsign hardswish hardshrink softshrink tanhshrink
threshold glu softmin
"""
_REDUCTIONS = """
sum mean max min prod std var std_mean var_mean amax amin aminmax argmax argmin median mode quantile nanmean
nansum logsumexp norm dist cumsum cumprod cummax cummin logcumsumexp count_nonzero renorm trace
"""
_POINTWISE = """
exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square pow abs absolute neg negative reciprocal sin cos tan
asin acos atan atan2 sinh cosh erf erfc erfinv lgamma digamma floor ceil round trunc frac sign sgn clamp
clamp_min clamp_max clip add sub mul div multiply divide subtract true_divide floor_divide remainder fmod
maximum minimum fmax fmin lerp addcmul addcdiv where masked_fill
"""
_SELECTION = """
sort argsort topk kthvalue msort unique searchsorted bucketize histc bincount gather scatter scatter_add
index_select index_add
"""
_LAYERS = """
layer_norm batch_norm group_norm instance_norm rms_norm native_layer_norm native_batch_norm
native_group_norm embedding embedding_bag max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
adaptive_max_pool3d pairwise_distance cosine_similarity cosine_embedding_loss ctc_loss kl_div
hinge_embedding_loss margin_ranking_loss triplet_margin_loss mse_loss l1_loss smooth_l1_loss huber_loss
cross_entropy cross_entropy_loss nll_loss binary_cross_entropy binary_cross_entropy_with_logits lstm gru
rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell scaled_dot_product_attention
multi_head_attention_forward upsample_nearest2d upsample_bilinear2d upsample_bicubic2d grid_sampler im2col
col2im
"""
COMPUTE = words(_LINEAR + _ACTIVATIONS + _REDUCTIONS + _POINTWISE + _SELECTION + _LAYERS)

CREATORS = frozenset(
    f"torch.{name}"
    for name in words("empty empty_like empty_strided zeros zeros_like ones ones_like full full_like rand randn")
)

# Names that mean the same on any receiver in C++, where a receiver's type is not known.
UNMISTAKABLE = words(
    """
    matmul mm bmm addmm addmv baddbmm softmax log_softmax relu relu_ sigmoid sigmoid_ logsumexp cumsum
    cumprod argmax argmin topk layer_norm
    """
)

_FAMILIES = ("torch.linalg.", "torch.fft.", "torch.special.", "torch.sparse.", "numpy.linalg.", "numpy.fft.")
_MOVES = words("pad pixel_shuffle pixel_unshuffle channel_shuffle dropout")
_NUMPY = words("matmul dot einsum tensordot inner outer vdot convolve")
# Modules of torch.nn that hold, reshape or (in eval mode) pass on what they get.
_HOLDERS = words(
    """
    Module Parameter ParameterList ParameterDict ModuleList ModuleDict Sequential Identity Flatten
    Unflatten Dropout Dropout1d Dropout2d Dropout3d AlphaDropout Buffer UninitializedParameter
    UninitializedBuffer PixelShuffle PixelUnshuffle ChannelShuffle
    """
)


def base_name(name: str) -> str:
    """`relu_`, `mm_out`, `_softmax` and the like stand for the operation that they vary."""
    for suffix in ("_outf", "_out"):
        name = name.removesuffix(suffix)
    return name.strip("_")


def is_compute(path: str) -> bool:
    """Whether a canonical dotted path names a function that computes."""
    if path.startswith("torch.nn.functional."):
        return path.split(".")[3] not in _MOVES
    if path.startswith(_FAMILIES):
        return True
    owner, _, name = path.rpartition(".")
    if owner in ("torch", "torch.Tensor"):
        return base_name(name) in COMPUTE
    return (owner == "numpy" and name in _NUMPY) or path == "operator.matmul"


def is_layer(path: str) -> bool:
    """Whether a canonical dotted path names a module of torch.nn that computes when called."""
    owner, _, name = path.rpartition(".")
    return owner == "torch.nn" and name[:1].isupper() and name not in _HOLDERS
