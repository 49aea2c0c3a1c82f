/** Names: the identifiers of nodes, ports, actions and calls. */

/** Whether a text is a Name: 1–255 of `[A-Za-z0-9_#-]`, no `#` or `-` at either end. */
export function isName(text: string): boolean {
  return text.length <= 255 && /^[A-Za-z0-9_](?:[A-Za-z0-9_#-]*[A-Za-z0-9_])?$/.test(text);
}

/** Whether a name is one of the protocol's own: begins with `__` and is longer than four. */
export function isReserved(name: string): boolean {
  return name.length > 4 && name.startsWith("__");
}
