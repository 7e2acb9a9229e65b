//! QuickJS with the prelude: one runtime, used for one job, then dropped.
//!
//! A new runtime per job costs little more than a new context on an old one, and leaves no job
//! queue, no symbol registry and no half-broken heap behind for the next script. The prelude is
//! compiled once per process: parsing its text for each job would take several times as long as a
//! whole execution.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::module::WriteOptions;
use rquickjs::{Context, Ctx, Function, Module, Object, Persistent, Runtime, Value};

use crate::channel::Channel;
use crate::error::ScriptError;
use crate::meter::Meter;
use crate::native;
use crate::wire::{FromHost, Job, Limits, Role};

/// The service's server-side API in JavaScript. It is a module with one export: a function that
/// takes the native object and returns the entry functions that [`Interpreter`] calls.
const PRELUDE: &str = concat!(
    "export default function (native) {\n",
    include_str!("prelude/language.js"),
    include_str!("prelude/collection.js"),
    include_str!("prelude/chain.js"),
    include_str!("prelude/messages.js"),
    include_str!("prelude/entry.js"),
    "}\n"
);
/// The prelude's file name in stack traces. Its frames are removed from the traces of scripts.
const PRELUDE_NAME: &str = "orrery:prelude";

/// The builtins that scripts may use. Left out: `performance` (a clock), `WeakRef` (shows the
/// garbage collector), `DOMException`.
type Intrinsics = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

/// The prelude's function that is told of rejected promises, shared with the runtime's tracker.
type RejectionCallback = Rc<RefCell<Option<Persistent<Function<'static>>>>>;

/// Creates interpreters, all alike.
pub(crate) struct InterpreterFactory {
    limits: Limits,
    channel: Rc<RefCell<Channel>>,
    /// The prelude as bytecode, compiled by this process.
    prelude: Vec<u8>,
}

impl InterpreterFactory {
    /// Compiles the prelude.
    pub(crate) fn new(limits: Limits, channel: Rc<RefCell<Channel>>) -> rquickjs::Result<Self> {
        let context = Context::full(&Runtime::new()?)?;
        let prelude = context.with(|ctx| {
            Module::declare(ctx, PRELUDE_NAME, PRELUDE)?.write(WriteOptions::default())
        })?;
        Ok(Self {
            limits,
            channel,
            prelude,
        })
    }

    /// Creates an interpreter. Returns `None` if the memory limit is too small for the prelude.
    pub(crate) fn interpreter(&self) -> Option<Interpreter> {
        let limits = self.limits;
        let runtime = Runtime::new().ok()?;
        runtime.set_memory_limit(usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX));
        runtime.set_max_stack_size(usize::try_from(limits.stack_bytes).unwrap_or(usize::MAX));
        let meter = Rc::new(Meter::new(limits));
        let context = Context::custom::<Intrinsics>(&runtime).ok()?;
        let (entry, rejection) = context.with(|ctx| load_prelude(&ctx, self, &meter)).ok()?;
        // The tracker and the interrupt handler are set after the prelude is loaded: only the work
        // of scripts is tracked and counted.
        let rejection: RejectionCallback = Rc::new(RefCell::new(Some(rejection)));
        let tracker_callback = Rc::clone(&rejection);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |ctx, promise, reason, is_handled| {
                track_rejection(&ctx, &tracker_callback, promise, reason, is_handled);
            },
        )));
        let handler_meter = Rc::clone(&meter);
        runtime.set_interrupt_handler(Some(Box::new(move || handler_meter.tick())));
        Some(Interpreter {
            entry,
            rejection,
            context,
            runtime,
            meter,
        })
    }
}

/// A runtime with the prelude evaluated.
///
/// The order of the fields is the order of their drop: values before the context, the context
/// before the runtime.
pub(crate) struct Interpreter {
    /// The prelude's entry functions.
    entry: Persistent<Object<'static>>,
    rejection: RejectionCallback,
    context: Context,
    runtime: Runtime,
    meter: Rc<Meter>,
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.runtime.set_host_promise_rejection_tracker(None);
        self.rejection.borrow_mut().take();
    }
}

