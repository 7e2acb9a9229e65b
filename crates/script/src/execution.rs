//! One execution of a procedure or trigger, seen from the parent: send the job, serve its calls, take its result.

use crate::calls::{
    Host, HostFailure, Operation, Procedure, ProcedureOutcome, Trigger, TriggerOutcome, TriggerTime,
};
use crate::error::ScriptError;
use crate::pool::{Lease, ScriptPool, Stock};
use crate::wire::{FromHost, Job, Role, ToHost};

/// What every execution leaves behind.
struct Outcome {
    body: Option<String>,
    log: Option<String>,
    steps: u64,
    host_calls: u64,
}

/// Whether an execution that failed can be tried on another process.
enum Failure {
    /// The process was found dead before it did anything.
    Stillborn,
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
    /// On an error the caller rolls back what `host` did.
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
        let Outcome {
            body,
            log,
            steps,
            host_calls,
        } = self.run(job, host)?;
        Ok(ProcedureOutcome {
            body: body.unwrap_or_else(|| "\"\"".into()),
            log,
            steps,
            host_calls,
        })
    }

    /// Runs a trigger to the end of its last callback.
    ///
    /// On an error the caller rolls back what `host` did, and the write that fired the trigger.
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
        let Outcome {
            body,
            log,
            steps,
            host_calls,
        } = self.run(job, host)?;
        Ok(TriggerOutcome {
            body,
            log,
            steps,
            host_calls,
        })
    }

    fn run(&self, job: Job, host: &mut dyn Host) -> Result<Outcome, ScriptError> {
        let run = ToHost::Run(job);
        loop {
            let mut lease = self.lease(Stock::Scripts, self.hard_deadline())?;
            match self.serve(&mut lease, &run, host) {
                Ok(outcome) => return Ok(outcome),
                Err(Failure::Final(error)) => return Err(error),
                // Each round drops a dead process; a fresh one is never stillborn, so this ends.
                Err(Failure::Stillborn) => {}
            }
        }
    }

    /// Serves one execution on one process.
    fn serve(
        &self,
        lease: &mut Lease<'_>,
        run: &ToHost,
        host: &mut dyn Host,
    ) -> Result<Outcome, Failure> {
        let process = lease.process()?;
        let _deadline = self
            .watchdog()
            .arm(process.mortal(), self.hard_deadline())
            .map_err(|error| ScriptError::HostNotStarted(error.to_string()))?;
        let mut host_calls = 0u64;
        let first = process.send(run).and_then(|()| process.receive());
        let mut message = match first {
            Err(ScriptError::HostDied(_)) if process.served => return Err(Failure::Stillborn),
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
                    match process.send(&answer) {
                        Err(ScriptError::TooLarge(what)) => {
                            process.send(&ToHost::Refusal(too_large(what)))?
                        }
                        sent => sent?,
                    }
                    message = process.receive()?;
                }
                FromHost::Done { body, log, ticks } => {
                    let steps = ticks.saturating_add(host_calls);
                    break Ok(Outcome {
                        body,
                        log,
                        steps,
                        host_calls,
                    });
                }
                FromHost::Failed(error) => break Err(Failure::Final(error)),
                FromHost::Ready | FromHost::Values { .. } => {
                    Err(process.broken("it spoke out of turn"))?
                }
            }
        };
        lease.set_healthy(true);
        result
    }
}

fn too_large(what: String) -> HostFailure {
    HostFailure {
        number: 413,
        message: format!("the answer is too large: {what}"),
        body: String::new(),
    }
}

impl TriggerTime {
    /// The word for the prelude.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pre => "pre",
            Self::Post => "post",
        }
    }
}

impl Operation {
    /// What `getOperationType()` answers.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Replace => "Replace",
            Self::Upsert => "Upsert",
            Self::Delete => "Delete",
            Self::Patch => "Patch",
        }
    }
}
