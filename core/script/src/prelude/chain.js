// Chained queries, such as `__.chain().filter(f).map(g).value(h)`. The documents are read page by
// page from the parent, and the stages are computed here.
//
// A stage has either `each`, which turns one value into any number of values, or `all`, which needs
// all values first (the sort stages).

const flattened = (value, isShallow) =>
  isArray(value) ? value.flat(isShallow ? 0 : Infinity) : [value];
const withoutUndefined = (value) => value === undefined ? [] : [value];

const stageMakers = {
  filter(predicate) {
    checkFunction('filter', 'predicate', predicate);
    return { each: (value) => predicate(value) ? [value] : [] };
  },
  map(transform) {
    checkFunction('map', 'transformation', transform);
    return { each: (value) => withoutUndefined(transform(value)) };
  },
  pluck(property) {
    if (typeof property !== 'string' || property === '') {
      throw badRequest("The propertyName parameter of 'pluck' must be a non-empty string.");
    }
    const each = (value) =>
      value === null || value === undefined ? [] : withoutUndefined(value[property]);
    return { each };
  },
  flatten(isShallow) {
    if (isShallow !== undefined && isShallow !== null && typeof isShallow !== 'boolean') {
      throw badRequest("The isShallow parameter of 'flatten' must be a boolean.");
    }
    return { each: (value) => flattened(value, isShallow === true) };
  },
  unwind(selector, result) {
    checkFunction('unwind', 'collectionSelector', selector);
    if (result !== undefined && result !== null) checkFunction('unwind', 'resultSelector', result);
    const each = (value) => {
      const inner = selector(value);
      if (!isArray(inner)) return [];
      return inner.flatMap((item) =>
        result ? withoutUndefined(result(value, item)) : [[value, item]]);
    };
    return { each };
  },
  sortBy(iteratee) {
    checkFunction('sortBy', 'predicate', iteratee);
    return { all: (values) => sorted(values, iteratee, 1) };
  },
  sortByDescending(iteratee) {
    checkFunction('sortByDescending', 'predicate', iteratee);
    return { all: (values) => sorted(values, iteratee, -1) };
  },
};
// The number of parameters that each stage takes before options and callback.
const stageArity = {
  filter: 1, map: 1, pluck: 1, flatten: 1, unwind: 2, sortBy: 1, sortByDescending: 1,
};

function checkFunction(name, parameter, value) {
  if (typeof value !== 'function') {
    throw badRequest(`The ${parameter} parameter of '${name}' must be a function.`);
  }
}

// The order of types, as in a query's ORDER BY.
const typeRanks = {
  undefined: 0, null: 1, boolean: 2, number: 3, string: 4, array: 5, object: 6,
};
function typeRank(value) {
  if (value === null) return typeRanks.null;
  if (isArray(value)) return typeRanks.array;
  return typeRanks[typeof value] ?? 7;
}

// Sorts values by their keys: by type first, then by value. Objects and arrays are equal among
// themselves.
function sorted(values, iteratee, direction) {
  const keyed = values.map((value) => ({ value, key: iteratee(value) }));
  keyed.sort((a, b) => {
    const rankDifference = typeRank(a.key) - typeRank(b.key);
    if (rankDifference !== 0) return direction * rankDifference;
    if (isObject(a.key)) return 0;
    if (a.key < b.key) return -direction;
    return a.key > b.key ? direction : 0;
  });
  return keyed.map((entry) => entry.value);
}

// Drops a first parameter that is the collection or one of its links.
function withoutCollection(parameters) {
  const first = parameters[0];
  const isCollection = first !== undefined && (
    first === collection || first === globalThis.__
    || first === job.selfLink || first === job.altLink
  );
  return isCollection ? parameters.slice(1) : parameters;
}

class Chain {
  constructor() { this.stages = []; this.isAccepted = true; }
  value(options, callback) {
    if (!this.isAccepted) return this;
    ({ options, callback } = optionsAndCallback('value', options, callback));
    this.isAccepted = runStages('value', this.stages, options, callback);
    return { isAccepted: this.isAccepted };
  }
}

// Each stage is a method of a chain, which adds the stage, and a function of the collection, which
// runs the stage alone.
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
    const count = stageParameterCount(name, parameters);
    const stage = stageMakers[name](...parameters.slice(0, count));
    const { options, callback } =
      optionsAndCallback(name, parameters[count], parameters[count + 1]);
    return { isAccepted: runStages(name, [stage], options, callback) };
  };
}

