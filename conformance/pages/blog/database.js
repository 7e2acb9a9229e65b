/** Requests to the database, signed here, to compare their charges with those that the meter shows. */

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

/** One database of a server. */
export class Database {
  /** `ready` is the ready line of the program that serves it. */
  constructor(ready, name) {
    this.endpoint = ready.endpoint_http.replace(/\/$/, "");
    this.key = ready.key;
    this.name = name;
  }

  /** The charge of a row of the meter when it is asked again, as the text of the answer's header. */
  async charge(row) {
    const container = `dbs/${this.name}/colls/${row.container}`;
    const answer =
      row.operation === "Read item"
        ? await this.send("GET", `${container}/docs/${row.key}`, `${container}/docs/${row.key}`, row.key)
        : await this.query(container, row);
    assert.ok(answer.ok, `${row.operation} is answered with ${answer.status}`);
    return Number(answer.headers.get("x-ms-request-charge")).toFixed(2);
  }

  query(container, row) {
    const body = JSON.stringify({ query: row.sql, parameters: parametersOf(row.parameters) });
    return this.send("POST", `${container}/docs`, container, row.key, body, Math.max(row.items, 1));
  }

  /** The charge of a query in one logical partition, with a page that holds all rows. */
  async queryCharge(container, key, sql, parameters = []) {
    const link = `dbs/${this.name}/colls/${container}`;
    const body = JSON.stringify({ query: sql, parameters });
    const answer = await this.send("POST", `${link}/docs`, link, key, body, -1);
    assert.ok(answer.ok, `${sql} is answered with ${answer.status}`);
    return Number(answer.headers.get("x-ms-request-charge")).toFixed(2);
  }

  /** The charge of a read by id and key. */
  async readCharge(container, key, id) {
    const link = `dbs/${this.name}/colls/${container}/docs/${id}`;
    const answer = await this.send("GET", link, link, key);
    assert.ok(answer.ok, `${link} is answered with ${answer.status}`);
    return Number(answer.headers.get("x-ms-request-charge")).toFixed(2);
  }

  /** The items of a query over all partitions of a container. */
  async items(container, key, sql) {
    const link = `dbs/${this.name}/colls/${container}`;
    const answer = await this.send("POST", `${link}/docs`, link, key, JSON.stringify({ query: sql, parameters: [] }), 1000);
    assert.ok(answer.ok, `${sql} is answered with ${answer.status}`);
    return (await answer.json()).Documents;
  }

  /** The id of the user who writes the posts of the lab. */
  async probe() {
    const [newest] = await this.items("feed", "post", "SELECT TOP 1 * FROM c ORDER BY c.creationDate DESC");
    return newest.userId;
  }

  /** The charge and the answer of a stored procedure. */
  async execute(container, key, procedure, args) {
    const link = `dbs/${this.name}/colls/${container}/sprocs/${procedure}`;
    const answer = await this.send("POST", link, link, key, JSON.stringify(args), undefined, "sprocs");
    assert.ok(answer.ok, `${procedure} is answered with ${answer.status}`);
    return { charge: Number(answer.headers.get("x-ms-request-charge")).toFixed(2), body: await answer.json() };
  }

  /** Sends a request, and as any client does, again after the time that a 429 names. */
  async send(method, path, link, key, body, itemsMax, type = "docs") {
    const date = new Date().toUTCString();
    const text = `${method.toLowerCase()}\n${type}\n${link}\n${date.toLowerCase()}\n\n`;
    const signature = createHmac("sha256", Buffer.from(this.key, "base64")).update(text).digest("base64");
    const headers = {
      authorization: encodeURIComponent(`type=master&ver=1.0&sig=${signature}`),
      "x-ms-date": date,
      "x-ms-version": "2020-07-15",
      "x-ms-documentdb-partitionkey": JSON.stringify([key]),
    };
    if (body !== undefined && type === "docs") {
      headers["content-type"] = "application/query+json";
      headers["x-ms-documentdb-isquery"] = "true";
      // The page that the blog read had this many items.
      headers["x-ms-max-item-count"] = String(itemsMax);
    }
    for (;;) {
      const answer = await fetch(`${this.endpoint}/${path}`, { method, headers, body });
      if (answer.status !== 429) return answer;
      await pause(Number(answer.headers.get("x-ms-retry-after-ms")));
    }
  }
}

/** Parses parameters in the form in which the meter shows them: `@name = JSON`, separated by commas. */
function parametersOf(text) {
  const parameters = [];
  for (const match of (text ?? "").matchAll(/(@\w+) = ("(?:[^"\\]|\\.)*"|[^,\s]+)/g)) {
    parameters.push({ name: match[1], value: JSON.parse(match[2]) });
  }
  return parameters;
}
