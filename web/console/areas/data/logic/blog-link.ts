/** The page of the blog that shows an item, for a console whose program also serves the blog.
 *
 * Leaves out: items of other databases and of the blog's own containers, which no page shows. */

import { membersOf } from "./json-text.ts";

export interface LinkedBlog {
  /** Ends with a slash. */
  readonly address: string;
  readonly prefix: string;
}

export interface PageInBlog {
  readonly kind: "post" | "user";
  readonly address: string;
}

const ID = /^[0-9a-f-]{36}$/i;

/** Returns the page of an item in the model whose database holds it; null if there is none. */
export function pageInBlog(blog: LinkedBlog, database: string, container: string, text: string): PageInBlog | null {
  const model = ["v1", "v2", "v3"].find((name) => database === `${blog.prefix}-${name}`);
  if (model === undefined) return null;
  const values = new Map(membersOf(text).map(({ name, text }) => [name, stringOf(text)]));
  // Comments, likes and short copies name their post; a user of V1 and V2 has no type.
  const type = values.get("type");
  const isUser = container === "users" && (type === undefined || type === "user");
  const id = isUser ? values.get("id") : (values.get("postId") ?? values.get("id"));
  if (id === undefined || !ID.test(id) || type === "deletedPost") return null;
  if (!isUser && !["users", "posts", "feed"].includes(container)) return null;
  const kind = isUser ? "user" : "post";
  return { kind, address: `${blog.address}${model}/${kind}s/${id}` };
}

/** Returns the value of a JSON text that is a string. */
function stringOf(json: string): string | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}
