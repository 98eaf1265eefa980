"""What an endpoint can be asked for: an answer to a prompt, or the vector of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pave_policy.llm.completion import Completion, read_completion, read_embedding
from pave_policy.llm.dialect import Dialect
from pave_policy.llm.faults import Fault
from pave_policy.llm.settings import ChatSettings


@dataclass(frozen=True)
class ChatRequest:
    """What is asked.

    Attributes:
        prompt: The only message, from the user.
        max_tokens: Length of the reply at most.
        json_answer: Whether JSON is expected.
    """

    prompt: str
    max_tokens: int
    json_answer: bool

    def logical(self, settings: ChatSettings) -> dict[str, Any]:
        """What decides the answer, whatever dialect the endpoint speaks: the key of a cache.

        Args:
            settings: Of the model.

        Returns:
            JSON-ready values without anything secret.
        """
        identity = settings.identity()
        names = ("service", "model", "temperature", "top_p", "seed", "extra_body")
        return {name: identity[name] for name in names} | {
            "messages": [{"role": "user", "content": self.prompt}],
            "max_tokens": self.max_tokens,
            "json_mode": settings.json_mode and self.json_answer,
        }

    path: ClassVar[str] = "/chat/completions"

    def model(self, settings: ChatSettings) -> str:
        """Who is asked.

        Args:
            settings: With the models.

        Returns:
            The name at the endpoint.
        """
        return settings.model

    def content(self) -> dict[str, Any]:
        """What is said, as the body of a request has it.

        Returns:
            JSON-ready values.
        """
        return {"messages": [{"role": "user", "content": self.prompt}]}

    def parameters(self, dialect: Dialect) -> dict[str, Any]:
        """The rest of the body.

        Args:
            dialect: Which parameters the endpoint takes.

        Returns:
            JSON-ready values.
        """
        return dialect.parameters(self.max_tokens, json_answer=self.json_answer)

    def read(self, body: str) -> Completion | Fault:
        """Reads the body of a reply whose status is a success.

        Args:
            body: As text.

        Returns:
            What it holds; a fault where it is of no use.
        """
        return read_completion(body)


@dataclass(frozen=True)
class EmbeddingRequest:
    """A text whose vector is wanted; the vector comes as the text of the reply, a JSON list.

    Attributes:
        prompt: The text.
    """

    prompt: str

    path: ClassVar[str] = "/embeddings"
    max_tokens: ClassVar[int] = 0

    def logical(self, settings: ChatSettings) -> dict[str, Any]:
        """What decides the vector: the key of a cache.

        Args:
            settings: Of the model.

        Returns:
            JSON-ready values without anything secret.
        """
        service = settings.identity()["service"]
        return {"service": service, "model": settings.embedding_model, "input": self.prompt}

    def model(self, settings: ChatSettings) -> str:
        """Who is asked.

        Args:
            settings: With the models.

        Returns:
            The name at the endpoint.
        """
        return settings.embedding_model

    def content(self) -> dict[str, Any]:
        """What is said, as the body of a request has it.

        Returns:
            JSON-ready values.
        """
        return {"input": [self.prompt]}

    def parameters(self, dialect: Dialect) -> dict[str, Any]:
        """The rest of the body.

        Args:
            dialect: Which model embeds; nothing else is sent, so nothing can be refused.

        Returns:
            JSON-ready values.
        """
        return {"model": dialect.embedding_model}

    def read(self, body: str) -> Completion | Fault:
        """Reads the body of a reply whose status is a success.

        Args:
            body: As text.

        Returns:
            What it holds; a fault where it is of no use.
        """
        return read_embedding(body)


Request = ChatRequest | EmbeddingRequest
