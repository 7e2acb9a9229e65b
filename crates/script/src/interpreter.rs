//! QuickJS with the prelude: one runtime, used for one job, then thrown away.
//!
//! A new runtime per job costs little more than a new context on an old one, and leaves no job queue, no symbol
//! registry and no half-broken heap behind for the next script. The prelude is compiled once per process: reading its
//! text anew each time would take several times as long as a whole execution.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::module::WriteOptions;
use rquickjs::{Context, Ctx, Function, Module, Object, Persistent, Runtime, Value};

use crate::error::ScriptError;
use crate::native;
use crate::serve::Channel;
use crate::wire::{FromHost, Job, Limits, Role};

/// The service's server-side API in JavaScript: a module whose one export, given the native object, answers the entries
/// that [`Interpreter`] drives.
const PRELUDE: &str = concat!(
    "export default function (native) {\n",
    include_str!("prelude/language.js"),
    include_str!("prelude/collection.js"),
    include_str!("prelude/chain.js"),
    include_str!("prelude/messages.js"),
    include_str!("prelude/entry.js"),
    "}\n"
);
/// Names the prelude in stack traces, from which its frames are taken out.
const PRELUDE_NAME: &str = "orrery:prelude";

/// What scripts may use. Left out: `performance` (a clock), `WeakRef` (shows the collector), `DOMException`.
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

/// Time and work of the current job.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    started: Cell<Instant>,
    ticks: Cell<u64>,
    interrupted: Cell<bool>,
}

impl Meter {
    fn begin(&self) {
        self.started.set(Instant::now());
        self.ticks.set(0);
    }

    /// Counts a tick; true once the time is over.
    fn tick(&self) -> bool {
        self.ticks.set(self.ticks.get() + 1);
        let over = self.started.get().elapsed() >= Duration::from_millis(self.limits.time_ms);
        if over {
            self.interrupted.set(true);
        }
        over
    }

    /// Ticks since the job began.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.get()
    }

    /// Whether there is time for new work.
    pub(crate) fn accepts(&self) -> bool {
        self.started.get().elapsed() < Duration::from_millis(self.limits.accept_ms)
    }
}

type Slot = Rc<RefCell<Option<Persistent<Function<'static>>>>>;

/// Makes interpreters, all alike.
pub(crate) struct InterpreterFactory {
    limits: Limits,
    channel: Rc<RefCell<Channel>>,
    /// The prelude as bytecode of this very process.
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

    /// A fresh interpreter; `None` if the memory limit does not even hold the prelude.
    pub(crate) fn interpreter(&self) -> Option<Interpreter> {
        let limits = self.limits;
        let runtime = Runtime::new().ok()?;
        runtime.set_memory_limit(usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX));
        runtime.set_max_stack_size(usize::try_from(limits.stack_bytes).unwrap_or(usize::MAX));
        let meter = Rc::new(Meter {
            limits,
            started: Cell::new(Instant::now()),
            ticks: Cell::new(0),
            interrupted: Cell::new(false),
        });
        let context = Context::custom::<Intrinsics>(&runtime).ok()?;
        let (entry, rejection) = context.with(|ctx| load_prelude(&ctx, self, &meter)).ok()?;
        let rejection: Slot = Rc::new(RefCell::new(Some(rejection)));
        let tracked = Rc::clone(&rejection);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |ctx, promise, reason, handled| {
                note_rejection(&ctx, &tracked, promise, reason, handled);
            },
        )));
        let ticking = Rc::clone(&meter);
        runtime.set_interrupt_handler(Some(Box::new(move || ticking.tick())));
        Some(Interpreter {
            entry,
            rejection,
            context,
            runtime,
            meter,
        })
    }
}

