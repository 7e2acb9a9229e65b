/** The console's requests: to the management API and to the database, through the server's door.
 *
 * Promises: each request carries the session's token; a refusal is an `ApiError` with what the server
 * says. When the session ended, the request waits until a person signed in again, then runs. When
 * the server cannot be reached, the request fails with `ServerAway` and `away` is true until the
 * server answers again. Each request is in `requestLog` with its charge.
 * Leaves out: what the requests mean (`data.ts`, `management.ts`). */

import { createStore } from "../store.ts";

export interface Session {
  readonly csrf: string;
  readonly readOnly: boolean;
  readonly version: string;
  readonly endpoint: string;
  readonly account: string;
  /** The blog of the same program: databases `{prefix}-v1` to `{prefix}-v3` hold its models. */
  readonly blog?: { readonly address: string; readonly prefix: string };
}

/** One entry of `errors` in the answer to a query that the server cannot run. */
export interface QueryErrorDetail {
  readonly severity?: string;
  readonly code?: string;
  readonly message: string;
  readonly location?: { readonly start: number; readonly end: number };
}

/** A refusal, or a request that got no answer (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly activityId: string | null = null,
    readonly retryAfterMs: number | null = null,
    readonly substatus: number | null = null,
    /** The body of the answer as text, for what `message` does not hold. */
    readonly body = "",
  ) {
    super(message);
    this.name = "ApiError";
  }

  /** True if the server could not be reached. */
  get away(): boolean {
    return this.status === 0;
  }
}

/** The answer to a request that succeeded. */
export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Request units; 0 if the answer names no charge. */
  readonly charge: number;
  /** Time from the request to the whole answer, as the browser saw it. */
  readonly ms: number;
  /** The text as JSON; null if it is empty. */
  json(): unknown;
}

export interface RequestOptions {
  readonly method?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Text is sent as it is; other values as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Entries of polls are counted together in the log. */
  readonly poll?: boolean | undefined;
}

export interface LoggedRequest {
  readonly number: number;
  readonly at: Date;
  readonly door: Door;
  readonly method: string;
  readonly path: string;
  readonly page: string;
  readonly status: number;
  readonly charge: number;
  readonly ms: number;
  readonly activityId: string | null;
  readonly poll: boolean;
}

type Door = "manage" | "data";

const LOGGED_MAX = 500;
const PROBE_FIRST_MS = 500;
const PROBE_MS_MAX = 5_000;

/** The session; null before sign-in and after signing out. */
export const session = createStore<Session | null>(null);
/** True while a request waits for a person to sign in again. */
export const sessionEnded = createStore(false);
/** True while the server cannot be reached. */
export const away = createStore(false);
/** Counts how often the server came back; views load again when it changes. */
export const recoveries = createStore(0);
/** The newest requests, the newest last. */
export const requestLog = createStore<readonly LoggedRequest[]>([]);

/** Sends a request to a route of the management API, such as `/status`. */
export async function manage(path: string, options: RequestOptions = {}): Promise<Reply> {
  return send("manage", path, options);
}

/** Sends a request of the database's protocol, such as `/dbs`. */
export async function data(path: string, options: RequestOptions = {}): Promise<Reply> {
  return send("data", path, options);
}

async function send(door: Door, path: string, options: RequestOptions): Promise<Reply> {
  let mayHaveOldToken = true;
  for (;;) {
    const reply = await attempt(door, path, options);
    if (reply.status < 400) return reply;
    const error = errorOf(reply);
    if (error.code === "WrongToken" && mayHaveOldToken) {
      // Another tab has signed in meanwhile: the cookie is that of its session.
      mayHaveOldToken = false;
      await takeSession();
    } else if (error.code === "SignInRequired") await signedInAgain(options.signal);
    else throw error;
  }
}

async function attempt(door: Door, path: string, options: RequestOptions): Promise<Reply> {
  const method = options.method ?? "GET";
  const started = performance.now();
  const headers = new Headers(options.headers);
  headers.set("x-orrery-csrf", session.get()?.csrf ?? "");
  const response = await reach(`api/${door}${path}`, {
    method,
    headers,
    body: bodyOf(options.body),
    signal: options.signal ?? null,
    cache: "no-store",
  });
  const text = await textOf(response, options.signal);
  const ms = performance.now() - started;
  const charge = Number(response.headers.get("x-ms-request-charge") ?? 0) || 0;
  const { status } = response;
  const activityId = response.headers.get("x-ms-activity-id");
  record({ door, method, path, status, charge, ms, activityId, poll: options.poll ?? false });
  const json = (): unknown => (text === "" ? null : JSON.parse(text));
  return { status, headers: response.headers, text, charge, ms, json };
}

function bodyOf(body: unknown): BodyInit | null {
  if (body === undefined) return null;
  if (typeof body === "string" || body instanceof Blob) return body;
  return JSON.stringify(body);
}

/** Fetches; a server without an answer is `ServerAway`. */
async function reach(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, { ...init, credentials: "same-origin" });
  } catch (error) {
    throw lost(error, init.signal);
  }
}

async function textOf(response: Response, signal: AbortSignal | undefined): Promise<string> {
  try {
    return await response.text();
  } catch (error) {
    throw lost(error, signal);
  }
}

