//! Requests at a fixed rate, however long the responses take, as independent clients send them.
//!
//! A request is sent at its time even if earlier ones have no response yet, so a slow server cannot
//! slow its clients down and hide the delay. The number of requests is fixed; refusals and
//! latencies depend on the machine.

use crate::Result;
use crate::client::Response;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The outcome of a load.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Requests that succeeded in the end.
    pub succeeded: usize,
    /// Requests whose last attempt was refused with 429.
    pub refused: usize,
    /// Attempts, retries included.
    pub attempts: usize,
    /// Attempts that were refused with 429.
    pub throttled: usize,
    /// Request units of the requests that succeeded.
    pub charge: f64,
    /// Time from the first request to the last response.
    pub elapsed: Duration,
    /// Latency of each request that succeeded, its retries included; ascending.
    latencies: Vec<Duration>,
}

impl Outcome {
    /// Returns the share of attempts that were refused, in percent.
    pub fn throttled_percent(&self) -> f64 {
        100.0 * self.throttled as f64 / self.attempts.max(1) as f64
    }

    /// Returns the latency in milliseconds that `percent` of the requests did not exceed.
    pub fn latency_ms(&self, percent: usize) -> f64 {
        let Some(last) = self.latencies.len().checked_sub(1) else {
            return 0.0;
        };
        self.latencies[last * percent / 100].as_secs_f64() * 1_000.0
    }

    /// Returns the request units per second of the requests that succeeded.
    pub fn charge_per_second(&self) -> f64 {
        self.charge / self.elapsed.as_secs_f64().max(0.001)
    }

    fn add(&mut self, response: Response) -> Result<()> {
        let repeated = response.answer.throttled;
        self.attempts += repeated + 1;
        self.throttled += repeated;
        if response.status == 429 {
            self.throttled += 1;
            self.refused += 1;
            return Ok(());
        }
        let status = response.status;
        if status >= 400 {
            return response.expect(200).map(drop);
        }
        self.succeeded += 1;
        self.charge += response.charge();
        self.latencies.push(response.answer.elapsed);
        Ok(())
    }
}

/// Sends `count` requests at `per_second`, and waits for all responses. `send` sends the request
/// with the given number. A status of 400 or more other than 429 is an error.
pub async fn at_rate<F, S>(count: usize, per_second: f64, send: S) -> Result<Outcome>
where
    S: Fn(usize) -> F,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    let started = Instant::now();
    let mut running = JoinSet::new();
    for number in 0..count {
        let due = started + Duration::from_secs_f64(number as f64 / per_second);
        tokio::time::sleep_until(due).await;
        running.spawn(send(number));
    }
    let mut outcome = Outcome::default();
    while let Some(response) = running.join_next().await {
        outcome.add(response??)?;
    }
    outcome.elapsed = started.elapsed();
    outcome.latencies.sort();
    Ok(outcome)
}
