// The collection object: arguments are checked at once, operations wait in a queue, and their
// callbacks run when the main function has returned.

// ---- Arguments of collection functions ----

const badRequest = (message) => new ScriptError(400, message);

function isObject(value) { return typeof value === 'object' && value !== null; }

// Reads the last two parameters of a function, [options] and [callback], both of them optional.
function optionsAndCallback(name, options, callback) {
  if (typeof options === 'function' && callback === undefined) {
    callback = options;
    options = undefined;
  }
  if (options === undefined || options === null) {
    options = {};
  } else if (typeof options !== 'object') {
    throw badRequest(`The options parameter of '${name}' must be an object.`);
  }
  if (callback === undefined || callback === null) {
    callback = undefined;
  } else if (typeof callback !== 'function') {
    throw badRequest(`The callback parameter of '${name}' must be a function.`);
  }
  return { options, callback };
}

// Returns the value of an option, or undefined.
function option(name, options, key, type) {
  const value = options[key];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== type) {
    throw badRequest(`The option '${key}' of '${name}' must be a ${type}.`);
  }
  return type === 'string' ? value.toWellFormed() : value;
}

// Returns the continuation of a page. An empty text is none: scripts pass on what the caller sent.
function continuationOf(name, options) {
  return option(name, options, 'continuation', 'string') || undefined;
}

function pageSize(name, options) {
  const size = option(name, options, 'pageSize', 'number');
  if (size === undefined) return PAGE_SIZE;
  if (size === -1) return PAGE_SIZE_MAX;
  if (!Number.isInteger(size) || size < 1) {
    throw badRequest(`The option 'pageSize' of '${name}' must be a positive whole number or -1.`);
  }
  return Math.min(size, PAGE_SIZE_MAX);
}

function indexAction(name, options) {
  const action = option(name, options, 'indexAction', 'string');
  if (action === undefined) return 'default';
  const lower = action.toLowerCase();
  if (lower !== 'default' && lower !== 'include' && lower !== 'exclude') {
    throw badRequest(
      `The option 'indexAction' of '${name}' must be 'default', 'include' or 'exclude'.`,
    );
  }
  return lower;
}

// Returns the error for a link outside of the script's collection.
function outsideCollection(name, link) {
  return badRequest(
    `Function '${name}' is not allowed to operate on resources outside current collection. `
    + `Make sure that the link provided, '${String(link)}', is valid and belongs to the current `
    + 'collection.',
  );
}

function checkCollectionLink(name, link) {
  if (link !== job.selfLink && link !== job.altLink) throw outsideCollection(name, link);
}

// Reads a document link: {self link}docs/{rid}/ or {alt link}/docs/{id}.
function documentLink(name, link) {
  if (typeof link !== 'string' || !link.isWellFormed()) {
    throw badRequest(`The documentLink parameter of '${name}' must be a string.`);
  }
  const byRid = link.startsWith(job.selfLink);
  let rest;
  if (byRid) rest = '/' + link.slice(job.selfLink.length);
  else if (link.startsWith(job.altLink)) rest = link.slice(job.altLink.length);
  else throw outsideCollection(name, link);
  if (!rest.startsWith('/docs/')) throw outsideCollection(name, link);
  let part = rest.slice('/docs/'.length);
  if (part.endsWith('/')) part = part.slice(0, -1);
  if (part === '' || byRid && part.includes('/')) {
    throw badRequest(
      `The documentLink parameter of '${name}', '${link}', does not name a document.`,
    );
  }
  return { link: part, byRid };
}

// Returns the body parameter, an object or its JSON text, as an object.
function documentBody(name, body) {
  if (typeof body === 'string') {
    try {
      body = parse(body);
    } catch {
      throw badRequest(`The body parameter of '${name}' is not valid JSON.`);
    }
  }
  if (!isObject(body) || isArray(body)) {
    throw badRequest(`The body parameter of '${name}' must be an object or its JSON text.`);
  }
  return body;
}

function jsonText(name, value) {
  const text = stringify(value);
  if (text === undefined) throw badRequest(`The body parameter of '${name}' has no JSON form.`);
  return text;
}

// Returns the text of a body, with an id generated on a copy if it has none.
function bodyWithId(name, body, options) {
  body = documentBody(name, body);
  if (!body.id && !option(name, options, 'disableAutomaticIdGeneration', 'boolean')) {
    body = { ...body, id: guid() };
  }
  return jsonText(name, body);
}

// Reads the filterQuery parameter: a query text, or an object with query and parameters.
function querySpec(name, filterQuery) {
  const spec = typeof filterQuery === 'string' ? { query: filterQuery } : filterQuery;
  if (!isObject(spec) || typeof spec.query !== 'string' || spec.query === '') {
    throw badRequest(
      `The filterQuery parameter of '${name}' must be a query text or an object with 'query' and `
      + "'parameters'.",
    );
  }
  const hasParameters = spec.parameters !== undefined && spec.parameters !== null;
  const parameters = hasParameters ? spec.parameters : [];
  if (!isArray(parameters)) throw badRequest(`The parameters of '${name}' must be an array.`);
  return { text: spec.query.toWellFormed(), parameters: jsonText(name, parameters) };
}

// ---- The queue ----

