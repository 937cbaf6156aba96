"""KV bytes of models, from their layers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mfmc.config.convert import convert
from mfmc.config.known import read_mapping
from mfmc.config.model import ModelSection, build_model
from mfmc.defaults import conf_folder
from mfmc.errors import InputError
from mfmc.models import GIB, KVModel, Layers, named

TOKEN_BYTES = {  # 2 x layers x KV heads x head dimension x 2 bytes; a latent model: layers x (512 + 64) x 2
    "qwen3_8b": 147_456,
    "qwen3_0_6b": 114_688,
    "qwen3_32b": 262_144,
    "qwen3_30b_a3b": 98_304,
    "llama3_8b": 131_072,
    "llama3_70b": 327_680,
    "mistral_7b": 131_072,
    "deepseek_v3": 70_272,
    "gpt_oss_20b": 49_152,
    "gpt_oss_120b": 73_728,
    "qwen3_next_80b_a3b": 24_576,
}


def configured(name: str, **changes) -> KVModel:
    values = read_mapping(str(conf_folder() / "model" / f"{name}.yaml"), "model")
    return build_model(convert(ModelSection, values | changes, "model"))


@pytest.mark.parametrize("name", TOKEN_BYTES)
def test_bytes_of_a_token(name):
    assert configured(name).token_bytes == TOKEN_BYTES[name]


def test_every_model_of_conf_can_be_built():
    for path in (conf_folder() / "model").glob("*.yaml"):
        assert configured(path.stem).token_bytes > 0
        assert named(path.stem, dtype="fp8") == configured(path.stem, dtype="fp8")
    with pytest.raises(InputError, match=r"model 'qwen3-8b' is unknown: choose one of .* did you mean qwen3_8b"):
        named("qwen3-8b")


def test_the_papers_block_and_capacity():
    model = configured("qwen3_8b")
    assert model.block_bytes(128) == 18 * 2**20
    assert int(40 * GIB // model.block_bytes(128)) == 2275


def test_windows_and_states_make_the_cost_depend_on_length():
    tokens = np.array([0, 1, 128, 1000])
    everything = configured("gpt_oss_20b")
    windowed = configured("gpt_oss_20b", policy="window")
    assert np.array_equal(everything.sequence_bytes(tokens), 49_152 * tokens)
    assert np.array_equal(windowed.sequence_bytes(tokens), 24_576 * (tokens + np.minimum(tokens, 128)))
    hybrid = configured("qwen3_next_80b_a3b")
    assert np.array_equal(hybrid.sequence_bytes(tokens), 24_576 * tokens + 36 * 548_864 * 2 * (tokens > 0))
    assert windowed.depends_on_length and hybrid.depends_on_length and not everything.depends_on_length


def test_devices_share_heads_and_copy_what_cannot_be_shared():
    for devices, copies in ((1, 1), (8, 1), (16, 2)):  # 8 KV heads on 16 devices: each is kept twice
        model = configured("qwen3_8b", tensor_parallel=devices)
        assert model.token_bytes == 147_456 * copies
        assert model.sequence_bytes(10) == 10 * model.token_bytes
    assert configured("deepseek_v3", tensor_parallel=8).token_bytes == 8 * 70_272


def test_quantised_caches_pay_for_their_scales():
    assert configured("qwen3_8b", dtype="fp8").token_bytes == 147_456 / 2
    assert configured("qwen3_8b", dtype="int4", scale_group=64).token_bytes == 73_728 * (0.5 + 2 / 64)


CONFIGS = {
    "llama": (
        {"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096},
        131_072,
    ),
    "no grouped heads": (
        {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64},
        2 * 2 * 64 * 2,
    ),
    "half precision": (
        {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 8, "torch_dtype": "float32"},
        64,
    ),
    "latent": ({"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64}, 70_272),
    "one key and value for all heads": (
        {"num_hidden_layers": 32, "num_attention_heads": 71, "hidden_size": 4544, "multi_query": True},
        8_192,
    ),
    "heads shared out by an older name": (
        {
            "num_hidden_layers": 60,
            "num_attention_heads": 128,
            "hidden_size": 8192,
            "multi_query": True,
            "new_decoder_architecture": True,
            "num_kv_heads": 8,
        },
        122_880,
    ),
    "every fourth layer attends": (
        {
            "num_hidden_layers": 48,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "full_attention_interval": 4,
            "linear_num_key_heads": 16,
            "linear_num_value_heads": 32,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4,
        },
        24_576,
    ),
    "layers that use those of others": (
        {"num_hidden_layers": 5, "num_attention_heads": 1, "head_dim": 4, "num_kv_shared_layers": 2},
        48,
    ),
    "text part": (
        {"text_config": {"num_hidden_layers": 1, "num_attention_heads": 1, "head_dim": 4, "hidden_size": 9}},
        16,
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_hugging_face_configs(name, tmp_path):
    values, expected = CONFIGS[name]
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert KVModel.from_huggingface(tmp_path / "config.json").token_bytes == expected


def test_layer_kinds_of_hugging_face_configs(tmp_path):
    path = tmp_path / "config.json"
    common = {"num_hidden_layers": 4, "num_attention_heads": 2, "head_dim": 8, "sliding_window": 16}

    def windows(**more) -> list:
        path.write_text(json.dumps(common | more))
        return [(layer.count, layer.window) for layer in KVModel.from_huggingface(path).layers]

    assert windows() == [(4, 16)]
    assert windows(use_sliding_window=False) == [(4, None)]
    assert windows(use_sliding_window=True, max_window_layers=3) == [(3, None), (1, 16)]
    assert windows(sliding_window_pattern=2) == [(2, 16), (2, None)]
    assert windows(layer_types=["full_attention"] * 3 + ["sliding_attention"]) == [(3, None), (1, 16)]
    assert windows(model_type="gemma2") == [(2, 16), (2, None)]
    with pytest.raises(InputError, match="kind 'mystery'"):
        windows(layer_types=["mystery"] * 4)
    with pytest.raises(InputError, match="names 2 layers"):
        windows(layer_types=["full_attention"] * 2)
    with pytest.raises(InputError, match="attn_layer_period tells of layers"):
        windows(attn_layer_period=8)


LLAMA = '"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"num_hidden_layers": "many"}',
        f'{{{LLAMA}, "head_dim": "wide"}}',
        f'{{{LLAMA}, "num_kv_shared_layers": 2}}',
        f'{{{LLAMA}, "sliding_window": 9, "use_sliding_window": true, "max_window_layers": "all"}}',
    ],
)
def test_bad_configs_are_one_line(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError) as refused:
        KVModel.from_huggingface(tmp_path / "config.json")
    assert "\n" not in str(refused.value) and "config.json" in str(refused.value)


def test_bad_layers_are_refused():
    for bad in (
        {"count": 0, "kv_heads": 1, "head_dim": 1},
        {"count": 1},
        {"count": 1, "kv_heads": 1, "head_dim": 1, "latent_dim": 1},
    ):
        with pytest.raises(InputError):
            Layers(**bad)
    with pytest.raises(InputError, match=r"model\.dtype=bf17"):
        configured("qwen3_8b", dtype="bf17")
