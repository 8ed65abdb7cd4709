"""What is compiled while serving needs: headers of kernels for the hardware, and a C++ compiler."""

from __future__ import annotations

import os
import platform
import shutil

from .platform import missing
from .request import Request
from .result import Result, judged, passed, skipped

_COMPILERS = ("g++", "c++", "clang++")
_HEADERS = "third_party/deep_gemm/include/deep_gemm/impls"


def machine(request: Request) -> Result:
    """Whether this Python runs on the kind of processor that the hardware has."""
    here = platform.machine()
    problems = [f"the image is for {here}, the hardware is {request.machine} — use a base image for it"]
    return judged("platform", here, [] if here == request.machine else problems)


def headers(request: Request) -> Result:
    """Whether DeepGEMM has sources for the hardware, where the profile's model uses it: its kernels are compiled at
    run time, so no library says what they support."""
    if not request.deepgemm or request.capability is None:
        return passed("deepgemm", "not needed")
    folder = request.site / "vllm" / _HEADERS
    prefix = f"sm{request.capability[0]}0"
    if not folder.is_dir():
        return skipped("deepgemm", "this image has no headers of DeepGEMM")
    found = sorted(folder.glob(f"{prefix}_*.cuh"))
    problem = f"vllm/{_HEADERS} has no {prefix}_*.cuh, kernels for this hardware — use a release that has them"
    return judged("deepgemm", f"{len(found)} headers {prefix}_*", [] if found else [problem])


def compiler(request: Request) -> Result:
    """Whether there is a C++ compiler, where the profile compiles while it serves."""
    if request.compiles is None:
        return passed("compiler", "nothing is compiled while serving")
    if missing():
        return skipped("compiler", "this image has no torch, so nothing can be compiled in it")
    names = [os.environ["CXX"]] if os.environ.get("CXX") else [*_COMPILERS]
    found = next((path for name in names if (path := shutil.which(name))), None)
    problem = f"there is no {' or '.join(names)}, and {request.compiles} — use a base image with g++"
    return judged("compiler", found or "none", [] if found else [problem])