function lost(error: unknown, signal: AbortSignal | null | undefined): unknown {
  if (signal?.aborted) return error;
  watchForServer();
  return new ApiError(
    0,
    "ServerAway",
    "The server does not answer. The console asks again until the server is back.",
  );
}

function record(entry: Omit<LoggedRequest, "number" | "at" | "page">): void {
  const log = requestLog.get();
  const number = (log.at(-1)?.number ?? 0) + 1;
  const page = location.hash.split("?")[0] || "#/";
  requestLog.set([...log.slice(1 - LOGGED_MAX), { ...entry, number, at: new Date(), page }]);
}

function errorOf(reply: Reply): ApiError {
  const { code, message } = saidBy(reply);
  const retryAfter = reply.headers.get("x-ms-retry-after-ms");
  const substatus = reply.headers.get("x-ms-substatus");
  return new ApiError(
    reply.status,
    code,
    message,
    reply.headers.get("x-ms-activity-id"),
    retryAfter === null ? null : Number(retryAfter),
    substatus === null ? null : Number(substatus),
    reply.text,
  );
}

function saidBy(reply: Reply): { code: string; message: string } {
  try {
    const body = reply.json();
    if (body !== null && typeof body === "object") {
      const { code, message } = body as { code?: unknown; message?: unknown };
      if (typeof message === "string") {
        return { code: typeof code === "string" ? code : String(reply.status), message };
      }
    }
  } catch {
    // The body is no JSON; the status alone is known.
  }
  return { code: String(reply.status), message: `The server answered with status ${reply.status}.` };
}

/** Returns what a query error says about places in the text; empty if the error says nothing. */
export function queryErrors(error: ApiError): readonly QueryErrorDetail[] {
  const start = error.message.indexOf('{"errors"');
  const texts = [error.body, start < 0 ? "" : error.message.slice(start).split(/\r?\n/)[0] ?? ""];
  for (const text of texts) {
    try {
      const found = (JSON.parse(text) as { errors?: unknown }).errors;
      if (Array.isArray(found)) return found as QueryErrorDetail[];
    } catch {
      // Another form of answer.
    }
  }
  return [];
}

/** Returns any error as one that a page can show. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const text = error instanceof Error ? error.message : String(error);
  return new ApiError(1, "ConsoleError", `The console failed: ${text}. Load the page again.`);
}

/** Returns true if the error only says that the console itself aborted the request. */
export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

async function signedInAgain(signal: AbortSignal | undefined): Promise<void> {
  sessionEnded.set(true);
  await new Promise<void>((resolve, reject) => {
    const settle = (): void => {
      if (sessionEnded.get()) return;
      stop();
      resolve();
    };
    const abort = (): void => {
      stop();
      reject(new DOMException("The request was aborted.", "AbortError"));
    };
    const unsubscribe = sessionEnded.subscribe(settle);
    const stop = (): void => {
      unsubscribe();
      signal?.removeEventListener("abort", abort);
    };
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
  });
}

/** Reads the session; returns null if no one is signed in. */
export async function readSession(): Promise<Session | null> {
  const response = await reach("api/session", { method: "GET", cache: "no-store" });
  if (response.status === 401) {
    session.set(null);
    return null;
  }
  return accept(response);
}

/** Takes over the session of the cookie, if there is one. */
async function takeSession(): Promise<void> {
  const response = await reach("api/session", { method: "GET", cache: "no-store" });
  if (response.ok) await accept(response);
}

/** Signs in with a management key; a wrong key is an `ApiError`. */
export async function signIn(key: string): Promise<Session> {
  const response = await reach("api/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ key }),
  });
  return accept(response);
}

/** Ends the session. */
export async function signOut(): Promise<void> {
  const headers = { "x-orrery-csrf": session.get()?.csrf ?? "" };
  await reach("api/session", { method: "DELETE", headers });
  session.set(null);
}

async function accept(response: Response): Promise<Session> {
  const text = await response.text();
  const { status, headers } = response;
  const json = (): unknown => JSON.parse(text);
  if (!response.ok) throw errorOf({ status, headers, text, charge: 0, ms: 0, json });
  const found = json() as Session;
  session.set(found);
  sessionEnded.set(false);
  return found;
}

let watching = false;

/** Asks until the server answers, then says so; one watch at a time. */
function watchForServer(): void {
  away.set(true);
  if (watching) return;
  watching = true;
  void probe();
}

let hurry: (() => void) | null = null;

/** Asks the server at once instead of after the pause. */
export function askNow(): void {
  hurry?.();
}

async function probe(): Promise<void> {
  for (let pause = PROBE_FIRST_MS; ; pause = Math.min(pause * 2, PROBE_MS_MAX)) {
    await new Promise<void>((resolve) => {
      hurry = resolve;
      setTimeout(resolve, pause);
    });
    try {
      const response = await fetch("api/session", { cache: "no-store", credentials: "same-origin" });
      if (response.status >= 500) continue;
      if (response.ok) await accept(response);
      if (response.status === 401 && session.get() !== null) sessionEnded.set(true);
      break;
    } catch {
      // Still away.
    }
  }
  watching = false;
  away.set(false);
  recoveries.update((count) => count + 1);
}
