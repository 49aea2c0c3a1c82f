/** Configs of actions that nobody knows: most often a name that is misspelt, so told. */

import type { ExecuteActionsFromInteractionRequest } from "../gen/a11/v1/action_service_pb.js";
import { StatusError } from "../wire/status.js";
import type { Schemas } from "./schemas.js";

export class Doubts {
  readonly #schemas: Schemas;
  /** What was told, or is looked up: it is told once. */
  readonly #doubted = new Set<string>();

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