/// A runtime with the prelude evaluated. Fields drop in order: values before the context, the context before the rest.
pub(crate) struct Interpreter {
    entry: Persistent<Object<'static>>,
    rejection: Slot,
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
        self.answer(|ctx, entry| {
            install_job(ctx, entry, job)?;
            let main = compile(ctx, &job.id, &job.source)?;
            entry
                .get::<_, Function<'_>>("begin")?
                .call::<_, ()>((main,))?;
            self.drain(ctx, entry)?;
            let ended: Vec<Option<String>> = entry.get::<_, Function<'_>>("finish")?.call(())?;
            let mut ended = ended.into_iter();
            let (body, log) = (ended.next().flatten(), ended.next().flatten());
            Ok(FromHost::Done {
                body,
                log,
                ticks: self.meter.ticks(),
            })
        })
    }

    /// Compiles the functions of a session.
    pub(crate) fn define(&self, sources: &[(String, String)], now_ms: i64, seed: u64) -> FromHost {
        self.answer(|ctx, entry| {
            install(ctx, entry, "function", now_ms, seed, |_| Ok(()))?;
            let define: Function<'_> = entry.get("define")?;
            for (name, source) in sources {
                let function = compile(ctx, name, source)?;
                define.call::<_, ()>((name.as_str(), function))?;
            }
            Ok(FromHost::Ready)
        })
    }

    /// Calls one of them for each row.
    pub(crate) fn call(&self, name: &str, rows: &[Vec<Option<String>>]) -> FromHost {
        self.answer(|ctx, entry| {
            if !entry
                .get::<_, Function<'_>>("has")?
                .call::<_, bool>((name,))?
            {
                return Err(Stop::Verdict(ScriptError::UnknownFunction(name.into())));
            }
            let invoke: Function<'_> = entry.get("invoke")?;
            let mut values = Vec::with_capacity(rows.len());
            for row in rows {
                values.push(invoke.call::<_, Option<String>>((name, row.clone()))?);
                self.run_jobs(ctx)?;
            }
            Ok(FromHost::Values {
                values,
                ticks: self.meter.ticks(),
            })
        })
    }

    /// Runs a piece of work with the clock running and turns whatever stops it into an answer.
    fn answer(
        &self,
        work: impl for<'js> FnOnce(&Ctx<'js>, &Object<'js>) -> Result<FromHost, Stop>,
    ) -> FromHost {
        self.meter.begin();
        self.context.with(|ctx| {
            let Ok(entry) = self.entry.clone().restore(&ctx) else {
                return FromHost::Failed(ScriptError::OutOfMemory);
            };
            let done = work(&ctx, &entry);
            if self.meter.interrupted.get() {
                return FromHost::Failed(ScriptError::TimedOut);
            }
            match done {
                Ok(answer) => answer,
                Err(Stop::Verdict(error)) => FromHost::Failed(error),
                Err(Stop::Engine(error)) => FromHost::Failed(described(&ctx, &entry, &error)),
            }
        })
    }

    /// Runs queued calls and promise reactions until neither is left.
    fn drain(&self, ctx: &Ctx<'_>, entry: &Object<'_>) -> Result<(), Stop> {
        let step: Function<'_> = entry.get("step")?;
        loop {
            self.run_jobs(ctx)?;
            if !step.call::<_, bool>(())? {
                return Ok(());
            }
        }
    }

    fn run_jobs(&self, ctx: &Ctx<'_>) -> Result<(), Stop> {
        let mut left = self.meter.limits.jobs;
        while ctx.execute_pending_job() {
            left = left.saturating_sub(1);
            if left == 0
                || self.meter.interrupted.get()
                || (left.is_multiple_of(256) && self.meter.tick())
            {
                return Err(Stop::Verdict(ScriptError::TimedOut));
            }
        }
        Ok(())
    }
}

/// What ends a piece of work early.
enum Stop {
    /// An exception or a failure of the binding.
    Engine(rquickjs::Error),
    /// A failure that is understood already.
    Verdict(ScriptError),
}

impl From<rquickjs::Error> for Stop {
    fn from(error: rquickjs::Error) -> Self {
        Self::Engine(error)
    }
}

fn load_prelude(
    ctx: &Ctx<'_>,
    factory: &InterpreterFactory,
    meter: &Rc<Meter>,
) -> rquickjs::Result<(Persistent<Object<'static>>, Persistent<Function<'static>>)> {
    let module = load_bytecode(ctx, &factory.prelude)?;
    let (module, _) = module.eval()?;
    let prelude: Function<'_> = module.get("default")?;
    let entry: Object<'_> = prelude.call((native::object(ctx, &factory.channel, meter)?,))?;
    let rejection: Function<'_> = entry.get("rejection")?;
    Ok((
        Persistent::save(ctx, entry),
        Persistent::save(ctx, rejection),
    ))
}

/// Reads a module that [`InterpreterFactory::new`] wrote.
#[allow(
    unsafe_code,
    reason = "bytecode is only ever our own prelude's, written by this process a moment ago"
)]
fn load_bytecode<'js>(ctx: &Ctx<'js>, bytes: &[u8]) -> rquickjs::Result<Module<'js>> {
    // SAFETY: the bytes are what `Module::write` gave for our own source in the same process, kept unchanged in a
    // private field since; no script and no message reaches them. The interpreter copies them.
    unsafe { Module::load(ctx.clone(), bytes) }
}

/// Tells the prelude; if even that fails, memory is short and the job is about to fail for that.
fn note_rejection<'js>(
    ctx: &Ctx<'js>,
    slot: &Slot,
    promise: Value<'js>,
    reason: Value<'js>,
    handled: bool,
) {
    let function = slot.borrow().clone();
    if let Some(Ok(function)) = function.map(|function| function.restore(ctx))
        && function.call::<_, ()>((promise, reason, handled)).is_err()
    {
        let _ = ctx.catch();
    }
}

