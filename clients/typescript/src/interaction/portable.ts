/** stub */
import type { Interaction } from "../gen/a11/v1/interaction_pb.js";
export function interactionFromJson(_text: string): Interaction {
  throw new Error("soon");
}
