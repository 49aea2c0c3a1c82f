"""Holds converted conversations against the types of the providers' own SDKs.

Reads a folder of files FROM__TO.json, each a list of messages, and refuses the
first that an SDK's request type does not take whole: what a type does not know it
drops without a word, so what it took is compared with what it was given. No
network.
"""

import json
import sys
from pathlib import Path
from typing import Any, List

import ollama
import pydantic
from anthropic.types import MessageParam
from google.genai import types as genai
from google.genai._gaos.types.interactions.step import Step
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam

# The SDKs' requests by the name of the dialect.
TYPES: dict[str, Any] = {
    "Claude": MessageParam,
    "ClaudeCode": MessageParam,
    "GptChat": ChatCompletionMessageParam,
    "GptFunctions": ChatCompletionMessageParam,
    "Vllm": ChatCompletionMessageParam,
    "GptResponses": ResponseInputItemParam,
    "Codex": ResponseInputItemParam,
    "GeminiInteractions": Step,
    "GeminiGenerateContent": genai.Content,
    "Ollama": ollama.Message,
}


def consume(value: Any) -> Any:
    """Walks a validated value: pydantic checks an Iterable only as it is read."""
    if isinstance(value, dict):
        return {key: consume(item) for key, item in value.items()}
    if isinstance(value, (str, bytes, int, float, bool, type(None), pydantic.BaseModel)):
        return value
    return [consume(item) for item in value]


def unknown(value: Any) -> Any:
    """The first object that google-genai kept only because a newer server might
    know it, or one of its fields."""
    if isinstance(value, list):
        return next((found for item in value if (found := unknown(item))), None)
    if isinstance(value, pydantic.BaseModel):
        if type(value).__name__.startswith("Unknown") or value.model_extra:
            return value
        return unknown([getattr(value, name) for name in type(value).model_fields])
    return None


def plain(value: Any) -> Any:
    """What the SDK sends of a value that it took."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value


def difference(before: Any, after: Any, at: str = "") -> str | None:
    """Where the two differ first."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *after]:
            if key not in after:
                return f"{at}.{key} was dropped: {before[key]!r}"
            if key not in before:
                return f"{at}.{key} came from nowhere: {after[key]!r}"
            if found := difference(before[key], after[key], f"{at}.{key}"):
                return found
        return None
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return next((d for n, (b, a) in pairs if (d := difference(b, a, f"{at}[{n}]"))), None)
    return None if before == after else f"{at}: {after!r} of {before!r}"


def as_openai(message: Any) -> Any:
    """Codex has no SDK of its own: its items are OpenAI's, without what OpenAI
    wants of a message that the model put out."""
    if message.get("role") == "assistant" and message.get("type") == "message":
        parts = [{"annotations": [], **part} for part in message["content"]]
        return {"id": "msg", "status": "completed", **message, "content": parts}
    return message


def as_ollama(message: Any) -> Any:
    """The SDK wraps a picture's base64, and unwraps it again when it sends."""
    images = [ollama.Image(value=image) for image in message.get("images", [])]
    return {**message, **({"images": images} if images else {})}


def main(folder: str) -> None:
    adapters = {name: pydantic.TypeAdapter(List[kind]) for name, kind in TYPES.items()}
    files = sorted(Path(folder).glob("*__*.json"))
    for path in files:
        dialect = path.stem.split("__")[1]
        messages = json.loads(path.read_text(encoding="utf-8"))
        if dialect == "Codex":
            messages = [as_openai(message) for message in messages]
        if dialect == "Ollama":
            messages = [as_ollama(message) for message in messages]
        try:
            taken = consume(adapters[dialect].validate_python(messages))
        except pydantic.ValidationError as error:
            sys.exit(f"{path.stem}: {str(error)[:4000]}")
        if (found := unknown(taken)) is not None:
            sys.exit(f"{path.stem}: not a known type: {found}")
        if not messages:
            sys.exit(f"{path.stem}: no messages")
        if found := difference(plain(messages), plain(taken)):
            sys.exit(f"{path.stem}: {found}")
    print(f"interop: {len(files)} conversations taken")


if __name__ == "__main__":
    main(sys.argv[1])
