// The request and response of a script, the console, and the arguments of a procedure.

// ---- Request and response ----

// Makes a message with named properties, each { value, writable, limit }; limit is the most
// characters of a value.
function makeMessage(properties) {
  const state = { isChanged: false };
  const get = (name) => {
    const property = properties[name];
    if (!property) {
      throw new TypeError(`cannot read value '${String(name)}': there is no such property`);
    }
    return property.value;
  };
  const writableProperty = (name) => {
    if (typeof name !== 'string' || !Object.hasOwn(properties, name)) {
      throw badRequest(`Cannot set new values: ${String(name)}`);
    }
    if (!properties[name].writable) {
      throw new ScriptError(403, `Not a writable property: ${name}`);
    }
    return properties[name];
  };
  const put = (verb, name, value) => {
    const property = writableProperty(name);
    const text = typeof value === 'string' ? value : stringify(value);
    if (text !== undefined && text.length > property.limit) {
      throw new ScriptError(413,
        `Cannot ${verb}${name} because the resulting message would be too large. Return from `
        + 'script with current message and use continuation token to call the script again.');
    }
    property.value = value;
    state.isChanged = true;
  };
  const append = (name, value) => {
    const current = writableProperty(name).value;
    put('append', name, current === undefined || current === null ? value : current + value);
  };
  const message = {
    getValue(name) { return get(name); },
    setValue(name, value) { put('set', name, value); },
    appendValue(name, value) { append(name, value); },
  };
  // Each property has functions of its own too, such as getBody, setBody and appendBody.
  for (const name of Object.keys(properties)) {
    message['get' + name] = function () { return get(name); };
    if (properties[name].writable) {
      message['set' + name] = function (value) { put('set', name, value); };
      message['append' + name] = function (value) { append(name, value); };
    }
  }
  return { message, append, state, properties };
}

const readOnly = (value) => ({ value, writable: false, limit: 0 });
const responseBody = (value) => ({ value, writable: true, limit: RESPONSE_CHARS_MAX });

function parseBody(text) {
  if (text === undefined || text === '') return null;
  return parse(text);
}

// Makes the request and the response of the job. A pre-trigger has no response.
function makeMessages() {
  const quota = {
    ResourceQuotaCurrentUsage: readOnly(job.quotaCurrent),
    MaxResourceQuota: readOnly(job.quotaMaximum),
  };
  if (job.kind === 'procedure') {
    request = makeMessage({ Body: readOnly(job.request) });
    response = makeMessage({ Body: responseBody(''), ...quota });
    return;
  }
  const isPre = job.kind === 'pre';
  request = makeMessage({
    Body: { value: parseBody(job.request), writable: isPre, limit: REQUEST_CHARS_MAX },
    OperationType: readOnly(job.operation),
  });
  if (!isPre) {
    response = makeMessage({ Body: responseBody(parseBody(job.response)), ...quota });
  }
}

// ---- console ----

const logLines = [];
let logChars = 0;

function formatValue(value) {
  if (typeof value === 'string') return value;
  if (value instanceof NativeError) return `${value.name}: ${value.message}`;
  const text = isObject(value) ? stringify(value) : undefined;
  return text === undefined ? String(value) : text;
}

const formats = {
  s: formatValue,
  d: (value) => String(Number(value)),
  i: (value) => String(parseInt(value, 10)),
  f: (value) => String(parseFloat(value)),
  j: (value) => String(stringify(value)),
  o: formatValue,
  O: formatValue,
};

function log(...values) {
  if (!job.logging || logChars > LOG_BYTES_MAX) return;
  let text = '';
  if (typeof values[0] === 'string') {
    // The first value is a format, which takes some of the others.
    let next = 1;
    text = values[0].replace(/%([sdifjoO%])/g, (whole, format) => {
      if (format === '%') return next > 1 || values.length > 1 ? '%' : whole;
      return next < values.length ? formats[format](values[next++]) : whole;
    });
    values = values.slice(next);
    if (values.length > 0) text += ' ';
  }
  text = (text + values.map(formatValue).join(' ')).slice(0, LOG_BYTES_MAX).toWellFormed();
  logLines.push(text);
  logChars += text.length + 1;
}

// Returns the longest beginning of the log whose percent-encoded form fits into a header.
function logText() {
  const text = logLines.join('\n');
  const encodedLength = (length) =>
    encodeURIComponent(text.slice(0, length).toWellFormed()).length;
  if (encodedLength(text.length) <= LOG_BYTES_MAX) return text;
  // A beginning of `low` characters fits, one of `high` does not.
  let low = 0, high = text.length;
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (encodedLength(middle) <= LOG_BYTES_MAX) low = middle; else high = middle;
  }
  return text.slice(0, low).toWellFormed();
}

// ---- Arguments ----

function badArguments(message) {
  const error = badRequest(message);
  errorKinds.set(error, 'arguments');
  return error;
}

// Returns the arguments in the request body of a procedure, read as Function.prototype.apply reads
// its second parameter.
function procedureArguments(text) {
  if (text.trim() === '') return [];
  let value;
  try {
    value = parse(text);
  } catch (error) {
    throw badArguments(`the request body is not JSON: ${error.message}`);
  }
  if (value === null) return [];
  if (typeof value !== 'object') {
    throw badArguments('the request body must be an array, an array-like object or null');
  }
  const length = Math.trunc(Number(value.length));
  if (!(length > 0)) return [];
  if (length > ARGUMENTS_MAX) throw badArguments(`${length} arguments are too many`);
  return Array.from({ length }, (_, i) => Object.hasOwn(value, i) ? value[i] : undefined);
}
