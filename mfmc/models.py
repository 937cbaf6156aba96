"""Bytes of the KV cache of a sequence, from the layers of a model: never a constant per token typed in.

Layers differ in what they keep of a sequence of n tokens: full attention keeps a key and a value per KV head
and token; latent attention (MLA) one compressed vector and one rotary key per token, for all heads; sliding
attention needs the last `window` tokens only; recurrent layers keep one state, however long the sequence. So
the cost of a sequence is a function of its length, and of the policy of the cache:

* ``all``: every attention layer keeps every token, as in a cache with one block table for all layers;
* ``window``: sliding layers give back what lies beyond their window.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mfmc.defaults import conf_folder
from mfmc.errors import InputError

#: Bytes of an element of the cache.
DTYPES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}
POLICIES = ("all", "window")
SCALE_BYTES = 2  # a quantised cache keeps one fp16 scale for `scale_group` elements
GIB = 2.0**30


@dataclass(frozen=True)
class Layers:
    """`count` equal layers. Give kv_heads and head_dim (value_head_dim where it differs), or latent_dim (with
    rope_dim), or state_elements for a recurrent layer; window: tokens that a sliding layer sees.
    """

    count: int
    kv_heads: int = 0
    head_dim: int = 0
    value_head_dim: int | None = None
    latent_dim: int = 0
    rope_dim: int = 0
    window: int | None = None
    state_elements: int = 0

    def __post_init__(self) -> None:
        for name in ("count", "kv_heads", "head_dim", "latent_dim", "rope_dim", "state_elements"):
            if getattr(self, name) < (name == "count"):
                raise InputError(
                    f"layers.{name}={getattr(self, name)}: expected a whole number,"
                    f" {int(name == 'count')} or more"
                )
        if self.window is not None and self.window < 1:
            raise InputError(f"layers.window={self.window}: expected at least 1 token, or null for none")
        kinds = sum((self.kv_heads * self.head_dim > 0, self.latent_dim > 0, self.state_elements > 0))
        if kinds != 1:
            raise InputError(
                "layers: expected kv_heads and head_dim, or latent_dim, or state_elements, and only one"
                " of these"
            )

    def token_elements(self, tensor_parallel: int = 1) -> int:
        """Elements of one layer per token on one device: KV heads are shared out, a latent vector is
        copied.
        """
        if self.latent_dim:
            return self.latent_dim + self.rope_dim
        values = self.head_dim if self.value_head_dim is None else self.value_head_dim
        return -(-self.kv_heads // tensor_parallel) * (self.head_dim + values)


@dataclass(frozen=True)
class KVModel:
    """A model as its cache sees it.

    dtype: of the cache (DTYPES); scale_group: elements that share one 2-byte scale, for quantised caches;
    tensor_parallel: devices that share the KV heads; policy: one of POLICIES. All figures are sums over
    devices, unless they say per device.
    """

    name: str
    layers: tuple[Layers, ...]
    dtype: str = "bf16"
    tensor_parallel: int = 1
    policy: str = "all"
    scale_group: int | None = None

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError(f"model {self.name}: expected at least one group of layers")
        if self.dtype not in DTYPES:
            raise InputError(f"model.dtype={self.dtype}: expected one of {', '.join(DTYPES)}")
        if self.policy not in POLICIES:
            raise InputError(f"model.policy={self.policy}: expected one of {', '.join(POLICIES)}")
        if self.tensor_parallel < 1:
            raise InputError(f"model.tensor_parallel={self.tensor_parallel}: expected at least 1 device")
        if self.scale_group is not None and self.scale_group < 1:
            raise InputError(f"model.scale_group={self.scale_group}: expected at least 1 element, or null")

    @property
    def element_bytes(self) -> float:
        """Bytes of an element with its share of a scale."""
        scale = 0.0 if self.scale_group is None else SCALE_BYTES / self.scale_group
        return DTYPES[self.dtype] + scale

    def sequence_bytes(self, tokens: ArrayLike) -> np.ndarray:
        """Bytes that sequences of so many tokens keep, on all devices together; the shape of `tokens`."""
        tokens = np.asarray(tokens, dtype=np.float64)
        elements = np.zeros(tokens.shape)
        for layer in self.layers:
            kept = tokens
            if layer.window is not None and self.policy == "window":
                kept = np.minimum(tokens, layer.window)
            per_token = (
                layer.token_elements(self.tensor_parallel) * self.tensor_parallel
                if not layer.state_elements
                else 0
            )
            state = layer.state_elements * (tokens > 0)
            elements = elements + layer.count * (per_token * kept + state)
        return elements * self.element_bytes

    @property
    def token_bytes(self) -> float:
        """Bytes of one more token of a short sequence (Qwen3-8B in bf16: 147,456)."""
        attention = [layer for layer in self.layers if not layer.state_elements]
        per_device = sum(layer.count * layer.token_elements(self.tensor_parallel) for layer in attention)
        return per_device * self.tensor_parallel * self.element_bytes

    def block_bytes(self, block_tokens: int) -> float:
        """Bytes of a block of `block_tokens` tokens in which every layer keeps every token."""
        return self.token_bytes * block_tokens

    @property
    def depends_on_length(self) -> bool:
        """Whether a token of a long sequence costs less than one of a short sequence."""
        windowed = self.policy == "window" and any(layer.window for layer in self.layers)
        return windowed or any(layer.state_elements for layer in self.layers)

    def describe(self, block_tokens: int) -> str:
        """One line: layers, type, bytes per token and block."""
        parts = ", ".join(_layer_words(layer) for layer in self.layers)
        line = (
            f"{self.name}: {parts}; {self.dtype}, tensor parallel {self.tensor_parallel}:"
            f" {self.token_bytes:,.0f} bytes a"
            f" token, {self.block_bytes(block_tokens) / 2**20:.4g} MiB a block of {block_tokens} tokens"
        )
        states = sum(layer.count * layer.state_elements for layer in self.layers) * self.element_bytes
        if states:
            line += f", and {states / 2**20:.4g} MiB of state a sequence"
        if self.policy == "window" and any(layer.window for layer in self.layers):
            line += "; beyond their window, sliding layers keep nothing"
        return line

    @classmethod
    def from_huggingface(cls, path: str | Path, **settings: Any) -> KVModel:
        """The model of a Hugging Face `config.json`; `settings` override what the file says."""
        values = _read_config(Path(path))
        name = str(values.get("_name_or_path") or values.get("model_type") or Path(path).parent.name)
        dtype = _CONFIG_DTYPES.get(str(values.get("torch_dtype", values.get("dtype", "bfloat16"))), "bf16")
        found = {"name": name, "layers": _layers_of(values, path), "dtype": dtype}
        return cls(**(found | {key: value for key, value in settings.items() if value is not None}))


#: Settings of a config.json whose models mix attention with layers of other kinds, or keep more than the text.
_UNKNOWN_MIXTURES = (
    "hybrid_override_pattern",
    "attn_layer_period",
    "attn_layer_indices",
    "attn_type_list",
    "linear_attn_config",
    "layers_block_type",
    "block_types",
    "_block_types",
    "mamba_d_state",
    "cross_attention_layers",
    "is_encoder_decoder",
)
_CONFIG_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def _layer_words(layer: Layers) -> str:
    if layer.latent_dim:
        return f"{layer.count} layers of latent KV {layer.latent_dim}+{layer.rope_dim}"
    if layer.state_elements:
        return f"{layer.count} recurrent layers of {layer.state_elements:,} elements a sequence"
    window = "" if layer.window is None else f", window {layer.window:,}"
    return f"{layer.count} layers x {layer.kv_heads} KV heads x {layer.head_dim}{window}"


def _read_config(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"model.config={path}: not a readable config.json ({error})") from error
    if not isinstance(values, dict):
        raise InputError(
            f"model.config={path}: expected the settings of a model, found a {type(values).__name__}"
        )
    inner = values.get("text_config")
    return values | inner if isinstance(inner, dict) else values


def _layers_of(values: dict[str, Any], path: str | Path) -> tuple[Layers, ...]:
    count = _whole(values, path, "num_hidden_layers")
    for name in _UNKNOWN_MIXTURES:
        if values.get(name) and not values.get("layer_types"):
            raise InputError(
                f"model.config={path}: {name} tells of layers that do not all keep keys and values of the text;"
                " give model.layers instead"
            )
    if values.get("kv_lora_rank"):
        rank, rope = _whole(values, path, "kv_lora_rank"), _whole(values, path, "qk_rope_head_dim")
        return (Layers(count, latent_dim=rank, rope_dim=rope),)
    named = values.get("layer_types")
    if isinstance(named, list) and len(named) != count:
        raise InputError(f"model.config={path}: layer_types names {len(named)} layers, num_hidden_layers is {count}")
    shared = _whole(values, path, "num_kv_shared_layers") if values.get("num_kv_shared_layers") else 0
    if shared >= count:
        raise InputError(f"model.config={path}: num_kv_shared_layers is {shared}, expected fewer than all {count}")
    kinds = Counter(_layer_kinds(values, count, path)[: count - shared])  # the last use what earlier ones keep
    return tuple(_layer_of(kind, number, values, path) for kind, number in kinds.items())


def _layer_kinds(values: dict[str, Any], count: int, path: str | Path) -> list[str]:
    """The kind of each layer; files of older models have a switch for a window in all layers."""
    named = values.get("layer_types")
    if isinstance(named, list):
        return [str(kind) for kind in named]
    interval = values.get("full_attention_interval")
    if isinstance(interval, int) and interval > 1 and "linear_num_value_heads" in values:  # Qwen3-Next
        return ["linear_attention" if (i + 1) % interval else "full_attention" for i in range(count)]
    sliding = values.get("sliding_window") and values.get("use_sliding_window", True)
    if not sliding:
        return ["full_attention"] * count
    pattern = values.get("sliding_window_pattern", 2 if values.get("model_type") == "gemma2" else None)
    if isinstance(pattern, int) and pattern > 1:  # every pattern-th layer sees all
        return ["sliding_attention" if (i + 1) % pattern else "full_attention" for i in range(count)]
    use_full = "use_sliding_window" in values and values.get("max_window_layers")
    full = _whole(values, path, "max_window_layers") if use_full else 0
    return ["full_attention" if i < full else "sliding_attention" for i in range(count)]


def _layer_of(kind: str, count: int, values: dict[str, Any], path: str | Path) -> Layers:
    if kind == "linear_attention":
        keys = _whole(values, path, "linear_num_key_heads") * _whole(values, path, "linear_key_head_dim")
        value_heads, value_dim = (
            _whole(values, path, "linear_num_value_heads"),
            _whole(values, path, "linear_value_head_dim"),
        )
        matrix = value_heads * value_dim * _whole(values, path, "linear_key_head_dim")
        convolution = (_whole(values, path, "linear_conv_kernel_dim") - 1) * (
            2 * keys + value_heads * value_dim
        )
        return Layers(count, state_elements=matrix + convolution)
    windows = {
        "full_attention": None,
        "sliding_attention": "sliding_window",
        "chunked_attention": "attention_chunk_size",
    }
    if kind not in windows:
        raise InputError(
            f"model.config={path}: layers of kind {kind!r} are not known; give model.layers instead"
        )
    name = windows[kind]
    heads = _whole(values, path, "num_attention_heads")
    if values.get("multi_query") and not values.get("new_decoder_architecture"):  # Falcon-7B
        kv_heads = 1
    else:
        kv_heads = _whole(values, path, "num_key_value_heads", _whole(values, path, "num_kv_heads", heads))
    # A head_dim that is missing, or null as in some files, is the hidden size shared out.
    given = values.get("head_dim")
    head_dim = _whole(values, path, "head_dim") if given else _whole(values, path, "hidden_size") / heads
    if head_dim != math.floor(head_dim):
        raise InputError(
            f"model.config={path}: hidden_size is no multiple of num_attention_heads; head_dim is missing"
        )
    return Layers(count, kv_heads, int(head_dim), window=None if name is None else _whole(values, path, name))


def _whole(values: dict[str, Any], path: str | Path, name: str, default: int | None = None) -> int:
    value = values.get(name)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"model.config={path}: {name} is {value!r}, expected a whole number of at least 1")
    return value


def named(name: str, **changes: Any) -> KVModel:
    """A model of conf/model, `model=NAME` of the command line: named("qwen3_8b", dtype="fp8").

    `changes`: fields of `KVModel`. Raises InputError, with the names that there are, for an unknown one.
    """
    import yaml

    files = {path.stem: path for path in sorted((conf_folder() / "model").glob("*.yaml"))}
    if name not in files:
        near = get_close_matches(str(name), files, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"model {name!r} is unknown: choose one of {', '.join(files)}{hint}")
    fields = yaml.safe_load(files[name].read_text(encoding="utf-8"))
    fields["layers"] = tuple(Layers(**group) for group in fields["layers"])
    del fields["config"]  # the layers are given
    return KVModel(**({key: value for key, value in fields.items() if value is not None} | changes))
