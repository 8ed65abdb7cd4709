"""With the variable set, agreement is counted per draft position and shown in /metrics; without it, nothing is."""

from typing import Any

from tests.proofs.case import Case
from tests.proofs.drafts import DSPARK

PATCH = "dspark-draft-agreement"

SHOWN = [
    'hallmark:draft_argmax_agreed_per_pos_total{engine="0",position="0"} 1.0',
    'hallmark:draft_argmax_agreed_per_pos_total{engine="0",position="1"} 0.0',
    'hallmark:draft_argmax_compared_per_pos_total{engine="0",position="0"} 2.0',
    'hallmark:draft_argmax_compared_per_pos_total{engine="0",position="1"} 1.0',
]
CASES = [
    Case(
        DSPARK,
        released={"off": "no attribute", "on": []},
        patched={"off": None, "on": SHOWN},
    )
]

# Two requests with two drafts and with one: a request's last token, then its drafts.
TOKENS, POSITIONS = [3, 1, 2, 0, 1], [0, 1, 2, 0, 1]
# The target's most likely token behind each of these.
LIKELY = [1, 3, 0, 2, 0]


def observe() -> Any:
    """What the sampler holds when the diagnostic is off, and what vLLM's own route /metrics answers after one step when
    it is on."""
    import os
    import tempfile
    from unittest import mock

    from fastapi import FastAPI  # type: ignore[import-not-found,unused-ignore]
    from fastapi.testclient import TestClient  # type: ignore[import-not-found,unused-ignore]
    from vllm.distributed import parallel_state
    from vllm.entrypoints.serve.instrumentator.metrics import attach_router
    from vllm.v1.spec_decode.metrics import SpecDecodingProm, SpecDecodingStats

    os.environ.pop("HALLMARK_DRAFT_AGREEMENT", None)
    off = getattr(_step(), "hallmark_agreement", "no attribute")
    os.environ["HALLMARK_DRAFT_AGREEMENT"] = tempfile.mkdtemp()
    with (
        mock.patch.object(parallel_state, "get_tensor_model_parallel_rank", lambda: 0),
        mock.patch.object(parallel_state, "get_dp_group", lambda: mock.Mock(rank_in_group=0)),
    ):
        _step()
    metrics = SpecDecodingProm(mock.Mock(num_speculative_tokens=2), ["engine"], {0: ["0"]})
    metrics.observe(SpecDecodingStats.new(2), 0)
    app = FastAPI()
    attach_router(app)
    lines = TestClient(app).get("/metrics").text.splitlines()
    return {"off": off, "on": sorted(line for line in lines if line.startswith("hallmark:") and "_total{" in line)}


def _step() -> Any:
    """One call of the real rejection sampler, up to where it begins to sample; returns the sampler."""
    from unittest import mock

    import torch
    from vllm.v1.worker.gpu.spec_decode import rejection_sampler

    class Sampling(Exception):
        pass

    sampler = mock.Mock(compute_nans=False)
    sampler.apply_sampling_params.side_effect = Sampling
    sampler.sampling_states.max_num_logprobs.side_effect = Sampling
    if hasattr(rejection_sampler, "gather_draft_sampled"):
        # A Triton kernel; it leaves out placeholders, of which there are none here.
        rejection_sampler.gather_draft_sampled = lambda ids, places, at, *_: (ids[at], places[at])
    config = mock.Mock(num_speculative_tokens=2, rejection_sample_method="standard")
    made = rejection_sampler.RejectionSampler(sampler, config, torch.device("cpu"))
    batch = mock.Mock(
        input_ids=torch.tensor(TOKENS, dtype=torch.int32),
        positions=torch.tensor(POSITIONS),
        logits_indices=torch.arange(len(TOKENS)),
        expanded_local_pos=torch.tensor(POSITIONS, dtype=torch.int32),
    )
    try:
        made(torch.nn.functional.one_hot(torch.tensor(LIKELY), 4).float(), batch)
    except Sampling:
        return made
    raise AssertionError("the sampler did not sample")
