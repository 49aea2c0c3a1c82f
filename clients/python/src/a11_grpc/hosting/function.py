"""What can be registered as an action: a function, or an object that is called like one."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any


class Function:
    """A function and what is known of it before its types are."""

    def __init__(self, function: object) -> None:
        """Looks at a function.

        Raises:
            ValueError: Says why it is none, and what to register instead.
        """
        if isinstance(function, classmethod):
            raise ValueError("a classmethod is registered bound: registry.action(Class.method)")
        if isinstance(function, property):
            raise ValueError("a property is no function")
        if isinstance(function, staticmethod):
            function = function.__func__
        if inspect.isclass(function):
            raise ValueError(
                "a class is no action: register a function, or an object that has __call__"
            )
        if isinstance(function, str):
            raise ValueError(f"a name is given by name=: registry.action(name={function!r})")
        if not callable(function):
            raise ValueError(f"a {type(function).__name__} is no function")
        self.call: Callable[..., Any] = function
        body: Any = function
        while True:
            body = inspect.unwrap(body)
            if not isinstance(body, functools.partial):
                break
            body = body.func
        name = getattr(body, "__name__", "")
        if not inspect.isroutine(body):
            body = type(body).__call__
        self.body: Callable[..., Any] = body
        """The routine with the annotations."""
        self.name = "" if name == "<lambda>" else str(name)
        self.is_async = inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)
        """Whether it runs in the event loop; another would hold it up, and runs in a thread."""
        self.is_generator = inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body)

    @property
    def doc(self) -> str:
        """Its docstring; of an object, that of its class if its `__call__` has none."""
        routine = inspect.isroutine(self.call) or isinstance(self.call, functools.partial)
        own = self.body.__doc__ and inspect.getdoc(self.body)
        return own or ("" if routine else inspect.getdoc(self.call)) or ""

    def parameters(self) -> list[inspect.Parameter]:
        """Its parameters.

        Raises:
            ValueError: Names one that cannot be an input.
        """
        try:
            found = [*inspect.signature(self.call).parameters.values()]
        except (TypeError, ValueError) as error:
            raise ValueError("it has no signature that can be read") from error
        for place, parameter in enumerate(found):
            name, kind = parameter.name, parameter.kind
            bare = parameter.annotation is parameter.empty
            if kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                stars = "*" if kind is parameter.VAR_POSITIONAL else "**"
                raise ValueError(
                    f"parameter {stars + name!r}: an action's inputs have names; write each one, "
                    "or take a list or a dict"
                )
            if kind is parameter.POSITIONAL_ONLY:
                raise ValueError(
                    f"parameter {name!r} is positional-only, and inputs are given by name: "
                    "leave the / away"
                )
            if place == 0 and bare and name in ("self", "cls"):
                raise ValueError(
                    f"parameter {name!r}: a method is registered bound to its object: "
                    "registry.action(thing.method)"
                )
        return found

    def hints(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        """Its annotations as types; `scope` has names that they may use.

        Raises:
            ValueError: Names the annotation that cannot be read.
        """
        try:
            return typing.get_type_hints(self.body, localns=dict(scope), include_extras=True)
        except Exception as whole:
            known = getattr(self.body, "__globals__", {})
            for name, annotation in getattr(self.body, "__annotations__", {}).items():
                alone = types.SimpleNamespace(__annotations__={name: annotation})
                try:
                    typing.get_type_hints(alone, dict(known), dict(scope), include_extras=True)
                except Exception as error:
                    where = "what it returns" if name == "return" else f"parameter {name!r}"
                    hint = ""
                    if isinstance(error, NameError):
                        # Most often one that is imported for type checkers alone.
                        hint = "; it must be there when the function is registered"
                    raise ValueError(
                        f"{where}: the annotation {annotation!r} cannot be read: {error}{hint}"
                    ) from error
            raise ValueError(f"an annotation cannot be read: {whole}") from whole
