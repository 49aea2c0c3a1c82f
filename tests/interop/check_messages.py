"""Holds converted conversations against the types of the providers' own SDKs.

Reads a folder of files FROM__TO.json, each a list of messages, and refuses the
first that an SDK's request type does not take. No network.
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
        if len(taken) != len(messages) or not messages:
            sys.exit(f"{path.stem}: {len(taken)} of {len(messages)} messages")
    print(f"interop: {len(files)} conversations taken")


if __name__ == "__main__":
    main(sys.argv[1])
