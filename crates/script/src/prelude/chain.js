// Chained queries: read page by page, computed here. A stage turns values into values.

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
