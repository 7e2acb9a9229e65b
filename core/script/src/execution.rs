//! One execution of a procedure or trigger, seen from the parent: it sends the job, serves the
//! script's operations, and receives the result.

use crate::calls::{
    Host, HostFailure, Operation, Procedure, ProcedureOutcome, Trigger, TriggerOutcome, TriggerTime,
};
use crate::error::ScriptError;
use crate::pool::{Lease, ProcessUse, ScriptPool};
use crate::wire::{FromHost, Job, Role, ToHost};

/// The result of any execution.
struct ExecutionOutcome {
    body: Option<String>,
    log: Option<String>,
    steps: u64,
    host_calls: u64,
}

/// A failed attempt to execute a script on one process.
enum Failure {
    /// The idle process had died before the attempt. Another process can be tried.
    ProcessWasDead,
    /// The execution failed.
    Final(ScriptError),
}

impl From<ScriptError> for Failure {
    fn from(error: ScriptError) -> Self {
        Self::Final(error)
    }
}

impl ScriptPool {
    /// Runs a stored procedure to the end of its last callback.
    ///
    /// # Errors
    /// The failure of the script or of its process. The caller then rolls back what `host` did.
    pub fn run_procedure(
        &self,
        call: Procedure<'_>,
        host: &mut dyn Host,
    ) -> Result<ProcedureOutcome, ScriptError> {
        let arguments = std::str::from_utf8(call.arguments)
            .map_err(|_| ScriptError::BadArguments("the request body is not UTF-8".into()))?;
        let job = Job {
            id: call.id.into(),
            source: call.body.into(),
            role: Role::Procedure {
                arguments: arguments.into(),
            },
            self_link: call.links.self_link.into(),
            alt_link: call.links.alt_link.into(),
            quota_current: call.quota.current.into(),
            quota_maximum: call.quota.maximum.into(),
            logging: call.logging,
            now_ms: call.ambient.now_ms,
            seed: call.ambient.seed,
        };
        let outcome = self.run(job, host)?;
        Ok(ProcedureOutcome {
            body: outcome.body.unwrap_or_else(|| "\"\"".into()),
            log: outcome.log,
            steps: outcome.steps,
            host_calls: outcome.host_calls,
        })
    }

    /// Runs a trigger to the end of its last callback.
    ///
    /// # Errors
    /// The failure of the script or of its process. The caller then rolls back what `host` did, and
    /// the write that fired the trigger.
    pub fn run_trigger(
        &self,
        call: Trigger<'_>,
        host: &mut dyn Host,
    ) -> Result<TriggerOutcome, ScriptError> {
        let job = Job {
            id: call.id.into(),
            source: call.body.into(),
            role: Role::Trigger {
                time: call.time,
                operation: call.operation,
                request: call.request.map(Into::into),
                response: call.response.map(Into::into),
            },
            self_link: call.links.self_link.into(),
            alt_link: call.links.alt_link.into(),
            quota_current: call.quota.current.into(),
            quota_maximum: call.quota.maximum.into(),
            logging: call.logging,
            now_ms: call.ambient.now_ms,
            seed: call.ambient.seed,
        };
        let outcome = self.run(job, host)?;
        Ok(TriggerOutcome {
            body: outcome.body,
            log: outcome.log,
            steps: outcome.steps,
            host_calls: outcome.host_calls,
        })
    }

    /// Runs a job on the first process that is alive.
    fn run(&self, job: Job, host: &mut dyn Host) -> Result<ExecutionOutcome, ScriptError> {
        let message = ToHost::Run(job);
        loop {
            let mut lease = self.lease(ProcessUse::Script, self.hard_deadline())?;
            match self.execute(&mut lease, &message, host) {
                Ok(outcome) => return Ok(outcome),
                Err(Failure::Final(error)) => return Err(error),
                // Each round drops a dead idle process; a new process is never found dead, so the
                // loop ends.
                Err(Failure::ProcessWasDead) => {}
            }
        }
    }

    /// Executes a job on one process, and hands its operations to the host.
    fn execute(
        &self,
        lease: &mut Lease<'_>,
        job: &ToHost,
        host: &mut dyn Host,
    ) -> Result<ExecutionOutcome, Failure> {
        let process = lease.process()?;
        let _deadline = self
            .watchdog()
            .arm(process.child(), self.hard_deadline())
            .map_err(|error| ScriptError::HostNotStarted(error.to_string()))?;
        let mut host_calls = 0u64;
        // A process that served before may have died while it was idle; then no operation of this
        // job was done and another process can be tried.
        let first = process.send(job).and_then(|()| process.receive());
        let mut message = match first {
            Err(ScriptError::HostDied(_)) if process.has_served => {
                return Err(Failure::ProcessWasDead);
            }
            other => other?,
        };
        let result = loop {
            match message {
                FromHost::Call(call) => {
                    host_calls += 1;
                    let answer = match host.call(call) {
                        Ok(reply) => ToHost::Reply(reply),
                        Err(failure) => ToHost::Refusal(failure),
                    };
                    // The script gets a refusal in place of an answer that fits into no frame.
                    match process.send(&answer) {
                        Err(ScriptError::TooLarge(description)) => {
                            process.send(&ToHost::Refusal(too_large(&description)))?
                        }
                        sent => sent?,
                    }
                    message = process.receive()?;
                }
                FromHost::Done { body, log, ticks } => {
                    break Ok(ExecutionOutcome {
                        body,
                        log,
                        steps: ticks.saturating_add(host_calls),
                        host_calls,
                    });
                }
                FromHost::Failed(error) => break Err(Failure::Final(error)),
                FromHost::Ready | FromHost::Values { .. } => {
                    return Err(process.pipe_error("it sent an unexpected message").into());
                }
            }
        };
        // The process answered, so it waits for its next message.
        lease.set_reusable(true);
        result
    }
}

fn too_large(description: &str) -> HostFailure {
    HostFailure {
        number: 413,
        message: format!("the answer is too large: {description}"),
        body: String::new(),
    }
}

impl TriggerTime {
    /// Returns the name that the prelude uses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pre => "pre",
            Self::Post => "post",
        }
    }
}

impl Operation {
    /// Returns the name that `getOperationType()` answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Replace => "Replace",
            Self::Upsert => "Upsert",
            Self::Delete => "Delete",
            Self::Patch => "Patch",
        }
    }
}
