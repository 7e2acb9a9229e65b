// Request, response and console, and how a request body becomes arguments.

// ---- Request and response ----

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

// ---- console ----

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

// ---- Arguments ----

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
