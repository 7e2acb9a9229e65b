// The part of the language that differs from the standard: errors with numbers, and a clock and
// random numbers that can be repeated. Also the names that every later part uses. The parts share
// the scope of one function, in the order in which `interpreter.rs` lists them.
//
// No part of the prelude guards a border: a script that changes globals harms only itself, since
// the parent checks every message. The native object stays inside the closure. It has three
// functions:
//
//   call(request)   sends an operation to the parent and returns the reply
//   accepts()       returns true if there is time for a new operation
//   ticks()         returns the interrupt ticks of the job so far

const { parse, stringify } = JSON;
const { isArray } = Array;
const { keys } = Object;
const NativeError = Error;
const NativeDate = Date;

const REQUEST_CHARS_MAX = 2 * 1024 * 1024;
const RESPONSE_CHARS_MAX = 4 * 1024 * 1024 - 4096; // less than a page of the service
const LOG_BYTES_MAX = 4000;                        // percent-encoded, so that it fits a header
const QUEUE_LENGTH_MAX = 10000;
const ARGUMENTS_MAX = 65535;                       // the most that apply can pass
const PAGE_SIZE = 100;
// The size of a page that has no limit of its own: its bytes and its time end it.
const PAGE_SIZE_MAX = 1000000;

// The job, as `install` gets it; the messages and the collection object are made from it.
let job = { kind: 'function', logging: false };
let request, response, collection;
// Operations that are not sent yet.
const queue = [];
// Errors that mean more than a thrown error, with their kind: see `describe`.
const errorKinds = new WeakMap();

// ---- Error, Date, Math.random ----

// new Error(number, message) sets .number and .message, as the JScript ancestor of the service's
// engine does.
function ScriptError(first, second) {
  const isNumbered = typeof first === 'number';
  let message = first;
  if (isNumbered) message = second === undefined ? String(first) : String(second);
  const parameters = message === undefined ? [] : [message];
  const error = Reflect.construct(NativeError, parameters, new.target || ScriptError);
  if (isNumbered) {
    error.number = first;
  } else if (second !== null && typeof second === 'object' && 'cause' in second) {
    hide(error, 'cause', second.cause);
  }
  NativeError.captureStackTrace(error, new.target || ScriptError);
  return error;
}

// Sets a property that enumeration does not show.
function hide(object, name, value) {
  Object.defineProperty(object, name, {
    value, writable: true, configurable: true, enumerable: false,
  });
}

// Puts a replacement in the place of a builtin constructor, with its static properties and its
// prototype.
function replaceConstructor(name, replacement, native) {
  for (const key of Reflect.ownKeys(native)) {
    if (key === 'name' || key === 'length' || !(key in replacement)) {
      Object.defineProperty(replacement, key, Object.getOwnPropertyDescriptor(native, key));
    }
  }
  Object.defineProperty(replacement, 'prototype', { value: native.prototype, writable: false });
  hide(native.prototype, 'constructor', replacement);
  hide(globalThis, name, replacement);
}

// The clock advances with the work done: with interrupt ticks and with its own readings.
let clockReadings = 0;
function clock() {
  clockReadings += 1;
  return job.now + native.ticks() + Math.floor(clockReadings / 1000);
}

function ScriptDate(...parts) {
  if (!new.target) return new NativeDate(clock()).toString();
  return Reflect.construct(NativeDate, parts.length === 0 ? [clock()] : parts, new.target);
}
ScriptDate.now = function now() { return clock(); };

// The generator sfc32: small, quick, good enough for scripts, the same on every machine.
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

// Returns a random UUID of version 4.
function guid() {
  const hex = [];
  for (let i = 0; i < 4; i++) hex.push(randomId().toString(16).padStart(8, '0'));
  const all = hex.join('');
  const variant = '89ab'[parseInt(all[16], 16) & 3];
  return [
    all.slice(0, 8), all.slice(8, 12), `4${all.slice(13, 16)}`, `${variant}${all.slice(17, 20)}`,
    all.slice(20),
  ].join('-');
}
