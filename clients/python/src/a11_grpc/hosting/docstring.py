"""Docstrings: what an action does, and what is said of its parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SECTION = re.compile(
    r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?|See Also):\s*$"
)
_ENTRY = re.compile(r"^(\*{0,2}\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_FIELD = re.compile(r"^:(param|returns?|raises?|type|rtype|yields?)\b\s*(\w*)[^:]*:\s*(.*)$")


@dataclass(slots=True)
class Docstring:
    """A docstring taken apart."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    returns: str = ""


def read_docstring(text: str) -> Docstring:
    """Reads a docstring, without its indentation: Google's sections, or Sphinx's fields."""
    found = Docstring()
    described: list[str] = []
    section = ""
    name = ""
    for line in text.splitlines():
        heading = _SECTION.match(line)
        sphinx = _FIELD.match(line)
        if heading:
            section, name = heading[1], ""
        elif sphinx:
            section, name = "", ""
            if sphinx[1] == "param":
                section, name = "Args", sphinx[2]
                found.parameters[name] = sphinx[3]
            elif sphinx[1].startswith(("return", "yield")):
                section = "Returns"
                found.returns = sphinx[3]
            else:
                section = "Raises"
        elif not section:
            described.append(line)
        elif line and not line[0].isspace():
            # A section ends where the indentation does.
            section = ""
            described.append(line)
        elif section in ("Args", "Arguments", "Parameters"):
            name = _parameter(found, line.strip(), name)
        elif section in ("Returns", "Yields"):
            found.returns = f"{found.returns} {line.strip()}".strip()
    found.description = "\n".join(described).strip()
    return found


def _parameter(found: Docstring, text: str, name: str) -> str:
    entry = _ENTRY.match(text)
    if entry:
        found.parameters[entry[1]] = entry[2]
        return entry[1]
    if name and text:
        found.parameters[name] = f"{found.parameters[name]} {text}".strip()
    return name
