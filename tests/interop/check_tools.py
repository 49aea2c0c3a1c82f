"""Holds declared tools against the types of the providers' own SDKs.

Reads a folder of files DIALECT.json, each the `tools` of a request, and refuses
the first that an SDK's request type does not take whole. No network.
"""

import json
import sys
from pathlib import Path
from typing import Any, List

import mcp.types
import ollama
import pydantic
from anthropic.types import ToolParam
from check_messages import consume, unknown
from google.genai import types as genai
from google.genai._gaos.types.interactions.tool import Tool
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.chat.completion_create_params import Function
from openai.types.responses import FunctionToolParam

# What the SDKs' requests take, by the name of the dialect.
TYPES: dict[str, Any] = {
    "Claude": ToolParam,
    "ClaudeCode": mcp.types.Tool,
    "GptChat": ChatCompletionFunctionToolParam,
    "GptFunctions": Function,
    "Vllm": ChatCompletionFunctionToolParam,
    "GptResponses": FunctionToolParam,
    "Codex": FunctionToolParam,
    "GeminiInteractions": Tool,
    "GeminiGenerateContent": genai.Tool,
    "Ollama": ollama.Tool,
}


def plain(value: Any) -> Any:
    """What the SDK sends of a value that it took."""
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value


def shown(tool: Any, dialect: str) -> Any:
    """A tool as far as its SDK knows it: Ollama's has less of JSON Schema than there
    is, and leaves the rest out."""
    if dialect == "Ollama":
        function = tool["function"]
        return tool["type"], function["name"], function.get("description")
    return tool


def main(folder: str) -> None:
    files = sorted(Path(folder).glob("*.json"))
    for path in files:
        dialect = path.stem
        tools = json.loads(path.read_text(encoding="utf-8"))
        try:
            taken = consume(pydantic.TypeAdapter(List[TYPES[dialect]]).validate_python(tools))
        except pydantic.ValidationError as error:
            sys.exit(f"{dialect}: {str(error)[:4000]}")
        if not tools or (found := unknown(taken)) is not None:
            sys.exit(f"{dialect}: not a known type: {found}")
        for before, after in zip(tools, taken, strict=True):
            # What a type does not know it drops without a word.
            if shown(plain(after), dialect) != shown(before, dialect):
                sys.exit(f"{dialect}: {plain(after)} of {before}")
    print(f"tools: {len(files)} dialects taken")


if __name__ == "__main__":
    main(sys.argv[1])
