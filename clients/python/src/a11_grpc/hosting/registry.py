"""The actions that a program hosts."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from a11_grpc.hosting.signature import describe
from a11_grpc.schema import ActionSchema, Header
from a11_grpc.wire.names import is_reserved

if TYPE_CHECKING:
    from a11_grpc.hosting.context import Context

F = TypeVar("F", bound=Callable[..., Any])

Handler = Callable[["Context"], Awaitable[None]]
"""What runs an action: reads its inputs from the context and writes its outputs to it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An action: what it is, and what runs it."""

    schema: ActionSchema
    handler: Handler


class Registry:
    """Actions by name. May be changed while it is hosted; those who host it publish the change."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._subscribers: list[Callable[[], None]] = []

    @overload
    def action(self, function: F, /) -> F: ...

    @overload
    def action(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        idempotent: bool = False,
        headers: str | Header | Sequence[str | Header] = (),
    ) -> Callable[[F], F]: ...

    def action(
        self,
        function: F | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        idempotent: bool = False,
        headers: str | Header | Sequence[str | Header] = (),
    ) -> F | Callable[[F], F]:
        """Makes a function an action; its signature and docstring become the schema.

        Parameters are inputs: `str` is text, `bytes` and `Chunk` are bytes of a media type
        (`Annotated[bytes, MediaType("image/png")]`), `AsyncIterator[T]` a stream of T, everything
        else JSON. A default makes it optional, `Annotated[T, "…"]` describes it. A parameter
        annotated `Context` is the call itself. What is returned is the one output, `output`;
        an async generator's is a stream; an `Outputs` dataclass has an output a field.

        Functions that are not async run in a thread.

        Args:
            function: The function.
            name: The action's name, where it is not the function's.
            description: What it does, where it is not the docstring.
            idempotent: Running a call twice does no harm: one that a crash cut off is run again.
            headers: The headers that it reads, beside `x-a11-*` and `x-otel-*`.

        Raises:
            ValueError: Names the action and what of it cannot become a schema.
        """
        scope = dict(sys._getframe(1).f_locals)

        def add(function: F) -> F:
            several = [headers] if isinstance(headers, (str, Header)) else headers
            declared = [
                header if isinstance(header, Header) else Header(header) for header in several
            ]
            schema, handler = describe(
                function,
                scope,
                name=name,
                description=description,
                idempotent=idempotent,
                headers=declared,
            )
            self.register(schema, handler)
            return function

        return add if function is None else add(function)

    def register(self, schema: ActionSchema, handler: Handler) -> None:
        """Adds an action whose schema is written by hand.

        Raises:
            ValueError: For a broken schema, a reserved name, or one that is taken.
        """
        if not isinstance(schema, ActionSchema) or not callable(handler):
            raise TypeError("register takes an ActionSchema and a handler; for functions: action")
        schema.check()
        if is_reserved(schema.name):
            raise ValueError(f"action {schema.name!r}: names that begin with __ are reserved")
        if schema.name in self._entries:
            raise ValueError(f"action {schema.name!r} is registered already")
        self._entries[schema.name] = Entry(schema, handler)
        self._changed()

    def remove(self, name: str) -> None:
        """Removes an action, if it is there; calls that run go on."""
        if self._entries.pop(name, None) is not None:
            self._changed()

    def entry(self, name: str) -> Entry | None:
        """The action of that name."""
        return self._entries.get(name)

    @property
    def schemas(self) -> list[ActionSchema]:
        """What is registered."""
        return [entry.schema for entry in self._entries.values()]

    def subscribe(self, subscriber: Callable[[], None]) -> Callable[[], None]:
        """Is told of every change, until what is returned is called."""
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return unsubscribe

    def _changed(self) -> None:
        for subscriber in [*self._subscribers]:
            subscriber()

    def __repr__(self) -> str:
        return f"<Registry of {', '.join(self._entries) or 'no actions'}>"

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter([*self._entries])

    def __len__(self) -> int:
        return len(self._entries)
