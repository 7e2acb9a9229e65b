//! The pool of script-host processes: it bounds their number, hands them out, and keeps the idle
//! ones.
//!
//! Processes start on demand and are used in turn, so that each has time to create its next
//! runtime. Function sessions are counted apart from scripts: a procedure's query may call
//! functions while the procedure holds its process, and if both were counted together, procedures
//! could wait for each other without end.
//!
//! A request with a [`Ticket`] was admitted by a caller that bounds such requests to
//! [`PoolOptions::max_processes`] together, so it finds a process. Only a second process, for the
//! functions of a procedure's query, may be refused: [`ScriptPool::max_nested`] of them run at
//! once.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use orrery_model::sync;

use crate::error::ScriptError;
use crate::process::{HostCommand, HostProcess};
use crate::ticket::Ticket;
use crate::watchdog::Watchdog;
use crate::wire::Limits;

/// Processes that wait for work. After a rush the others end.
const MAX_IDLE: usize = 8;

/// Options and bounds of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    /// The command that starts a process.
    pub command: HostCommand,
    /// Procedures and triggers that run at once; as many function sessions may run beside them. At
    /// least 1. Requests with tickets run as many of both together, and a quarter more of sessions
    /// within procedures.
    pub max_processes: usize,
    /// Milliseconds that an execution or a batch of function calls may run.
    pub time_ms: u64,
    /// Milliseconds after which collection functions answer `false`; below `time_ms`.
    pub accept_ms: u64,
    /// Milliseconds beyond `time_ms` after which the process is killed, because the script hangs in
    /// a builtin.
    pub grace_ms: u64,
    /// Bytes that a script may allocate, the runtime included.
    pub memory_bytes: u64,
    /// Bytes of stack that a script may use.
    pub stack_bytes: u64,
    /// Promise reactions that an execution may run.
    pub jobs: u64,
}

impl PoolOptions {
    /// Returns the service's bounds: 5 s, of which calls are accepted for 4 s.
    #[must_use]
    pub fn new(command: HostCommand) -> Self {
        let time_ms = orrery_model::limits::REQUEST_TIME_MS;
        Self {
            command,
            max_processes: 8,
            time_ms,
            accept_ms: time_ms / 5 * 4,
            grace_ms: 500,
            memory_bytes: 64 * 1024 * 1024,
            stack_bytes: 1024 * 1024,
            jobs: 1_000_000,
        }
    }
}

/// The use of a process. Each kind of use has a limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessUse {
    /// A procedure or a trigger.
    Script,
    /// A session of user-defined functions.
    Functions,
    /// A session of user-defined functions, for a request that uses a process already.
    Nested,
}

#[derive(Debug, Default)]
struct State {
    idle: VecDeque<HostProcess>,
    busy_scripts: usize,
    busy_functions: usize,
    busy_nested: usize,
}

impl State {
    /// Returns the number of processes in this use.
    fn busy(&mut self, usage: ProcessUse) -> &mut usize {
        match usage {
            ProcessUse::Script => &mut self.busy_scripts,
            ProcessUse::Functions => &mut self.busy_functions,
            ProcessUse::Nested => &mut self.busy_nested,
        }
    }
}

/// A small pool of script-host processes.
#[derive(Debug)]
pub struct ScriptPool {
    options: PoolOptions,
    state: Mutex<State>,
    /// Notified when a process is given back.
    freed: Condvar,
    watchdog: Watchdog,
}

impl ScriptPool {
    /// Creates a pool without processes; the first call starts the first process.
    #[must_use]
    pub fn new(options: PoolOptions) -> Self {
        Self {
            options,
            state: Mutex::default(),
            freed: Condvar::new(),
            watchdog: Watchdog::default(),
        }
    }

    /// Returns the options and bounds of the pool.
    #[must_use]
    pub fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// Returns the number of processes that exist now, idle or busy.
    #[must_use]
    pub fn processes(&self) -> usize {
        let state = self.lock();
        state.idle.len() + state.busy_scripts + state.busy_functions + state.busy_nested
    }

