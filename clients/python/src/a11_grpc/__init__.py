"""Call, execute and host actions of an A11 service.

    async with a11_grpc.connect("127.0.0.1:50051") as client:
        print(await client.call("word_count", text="as easy as pie"))

`connect` makes a `Client`; `Registry` holds the functions that a program hosts; `interaction` has
helpers that need no server. Failures are `StatusError`, to be told apart by `code` and `reason`.
"""

from importlib.metadata import PackageNotFoundError, version

from a11_grpc import interaction
from a11_grpc.client.call import Call
from a11_grpc.client.client import Client
from a11_grpc.client.connect import connect
from a11_grpc.client.conversation import (
    Appended,
    ConversationRecord,
    Converted,
    Fork,
    ImagePart,
    ImageUrlPart,
    Normalized,
    NormalizedPart,
    Note,
    Problem,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Validation,
)
from a11_grpc.client.events import Event, Finished, Log, Output
from a11_grpc.client.execute import (
    CallResult,
    Ended,
    ExecuteEvent,
    Narrated,
    Produced,
    RejectedCall,
    Result,
    Started,
    Summary,
)
from a11_grpc.client.interactions import Interactions
from a11_grpc.client.nodes import NodeWriter
from a11_grpc.hosting.context import Context
from a11_grpc.hosting.outputs import Outputs
from a11_grpc.hosting.registry import Registry
from a11_grpc.hosting.types import MediaType
from a11_grpc.interaction import Backend, Interaction, append_result, user_turn
from a11_grpc.schema import ActionSchema, Header, Port
from a11_grpc.wire.chunk import Chunk
from a11_grpc.wire.status import Code, ConnectError, Reason, Status, StatusError

try:
    __version__ = version("a11-grpc")
except PackageNotFoundError:  # Run from its sources, without having been installed.
    __version__ = "0+unknown"

__all__ = [
    "ActionSchema",
    "Appended",
    "Backend",
    "Call",
    "CallResult",
    "Chunk",
    "Client",
    "Code",
    "ConnectError",
    "Context",
    "ConversationRecord",
    "Converted",
    "Ended",
    "Event",
    "ExecuteEvent",
    "Finished",
    "Fork",
    "Header",
    "ImagePart",
    "ImageUrlPart",
    "Interaction",
    "Interactions",
    "Log",
    "MediaType",
    "Narrated",
    "NodeWriter",
    "Normalized",
    "NormalizedPart",
    "Note",
    "Output",
    "Outputs",
    "Port",
    "Problem",
    "Produced",
    "Reason",
    "Registry",
    "RejectedCall",
    "Result",
    "Started",
    "Status",
    "StatusError",
    "Summary",
    "TextPart",
    "ToolCallPart",
    "ToolResultPart",
    "Validation",
    "append_result",
    "connect",
    "interaction",
    "user_turn",
]