impl Interpreter {
    /// Runs a procedure or trigger to its end.
    pub(crate) fn run(&self, job: &Job) -> FromHost {
        self.run_timed(|ctx, entry| {
            install_job(ctx, entry, job)?;
            let main = compile(ctx, &job.id, &job.source)?;
            let begin: Function<'_> = entry.get("begin")?;
            begin.call::<_, ()>((main,))?;
            self.run_queue(ctx, entry)?;
            let finish: Function<'_> = entry.get("finish")?;
            let results: Vec<Option<String>> = finish.call(())?;
            let mut results = results.into_iter();
            let (body, log) = (results.next().flatten(), results.next().flatten());
            Ok(FromHost::Done {
                body,
                log,
                ticks: self.meter.ticks(),
            })
        })
    }

    /// Compiles the functions (name, source) of a session.
    pub(crate) fn define_functions(
        &self,
        sources: &[(String, String)],
        now_ms: i64,
        seed: u64,
    ) -> FromHost {
        self.run_timed(|ctx, entry| {
            let spec = job_spec(ctx, "function", now_ms, seed)?;
            install(entry, spec)?;
            let define: Function<'_> = entry.get("defineFunction")?;
            for (name, source) in sources {
                let function = compile(ctx, name, source)?;
                define.call::<_, ()>((name.as_str(), function))?;
            }
            Ok(FromHost::Ready)
        })
    }

    /// Calls a function of the session once for each row.
    pub(crate) fn call_function(&self, name: &str, rows: &[Vec<Option<String>>]) -> FromHost {
        self.run_timed(|ctx, entry| {
            let has_function: Function<'_> = entry.get("hasFunction")?;
            if !has_function.call::<_, bool>((name,))? {
                return Err(Failure::Script(ScriptError::UnknownFunction(name.into())));
            }
            let call: Function<'_> = entry.get("callFunction")?;
            let mut values = Vec::with_capacity(rows.len());
            for row in rows {
                values.push(call.call::<_, Option<String>>((name, row.clone()))?);
                self.run_promise_jobs(ctx)?;
            }
            Ok(FromHost::Values {
                values,
                ticks: self.meter.ticks(),
            })
        })
    }

    /// Runs a piece of work with the time running, and turns its failure into an answer.
    fn run_timed(
        &self,
        work: impl for<'js> FnOnce(&Ctx<'js>, &Object<'js>) -> Result<FromHost, Failure>,
    ) -> FromHost {
        self.meter.start();
        self.context.with(|ctx| {
            let Ok(entry) = self.entry.clone().restore(&ctx) else {
                return FromHost::Failed(ScriptError::OutOfMemory);
            };
            let result = work(&ctx, &entry);
            // After an interrupt the answer is a timeout, whatever the work returned.
            if self.meter.is_interrupted() {
                return FromHost::Failed(ScriptError::TimedOut);
            }
            match result {
                Ok(answer) => answer,
                Err(Failure::Script(error)) => FromHost::Failed(error),
                Err(Failure::Engine(error)) => FromHost::Failed(script_error(&ctx, &entry, &error)),
            }
        })
    }

    /// Runs queued operations and promise reactions until neither is left.
    fn run_queue(&self, ctx: &Ctx<'_>, entry: &Object<'_>) -> Result<(), Failure> {
        let run_next: Function<'_> = entry.get("runNext")?;
        loop {
            self.run_promise_jobs(ctx)?;
            if !run_next.call::<_, bool>(())? {
                return Ok(());
            }
        }
    }

    /// Runs promise reactions until none is left, up to their limit.
    fn run_promise_jobs(&self, ctx: &Ctx<'_>) -> Result<(), Failure> {
        let mut jobs_left = self.meter.job_limit();
        while ctx.execute_pending_job() {
            jobs_left = jobs_left.saturating_sub(1);
            // Short reactions may not poll the interrupt handler, so the time is checked here too.
            let is_over = jobs_left == 0
                || self.meter.is_interrupted()
                || (jobs_left.is_multiple_of(256) && self.meter.tick());
            if is_over {
                return Err(Failure::Script(ScriptError::TimedOut));
            }
        }
        Ok(())
    }
}

