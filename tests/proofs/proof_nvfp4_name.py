"""`--kv-cache-dtype nvfp4_ds_mla` is a name that the command line, the runners and the config's checks take."""

from types import SimpleNamespace
from typing import Any

from tests.proofs import dsv4
from tests.proofs.case import Case

PATCH = "dsv4-nvfp4-envelope"
KNOWN = {"fp8_ds_mla": True, "nvfp4_ds_mla": True, "nvfp4_ds": False}
UNKNOWN = {**KNOWN, "nvfp4_ds_mla": False}
MISSING = "KeyError: 'nvfp4_ds_mla'"
REFUSED = "nvfp4 KV cache is not supported with MLA"
CASES = [
    Case(
        ("0.22.0", "0.23.0", "0.24.0", "0.25.0", "0.26.0", "0.27.1"),
        released={"parser": UNKNOWN, "runner": MISSING, "config": "taken"},
        patched={"parser": KNOWN, "runner": "torch.uint8", "config": "taken"},
    ),
    Case(
        ("0.28.0", "0.29.0"),
        released={"parser": UNKNOWN, "runner": MISSING, "config": REFUSED},
        patched={"parser": KNOWN, "runner": "torch.uint8", "config": "taken"},
    ),
    Case(
        ("0.30.0", "0.31.0", "0.32.0", "0.33.0"),
        released={"parser": KNOWN, "runner": "torch.uint8", "config": "taken"},
        patched={"parser": KNOWN, "runner": "torch.uint8", "config": "taken"},
        unchanged=True,
    ),
]


def observe() -> Any:
    """Whether the real parser takes each name, the runners' look-up of it, and the check of MLA models."""
    from vllm.config import CacheConfig, VllmConfig
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform
    from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE

    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser

    # The parser asks every config for its defaults, and one of them for a device that is not here.
    current_platform.device_type = "cuda"
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())

    def taken(name: str) -> bool:
        try:
            parsed = parser.parse_args(["--kv-cache-dtype", name])
            # 0.33.0 parses any name and refuses it here.
            return bool(CacheConfig(cache_dtype=parsed.kv_cache_dtype).cache_dtype == name)
        except (SystemExit, ValueError):
            return False

    config = SimpleNamespace(
        cache_config=SimpleNamespace(cache_dtype="nvfp4_ds_mla"), model_config=SimpleNamespace(use_mla=True)
    )
    checked = dsv4.attempt(lambda: VllmConfig.validate_nvfp4_kv_cache_with_mla(config) and "taken")
    return {
        "parser": {name: taken(name) for name in KNOWN},
        "runner": dsv4.attempt(lambda: str(STR_DTYPE_TO_TORCH_DTYPE["nvfp4_ds_mla"])),
        "config": REFUSED if REFUSED in checked else checked,
    }
