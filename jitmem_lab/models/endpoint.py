"""Where a served model is, and what of that may be shown: no key ever leaves this object by name or error."""

from __future__ import annotations

import base64
import os
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from ..errors import UserError

if TYPE_CHECKING:
    import openai

HOSTED = "https://api.openai.com/v1"
"""Used when the name gives no address."""
_KEY = re.compile(r"\b(sk|key|tok|hf|gsk|xai)[-_][A-Za-z0-9_\-*.]{6,}")


class Endpoint(NamedTuple):
    """A server's address, a model's name on it, and how to be let in."""

    url: str
    """Address without user, password or query: safe to show."""
    model: str
    """The model's name on the server."""
    query: dict[str, str]
    """Query parameters to send along (they may be secret)."""
    headers: dict[str, str]
    """Headers to send along (secret)."""
    key: str
    """The bearer key, `none` if there is none."""
    variable: str
    """The environment variable that this server's own key would be read from."""

    @classmethod
    def parse(cls, rest: str) -> Endpoint:
        """The endpoint in `BASE_URL#MODEL`; an empty address means OpenAI's own.

        The key comes from `JITMEM_API_KEY_HOST` (the host in capitals, other characters as `_`), else from
        `OPENAI_API_KEY`. A `user:password@` in the address is sent as basic authorisation instead.

        Raises:
            UserError: No model, or an address that isn't http(s).
        """
        address, _, model = rest.partition("#")
        if not model.strip():
            raise UserError("a served model is written openai:BASE_URL#MODEL, and the part #MODEL is missing")
        parts = urlsplit(address.strip() or os.environ.get("OPENAI_BASE_URL") or HOSTED)
        try:
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port = "", None
        if parts.scheme not in ("http", "https") or not host:
            raise UserError(
                "a served model is written openai:BASE_URL#MODEL with an http:// or https:// address, "
                "e.g. openai:http://127.0.0.1:8000/v1#Qwen/Qwen3-8B"
            )
        place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
        url = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
        variable = "JITMEM_API_KEY_" + re.sub(r"[^A-Za-z0-9]", "_", host).upper()
        key = os.environ.get(variable) or os.environ.get("OPENAI_API_KEY") or "none"
        headers = {}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        return cls(url, model.strip(), dict(parse_qsl(parts.query)), headers, key, variable)

    @property
    def name(self) -> str:
        """The name to show and record."""
        return f"openai:{self.url}#{self.model}"

    def client(self, timeout: float) -> openai.OpenAI:
        """A client of this server that tries once; retries are `retrying`'s."""
        import openai

        return openai.OpenAI(
            base_url=self.url,
            api_key=self.key,
            default_query=self.query or None,
            default_headers=self.headers or None,
            timeout=timeout,
            max_retries=0,
        )

    def hide(self, text: str) -> str:
        """`text` (a server's words) without any secret of this endpoint, or what looks like a key."""
        secrets = [self.key if self.key != "none" else "", *self.query.values(), *self.headers.values()]
        for header in self.headers.values():
            pair = base64.b64decode(header.removeprefix("Basic ")).decode()
            secrets += [pair, pair.partition(":")[2]]
        for secret in sorted(set(secrets), key=len, reverse=True):
            if len(secret) > 2:
                text = text.replace(secret, "…")
        return _KEY.sub(r"\1-…", text)