fn install<'js>(
    ctx: &Ctx<'js>,
    entry: &Object<'js>,
    kind: &str,
    now_ms: i64,
    seed: u64,
    more: impl FnOnce(&Object<'js>) -> rquickjs::Result<()>,
) -> rquickjs::Result<()> {
    let spec = Object::new(ctx.clone())?;
    spec.set("kind", kind)?;
    spec.set("now", now_ms as f64)?;
    spec.set("seedLow", f64::from(seed as u32))?;
    spec.set("seedHigh", f64::from((seed >> 32) as u32))?;
    spec.set("logging", false)?;
    more(&spec)?;
    entry.get::<_, Function<'js>>("install")?.call((spec,))
}

fn install_job<'js>(ctx: &Ctx<'js>, entry: &Object<'js>, job: &Job) -> rquickjs::Result<()> {
    let kind = match &job.role {
        Role::Procedure { .. } => "procedure",
        Role::Trigger { time, .. } => time.word(),
    };
    install(ctx, entry, kind, job.now_ms, job.seed, |spec| {
        spec.set("logging", job.logging)?;
        spec.set("selfLink", job.self_link.as_str())?;
        spec.set("altLink", job.alt_link.as_str())?;
        spec.set("quotaCurrent", job.quota_current.as_str())?;
        spec.set("quotaMaximum", job.quota_maximum.as_str())?;
        match &job.role {
            Role::Procedure { arguments } => spec.set("request", arguments.as_str()),
            Role::Trigger {
                operation,
                request,
                response,
                ..
            } => {
                spec.set("operation", operation.word())?;
                spec.set("request", request.as_deref())?;
                spec.set("response", response.as_deref())
            }
        }
    })
}

/// Makes a function of a source that is one function: a declaration or an expression, with comments around it and
/// semicolons behind. The comma makes an expression of either, on the source's own first line.
fn compile<'js>(ctx: &Ctx<'js>, name: &str, source: &str) -> Result<Function<'js>, Stop> {
    let failed = |message: String| Stop::Verdict(ScriptError::Compile { message });
    let mut options = EvalOptions::default();
    options.filename = Some(format!("{}.js", name.replace('\0', " ")));
    let value: Value<'js> = match ctx.eval_with_options(format!("0,{source}\n"), options) {
        Ok(value) => value,
        Err(rquickjs::Error::Exception) => {
            let thrown = ctx.catch();
            let text = thrown.as_exception().and_then(|exception| {
                let place = exception.stack().unwrap_or_default();
                Some(format!(
                    "SyntaxError: {} {}",
                    exception.message()?,
                    place.trim()
                ))
            });
            return Err(failed(
                text.unwrap_or_else(|| "the source threw while it was read".into()),
            ));
        }
        Err(error) => return Err(failed(error.to_string())),
    };
    value
        .into_function()
        .ok_or_else(|| failed("the source is not a function".into()))
}

/// Asks the prelude what was thrown.
fn described<'js>(ctx: &Ctx<'js>, entry: &Object<'js>, error: &rquickjs::Error) -> ScriptError {
    match error {
        rquickjs::Error::Exception => {}
        rquickjs::Error::Utf8(_) => {
            let message = "a text with half of a surrogate pair".to_string();
            return ScriptError::Thrown {
                number: None,
                message,
                stack: String::new(),
            };
        }
        rquickjs::Error::Allocation => return ScriptError::OutOfMemory,
        other => {
            return ScriptError::Thrown {
                number: None,
                message: other.to_string(),
                stack: String::new(),
            };
        }
    }
    let thrown = ctx.catch();
    match describe(entry, thrown) {
        Ok((verdict, number, message, stack)) => match verdict.as_str() {
            "memory" => ScriptError::OutOfMemory,
            "deep" => ScriptError::TooDeep,
            "arguments" => ScriptError::BadArguments(message),
            "host" => {
                let number = number
                    .and_then(|number| u16::try_from(number).ok())
                    .unwrap_or(500);
                ScriptError::UnhandledHostFailure { number, message }
            }
            _ => ScriptError::Thrown {
                number,
                message,
                stack: own_frames(&stack),
            },
        },
        // The description takes little and catches what the script does; so memory is short.
        Err(_) => ScriptError::OutOfMemory,
    }
}

type Description = (String, Option<i64>, String, String);

fn describe<'js>(entry: &Object<'js>, thrown: Value<'js>) -> rquickjs::Result<Description> {
    let parts: rquickjs::Array<'js> = entry.get::<_, Function<'js>>("describe")?.call((thrown,))?;
    let number: Option<f64> = parts.get(1)?;
    Ok((
        parts.get(0)?,
        number.map(|number| number as i64),
        parts.get(2)?,
        parts.get(3)?,
    ))
}

/// The frames of the script, without those of the prelude and of builtins.
fn own_frames(stack: &str) -> String {
    let frames = stack
        .lines()
        .filter(|line| !line.contains(PRELUDE_NAME) && !line.contains("(native)"));
    frames.map(str::trim).collect::<Vec<_>>().join("\n")
}
