// Puts the parts in place and answers what the interpreter drives.

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