/// The early end of a piece of work.
enum Failure {
    /// A JavaScript exception, or a failure of the binding.
    Engine(rquickjs::Error),
    /// A failure with its meaning for the script.
    Script(ScriptError),
}

impl From<rquickjs::Error> for Failure {
    fn from(error: rquickjs::Error) -> Self {
        Self::Engine(error)
    }
}

/// Evaluates the prelude. Returns its entry functions and its callback for rejected promises.
fn load_prelude(
    ctx: &Ctx<'_>,
    factory: &InterpreterFactory,
    meter: &Rc<Meter>,
) -> rquickjs::Result<(Persistent<Object<'static>>, Persistent<Function<'static>>)> {
    let module = load_bytecode(ctx, &factory.prelude)?;
    let (module, _) = module.eval()?;
    let prelude: Function<'_> = module.get("default")?;
    let native = native::native_object(ctx, &factory.channel, meter)?;
    let entry: Object<'_> = prelude.call((native,))?;
    let rejection: Function<'_> = entry.get("trackRejection")?;
    Ok((
        Persistent::save(ctx, entry),
        Persistent::save(ctx, rejection),
    ))
}

/// Reads a module that [`InterpreterFactory::new`] wrote.
#[allow(
    unsafe_code,
    reason = "the bytecode is always that of our own prelude, written by this process"
)]
fn load_bytecode<'js>(ctx: &Ctx<'js>, bytes: &[u8]) -> rquickjs::Result<Module<'js>> {
    // SAFETY: the bytes are what `Module::write` gave for our own source in the same process, kept
    // unchanged in a private field since; no script and no message reaches them. The interpreter
    // copies them.
    unsafe { Module::load(ctx.clone(), bytes) }
}

/// Tells the prelude of a rejected promise. If that call fails, memory is short and the job is
/// about to fail for that reason.
fn track_rejection<'js>(
    ctx: &Ctx<'js>,
    callback: &RejectionCallback,
    promise: Value<'js>,
    reason: Value<'js>,
    is_handled: bool,
) {
    let function = callback.borrow().clone();
    if let Some(Ok(function)) = function.map(|function| function.restore(ctx))
        && function
            .call::<_, ()>((promise, reason, is_handled))
            .is_err()
    {
        let _ = ctx.catch();
    }
}

/// Creates the object that describes a job of any kind to the prelude.
fn job_spec<'js>(
    ctx: &Ctx<'js>,
    kind: &str,
    now_ms: i64,
    seed: u64,
) -> rquickjs::Result<Object<'js>> {
    let spec = Object::new(ctx.clone())?;
    spec.set("kind", kind)?;
    spec.set("now", now_ms as f64)?;
    spec.set("seedLow", f64::from(seed as u32))?;
    spec.set("seedHigh", f64::from((seed >> 32) as u32))?;
    spec.set("logging", false)?;
    Ok(spec)
}

/// Installs a job in the prelude.
fn install<'js>(entry: &Object<'js>, spec: Object<'js>) -> rquickjs::Result<()> {
    entry.get::<_, Function<'js>>("install")?.call((spec,))
}

/// Installs a procedure or trigger in the prelude.
fn install_job<'js>(ctx: &Ctx<'js>, entry: &Object<'js>, job: &Job) -> rquickjs::Result<()> {
    let kind = match &job.role {
        Role::Procedure { .. } => "procedure",
        Role::Trigger { time, .. } => time.name(),
    };
    let spec = job_spec(ctx, kind, job.now_ms, job.seed)?;
    spec.set("logging", job.logging)?;
    spec.set("selfLink", job.self_link.as_str())?;
    spec.set("altLink", job.alt_link.as_str())?;
    spec.set("quotaCurrent", job.quota_current.as_str())?;
    spec.set("quotaMaximum", job.quota_maximum.as_str())?;
    match &job.role {
        Role::Procedure { arguments } => spec.set("request", arguments.as_str())?,
        Role::Trigger {
            operation,
            request,
            response,
            ..
        } => {
            spec.set("operation", operation.name())?;
            spec.set("request", request.as_deref())?;
            spec.set("response", response.as_deref())?;
        }
    }
    install(entry, spec)
}