// Returns the number of parameters before options and callback. The optional parameters of two
// stages may be left out.
function stageParameterCount(name, parameters) {
  if (name === 'flatten' && parameters.length > 0) {
    const isOmitted = typeof parameters[0] !== 'boolean' && isOptionsOrCallback(parameters[0]);
    if (isOmitted) return 0;
  }
  if (name === 'unwind' && parameters.length > 1 && isObject(parameters[1])) return 1;
  return stageArity[name];
}

function isOptionsOrCallback(value) { return isObject(value) || typeof value === 'function'; }

// Reads the continuation of a chained query. Its text is JSON:
//
//   {c, d, e}   c: continuation of the host's page; d: documents of that page that are done;
//               e: values of the next document that are done
//   {o}         values that are done, where a sort stage needed all documents
function readContinuation(name, options) {
  const text = option(name, options, 'continuation', 'string');
  if (text === undefined) return { d: 0, e: 0, o: 0 };
  let position;
  try { position = parse(text); } catch { position = undefined; }
  const isCount = (n) => n === undefined || (Number.isInteger(n) && n >= 0);
  const isValid = isObject(position)
    && [position.d, position.e, position.o].every(isCount)
    && (position.c === undefined || typeof position.c === 'string');
  if (!isValid) throw badRequest(`The option 'continuation' of '${name}' is not valid.`);
  const { c, d = 0, e = 0, o = 0 } = position;
  return { c, d, e, o };
}

// Queues a chained query. Returns false if it is refused.
function runStages(name, stages, options, callback) {
  option(name, options, 'enableScan', 'boolean');
  option(name, options, 'enableLowPrecisionOrderBy', 'boolean');
  const size = pageSize(name, options);
  const position = readContinuation(name, options);
  // Stages before the first sort stage run document by document; the others need all values.
  const firstSort = stages.findIndex((stage) => stage.all);
  const streaming = firstSort < 0 ? stages : stages.slice(0, firstSort);
  const sorting = firstSort < 0 ? [] : stages.slice(firstSort);
  const isSorted = sorting.length > 0;
  const values = [];

  const deliver = (results, continuation) => {
    if (callback) {
      const more = continuation === undefined ? {} : { continuation: stringify(continuation) };
      callback(undefined, results, responseOptions(more));
    } else if (response) {
      response.append('Body', stringify(results));
    }
  };
  const fail = (error) => {
    if (!callback) throw unhandled(error);
    callback(error, undefined, responseOptions({}));
  };
  const deliverSorted = () => {
    const all = applyStages(sorting, values);
    const end = position.o + size;
    deliver(all.slice(position.o, end), end < all.length ? { o: end } : undefined);
  };
  // A page is full only without a sort stage, which needs the values of all documents.
  const isPageFull = () => !isSorted && values.length >= size;
  const deliverPage = () =>
    deliver(values, { c: position.c, d: position.d, e: position.e });

  // Reads one page of the host. Each further page is read in a turn of the queue of its own.
  const readPage = () => {
    const reply = native.call({ op: 'feed', pageSize: PAGE_SIZE, continuation: position.c });
    if (reply.number !== undefined) return fail(hostFailure(reply));
    const documents = parse(reply.items);
    for (; position.d < documents.length; position.d++, position.e = 0) {
      if (isPageFull()) return deliverPage();
      const produced = applyStages(streaming, [documents[position.d]]);
      for (; position.e < produced.length; position.e++) {
        if (isPageFull()) return deliverPage();
        values.push(produced[position.e]);
      }
    }
    if (reply.continuation === undefined) return isSorted ? deliverSorted() : deliver(values);
    position.c = reply.continuation;
    position.d = 0;
    if (native.accepts()) {
      // The next page comes before the operations that were queued behind this query.
      queue.unshift(readPage);
      return;
    }
    // The time is nearly over. A streamed query can be continued, a sorted one cannot.
    if (!isSorted) return deliver(values, { c: position.c, d: 0, e: 0 });
    const message =
      `The time left is too short to read all documents that '${name}' has to sort.`;
    fail(new ScriptError(408, message));
  };
  return enqueue(readPage);
}

// Returns the values behind the last stage.
function applyStages(stages, values) {
  for (const stage of stages) {
    values = stage.all ? stage.all(values) : values.flatMap((value) => stage.each(value));
  }
  return values;
}
