//! Benchmark of the request log: a point read through the gateway in this process, without a
//! socket, while requests are not recorded and while all are.

use crate::Result;
use crate::engine::{BenchEngine, NOW_MS, RealClock};
use crate::items::{READ_BYTES, READ_ITEMS, item, read_request};
use crate::record::figure;
use crate::report::median;
use orrery_engine::request::Charge;
use orrery_gateway::{
    Account, Connection, Cors, Gateway, Hosts, Keys, Log, LogFormat, LogLevel, Options, Scheme,
    SettingsChange, WELL_KNOWN_KEY,
};
use orrery_model::memory::MemoryBudget;
use orrery_model::world::SeededWorld;
use orrery_storage::MemoryStore;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Reads of one measurement.
pub(crate) const READS: u64 = 50_000;

/// Prints the median microseconds of a read in both states, and the median of the ratio of each
/// round.
pub(crate) fn run(rounds: usize) -> Result<()> {
    let bench = BenchEngine::open(Arc::new(MemoryStore::new()))?;
    for n in 0..READ_ITEMS {
        bench.create(&item('r', n, READ_BYTES))?;
    }
    let gateway = gateway(&bench)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        // Both states are measured in each round, in turn first and second.
        let mut micros = [0.0; 2];
        for turn in 0..2 {
            let is_recorded = (round + turn) % 2 == 1;
            set_recording(&gateway, is_recorded);
            micros[usize::from(is_recorded)] = runtime.block_on(read(&gateway))?;
        }
        without.push(micros[0]);
        with.push(micros[1]);
        ratios.push(micros[1] / micros[0]);
    }
    println!("{:<34} {:>8}", "point read through the gateway", "µs");
    for (name, unit, figures) in [
        ("not recorded", "µs", without),
        ("recorded", "µs", with),
        ("recorded / not recorded", "ratio", ratios),
    ] {
        let middle = median(figures);
        println!("{name:<34} {middle:>8.2}");
        figure(format!("{name}, {unit}"), middle);
    }
    Ok(())
}

/// Creates a gateway that logs nothing.
pub(crate) fn gateway(bench: &BenchEngine) -> Result<Gateway> {
    Ok(Gateway::new(
        bench.engine().clone(),
        Options {
            keys: Keys::new(WELL_KNOWN_KEY)?,
            directory: None,
            account: Account::default(),
            world: Arc::new(RealClock(SeededWorld::new(NOW_MS, 1))),
            log: Arc::new(Log::new(LogLevel::Error, LogFormat::Text, std::io::sink())),
            memory: MemoryBudget::unlimited(),
            hosts: Hosts::default(),
            cors: Cors::default(),
        },
    ))
}

/// Sets whether all requests are recorded. Without that none is: the thresholds are not reached.
pub(crate) fn set_recording(gateway: &Gateway, is_on: bool) {
    let change = SettingsChange {
        min_charge: Some(Charge(u64::MAX)),
        min_microseconds: Some(u64::MAX),
        all_for_ms: Some(if is_on { 3_600_000 } else { 0 }),
    };
    gateway
        .request_log()
        .change_settings(change, gateway.now_ms());
}

/// Returns the microseconds of a read. The requests are made before the clock starts.
pub(crate) async fn read(gateway: &Gateway) -> Result<f64> {
    let address = SocketAddr::from(([127, 0, 0, 1], 8081));
    let connection = Connection {
        scheme: Scheme::Http,
        peer: address,
        local: address,
    };
    let mut made = Vec::with_capacity(READ_ITEMS as usize);
    for n in 0..READ_ITEMS {
        made.push(read_request(WELL_KNOWN_KEY, n)?);
    }
    let mut spent = 0.0;
    for _ in 0..READS / READ_ITEMS {
        let requests = made.clone();
        let started = Instant::now();
        for request in requests {
            let answer = gateway.handle(request, &connection).await;
            match answer {
                Ok(answer) if answer.status() == 200 => {}
                _ => return Err("a read failed".into()),
            }
        }
        spent += started.elapsed().as_secs_f64();
    }
    Ok(spent * 1e6 / READS as f64)
}
