// The service's server-side API, built over one native object. Evaluated once in each fresh runtime; answers the
// functions the interpreter drives: install, define, begin, step, finish, invoke, describe, rejection.
//
// Nothing here guards a border: a script that rewires these globals harms only itself, since the parent checks every
// message. The native object stays inside this closure.
//
// native: call(request) -> reply; accepts() -> is there time for new work; ticks() -> work done so far.
(function (native) {
'use strict';
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

// ---- Error, Date, Math.random -------------------------------------------------------------------------------------

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

// ---- Arguments of collection functions ----------------------------------------------------------------------------

const badRequest = (message) => new ScriptError(400, message);

function isObject(value) { return typeof value === 'object' && value !== null; }

// (…, [options], [callback]) -> { options, callback }
function tail(name, options, callback) {
  if (typeof options === 'function' && callback === undefined) { callback = options; options = undefined; }
  if (options === undefined || options === null) options = {};
  else if (typeof options !== 'object') throw badRequest(`The options parameter of '${name}' must be an object.`);
  if (callback === undefined || callback === null) callback = undefined;
  else if (typeof callback !== 'function') throw badRequest(`The callback parameter of '${name}' must be a function.`);
  return { options, callback };
}

function option(name, options, key, type) {
  const value = options[key];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== type) throw badRequest(`The option '${key}' of '${name}' must be a ${type}.`);
  return type === 'string' ? value.toWellFormed() : value;
}

function pageSize(name, options) {
  const size = option(name, options, 'pageSize', 'number');
  if (size === undefined || size === -1) return PAGE_SIZE;
  if (!Number.isInteger(size) || size < 1) throw badRequest(`The option 'pageSize' of '${name}' must be a positive whole number.`);
  return Math.min(size, 1000000);
}

function indexAction(name, options) {
  const action = option(name, options, 'indexAction', 'string');
  if (action === undefined) return 'default';
  const lower = action.toLowerCase();
  if (lower !== 'default' && lower !== 'include' && lower !== 'exclude') {
    throw badRequest(`The option 'indexAction' of '${name}' must be 'default', 'include' or 'exclude'.`);
  }
  return lower;
}

function outside(name, link) {
  return badRequest(`Function '${name}' is not allowed to operate on resources outside current collection. `
    + `Make sure that the link provided, '${String(link)}', is valid and belongs to the current collection.`);
}

function checkCollection(name, link) {
  if (link !== job.selfLink && link !== job.altLink) throw outside(name, link);
}

// {self link}docs/{rid}/ or {alt link}/docs/{id}
function documentLink(name, link) {
  if (typeof link !== 'string' || !link.isWellFormed()) throw badRequest(`The documentLink parameter of '${name}' must be a string.`);
  const byRid = link.startsWith(job.selfLink);
  let rest;
  if (byRid) rest = '/' + link.slice(job.selfLink.length);
  else if (link.startsWith(job.altLink)) rest = link.slice(job.altLink.length);
  else throw outside(name, link);
  if (!rest.startsWith('/docs/')) throw outside(name, link);
  let part = rest.slice('/docs/'.length);
  if (part.endsWith('/')) part = part.slice(0, -1);
  if (part === '' || part.includes('/')) throw badRequest(`The documentLink parameter of '${name}', '${link}', does not name a document.`);
  return { link: part, byRid };
}

// An object or its JSON text, as an object of our own to put an id into.
function documentBody(name, body) {
  if (typeof body === 'string') {
    try { body = parse(body); } catch { throw badRequest(`The body parameter of '${name}' is not valid JSON.`); }
  }
  if (!isObject(body) || isArray(body)) throw badRequest(`The body parameter of '${name}' must be an object or its JSON text.`);
  return body;
}

function jsonText(name, value) {
  const text = stringify(value);
  if (text === undefined) throw badRequest(`The body parameter of '${name}' has no JSON form.`);
  return text;
}

function bodyWithId(name, body, options) {
  body = documentBody(name, body);
  if (!body.id && !option(name, options, 'disableAutomaticIdGeneration', 'boolean')) body = { ...body, id: guid() };
  return jsonText(name, body);
}

function querySpec(name, filterQuery) {
  const spec = typeof filterQuery === 'string' ? { query: filterQuery } : filterQuery;
  if (!isObject(spec) || typeof spec.query !== 'string' || spec.query === '') {
    throw badRequest(`The filterQuery parameter of '${name}' must be a query text or an object with 'query' and 'parameters'.`);
  }
  const parameters = spec.parameters === undefined || spec.parameters === null ? [] : spec.parameters;
  if (!isArray(parameters)) throw badRequest(`The parameters of '${name}' must be an array.`);
  return { text: spec.query.toWellFormed(), parameters: jsonText(name, parameters) };
}

// ---- The queue ----------------------------------------------------------------------------------------------------

// True if the work will be done, false if the script should save its place and return.
function enqueue(work) {
  if (queue.length >= QUEUE_LENGTH || !native.accepts()) return false;
  queue.push(work);
  return true;
}

function failure(reply) {
  const error = new ScriptError(reply.number, reply.message);
  error.body = reply.body;
  return error;
}

function unhandled(error) {
  verdicts.set(error, 'host');
  return error;
}

function responseOptions(reply, more) {
  return { ...more, currentCollectionSizeInMB: job.quotaCurrent, maxCollectionSizeInMB: job.quotaMaximum };
}

// Queues one operation; shape turns the reply into the callback's arguments behind the error.
function operate(message, callback, shape) {
  return enqueue(() => {
    const reply = native.call(message);
    if (reply.number !== undefined) {
      const error = failure(reply);
      if (!callback) throw unhandled(error);
      callback(error, undefined, responseOptions(reply));
    } else if (callback) {
      callback(undefined, ...shape(reply));
    }
  });
}

const one = (reply) => reply.notModified
  ? [undefined, responseOptions(reply, { notModified: true })]
  : [parse(reply.items)[0], responseOptions(reply)];
const page = (reply) => [parse(reply.items), responseOptions(reply, reply.continuation === undefined ? {} : { continuation: reply.continuation })];
const none = (reply) => [responseOptions(reply)];

// ---- The collection object ----------------------------------------------------------------------------------------

const collectionFunctions = {
  getSelfLink() { return job.selfLink; },
  getAltLink() { return job.altLink; },

  readDocument(link, options, callback) {
    const name = 'readDocument', at = documentLink(name, link);
    ({ options, callback } = tail(name, options, callback));
    return operate({ op: 'read', ...at, match: option(name, options, 'ifNoneMatch', 'string') }, callback, one);
  },

  readDocuments(link, options, callback) {
    const name = 'readDocuments';
    checkCollection(name, link);
    ({ options, callback } = tail(name, options, callback));
    return operate({
      op: 'feed', pageSize: pageSize(name, options), continuation: option(name, options, 'continuation', 'string'),
    }, callback, page);
  },

  queryDocuments(link, filterQuery, options, callback) {
    const name = 'queryDocuments';
    checkCollection(name, link);
    const spec = querySpec(name, filterQuery);
    ({ options, callback } = tail(name, options, callback));
    return operate({
      op: 'query', ...spec, pageSize: pageSize(name, options),
      continuation: option(name, options, 'continuation', 'string'),
      scan: option(name, options, 'enableScan', 'boolean') === true,
      lowPrecision: option(name, options, 'enableLowPrecisionOrderBy', 'boolean') === true,
    }, callback, page);
  },

  createDocument(link, body, options, callback) { return write('createDocument', 'create', link, body, options, callback); },
  upsertDocument(link, body, options, callback) { return write('upsertDocument', 'upsert', link, body, options, callback); },

  replaceDocument(link, body, options, callback) {
    const name = 'replaceDocument', at = documentLink(name, link);
    ({ options, callback } = tail(name, options, callback));
    return operate({
      op: 'replace', ...at, text: jsonText(name, documentBody(name, body)),
      match: option(name, options, 'etag', 'string'), index: indexAction(name, options),
    }, callback, one);
  },

  deleteDocument(link, options, callback) {
    const name = 'deleteDocument', at = documentLink(name, link);
    ({ options, callback } = tail(name, options, callback));
    return operate({ op: 'delete', ...at, match: option(name, options, 'etag', 'string') }, callback, none);
  },

  patchDocument(link, spec, options, callback) {
    const name = 'patchDocument', at = documentLink(name, link);
    if (typeof spec === 'string') {
      try { spec = parse(spec); } catch { throw badRequest(`The patchSpec parameter of '${name}' is not valid JSON.`); }
    }
    if (!isArray(spec) && !(isObject(spec) && isArray(spec.operations))) {
      throw badRequest(`The patchSpec parameter of '${name}' must be an array of operations or an object with 'operations'.`);
    }
    ({ options, callback } = tail(name, options, callback));
    return operate({
      op: 'patch', ...at, text: jsonText(name, spec), match: option(name, options, 'etag', 'string'),
      filter: option(name, options, 'filterPredicate', 'string'),
    }, callback, one);
  },

  chain() { return new Chain(); },
};

function write(name, op, link, body, options, callback) {
  checkCollection(name, link);
  ({ options, callback } = tail(name, options, callback));
  return operate({ op, text: bodyWithId(name, body, options), index: indexAction(name, options) }, callback, one);
}

for (const name of ['readAttachment', 'readAttachments', 'queryAttachments', 'createAttachment', 'upsertAttachment',
  'replaceAttachment', 'deleteAttachment']) {
  collectionFunctions[name] = function () { throw badRequest(`Function '${name}' is not supported: attachments are retired.`); };
}

// ---- Chained queries ----------------------------------------------------------------------------------------------

// A stage turns one value into any number of values; sort stages need all of them first.
const flattened = (value, shallow) => isArray(value) ? value.flat(shallow ? 0 : Infinity) : [value];
const defined = (value) => value === undefined ? [] : [value];

const stageMakers = {
  filter(predicate) {
    needFunction('filter', 'predicate', predicate);
    return { each: (value) => predicate(value) ? [value] : [] };
  },
  map(transform) {
    needFunction('map', 'transformation', transform);
    return { each: (value) => defined(transform(value)) };
  },
  pluck(property) {
    if (typeof property !== 'string' || property === '') throw badRequest("The propertyName parameter of 'pluck' must be a non-empty string.");
    return { each: (value) => value === null || value === undefined ? [] : defined(value[property]) };
  },
  flatten(shallow) {
    if (shallow !== undefined && shallow !== null && typeof shallow !== 'boolean') throw badRequest("The isShallow parameter of 'flatten' must be a boolean.");
    return { each: (value) => flattened(value, shallow === true) };
  },
  unwind(selector, result) {
    needFunction('unwind', 'collectionSelector', selector);
    if (result !== undefined && result !== null) needFunction('unwind', 'resultSelector', result);
    return {
      each: (value) => {
        const inner = selector(value);
        return isArray(inner) ? inner.flatMap((item) => result ? defined(result(value, item)) : [[value, item]]) : [];
      },
    };
  },
  sortBy(iteratee) {
    needFunction('sortBy', 'predicate', iteratee);
    return { all: (values) => sorted(values, iteratee, 1) };
  },
  sortByDescending(iteratee) {
    needFunction('sortByDescending', 'predicate', iteratee);
    return { all: (values) => sorted(values, iteratee, -1) };
  },
};
// How many parameters each takes before options and callback.
const stageArity = { filter: 1, map: 1, pluck: 1, flatten: 1, unwind: 2, sortBy: 1, sortByDescending: 1 };

function needFunction(name, parameter, value) {
  if (typeof value !== 'function') throw badRequest(`The ${parameter} parameter of '${name}' must be a function.`);
}

// The order of a query's ORDER BY: by type first.
const ranks = { undefined: 0, null: 1, boolean: 2, number: 3, string: 4, array: 5, object: 6 };
const rank = (value) => ranks[value === null ? 'null' : isArray(value) ? 'array' : typeof value] ?? 7;
function sorted(values, iteratee, direction) {
  const keyed = values.map((value) => ({ value, key: iteratee(value) }));
  keyed.sort((a, b) => {
    const ranksDiffer = rank(a.key) - rank(b.key);
    if (ranksDiffer !== 0) return direction * ranksDiffer;
    if (isObject(a.key)) return 0;
    return a.key < b.key ? -direction : a.key > b.key ? direction : 0;
  });
  return keyed.map((entry) => entry.value);
}

function withoutCollection(parameters) {
  const first = parameters[0];
  const leading = first !== undefined && (first === collection || first === globalThis.__ || first === job.selfLink || first === job.altLink);
  return leading ? parameters.slice(1) : parameters;
}

class Chain {
  constructor() { this.stages = []; this.isAccepted = true; }
  value(options, callback) {
    if (!this.isAccepted) return this;
    ({ options, callback } = tail('value', options, callback));
    this.isAccepted = runStages('value', this.stages, options, callback);
    return { isAccepted: this.isAccepted };
  }
}

for (const name of Object.keys(stageMakers)) {
  hide(Chain.prototype, name, function (...parameters) {
    if (!this.isAccepted) return this;
    parameters = withoutCollection(parameters);
    if (parameters.slice(stageArity[name]).some((value) => value !== undefined)) {
      throw badRequest(`In a chain, options and callback belong to 'value', not to '${name}'.`);
    }
    const next = new Chain();
    next.stages = [...this.stages, stageMakers[name](...parameters)];
    return next;
  });
  collectionFunctions[name] = function (...parameters) {
    parameters = withoutCollection(parameters);
    let own = stageArity[name];
    // Optional parameters may be left out before options and callback.
    if (name === 'flatten' && parameters.length > 0 && typeof parameters[0] !== 'boolean' && isOptionsOrCallback(parameters[0])) own = 0;
    if (name === 'unwind' && parameters.length > 1 && isObject(parameters[1])) own = 1;
    const stage = stageMakers[name](...parameters.slice(0, own));
    const { options, callback } = tail(name, parameters[own], parameters[own + 1]);
    return { isAccepted: runStages(name, [stage], options, callback) };
  };
}

function isOptionsOrCallback(value) { return isObject(value) || typeof value === 'function'; }

// Our continuation: {c: where the host's page starts, d: documents of it done, e: values of the next one done},
// or, where sorting needed everything, {o: values done}.
function position(name, options) {
  const text = option(name, options, 'continuation', 'string');
  if (text === undefined) return { d: 0, e: 0, o: 0 };
  let at;
  try { at = parse(text); } catch { at = undefined; }
  const count = (value) => value === undefined ? 0 : value;
  const valid = isObject(at) && [at.d, at.e, at.o].every((n) => n === undefined || (Number.isInteger(n) && n >= 0))
    && (at.c === undefined || typeof at.c === 'string');
  if (!valid) throw badRequest(`The option 'continuation' of '${name}' is not valid.`);
  return { c: at.c, d: count(at.d), e: count(at.e), o: count(at.o) };
}

function runStages(name, stages, options, callback) {
  option(name, options, 'enableScan', 'boolean');
  option(name, options, 'enableLowPrecisionOrderBy', 'boolean');
  const size = pageSize(name, options);
  const at = position(name, options);
  const cut = stages.findIndex((stage) => stage.all);
  const streaming = cut < 0 ? stages : stages.slice(0, cut);
  const rest = cut < 0 ? [] : stages.slice(cut);
  const values = [];
  const deliver = (results, continuation) => {
    if (callback) {
      callback(undefined, results, responseOptions({}, continuation === undefined ? {} : { continuation: stringify(continuation) }));
    } else if (response) {
      response.append('Body', stringify(results));
    }
  };
  const fail = (error) => {
    if (!callback) throw unhandled(error);
    callback(error, undefined, responseOptions({}));
  };
  const deliverSorted = () => {
    const all = through(rest, values);
    const end = at.o + size;
    deliver(all.slice(at.o, end), end < all.length ? { o: end } : undefined);
  };
  // One page of the host per turn of the queue.
  const turn = () => {
    const reply = native.call({ op: 'feed', pageSize: PAGE_SIZE, continuation: at.c });
    if (reply.number !== undefined) return fail(failure(reply));
    const documents = parse(reply.items);
    for (; at.d < documents.length; at.d++, at.e = 0) {
      if (rest.length === 0 && values.length >= size) return deliver(values, { c: at.c, d: at.d, e: at.e });
      const produced = through(streaming, [documents[at.d]]);
      for (; at.e < produced.length; at.e++) {
        if (rest.length === 0 && values.length >= size) return deliver(values, { c: at.c, d: at.d, e: at.e });
        values.push(produced[at.e]);
      }
    }
    if (reply.continuation === undefined) return rest.length > 0 ? deliverSorted() : deliver(values);
    at.c = reply.continuation;
    at.d = 0;
    if (native.accepts()) { queue.unshift(turn); return; }
    if (rest.length === 0) return deliver(values, { c: at.c, d: 0, e: 0 });
    fail(new ScriptError(408, `The time left is too short to read all documents that '${name}' has to sort.`));
  };
  return enqueue(turn);
}

function through(stages, values) {
  for (const stage of stages) values = stage.all ? stage.all(values) : values.flatMap((value) => stage.each(value));
  return values;
}

// ---- Request and response -----------------------------------------------------------------------------------------

// A message with named properties: each { value, writable, limit }.
function makeMessage(properties) {
  const state = { touched: false };
  const get = (name) => {
    const property = properties[name];
    if (!property) throw new TypeError(`cannot read value '${String(name)}': there is no such property`);
    return property.value;
  };
  const target = (name) => {
    if (typeof name !== 'string' || !Object.hasOwn(properties, name)) throw badRequestNew(name);
    if (!properties[name].writable) throw new ScriptError(403, `Not a writable property: ${name}`);
    return properties[name];
  };
  const put = (verb, name, value) => {
    const property = target(name);
    const text = typeof value === 'string' ? value : stringify(value);
    if (text !== undefined && text.length > property.limit) {
      throw new ScriptError(413, `Cannot ${verb}${name} because the resulting message would be too large. `
        + 'Return from script with current message and use continuation token to call the script again.');
    }
    property.value = value;
    state.touched = true;
  };
  const append = (name, value) => {
    const current = target(name).value;
    put('append', name, current === undefined || current === null ? value : current + value);
  };
  const message = {
    getValue(name) { return get(name); },
    setValue(name, value) { put('set', name, value); },
    appendValue(name, value) { append(name, value); },
  };
  for (const name of Object.keys(properties)) {
    message['get' + name] = function () { return get(name); };
    if (properties[name].writable) {
      message['set' + name] = function (value) { put('set', name, value); };
      message['append' + name] = function (value) { append(name, value); };
    }
  }
  return { message, append, state, properties };
}

function badRequestNew(name) { return badRequest(`Cannot set new values: ${String(name)}`); }

const fixed = (value) => ({ value, writable: false, limit: 0 });

function parsed(text) {
  if (text === undefined || text === '') return null;
  return parse(text);
}

function makeMessages() {
  const quota = { ResourceQuotaCurrentUsage: fixed(job.quotaCurrent), MaxResourceQuota: fixed(job.quotaMaximum) };
  if (job.kind === 'procedure') {
    request = makeMessage({ Body: fixed(job.request) });
    response = makeMessage({ Body: { value: '', writable: true, limit: RESPONSE_CHARS }, ...quota });
  } else {
    const pre = job.kind === 'pre';
    request = makeMessage({
      Body: { value: parsed(job.request), writable: pre, limit: REQUEST_CHARS },
      OperationType: fixed(job.operation),
    });
    response = pre ? undefined : makeMessage({ Body: { value: parsed(job.response), writable: true, limit: RESPONSE_CHARS }, ...quota });
  }
}

// ---- console ------------------------------------------------------------------------------------------------------

const lines = [];
let logged = 0;

function shown(value) {
  if (typeof value === 'string') return value;
  if (value instanceof NativeError) return `${value.name}: ${value.message}`;
  const text = isObject(value) ? stringify(value) : undefined;
  return text === undefined ? String(value) : text;
}

const formats = {
  s: shown, d: (value) => String(Number(value)), i: (value) => String(parseInt(value, 10)),
  f: (value) => String(parseFloat(value)), j: (value) => String(stringify(value)), o: shown, O: shown,
};

function log(...values) {
  if (!job.logging || logged > LOG_BYTES) return;
  let text = '';
  if (typeof values[0] === 'string') {
    let next = 1;
    text = values[0].replace(/%([sdifjoO%])/g, (whole, kind) => {
      if (kind === '%') return next > 1 || values.length > 1 ? '%' : whole;
      return next < values.length ? formats[kind](values[next++]) : whole;
    });
    values = values.slice(next);
    if (values.length > 0) text += ' ';
  }
  text = (text + values.map(shown).join(' ')).slice(0, LOG_BYTES).toWellFormed();
  lines.push(text);
  logged += text.length + 1;
}

// The longest beginning whose percent-encoded form fits.
function logText() {
  const text = lines.join('\n');
  const fits = (length) => encodeURIComponent(text.slice(0, length).toWellFormed()).length <= LOG_BYTES;
  if (fits(text.length)) return text;
  let low = 0, high = text.length;
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (fits(middle)) low = middle; else high = middle;
  }
  return text.slice(0, low).toWellFormed();
}