    /// Returns the number of requests with tickets that may run at once.
    #[must_use]
    pub fn max_requests(&self) -> usize {
        self.options.max_processes.max(1)
    }

    /// Returns the number of function sessions that may run within procedures.
    #[must_use]
    pub fn max_nested(&self) -> usize {
        (self.options.max_processes / 4).max(1)
    }

    pub(crate) fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// Returns the moment at which a process that starts to work now is killed.
    pub(crate) fn hard_deadline(&self) -> Instant {
        let budget_ms = self.options.time_ms.saturating_add(self.options.grace_ms);
        Instant::now() + Duration::from_millis(budget_ms)
    }

    /// Waits until the limit of this use permits another process, then takes an idle process or
    /// starts one.
    ///
    /// # Errors
    /// [`ScriptError::Busy`] at the deadline, or at once for a second process of a request;
    /// [`ScriptError::HostNotStarted`] if no process can be started; [`ScriptError::Evicted`] if
    /// the request was ended.
    pub(crate) fn lease(
        &self,
        usage: ProcessUse,
        deadline: Instant,
    ) -> Result<Lease<'_>, ScriptError> {
        let ticket = Ticket::current();
        let is_nested = ticket.as_ref().is_some_and(Ticket::has_process);
        let (usage, limit) = match is_nested {
            true => (ProcessUse::Nested, self.max_nested()),
            false => (usage, self.max_requests()),
        };
        let mut state = self.lock();
        while *state.busy(usage) >= limit {
            let wait = deadline.saturating_duration_since(Instant::now());
            // A request that waited with a process in its hands could wait for itself.
            if is_nested || wait.is_zero() {
                return Err(ScriptError::Busy);
            }
            state = sync::wait_timeout(&self.freed, state, wait);
        }
        *state.busy(usage) += 1;
        let process = state.idle.pop_front();
        drop(state);
        // From here on dropping the lease takes the process off the count, also when the start of
        // one fails.
        let mut lease = Lease {
            pool: self,
            usage,
            process,
            ticket: None,
            is_reusable: false,
        };
        if lease.process.is_none() {
            lease.process = Some(HostProcess::start(&self.options.command, self.limits())?);
        }
        if let Some(ticket) = ticket {
            ticket.attach(lease.process()?.child())?;
            lease.ticket = Some(ticket);
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
        sync::lock(&self.state)
    }
}

/// A process for the time of one execution or session.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    pub(crate) pool: &'a ScriptPool,
    usage: ProcessUse,
    process: Option<HostProcess>,
    /// The ticket of the request that uses the process.
    ticket: Option<Ticket>,
    /// The process waits for its next message. Only such a process goes back to the pool.
    is_reusable: bool,
}

impl Lease<'_> {
    /// Returns the process.
    pub(crate) fn process(&mut self) -> Result<&mut HostProcess, ScriptError> {
        self.process
            .as_mut()
            .ok_or_else(|| ScriptError::HostNotStarted("it was given up".into()))
    }

    /// Records that the process waits for its next message, or that it does not.
    pub(crate) fn set_reusable(&mut self, is_reusable: bool) {
        self.is_reusable = is_reusable;
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let process = self.process.take();
        if let (Some(process), Some(ticket)) = (&process, &self.ticket) {
            ticket.detach(&process.child());
        }
        let mut state = self.pool.lock();
        *state.busy(self.usage) -= 1;
        let mut discarded = None;
        match process {
            Some(mut process)
                if self.is_reusable
                    && process.child().is_as_started()
                    && state.idle.len() < MAX_IDLE =>
            {
                process.has_served = true;
                state.idle.push_back(process);
            }
            other => discarded = other,
        }
        drop(state);
        self.pool.freed.notify_all();
        // Dropping a process waits for its end, so it happens without the lock.
        drop(discarded);
    }
}
