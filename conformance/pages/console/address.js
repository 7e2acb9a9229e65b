/** The address of a server's console. */

/** Returns the address with the slash at its end. */
export function consoleAddress(running) {
  return new URL("/", running.ready.admin_endpoint).href;
}