// ---- Arguments ----------------------------------------------------------------------------------------------------

function badArguments(message) {
  const error = badRequest(message);
  verdicts.set(error, 'arguments');
  return error;
}

// Function.prototype.apply's reading of the request body.
function procedureArguments(text) {
  if (text.trim() === '') return [];
  let value;
  try { value = parse(text); } catch (error) { throw badArguments(`the request body is not JSON: ${error.message}`); }
  if (value === null) return [];
  if (typeof value !== 'object') throw badArguments('the request body must be an array, an array-like object or null');
  const length = Math.trunc(Number(value.length));
  if (!(length > 0)) return [];
  if (length > ARGUMENTS) throw badArguments(`${length} arguments are too many`);
  return Array.from({ length }, (_, at) => Object.hasOwn(value, at) ? value[at] : undefined);
}

// ---- What the interpreter drives ----------------------------------------------------------------------------------

const rejections = new Map();
const functions = new Map();

replaceConstructor('Error', ScriptError, NativeError);
for (const name of ['TypeError', 'RangeError', 'SyntaxError', 'ReferenceError', 'EvalError', 'URIError', 'AggregateError', 'InternalError']) {
  if (typeof globalThis[name] === 'function') Object.setPrototypeOf(globalThis[name], ScriptError);
}
replaceConstructor('Date', ScriptDate, NativeDate);
hide(Math, 'random', function random() {
  return (randomNumber() * 2097152 + (randomNumber() >>> 11)) / 9007199254740992;
});
for (const name of ['SharedArrayBuffer', 'Atomics', 'WeakRef', 'FinalizationRegistry', 'performance', 'navigator']) delete globalThis[name];
hide(globalThis, 'console', { log, info: log, warn: log, warning: log, error: log, debug: log });