/// Compiles a source that is one function: a declaration or an expression, with comments around it
/// and semicolons behind. The prefix `0,` makes an expression of either form, on the source's own
/// first line.
///
/// As in the service, the mode is the sloppy one: an assignment to an unknown name makes a global,
/// and `with` and octal literals are allowed. A source may ask for strict mode itself.
fn compile<'js>(ctx: &Ctx<'js>, name: &str, source: &str) -> Result<Function<'js>, Failure> {
    let failed = |message: String| Failure::Script(ScriptError::Compile { message });
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(format!("{}.js", name.replace('\0', " ")));
    let value: Value<'js> = match ctx.eval_with_options(format!("0,{source}\n"), options) {
        Ok(value) => value,
        Err(rquickjs::Error::Exception) => {
            let message = syntax_error(&ctx.catch());
            return Err(failed(
                message.unwrap_or_else(|| "the source threw while it was read".into()),
            ));
        }
        Err(error) => return Err(failed(error.to_string())),
    };
    value.into_function().ok_or_else(|| {
        failed(
            "the source is not a function: write the body as function (a, b) { … }, without \
                 text before or behind it"
                .into(),
        )
    })
}

/// Returns the message of an exception of the parser, with the position; `None` if the thrown value
/// is no exception with a message.
fn syntax_error(thrown: &Value<'_>) -> Option<String> {
    let exception = thrown.as_exception()?;
    let message = exception.message()?;
    let position = exception.stack().unwrap_or_default();
    Some(format!("SyntaxError: {message} {}", position.trim()))
}

/// Turns a failure of the engine into the error of the script. The prelude describes exceptions.
fn script_error<'js>(ctx: &Ctx<'js>, entry: &Object<'js>, error: &rquickjs::Error) -> ScriptError {
    let thrown_message = |message: String| ScriptError::Thrown {
        number: None,
        message,
        stack: String::new(),
    };
    match error {
        rquickjs::Error::Exception => {}
        rquickjs::Error::Utf8(_) => {
            return thrown_message("a text with half of a surrogate pair".into());
        }
        rquickjs::Error::Allocation => return ScriptError::OutOfMemory,
        other => return thrown_message(other.to_string()),
    }
    let thrown = ctx.catch();
    // The description takes little memory and catches what the script's getters throw, so it fails
    // only if memory is short.
    let Ok(description) = describe(entry, thrown) else {
        return ScriptError::OutOfMemory;
    };
    let Description {
        kind,
        number,
        message,
        stack,
    } = description;
    match kind.as_str() {
        "memory" => ScriptError::OutOfMemory,
        "deep" => ScriptError::TooDeep,
        "arguments" => ScriptError::BadArguments(message),
        "host" => {
            let number = number.and_then(|number| u16::try_from(number).ok());
            ScriptError::UnhandledHostFailure {
                number: number.unwrap_or(500),
                message,
            }
        }
        _ => ScriptError::Thrown {
            number,
            message,
            stack: script_frames(&stack),
        },
    }
}

/// The prelude's description of a thrown value.
struct Description {
    /// `thrown`, or one of the kinds that mean more.
    kind: String,
    number: Option<i64>,
    message: String,
    stack: String,
}

/// Asks the prelude for the description of a thrown value.
fn describe<'js>(entry: &Object<'js>, thrown: Value<'js>) -> rquickjs::Result<Description> {
    let parts: rquickjs::Array<'js> = entry.get::<_, Function<'js>>("describe")?.call((thrown,))?;
    let number: Option<f64> = parts.get(1)?;
    Ok(Description {
        kind: parts.get(0)?,
        number: number.map(|number| number as i64),
        message: parts.get(2)?,
        stack: parts.get(3)?,
    })
}

/// Returns the frames of the script, without the frames of the prelude and of builtins.
fn script_frames(stack: &str) -> String {
    let mut frames = Vec::new();
    for line in stack.lines() {
        if !line.contains(PRELUDE_NAME) && !line.contains("(native)") {
            frames.push(line.trim());
        }
    }
    frames.join("\n")
}
