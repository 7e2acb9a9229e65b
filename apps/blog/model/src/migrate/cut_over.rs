//! The cut-over: the gate is closed, the last step takes place while no application writes, and
//! home is changed.
//!
//! ```text
//! migrator                       state                  applications
//! close ────────────────────────> gate: 8f…  ─────────> no write begins; the last one ends
//! wait for the acknowledgements <─ application-{id} <── gate: 8f… acknowledged
//! last step: copy the rest         (gate renewed)
//! change home ──────────────────> home: V2, no gate ──> writes begin, on the new home
//! ```
//! A gate that is not renewed is opened by the applications (`site::presence`). The change of home
//! requires the gate of this cut-over in the state that it replaces, so it fails from then on.

use super::transition;
use crate::site::presence;
use crate::site::state::Gate;
use crate::{BlogError, Control, Meter, Migration, Phase, Query};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// Time between two renewals of the gate.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two looks at the registrations of the applications.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// One attempt to change home.
pub(super) struct CutOver<'a> {
    pub control: &'a Control,
    pub migration: &'a Migration,
    /// Id of the gate.
    pub gate: String,
}

impl CutOver<'_> {
    /// Closes the gate, runs `last_step` and changes home. Returns the time for which the gate was
    /// closed. `None` if the time was not enough; the gate is then open and home is unchanged.
    ///
    /// # Errors
    /// The errors of `last_step` and of requests. The gate is then opened as far as the server can
    /// be reached; otherwise the applications open it.
    pub(super) async fn run(
        &self,
        last_step: impl Future<Output = Result<(), BlogError>>,
        time_max: Duration,
    ) -> Result<Option<Duration>, BlogError> {
        let began = Instant::now();
        let id = &self.migration.id;
        let closed = transition(self.control, id, Phase::CuttingOver, |state| {
            state.gate = Some(Gate {
                id: self.gate.clone(),
                renewals: 0,
            });
        });
        if closed.await?.is_none() {
            return Err(super::changed_meanwhile());
        }

        let work = async {
            wait_for_applications(self.control, &self.gate).await?;
            last_step.await?;
            self.switch().await
        };
        let result = tokio::select! {
            result = work => result,
            result = self.keep_closed() => result,
            () = tokio::time::sleep(time_max) => Ok(()),
        };

        // The state tells the outcome: the answer to the change of home may have been lost. Once
        // the gate is open, a change of home that is still on its way fails.
        self.change_gate(None).await?;
        let (state, _) = presence::read(self.control).await?;
        let is_switched = state
            .migration
            .is_some_and(|migration| migration.id == *id && migration.phase == Phase::Dropping);
        if is_switched {
            return Ok(Some(began.elapsed()));
        }
        result.map(|()| None)
    }

    /// Renews the gate until that is impossible.
    async fn keep_closed(&self) -> Result<(), BlogError> {
        let mut renewals = 0;
        loop {
            tokio::time::sleep(RENEWAL_INTERVAL).await;
            renewals += 1;
            let gate = Gate {
                id: self.gate.clone(),
                renewals,
            };
            if !self.change_gate(Some(gate)).await? {
                return Ok(());
            }
        }
    }

    /// Replaces the gate of this cut-over. Returns false if the gate is not that of this cut-over.
    async fn change_gate(&self, gate: Option<Gate>) -> Result<bool, BlogError> {
        loop {
            let (mut state, etag) = presence::read(self.control).await?;
            if state.gate.as_ref().is_none_or(|gate| gate.id != self.gate) {
                return Ok(false);
            }
            state.gate = gate.clone();
            if presence::replace(self.control, &state, &etag)
                .await?
                .is_some()
            {
                return Ok(true);
            }
        }
    }

    /// Changes home and opens the gate, in one step. Does nothing if the gate is not that of this
    /// cut-over any more.
    async fn switch(&self) -> Result<(), BlogError> {
        let migration = self.migration;
        loop {
            let (mut state, etag) = presence::read(self.control).await?;
            if state.gate.as_ref().is_none_or(|gate| gate.id != self.gate) {
                return Ok(());
            }
            state.gate = None;
            state.home = migration.to;
            if !migration.was_present {
                state.models.retain(|model| *model != migration.from);
                state.models.push(migration.to);
                state.models.sort();
            }
            state.epoch += 1;
            if let Some(migration) = &mut state.migration {
                migration.phase = Phase::Dropping;
            }
            if presence::replace(self.control, &state, &etag)
                .await?
                .is_some()
            {
                return Ok(());
            }
        }
    }
}

/// Waits until every registered application has acknowledged the gate or has expired.
async fn wait_for_applications(control: &Control, gate: &str) -> Result<(), BlogError> {
    wait_for_registrations(control, |registration| registration["gate"] == gate).await
}

/// Waits until every registered application has seen the epoch or has expired.
pub(super) async fn wait_for_epoch(control: &Control, epoch: u64) -> Result<(), BlogError> {
    wait_for_registrations(control, |registration| {
        registration["epoch"].as_u64() >= Some(epoch)
    })
    .await
}

async fn wait_for_registrations(
    control: &Control,
    is_ready: impl Fn(&Value) -> bool,
) -> Result<(), BlogError> {
    let query = Query::new("SELECT * FROM c WHERE c.type = 'application'");
    loop {
        let registrations = control
            .client
            .query_all(&Meter::new(), &control.state, &query)
            .await?;
        if registrations.iter().all(&is_ready) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
