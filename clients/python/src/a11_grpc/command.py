"""The command: `python -m a11_grpc host mypkg.actions[:SYMBOL] --server URL` hosts a registry."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import logging
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import a11_grpc
from a11_grpc.hosting.registry import Registry
from a11_grpc.wire.status import Code, StatusError

SYMBOL = "REGISTRY"
"""The registry's name in the module, unless another one is given."""

EXIT_FAILED = 3
"""The server cannot be reached, or serves none of the actions."""
EXIT_USAGE = 2
"""What was asked for is wrong: no such module, no registry in it, no actions in that."""

_PACKAGE = Path(__file__).parent

_HELP = """\
Publishes the actions of a module's registry, and runs them until SIGINT or SIGTERM.

On standard error: one line `hosting NAME` for each action that is served, `refused NAME: WHY` for
each that is not, then one line `ready SESSION`, the session's id; after that what goes wrong. A
connection that breaks is resumed, a session that is lost is opened anew.
"""

_EPILOGUE = """\
Where the name of an action is held by another host, it is refused, and served once that host has
left; where all of them are refused, the command ends.

environment: A11_SERVER_URL is the server where --server is not given.

exit codes: 0 ended by SIGINT or SIGTERM; 2 wrong arguments, no such module or registry; 3 the
server cannot be reached or serves none of the actions.

examples:
  python -m a11_grpc host mypkg.actions --server 127.0.0.1:50051
  python -m a11_grpc host mypkg.actions:TOOLS --server https://tools.example --name billing
  python -m a11_grpc host ./actions.py --server 127.0.0.1:50051
"""


class UsageError(Exception):
    """What was asked for is wrong; the text says how."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command and ends the program."""
    code = _main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    # A function that ignores its end in a thread must not keep the program.
    os._exit(code)


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        if not options.server:
            raise UsageError("--server is missing, and A11_SERVER_URL is not set")
        registry = load_registry(options.target)
        if not len(registry):
            raise UsageError(f"{options.target}: the registry has no actions")
        return asyncio.run(_host(registry, options.server, options.name))
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except StatusError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return EXIT_USAGE if error.code is Code.INVALID_ARGUMENT else EXIT_FAILED
    except KeyboardInterrupt:
        return 0


def load_registry(target: str) -> Registry:
    """The registry that `mypkg.actions[:SYMBOL]` or `path/to/file.py[:SYMBOL]` names.

    Raises:
        UsageError: Where there is no such module, or no registry of that name in it.
    """
    place, colon, symbol = target.rpartition(":")
    if not colon or "/" in symbol or "\\" in symbol or symbol.endswith(".py"):
        place, symbol = target, SYMBOL
    module = _load(place)
    found = getattr(module, symbol, None)
    if isinstance(found, Registry):
        return found
    others = [name for name, value in vars(module).items() if isinstance(value, Registry)]
    hint = f"; it has: {', '.join(others)}" if others else ""
    what = "is no Registry" if hasattr(module, symbol) else "is not there"
    raise UsageError(f"{place}: {symbol} {what}{hint}")


def _load(place: str) -> ModuleType:
    try:
        if not place.endswith(".py"):
            sys.path.insert(0, str(Path.cwd()))
            return importlib.import_module(place)
        path = Path(place).resolve()
        if not path.is_file():
            raise UsageError(f"{place}: no such file")
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{place}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        message = f"cannot import {place}: {type(error).__name__}: {error}{_where(error)}"
        raise UsageError(message) from error


def _where(error: BaseException) -> str:
    """Where in the program's own files: not in this package, nor in what it calls."""
    own: traceback.FrameSummary | None = None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == __file__ or "importlib" in frame.filename:
            continue
        if Path(frame.filename).is_relative_to(_PACKAGE):
            break
        own = frame
    return f" ({own.filename}:{own.lineno})" if own else ""


async def _host(registry: Registry, server: str, name: str) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:  # On Windows.
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    # What is refused at first is said below, in its own form.
    logging.getLogger("a11_grpc.session").setLevel(logging.ERROR)
    connecting = asyncio.ensure_future(_connected(registry, server, name))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((connecting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not connecting.done():
        connecting.cancel()
        await asyncio.wait((connecting,))
        return 0
    client = connecting.result()
    logging.getLogger("a11_grpc.session").setLevel(logging.WARNING)
    async with client:
        for action in registry:
            if action not in client.refused:
                print(f"hosting {action}", file=sys.stderr)
        for action, status in client.refused.items():
            print(f"refused {action}: {status}", file=sys.stderr)
        if len(client.refused) == len(registry):
            print("error: the server serves none of the actions", file=sys.stderr)
            return EXIT_FAILED
        print(f"ready {client.session_id}", file=sys.stderr, flush=True)
        await stop.wait()
    return 0


async def _connected(registry: Registry, server: str, name: str) -> a11_grpc.Client:
    return await a11_grpc.connect(server, name=name, registry=registry)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m a11_grpc", description="The command of the Python client of A11."
    )
    parser.add_argument("--version", action="version", version=f"a11-grpc {a11_grpc.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    host = commands.add_parser(
        "host",
        help="host a module's actions",
        description=_HELP,
        epilog=_EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    host.add_argument(
        "target",
        metavar="MODULE[:SYMBOL]",
        help=f"a module, or the path of a .py file, and the registry in it (default {SYMBOL})",
    )
    host.add_argument(
        "--server",
        default=os.environ.get("A11_SERVER_URL"),
        metavar="URL",
        help="http://HOST:PORT, https://HOST[:PORT] or HOST:PORT; without it, A11_SERVER_URL",
    )
    host.add_argument("--name", default="", help="who this is, for people and logs")
    return parser
