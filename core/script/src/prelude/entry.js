// Installs the changed builtins, and returns the entry functions that `interpreter.rs` calls.

// Rejected promises without a handler, with their reasons.
const rejections = new Map();
// The user-defined functions of a session, by name.
const functions = new Map();

replaceConstructor('Error', ScriptError, NativeError);
for (const name of [
  'TypeError', 'RangeError', 'SyntaxError', 'ReferenceError', 'EvalError', 'URIError',
  'AggregateError', 'InternalError',
]) {
  if (typeof globalThis[name] === 'function') {
    Object.setPrototypeOf(globalThis[name], ScriptError);
  }
}
replaceConstructor('Date', ScriptDate, NativeDate);
hide(Math, 'random', function random() {
  return (randomNumber() * 2097152 + (randomNumber() >>> 11)) / 9007199254740992;
});
// Clocks, shared memory and views of the garbage collector would let a run differ from its repeat.
for (const name of [
  'SharedArrayBuffer', 'Atomics', 'WeakRef', 'FinalizationRegistry', 'performance', 'navigator',
]) {
  delete globalThis[name];
}
hide(globalThis, 'console', {
  log, info: log, warn: log, warning: log, error: log, debug: log,
});

return {
  // Sets the job and makes the objects that its script may use. Called once.
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
  // Calls the main function of a procedure or trigger.
  begin(main) {
    const values = job.kind === 'procedure' ? procedureArguments(job.request) : [];
    main.apply(undefined, values);
  },
  // Runs the next piece of queued work. Returns false if there is none.
  runNext() {
    if (queue.length === 0) return false;
    queue.shift()();
    return true;
  },
  // Returns [body or undefined, log or undefined]. Throws the reason of a rejected promise that no
  // handler took.
  finish() {
    for (const reason of rejections.values()) throw reason;
    const message = job.kind === 'pre' ? request : response;
    let body;
    if (job.kind === 'procedure' || message.state.isChanged) {
      const value = message.properties.Body.value;
      body = stringify(value);
      if (body === undefined) body = job.kind === 'procedure' ? '""' : 'null';
    }
    return [body, job.logging ? logText() : undefined];
  },
  // Adds a function to the session.
  defineFunction(name, value) { functions.set(name, value); },
  hasFunction(name) { return functions.has(name); },
  // Calls a function with arguments as JSON texts. Returns the result as JSON text. The globals
  // that the function makes, which are the only enumerable ones, end with the call, so that the
  // next row does not see them.
  callFunction(name, texts) {
    const toValue = (text) => text === undefined || text === null ? undefined : parse(text);
    try {
      const result = functions.get(name).apply(undefined, texts.map(toValue));
      return result === undefined ? undefined : stringify(result);
    } finally {
      for (const global of keys(globalThis)) delete globalThis[global];
    }
  },
  // Describes a thrown value as [kind, number or undefined, message, stack]. The kind is 'thrown',
  // 'host' (an operation without a callback failed), 'arguments', 'memory' or 'deep'.
  describe(thrown) {
    const TEXT_CHARS_MAX = 65536;
    try {
      if (!isObject(thrown) && typeof thrown !== 'function') {
        return ['thrown', undefined, String(thrown).toWellFormed(), ''];
      }
      const isError = thrown instanceof NativeError;
      let kind = errorKinds.get(thrown) || 'thrown';
      const shown = isError || thrown.message !== undefined ? thrown.message : stringify(thrown);
      const message = String(shown);
      if (isError && thrown.name === 'InternalError' && message.startsWith('out of memory')) {
        kind = 'memory';
      }
      if (isError && message.startsWith('Maximum call stack size exceeded')) kind = 'deep';
      const text = kind === 'thrown' && isError ? `${thrown.name}: ${message}` : message;
      const number = Number.isSafeInteger(thrown.number) ? thrown.number : undefined;
      const stack = String(thrown.stack ?? '');
      return [
        kind, number, text.slice(0, TEXT_CHARS_MAX).toWellFormed(),
        stack.slice(0, TEXT_CHARS_MAX).toWellFormed(),
      ];
    } catch {
      return ['thrown', undefined, 'an exception that cannot be shown', ''];
    }
  },
  // Keeps track of rejected promises without a handler.
  trackRejection(promise, reason, isHandled) {
    if (isHandled) rejections.delete(promise); else rejections.set(promise, reason);
  },
};