// Queues a piece of work. Returns false if the work is refused: the script should then save its
// position and return.
function enqueue(work) {
  if (queue.length >= QUEUE_LENGTH_MAX || !native.accepts()) return false;
  queue.push(work);
  return true;
}

// Returns the error for a refused operation.
function hostFailure(reply) {
  const error = new ScriptError(reply.number, reply.message);
  error.body = reply.body;
  return error;
}

// Marks the error of an operation without a callback.
function unhandled(error) {
  errorKinds.set(error, 'host');
  return error;
}

function responseOptions(more) {
  return {
    ...more,
    currentCollectionSizeInMB: job.quotaCurrent,
    maxCollectionSizeInMB: job.quotaMaximum,
  };
}

// Queues one operation. `toArguments` turns its reply into the arguments of the callback behind the
// error.
function operate(message, callback, toArguments) {
  return enqueue(() => {
    const reply = native.call(message);
    if (reply.number !== undefined) {
      const error = hostFailure(reply);
      if (!callback) throw unhandled(error);
      callback(error, undefined, responseOptions({}));
    } else if (callback) {
      callback(undefined, ...toArguments(reply));
    }
  });
}

function singleItem(reply) {
  if (reply.notModified) return [undefined, responseOptions({ notModified: true })];
  return [parse(reply.items)[0], responseOptions({})];
}

function itemPage(reply) {
  const { continuation } = reply;
  return [parse(reply.items), responseOptions(continuation === undefined ? {} : { continuation })];
}

function noItem() { return [responseOptions({})]; }

// ---- The collection object ----

const collectionFunctions = {
  getSelfLink() { return job.selfLink; },
  getAltLink() { return job.altLink; },

  readDocument(link, options, callback) {
    const name = 'readDocument', target = documentLink(name, link);
    ({ options, callback } = optionsAndCallback(name, options, callback));
    return operate({
      op: 'read', ...target, match: option(name, options, 'ifNoneMatch', 'string'),
    }, callback, singleItem);
  },

  readDocuments(link, options, callback) {
    const name = 'readDocuments';
    checkCollectionLink(name, link);
    ({ options, callback } = optionsAndCallback(name, options, callback));
    return operate({
      op: 'feed',
      pageSize: pageSize(name, options),
      continuation: continuationOf(name, options),
    }, callback, itemPage);
  },

  queryDocuments(link, filterQuery, options, callback) {
    const name = 'queryDocuments';
    checkCollectionLink(name, link);
    const spec = querySpec(name, filterQuery);
    ({ options, callback } = optionsAndCallback(name, options, callback));
    return operate({
      op: 'query',
      ...spec,
      pageSize: pageSize(name, options),
      continuation: continuationOf(name, options),
      scan: option(name, options, 'enableScan', 'boolean') === true,
      lowPrecision: option(name, options, 'enableLowPrecisionOrderBy', 'boolean') === true,
    }, callback, itemPage);
  },

  createDocument(link, body, options, callback) {
    return write('createDocument', 'create', link, body, options, callback);
  },

  upsertDocument(link, body, options, callback) {
    return write('upsertDocument', 'upsert', link, body, options, callback);
  },

  replaceDocument(link, body, options, callback) {
    const name = 'replaceDocument', target = documentLink(name, link);
    ({ options, callback } = optionsAndCallback(name, options, callback));
    return operate({
      op: 'replace',
      ...target,
      text: jsonText(name, documentBody(name, body)),
      match: option(name, options, 'etag', 'string'),
      index: indexAction(name, options),
    }, callback, singleItem);
  },

  deleteDocument(link, options, callback) {
    const name = 'deleteDocument', target = documentLink(name, link);
    ({ options, callback } = optionsAndCallback(name, options, callback));
    return operate({
      op: 'delete', ...target, match: option(name, options, 'etag', 'string'),
    }, callback, noItem);
  },

  patchDocument(link, spec, options, callback) {
    const name = 'patchDocument', target = documentLink(name, link);
    if (typeof spec === 'string') {
      try {
        spec = parse(spec);
      } catch {
        throw badRequest(`The patchSpec parameter of '${name}' is not valid JSON.`);
      }
    }
    if (!isArray(spec) && !(isObject(spec) && isArray(spec.operations))) {
      throw badRequest(
        `The patchSpec parameter of '${name}' must be an array of operations or an object with `
        + "'operations'.",
      );
    }
    ({ options, callback } = optionsAndCallback(name, options, callback));
    return operate({
      op: 'patch',
      ...target,
      text: jsonText(name, spec),
      match: option(name, options, 'etag', 'string'),
      filter: option(name, options, 'filterPredicate', 'string'),
    }, callback, singleItem);
  },

  chain() { return new Chain(); },
};

// Queues the create or upsert of a document.
function write(name, op, link, body, options, callback) {
  checkCollectionLink(name, link);
  ({ options, callback } = optionsAndCallback(name, options, callback));
  return operate({
    op, text: bodyWithId(name, body, options), index: indexAction(name, options),
  }, callback, singleItem);
}

for (const name of [
  'readAttachment', 'readAttachments', 'queryAttachments', 'createAttachment', 'upsertAttachment',
  'replaceAttachment', 'deleteAttachment',
]) {
  collectionFunctions[name] = function () {
    throw badRequest(`Function '${name}' is not supported: attachments are retired.`);
  };
}
