/**
 * Runs something once everything that is ready now has run, so that what a program
 * writes in one go leaves in one frame.
 */
export const soon: (run: () => void) => void =
  typeof setImmediate === "function" ? (run) => void setImmediate(run) : soonInBrowsers;

const waiting: (() => void)[] = [];
let channel: MessageChannel | undefined;

/** A message to oneself: unlike a timer it is not held back in a page in the background. */
function soonInBrowsers(run: () => void): void {
  if (channel === undefined) {
    channel = new MessageChannel();
    channel.port1.onmessage = () => {
      for (const next of waiting.splice(0)) {
        next();
      }
    };
  }
  waiting.push(run);
  channel.port2.postMessage(undefined);
}