return {
  // Sets the scene for one job; called once.
  install(spec) {
    job = spec;
    randomNumber = generator(spec.seedLow | 0, spec.seedHigh | 0, 0x5eed);
    randomId = generator(spec.seedLow | 0, spec.seedHigh | 0, 0x1d);
    if (job.kind === 'function') return;
    makeMessages();
    collection = Object.assign({}, collectionFunctions);
    const context = {
      getRequest() { return request.message; },
      getCollection() { return collection; },
    };
    if (response) context.getResponse = function () { return response.message; };
    hide(globalThis, 'getContext', function getContext() { return context; });
    hide(globalThis, 'ErrorCodes', Object.freeze({
      BadRequest: 400, Forbidden: 403, NotFound: 404, Conflict: 409, PreconditionFailed: 412,
      RequestEntityTooLarge: 413, RetryWith: 449, InternalServerError: 500,
    }));
    const root = Object.create(collection);
    root.request = request.message;
    if (response) root.response = response.message;
    hide(globalThis, '__', root);
  },
  // Calls the main function.
  begin(main) {
    const values = job.kind === 'procedure' ? procedureArguments(job.request) : [];
    main.apply(undefined, values);
  },
  // Runs the next piece of queued work; false if there is none.
  step() {
    if (queue.length === 0) return false;
    queue.shift()();
    return true;
  },
  // [body or undefined, log or undefined]; throws what nobody caught.
  finish() {
    for (const reason of rejections.values()) throw reason;
    const message = job.kind === 'pre' ? request : response;
    let body;
    if (job.kind === 'procedure' || message.state.touched) {
      const value = message.properties.Body.value;
      body = stringify(value);
      if (body === undefined) body = job.kind === 'procedure' ? '""' : 'null';
    }
    return [body, job.logging ? logText() : undefined];
  },
  // Functions of a query.
  define(name, value) { functions.set(name, value); },
  invoke(name, values) {
    const called = functions.get(name);
    const result = called.apply(undefined, values.map((text) => text === undefined || text === null ? undefined : parse(text)));
    return result === undefined ? undefined : stringify(result);
  },
  has(name) { return functions.has(name); },
  // [verdict, number or undefined, message, stack] of anything thrown.
  describe(thrown) {
    try {
      if (!isObject(thrown) && typeof thrown !== 'function') return ['thrown', undefined, String(thrown).toWellFormed(), ''];
      const isError = thrown instanceof NativeError;
      let verdict = verdicts.get(thrown) || 'thrown';
      const message = String(isError ? thrown.message : thrown.message === undefined ? stringify(thrown) : thrown.message);
      if (isError && thrown.name === 'InternalError' && message.startsWith('out of memory')) verdict = 'memory';
      if (isError && message.startsWith('Maximum call stack size exceeded')) verdict = 'deep';
      const text = verdict === 'thrown' && isError ? `${thrown.name}: ${message}` : message;
      const number = Number.isSafeInteger(thrown.number) ? thrown.number : undefined;
      return [verdict, number, text.slice(0, 65536).toWellFormed(), String(thrown.stack ?? '').slice(0, 65536).toWellFormed()];
    } catch {
      return ['thrown', undefined, 'an exception that cannot be shown', ''];
    }
  },
  // Keeps track of rejected promises that nobody handles.
  rejection(promise, reason, handled) {
    if (handled) rejections.delete(promise); else rejections.set(promise, reason);
  },
};
})
