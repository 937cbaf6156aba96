"""The `model` node: a model's layers, or the Hugging Face config.json to take them from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from mfmc.config.ranges import Count, Range
from mfmc.errors import InputError

if TYPE_CHECKING:
    from mfmc.models import KVModel


@dataclass(kw_only=True)
class LayersSection:
    """A group of equal layers (see `mfmc.models.Layers`)."""

    count: Count
    kv_heads: Annotated[int, Range(low=0)] = 0
    head_dim: Annotated[int, Range(low=0)] = 0
    value_head_dim: Annotated[int | None, Range(low=1)] = None
    latent_dim: Annotated[int, Range(low=0)] = 0
    rope_dim: Annotated[int, Range(low=0)] = 0
    window: Annotated[int | None, Range(low=1)] = None
    state_elements: Annotated[int, Range(low=0)] = 0


@dataclass(kw_only=True)
class ModelSection:
    """What the KV cache of a model costs (see `mfmc.models.KVModel`)."""

    name: str
    config: str | None = None
    dtype: str | None = None
    tensor_parallel: Count = 1
    policy: str = "all"
    scale_group: Annotated[int | None, Range(low=1)] = None
    layers: list[LayersSection] = field(default_factory=list)


def build_model(section: ModelSection) -> KVModel:
    """The model that a section describes: `config`'s layers where it names a file."""
    from mfmc.models import KVModel, Layers

    shared: dict[str, Any] = {
        "tensor_parallel": section.tensor_parallel,
        "policy": section.policy,
        "scale_group": section.scale_group,
    }
    if section.config is not None:
        return KVModel.from_huggingface(section.config, dtype=section.dtype, **shared)
    if not section.layers:
        raise InputError(
            "model.layers is empty: choose a model, model=qwen3_8b, or give model.config=path/to/config.json"
        )
    layers = tuple(Layers(**asdict(group)) for group in section.layers)
    return KVModel(section.name, layers, section.dtype or "bf16", **shared)
