/** The SDK's public methods that send requests, and those that the driver called. */

import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const require = createRequire(new URL("../../javascript/package.json", import.meta.url));
export const sdk = require("@azure/cosmos");

const CLASSES = [
  "CosmosClient", "Database", "Databases", "Container", "Containers", "Item", "Items", "Scripts",
  "StoredProcedure", "StoredProcedures", "Trigger", "Triggers", "UserDefinedFunction", "UserDefinedFunctions",
  "User", "Users", "Permission", "Permissions", "Offer", "Offers", "Conflict", "Conflicts", "QueryIterator",
  "ChangeFeedIterator",
].map((name) => sdk[name]);

export const reached = new Set();

/** Returns every public method as `Class.name`. */
export function methods() {
  const declarations = declarationsBelow(dirname(require.resolve("@azure/cosmos")));
  return CLASSES.flatMap((kind) => {
    const declared = publicMethods(declarations.get(`${kind.name.toLowerCase()}.d.ts`) ?? "");
    const there = Object.getOwnPropertyNames(kind.prototype).filter((name) => declared.has(name));
    return there.map((name) => `${kind.name}.${name}`);
  });
}

/** The texts of the SDK's declarations by the names of their files, in lower case. */
function declarationsBelow(directory) {
  const files = readdirSync(directory, { recursive: true }).filter((file) => file.endsWith(".d.ts"));
  return new Map(files.map((file) => [file.split("/").at(-1).toLowerCase(), readFileSync(join(directory, file), "utf8")]));
}

/** Returns the methods of a declaration that are neither private nor marked as hidden or internal. */
function publicMethods(declaration) {
  const names = new Set();
  let comment = "";
  for (const line of declaration.split("\n")) {
    if (line.includes("/**")) comment = "";
    comment += line;
    const [, name] = /^    ([A-Za-z]+)[<(]/.exec(line) ?? [];
    if (!name) continue;
    if (name !== "constructor" && !name.endsWith("Internal") && !/@hidden|@internal/.test(comment)) names.add(name);
    comment = "";
  }
  return names;
}

/** Returns a proxy that records every method call of the driver, and no call of the SDK itself. */
export function watch(object) {
  const kind = CLASSES.find((known) => object instanceof known);
  if (!kind) return object;
  return new Proxy(object, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      if (typeof value !== "function") return watch(value);
      return (...words) => {
        reached.add(`${kind.name}.${String(name)}`);
        return watch(value.apply(target, words));
      };
    },
  });
}
