"""Sentence embeddings for dense retrieval: a small model out of a registry package, or an endpoint."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import InfrastructureError, UserError
from .records import Usage
from .retrieval import Hit

Vectors = NDArray[np.float32]
"""One row a text, each of length 1 (or all zeros for a text without a known token)."""

FORMS = (
    "wordllama                  static embeddings of 256 numbers inside the package wordllama (no download)",
    "openai:BASE_URL#MODEL      any OpenAI-compatible endpoint with /embeddings",
)
"""What an embedder's name may look like."""


class Embedded(NamedTuple):
    """What an embedder gave."""

    vectors: Vectors
    """One row a text."""
    usage: Usage
    """What it cost."""


class Embedder(Protocol):
    """Turns texts into vectors. Safe to call from many threads at once."""

    name: str
    """What the user asked for."""

    def embed(self, texts: Sequence[str]) -> Embedded:
        """One vector a text, of length 1.

        Raises:
            InfrastructureError: The endpoint failed.
        """
        ...

    def identity(self) -> dict[str, Any]:
        """Everything that changes a vector; no secrets."""
        ...

    def close(self) -> None:
        """Free what it holds; calling it twice is fine."""
        ...


def load_embedder(spec: str, *, timeout: float = 60.0) -> Embedder:
    """An embedder by name, see `FORMS`.

    Raises:
        UserError: Unknown name, or the package that carries the model is missing.
    """
    if spec == "wordllama":
        return StaticEmbedder()
    if spec.startswith("openai:"):
        return ServedEmbedder(spec.removeprefix("openai:"), timeout=timeout)
    raise UserError(f"there is no embedder {spec!r}; there are: {'; '.join(FORMS)}")


class StaticEmbedder:
    """WordLlama's `l2_supercat` vectors (256 dimensions, MIT), read from the package's own files.

    A text's vector is the mean of its tokens' vectors, then scaled to length 1. The package's loader isn't
    used: it looks for the tokenizer on a hub.

    Raises:
        UserError: The package is missing.
    """

    name = "wordllama"

    def __init__(self) -> None:
        found = importlib.util.find_spec("wordllama")
        parts = ("safetensors", "tokenizers")
        if found is None or any(importlib.util.find_spec(part) is None for part in parts):
            raise UserError("dense retrieval needs the embedder's package: pip install 'jitmem-lab[dense]'")
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        folder = Path((found.submodule_search_locations or [""])[0])
        weights = load_file(folder / "weights" / "l2_supercat_256.safetensors")
        self._table = weights["embedding.weight"].astype(np.float32)
        self._tokenizer = Tokenizer.from_file(
            str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
        )

    def embed(self, texts: Sequence[str]) -> Embedded:
        """One vector a text; a text without tokens gets zeros."""
        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        encoded = self._tokenizer.encode_batch(clean, add_special_tokens=False)
        vectors = np.zeros((len(clean), self._table.shape[1]), dtype=np.float32)
        for row, one in enumerate(encoded):
            if one.ids:
                vectors[row] = self._table[one.ids].mean(axis=0)
        usage = Usage(calls=1, prompt_tokens=sum(len(one.ids) for one in encoded))
        return Embedded(unit(vectors), usage)

    def identity(self) -> dict[str, Any]:
        """The package's version and the table's shape."""
        from importlib.metadata import version

        return {"embedder": self.name, "version": version("wordllama"), "shape": list(self._table.shape)}

    def close(self) -> None:
        """Nothing is held that needs freeing."""


