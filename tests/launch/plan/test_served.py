"""The flags of a command by name, as gates ask about them."""

from launch.plan.served import serve_flags
from recipe.config.flags import flags


def test_flags_are_found_in_every_way_that_they_can_be_written() -> None:
    argv = [
        *("vllm", "serve", "/model", "--moe_backend", "b12x", "--port=8000", "--enforce-eager"),
        *("--no-enable-prefix-caching", "--middleware", "a", "b", "--default-chat-template-kwargs.thinking=true"),
        *("--moe-backend", "marlin", "--headless"),
    ]
    assert serve_flags(argv) == {
        "moe-backend": "marlin",
        "port": "8000",
        "enforce-eager": True,
        "enable-prefix-caching": False,
        "middleware": "a",
        "default-chat-template-kwargs.thinking": "true",
        "headless": True,
    }


def test_what_a_profile_writes_is_read_back() -> None:
    serve = {"tool-call-parser": "deepseek_v4", "enforce-eager": True, "max-num-seqs": 0, "x": None, "seed": -1}
    assert serve_flags(flags(serve)) == {
        "tool-call-parser": "deepseek_v4",
        "enforce-eager": True,
        "max-num-seqs": "0",
        "seed": "-1",
    }
