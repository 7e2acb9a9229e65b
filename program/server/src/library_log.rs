//! Lines that libraries log go to the log of the server.
//!
//! The stores and the libraries under them (fjall, lsm-tree) log with the crate `log`. Their
//! warnings and errors are written with the target as a field. Other libraries stay silent: their
//! lines follow from requests, which have lines of their own.

use log::{LevelFilter, Metadata, Record};
use orrery_gateway::{Field, Log, LogLevel};
use orrery_model::world::World;
use std::sync::Arc;

/// The first parts of the targets whose lines are written.
const TARGETS: [&str; 5] = [
    "fjall",
    "lsm_tree",
    "sfa",
    "orrery_storage",
    "orrery_storage_postgres",
];

/// Writes lines of libraries to the log of the server.
struct LibraryLog {
    log: Arc<Log>,
    world: Arc<dyn World>,
}

/// Collects the lines of libraries from now on. A second call has no effect.
pub(crate) fn collect(log: Arc<Log>, world: Arc<dyn World>) {
    let library_log = Box::leak(Box::new(LibraryLog { log, world }));
    if log::set_logger(library_log).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

impl log::Log for LibraryLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let first = target.split("::").next().unwrap_or(target);
        TARGETS.contains(&first) && self.log.is_enabled(level_of(metadata.level()))
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let fields = [("target", Field::Text(record.target()))];
            let message = record.args().to_string();
            let level = level_of(record.level());
            self.log
                .write(self.world.now_ms(), level, &message, &fields);
        }
    }

    fn flush(&self) {}
}

fn level_of(level: log::Level) -> LogLevel {
    match level {
        log::Level::Error => LogLevel::Error,
        log::Level::Warn => LogLevel::Warn,
        log::Level::Info => LogLevel::Info,
        log::Level::Debug | log::Level::Trace => LogLevel::Debug,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use log::Log as _;
    use orrery_gateway::LogFormat;
    use orrery_model::sync::lock;
    use orrery_model::world::SeededWorld;
    use std::io::Write;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            lock(&self.0).write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn warnings_of_the_store_and_its_libraries_are_lines_of_the_log() {
        let lines = Lines::default();
        let library_log = LibraryLog {
            log: Arc::new(Log::new(LogLevel::Info, LogFormat::Json, lines.clone())),
            world: Arc::new(SeededWorld::new(0, 1)),
        };
        for (level, target) in [
            (log::Level::Error, "fjall::worker_pool"),
            (log::Level::Warn, "lsm_tree::table::block"),
            (log::Level::Debug, "fjall::db"),
            (log::Level::Error, "hyper"),
        ] {
            let record = Record::builder()
                .level(level)
                .target(target)
                .args(format_args!("a \"checksum\" differs"))
                .build();
            library_log.log(&record);
        }
        let text = String::from_utf8(lock(&lines.0).clone()).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        for (line, level, target) in [
            (lines[0], "error", "fjall::worker_pool"),
            (lines[1], "warn", "lsm_tree::table::block"),
        ] {
            let json = orrery_model::json::parse(line.as_bytes()).expect("it parses");
            let field = |name: &str| json.get(name).and_then(|value| value.as_str());
            assert_eq!(field("level"), Some(level));
            assert_eq!(field("target"), Some(target));
            assert_eq!(field("message"), Some("a \"checksum\" differs"));
        }
    }
}
