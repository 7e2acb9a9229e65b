// The part of the language that differs: errors with numbers, a clock and a dice that can be repeated.
// Also the names every later part uses. Parts share one function's scope, in the order `interpreter.rs` lists them.
//
// Nothing in these parts guards a border: a script that rewires globals harms only itself, since the parent checks
// every message. The native object stays inside the closure. It has call(request) -> reply; accepts() -> is there time
// for new work; ticks() -> work done so far.

const { parse, stringify } = JSON;
const { isArray } = Array;
const NativeError = Error;
const NativeDate = Date;

const REQUEST_CHARS = 2 * 1024 * 1024;
const RESPONSE_CHARS = 4 * 1024 * 1024 - 4096; // a bit below a page
const LOG_BYTES = 4000;                        // percent-encoded, so that it fits a header
const QUEUE_LENGTH = 10000;
const ARGUMENTS = 65535;                       // what apply can pass
const PAGE_SIZE = 100;

let job = { kind: 'function', logging: false };
let request, response, collection;
const queue = [];
const verdicts = new WeakMap();                // errors that mean more than what a script can throw

// ---- Error, Date, Math.random ----

// new Error(number, message) sets .number and .message, as the engine's JScript ancestry has it.
function ScriptError(first, second) {
  const numbered = typeof first === 'number';
  const message = numbered ? (second === undefined ? String(first) : String(second)) : first;
  const error = Reflect.construct(NativeError, message === undefined ? [] : [message], new.target || ScriptError);
  if (numbered) error.number = first;
  else if (second !== null && typeof second === 'object' && 'cause' in second) hide(error, 'cause', second.cause);
  NativeError.captureStackTrace(error, new.target || ScriptError);
  return error;
}

function hide(object, name, value) {
  Object.defineProperty(object, name, { value, writable: true, configurable: true, enumerable: false });
}

function replaceConstructor(name, replacement, native) {
  for (const key of Reflect.ownKeys(native)) {
    if (key === 'name' || key === 'length') {
      Object.defineProperty(replacement, key, Object.getOwnPropertyDescriptor(native, key));
    } else if (!(key in replacement)) {
      Object.defineProperty(replacement, key, Object.getOwnPropertyDescriptor(native, key));
    }
  }
  Object.defineProperty(replacement, 'prototype', { value: native.prototype, writable: false });
  hide(native.prototype, 'constructor', replacement);
  hide(globalThis, name, replacement);
}

let readings = 0;
function clock() {
  readings += 1;
  return job.now + native.ticks() + Math.floor(readings / 1000);
}

function ScriptDate(...parts) {
  if (!new.target) return new NativeDate(clock()).toString();
  return Reflect.construct(NativeDate, parts.length === 0 ? [clock()] : parts, new.target);
}
ScriptDate.now = function now() { return clock(); };

// sfc32: small, quick, good enough for scripts, the same on every machine.
function generator(a, b, c) {
  let counter = 1;
  function next() {
    const t = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11));
    c = (c + t) | 0;
    return t >>> 0;
  }
  for (let i = 0; i < 12; i++) next();
  return next;
}
let randomNumber, randomId;

function guid() {
  const hex = [];
  for (let i = 0; i < 4; i++) hex.push(randomId().toString(16).padStart(8, '0'));
  const all = hex.join('');
  const variant = '89ab'[parseInt(all[16], 16) & 3];
  return `${all.slice(0, 8)}-${all.slice(8, 12)}-4${all.slice(13, 16)}-${variant}${all.slice(17, 20)}-${all.slice(20)}`;
}
