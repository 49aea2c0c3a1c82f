/** Actions that are named and nobody knows: most often a name that is misspelt, so told. */

import type { ExecuteActionsFromInteractionRequest } from "../gen/a11/v1/action_service_pb.js";
import { StatusError } from "../wire/status.js";
import type { Schemas } from "./schemas.js";

export class Doubts {
  readonly #schemas: Schemas;
  /** What was told, or is looked up: it is told once. */
  readonly #doubted = new Set<string>();
  /** Patterns that matched, or were told. */
  readonly #matched = new Set<string>();

  constructor(schemas: Schemas) {
    this.#schemas = schemas;
  }

  /**
   * Warns of configs that configure nothing. They are not refused: a loop may keep the config
   * of an action that this turn does not call, and whose host is away.
   *
   * @param names - Those of the configs.
   * @param hosted - What the client hosts itself.
   */
  async look(
    { interaction }: ExecuteActionsFromInteractionRequest,
    names: readonly string[],
    hosted: ReadonlyMap<string, unknown>,
  ): Promise<void> {
    if (interaction === undefined || names.length === 0) {
      return;
    }
    const called = new Set(interaction.actionCalls.map(({ name }) => name));
    // A provider's reply, whose calls only the service reads.
    const said = interaction.content
      .map(({ body }) => (body.case === "data" ? new TextDecoder().decode(body.value) : ""))
      .join("\n");
    for (const name of names) {
      const isKnown = called.has(name) || hosted.has(name) || said.includes(name);
      // What an MCP server has, it lists itself.
      const isMcp = interaction.actionConfigs[name]?.peer?.protocol === "mcp";
      if (!isKnown && !isMcp && !this.#doubted.has(name) && (await this.#isUnknown(name))) {
        console.warn(
          `a11-grpc: actionConfigs: "${name}" is no action that the reply calls or the service lists`,
        );
      }
    }
  }

  /**
   * Warns of patterns that match nothing. They are not refused: the action's host may be away.
   *
   * @param told - The actions that a model is told of.
   */
  async lookAt(patterns: readonly string[], told: readonly string[]): Promise<void> {
    for (const pattern of patterns) {
      const isKnown = told.includes(pattern) || this.#matched.has(pattern);
      if (!isKnown && !(await this.#matches(pattern))) {
        console.warn(`a11-grpc: tools: allow has "${pattern}", which matches no action`);
      }
    }
  }

  /** Whether a pattern matches an action, or it is not known whether it does. */
  async #matches(pattern: string): Promise<boolean> {
    this.#matched.add(pattern);
    try {
      return await this.#schemas.hasAny(pattern);
    } catch {
      this.#matched.delete(pattern);
      return true;
    }
  }

  async #isUnknown(name: string): Promise<boolean> {
    this.#doubted.add(name);
    const isUnknown = await this.#schemas.get(name).then(
      () => false,
      (error) => StatusError.from(error).code === "NOT_FOUND",
    );
    if (!isUnknown) {
      this.#doubted.delete(name);
    }
    return isUnknown;
  }
}
