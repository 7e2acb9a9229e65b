//! The load under which tests are repeated, and the run of one program with a limit of time.

use std::hint::black_box;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::run::Outcome;

/// Time between two looks at a program that runs.
const LOOK: Duration = Duration::from_millis(20);

/// Threads that compute until the value is dropped.
pub(super) struct BusyLoops {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyLoops {
    /// Starts threads of the priority of this process.
    pub(super) fn start(count: usize) -> BusyLoops {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for _ in 0..count {
            let stop = Arc::clone(&stop);
            threads.push(thread::spawn(move || {
                let mut number: u64 = 0;
                while !stop.load(Ordering::Relaxed) {
                    number = black_box(number.wrapping_add(1));
                }
            }));
        }
        BusyLoops { stop, threads }
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The threads cannot panic.
            let _ = thread.join();
        }
    }
}

/// Runs a program and waits for its end. A program that runs longer than the limit is killed, with
/// the programs that it has started, such as a server under a suite.
///
/// # Errors
/// The exit status, the limit, or the reason why the program did not start.
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Outcome {
    let begun = Instant::now();
    let mut child = command
        .process_group(0)
        .spawn()
        .map_err(|error| format!("it could not be started: {error}"))?;
    loop {
        let ended = child.try_wait().map_err(|error| error.to_string())?;
        match ended {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("it ended with {status}")),
            None if begun.elapsed() >= limit => break,
            None => thread::park_timeout(LOOK),
        }
    }
    kill_group(&mut child).map_err(|error| format!("it could not be killed: {error}"))?;
    Err(format!("it ran longer than {} s", limit.as_secs()))
}

/// Kills the process group that a program leads, and waits for the end of the program.
fn kill_group(leader: &mut Child) -> std::io::Result<()> {
    let group = format!("-{}", leader.id());
    let mut kill = Command::new("kill");
    kill.args(["-KILL", "--", &group]).status()?;
    // Without the tool `kill` in the path, the program itself is killed at least.
    leader.kill()?;
    leader.wait().map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::Stdio;

    use super::*;

    /// Creates a command that runs this test binary.
    fn this(argument: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(argument).stdout(Stdio::null());
        command.stderr(Stdio::null());
        command
    }

    #[test]
    fn the_busy_loops_end_with_their_value() {
        let loops = BusyLoops::start(2);
        let stop = Arc::clone(&loops.stop);
        assert_eq!(Arc::strong_count(&stop), 4);
        drop(loops);
        assert_eq!(Arc::strong_count(&stop), 1);
    }

    #[test]
    fn the_end_of_a_program_is_its_result() {
        let limit = Duration::MAX;
        assert_eq!(run_within(limit, &mut this("--list")), Ok(()));
        let failure = run_within(limit, &mut this("--no-such-option")).unwrap_err();
        assert!(failure.contains("it ended with exit status"), "{failure}");
        let missing = run_within(limit, &mut Command::new("no-such-program-anywhere"));
        assert!(missing.unwrap_err().contains("could not be started"));
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        // It waits for the end of its input, which does not come.
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped());
        let failure = run_within(Duration::ZERO, &mut command).unwrap_err();
        assert_eq!(failure, "it ran longer than 0 s");
    }

    #[test]
    fn a_program_is_killed_with_the_programs_that_it_has_started() {
        // Both programs wait for ever and hold the end of the pipe open.
        let (mut output, end) = std::io::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "tail -f /dev/null & echo started; wait"]);
        let mut child = command.stdout(end).process_group(0).spawn().unwrap();
        drop(command);
        let mut begun = [0; 8];
        output.read_exact(&mut begun).unwrap();

        kill_group(&mut child).unwrap();
        let mut rest = String::new();
        assert_eq!(output.read_to_string(&mut rest).unwrap(), 0);
    }
}