class ServedEmbedder:
    """An OpenAI-compatible `/embeddings` endpoint; retries as the chat models do.

    Args:
        rest: `BASE_URL#MODEL`.
        timeout: Seconds that one request may take.
        retries: Most further tries after a failure that may pass.
    """

    BATCH = 128
    """Texts a request."""

    def __init__(self, rest: str, *, timeout: float = 60.0, retries: int = 5) -> None:
        from .models.endpoint import Endpoint

        self._at = Endpoint.parse(rest)
        self.name = self._at.name
        self._retries = retries
        self._stop = threading.Event()
        self._client = self._at.client(timeout)

    def embed(self, texts: Sequence[str]) -> Embedded:
        """One vector a text."""
        from .models.retrying import retrying

        parts: list[Vectors] = []
        usage = Usage()
        for start in range(0, len(texts), self.BATCH):
            batch = [
                text.encode("utf-8", "replace").decode() or " " for text in texts[start : start + self.BATCH]
            ]
            vectors, used = retrying(
                lambda batch=batch: self._attempt(batch),  # type: ignore[misc]
                server=self.name,
                retries=self._retries,
                max_wait=300.0,
                backoff=0.5,
                stop=self._stop,
            )
            parts.append(vectors)
            usage += used
        return Embedded(unit(np.concatenate(parts)) if parts else np.zeros((0, 1), np.float32), usage)

    def _attempt(self, texts: list[str]) -> tuple[Vectors, Usage]:
        import openai

        from .models.retrying import Again, retry_after

        try:
            answer = self._client.embeddings.create(model=self._at.model, input=texts)
            rows = [one.embedding for one in sorted(answer.data, key=lambda one: one.index)]
            vectors = np.asarray(rows, dtype=np.float32)
        except openai.APIStatusError as error:
            words = self._at.hide(str(error.message))[:500]
            if error.status_code in (408, 409, 425, 429) or error.status_code >= 500:
                raise Again(
                    f"status {error.status_code}: {words}", retry_after(error.response.headers)
                ) from None
            raise UserError(
                f"{self.name} refuses the request (status {error.status_code}): {words}"
            ) from None
        except openai.APIConnectionError as error:
            raise Again(self._at.hide(f"connection failed: {error}")) from None
        except (AttributeError, TypeError, ValueError) as error:
            raise Again(f"an answer that holds no vectors ({type(error).__name__})") from None
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise Again(f"{len(vectors)} vectors came back for {len(texts)} texts")
        tokens = getattr(answer.usage, "prompt_tokens", 0) or 0
        return vectors, Usage(calls=1, prompt_tokens=int(tokens))

    def identity(self) -> dict[str, Any]:
        """Server and model; no key."""
        return {"embedder": "openai", "url": self._at.url, "model": self._at.model}

    def close(self) -> None:
        """End the waits of calls in flight and close the connections."""
        self._stop.set()
        self._client.close()


def unit(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; zeros stay zeros."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0), np.float32)


def same_width(vectors: Vectors, width: int) -> None:
    """`InfrastructureError` unless rows (or a single one) have so many numbers."""
    if vectors.shape[-1] != width:
        raise InfrastructureError(
            f"the embedder gave vectors of {vectors.shape[-1]} numbers, but {width} before"
        )


class DenseIndex:
    """Exact cosine over a growing list of vectors; as of any earlier size. Equal scores: newer first."""

    def __init__(self) -> None:
        self._rows = np.zeros((0, 0), np.float32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, vectors: Vectors) -> None:
        """Append rows of length 1; `InfrastructureError` if their width is not that of the rows before."""
        if not len(vectors):
            return
        if self._count:
            same_width(vectors, self._rows.shape[1])
        wanted = self._count + len(vectors)
        if wanted > len(self._rows):
            grown = np.zeros((max(wanted, 2 * len(self._rows), 64), vectors.shape[1]), np.float32)
            if self._count:
                grown[: self._count] = self._rows[: self._count]
            self._rows = grown
        self._rows[self._count : wanted] = vectors
        self._count = wanted

    def rank(self, query: Vectors, k: int, size: int | None = None) -> list[Hit]:
        """The `k` best rows among the first `size` by cosine with `query` (one row); ids count from 1.

        Raises:
            InfrastructureError: The query is of another width than the rows.
        """
        size = self._count if size is None else min(size, self._count)
        if size == 0 or k < 1:
            return []
        same_width(query, self._rows.shape[1])
        scores = self._rows[:size] @ query.reshape(-1)
        rounded = np.round(scores, 6)
        best = np.arange(size)
        if k < size:
            best = np.flatnonzero(rounded >= np.partition(rounded, -k)[-k])
        order = best[np.lexsort((-best, -rounded[best]))][:k]
        return [Hit(int(row) + 1, float(rounded[row])) for row in order]
