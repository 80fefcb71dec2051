/**
 * Where the package logs to. Silent unless the program injects something.
 *
 * Never logs arguments, results or tokens.
 */

/** What a program injects; `console` fits, and so do pino and winston. */
export interface Logger {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

const nothing = () => {};

/** Keeps nothing. */
export const silent: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
