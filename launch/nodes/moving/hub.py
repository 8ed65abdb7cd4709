"""Asks the model hub, or another machine that serves a folder like one. HALLMARK_TOKEN is the token of either."""

from __future__ import annotations

import http.client
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from launch.nodes.moving.folder import possible
from launch.nodes.moving.told import Failed, Json

_COMMIT = re.compile(r"[0-9a-f]{40}")
_PATIENCE = 60.0


class _Redirects(urllib.request.HTTPRedirectHandler):
    """A token is for the host that it was given for, not for the storage that it sends its callers to."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and urllib.parse.urlsplit(newurl)[:2] != urllib.parse.urlsplit(req.full_url)[:2]:
            made.remove_header("Authorization")
        return made


_OPENER = urllib.request.build_opener(_Redirects)


def opened(url: str, offset: int = 0) -> Any:
    request = urllib.request.Request(url)
    token = os.environ.get("HALLMARK_TOKEN")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    return _OPENER.open(request, timeout=_PATIENCE)


def listing(repository: str, revision: str) -> Json:
    """What the hub has of a revision. Errors: Failed."""
    hub = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    url = f"{hub}/api/models/{repository}/revision/{urllib.parse.quote(revision, safe='')}?blobs=true"
    try:
        with opened(url) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        denied(error, repository)
        raise Failed("unreachable", f"the model hub {hub} answers {error.code} for {repository}") from None
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise Failed("unreachable", f"the model hub {hub} does not answer: {reason}") from None
    try:
        files = [_listed(one) for one in found["siblings"]]
        commit = str(found["sha"])
    except (KeyError, TypeError, AttributeError) as error:
        raise Failed("mismatch", f"the model hub {hub} does not answer as a hub does: {error!r}") from None
    if _COMMIT.fullmatch(commit) is None or (_COMMIT.fullmatch(revision) and commit != revision):
        raise Failed("mismatch", f"the model hub {hub} was asked for {revision} and answers with {commit!r}")
    possible(files)
    base = f"{hub}/{repository}/resolve/{commit}/"
    return {"repository": repository, "revision": commit, "files": files, "base": base}


def _listed(one: Json) -> Json:
    large = one.get("lfs") or {}
    proof = {"sha256": large["sha256"]} if large else {"sha1": one["blobId"]}
    return {"path": one["rfilename"], "size": one["size"], **proof}


def denied(error: urllib.error.HTTPError, what: str) -> None:
    if error.code in (401, 403):
        hint = "accept the model's terms on the hub, and set HF_TOKEN to a token that may read it"
        raise Failed("refused", f"access to {what} is denied ({error.code})", hint) from None
    if error.code == 404:
        raise Failed("refused", f"there is no {what}", "check the profile's model and revision") from None
