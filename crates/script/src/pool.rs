//! The pool: how many script-host processes there are, who has one, and when one goes.
//!
//! Processes start on demand and are handed round in turn, so that each has time to make its next runtime ready.
//! Functions have places of their own: a procedure's query may call functions while the procedure holds its place,
//! and if both drew from one stock, procedures could wait for each other without end.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::ScriptError;
use crate::process::HostProcess;
use crate::watchdog::Watchdog;
use crate::wire::Limits;

/// How to start a script host: a program whose `main` calls [`serve_script_host`](crate::serve_script_host).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    /// Path of the program.
    pub program: OsString,
    /// Its arguments, such as a hidden sub-command.
    pub arguments: Vec<OsString>,
}

/// Bounds of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    /// What to start.
    pub command: HostCommand,
    /// Procedures and triggers running at once; as many function sessions may run beside them. At least 1.
    pub max_processes: usize,
    /// Milliseconds an execution or a batch of function calls may run.
    pub time_ms: u64,
    /// Milliseconds after which collection functions answer `false`; below `time_ms`.
    pub accept_ms: u64,
    /// Milliseconds beyond `time_ms` after which the process is killed, because the script hangs in a builtin.
    pub grace_ms: u64,
    /// Bytes a script may allocate, the runtime included.
    pub memory_bytes: u64,
    /// Bytes of stack a script may use.
    pub stack_bytes: u64,
    /// Promise reactions an execution may run.
    pub jobs: u64,
}

impl PoolOptions {
    /// The service's bounds: 5 s, of which calls are accepted for 4 s.
    #[must_use]
    pub fn new(command: HostCommand) -> Self {
        let time_ms = orrery_model::limits::REQUEST_TIME_MS;
        Self {
            command,
            max_processes: 2,
            time_ms,
            accept_ms: time_ms / 5 * 4,
            grace_ms: 500,
            memory_bytes: 64 * 1024 * 1024,
            stack_bytes: 1024 * 1024,
            jobs: 1_000_000,
        }
    }
}

/// Which stock a place comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stock {
    Scripts,
    Functions,
}

#[derive(Debug, Default)]
struct State {
    idle: VecDeque<HostProcess>,
    busy_scripts: usize,
    busy_functions: usize,
}

impl State {
    fn busy(&mut self, stock: Stock) -> &mut usize {
        match stock {
            Stock::Scripts => &mut self.busy_scripts,
            Stock::Functions => &mut self.busy_functions,
        }
    }
}

/// A small pool of script-host processes.
#[derive(Debug)]
pub struct ScriptPool {
    options: PoolOptions,
    state: Mutex<State>,
    freed: Condvar,
    watchdog: Watchdog,
}

impl ScriptPool {
    /// A pool without processes yet; the first call starts the first.
    #[must_use]
    pub fn new(options: PoolOptions) -> Self {
        Self {
            options,
            state: Mutex::default(),
            freed: Condvar::new(),
            watchdog: Watchdog::default(),
        }
    }

    /// Processes that exist now, idle or busy.
    #[must_use]
    pub fn processes(&self) -> usize {
        let state = self.lock();
        state.idle.len() + state.busy_scripts + state.busy_functions
    }

    pub(crate) fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// The moment at which a process that starts working now is killed.
    pub(crate) fn hard_deadline(&self) -> Instant {
        Instant::now()
            + Duration::from_millis(self.options.time_ms.saturating_add(self.options.grace_ms))
    }

    /// Waits for a place, then takes an idle process or starts one.
    pub(crate) fn lease(&self, stock: Stock, deadline: Instant) -> Result<Lease<'_>, ScriptError> {
        let mut state = self.lock();
        while *state.busy(stock) >= self.options.max_processes.max(1) {
            let wait = deadline.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Err(ScriptError::Busy);
            }
            (state, _) = self
                .freed
                .wait_timeout(state, wait)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *state.busy(stock) += 1;
        let process = state.idle.pop_front();
        drop(state);
        // From here on, dropping the lease gives the place back, also when starting fails.
        let mut lease = Lease {
            pool: self,
            stock,
            process,
            healthy: false,
        };
        if lease.process.is_none() {
            lease.process = Some(HostProcess::start(&self.options.command, self.limits())?);
        }
        Ok(lease)
    }

    fn limits(&self) -> Limits {
        Limits {
            time_ms: self.options.time_ms,
            accept_ms: self.options.accept_ms,
            memory_bytes: self.options.memory_bytes,
            stack_bytes: self.options.stack_bytes,
            jobs: self.options.jobs,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process for the time of one execution or session.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    pub(crate) pool: &'a ScriptPool,
    stock: Stock,
    process: Option<HostProcess>,
    /// Whether the process waits for its next message; only then it goes back to the pool.
    healthy: bool,
}

impl Lease<'_> {
    /// The process.
    pub(crate) fn process(&mut self) -> Result<&mut HostProcess, ScriptError> {
        self.process
            .as_mut()
            .ok_or_else(|| ScriptError::HostNotStarted("it was given up".into()))
    }

    /// Says whether the process waits for its next message.
    pub(crate) fn set_healthy(&mut self, healthy: bool) {
        self.healthy = healthy;
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let process = self.process.take();
        let mut state = self.pool.lock();
        *state.busy(self.stock) -= 1;
        let mut given_up = None;
        match process {
            Some(mut process) if self.healthy => {
                process.served = true;
                state.idle.push_back(process);
            }
            other => given_up = other,
        }
        drop(state);
        self.pool.freed.notify_all();
        // Ending a process waits for it: not under the lock.
        drop(given_up);
    }
}
