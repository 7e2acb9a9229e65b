//! Short waits without sleep: after an answer, a worker looks for the next request for some
//! microseconds before it sleeps, while one client sends request after request.
//!
//! A worker that sleeps must be woken for the next request. On idle cores, above all on those of a
//! virtual machine, this takes about as long as a point read.
//!
//! Promises:
//! - A wait follows an answer, and lasts at most as long as the setting says. An idle server and an
//!   idle connection take no time of a core.
//! - Only a connection whose last gaps between answer and request were shorter than the setting is
//!   waited for, and only if no other connection was answered in between. With several clients at
//!   once the workers have other work, and the clients need the cores.
//! - At most half of the cores wait at once. Each look offers the core to other threads, and a wait
//!   ends if one of them keeps the core.
//! - Waits in vain become rare: each of them doubles the number of short gaps before the next.
//! - A wait changes no order: the worker finds the request by its event, as after a sleep.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// The number of short gaps in a row after which a connection waits without sleep.
const SHORT_GAPS: u32 = 8;
/// The largest such number: every wait in vain doubles it, and every other wait makes it smaller.
const SHORT_GAPS_MAX: u32 = 1024;
/// The longest time between two looks. A longer time means that another thread needed the core.
const LOOK_MAX: Duration = Duration::from_micros(20);

/// A stream whose socket can be asked for input.
pub(crate) trait Socket {
    /// Returns true if the socket has bytes to read, or an end or an error to report.
    fn has_input(&self) -> bool;
}

impl Socket for TcpStream {
    fn has_input(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        match socket2::SockRef::from(self).peek(&mut byte) {
            Ok(_) => true,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

impl Socket for TlsStream<TcpStream> {
    fn has_input(&self) -> bool {
        self.get_ref().0.has_input()
    }
}

/// The waits of all connections of a port.
#[derive(Debug)]
pub(crate) struct Spinners {
    /// The longest wait; zero for none.
    longest: Duration,
    /// The largest number of workers that wait at once.
    most: usize,
    /// The number of workers that wait at present.
    waiting: AtomicUsize,
    /// The number of the next connection.
    next: AtomicU64,
    /// The number of the connection that was answered last.
    last: AtomicU64,
}

impl Spinners {
    /// Creates the waits of a port with as many workers as the process has cores.
    pub(crate) fn new(longest: Duration) -> Arc<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Spinners::of_cores(longest, cores)
    }

    fn of_cores(longest: Duration, cores: usize) -> Arc<Self> {
        Arc::new(Spinners {
            longest,
            most: cores / 2,
            waiting: AtomicUsize::new(0),
            next: AtomicU64::new(1),
            last: AtomicU64::new(0),
        })
    }

    /// Begins the waits of a connection.
    pub(crate) fn connection(self: &Arc<Self>) -> Spin {
        Spin {
            number: self.next.fetch_add(1, Relaxed),
            shared: self.clone(),
            answered: None,
            short_gaps: 0,
            short_gaps_needed: SHORT_GAPS,
        }
    }
}

/// The waits of one connection.
pub(crate) struct Spin {
    shared: Arc<Spinners>,
    number: u64,
    /// The time at which the last answer was gone, and the worker that sent it, until the next
    /// bytes arrive.
    answered: Option<(Instant, ThreadId)>,
    /// The number of short gaps in a row.
    short_gaps: u32,
    /// The number after which the connection waits.
    short_gaps_needed: u32,
}

impl Spin {
    /// Notes that bytes have arrived at `now`.
    pub(crate) fn note_input(&mut self, now: Instant) {
        let Some((since, worker)) = self.answered.take() else {
            return;
        };
        // Another worker got the event of this request, so the wait of the first one saved nothing.
        let is_short = now.saturating_duration_since(since) < self.shared.longest
            && worker == thread::current().id()
            && self.shared.last.load(Relaxed) == self.number;
        self.short_gaps = if is_short {
            self.short_gaps.saturating_add(1)
        } else {
            0
        };
    }

    /// Waits for the next request after an answer that is gone, if a short wait is likely to end
    /// with this request. Only the first call after an answer waits.
    pub(crate) fn wait(&mut self, socket: &impl Socket) {
        if self.shared.longest.is_zero() || self.answered.is_some() {
            return;
        }
        let now = Instant::now();
        if self.note_answer(now) {
            let found = self.look(socket, now);
            self.note_wait(found);
        }
    }

    /// Notes the end of a wait.
    fn note_wait(&mut self, found: bool) {
        if found {
            self.short_gaps_needed = (self.short_gaps_needed - 1).max(SHORT_GAPS);
        } else {
            self.short_gaps_needed = (self.short_gaps_needed * 2).min(SHORT_GAPS_MAX);
            self.short_gaps = 0;
        }
    }

    /// Notes that an answer was gone at `now`. Returns true if the connection may wait.
    fn note_answer(&mut self, now: Instant) -> bool {
        self.answered = Some((now, thread::current().id()));
        if self.shared.last.load(Relaxed) != self.number {
            self.shared.last.store(self.number, Relaxed);
            self.short_gaps = 0;
        }
        self.short_gaps >= self.short_gaps_needed
    }

    /// Looks at the socket until it has input. Returns false after the longest wait, or if the core
    /// is needed elsewhere.
    fn look(&self, socket: &impl Socket, since: Instant) -> bool {
        let Some(_place) = SpinPlace::take(&self.shared) else {
            return true;
        };
        let mut last = since;
        loop {
            if socket.has_input() {
                return true;
            }
            let now = Instant::now();
            if now - since >= self.shared.longest || now - last >= LOOK_MAX {
                return false;
            }
            last = now;
            // The client may be waiting for this core.
            thread::yield_now();
        }
    }
}

/// A place among the workers that wait at once.
struct SpinPlace<'a>(&'a Spinners);

impl<'a> SpinPlace<'a> {
    fn take(spinners: &'a Spinners) -> Option<Self> {
        if spinners.waiting.fetch_add(1, Relaxed) < spinners.most {
            return Some(SpinPlace(spinners));
        }
        spinners.waiting.fetch_sub(1, Relaxed);
        None
    }
}

impl Drop for SpinPlace<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A socket that has input after a number of looks.
    struct Later {
        looks: Cell<u32>,
        input_after: u32,
    }

    impl Socket for Later {
        fn has_input(&self) -> bool {
            self.looks.set(self.looks.get() + 1);
            self.looks.get() > self.input_after
        }
    }

    fn later(input_after: u32) -> Later {
        let looks = Cell::new(0);
        Later { looks, input_after }
    }

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// Notes requests with a gap before each; returns true if the connection may wait after the
    /// last of them.
    fn may_wait_after(spin: &mut Spin, now: &mut Instant, gaps: &[Duration]) -> bool {
        let mut may_wait = false;
        for gap in gaps {
            *now += *gap;
            spin.note_input(*now);
            *now += micros(5);
            may_wait = spin.note_answer(*now);
        }
        may_wait
    }

    #[test]
    fn only_a_row_of_short_gaps_lets_a_connection_wait() {
        let mut spin = Spinners::of_cores(micros(100), 2).connection();
        let mut now = Instant::now();
        // The first request has no gap before it.
        assert!(!may_wait_after(&mut spin, &mut now, &[micros(10); 8]));
        assert!(may_wait_after(&mut spin, &mut now, &[micros(99)]));
        assert!(!may_wait_after(&mut spin, &mut now, &[micros(100)]));
        assert!(!may_wait_after(&mut spin, &mut now, &[micros(10); 7]));
        assert!(may_wait_after(&mut spin, &mut now, &[micros(10)]));
    }

    #[test]
    fn connections_that_take_turns_do_not_wait() {
        let spinners = Spinners::of_cores(micros(100), 2);
        let (mut one, mut other) = (spinners.connection(), spinners.connection());
        let mut now = Instant::now();
        assert!(may_wait_after(&mut one, &mut now, &[micros(10); 9]));
        assert!(!may_wait_after(&mut other, &mut now, &[micros(10)]));
        for _ in 0..20 {
            assert!(!may_wait_after(&mut one, &mut now, &[micros(10)]));
            assert!(!may_wait_after(&mut other, &mut now, &[micros(10)]));
        }
        assert!(may_wait_after(&mut other, &mut now, &[micros(10); 8]));
    }

    #[test]
    fn a_connection_whose_requests_come_to_another_worker_does_not_wait() {
        let mut spin = Spinners::of_cores(micros(100), 2).connection();
        let mut now = Instant::now();
        assert!(may_wait_after(&mut spin, &mut now, &[micros(10); 9]));
        thread::scope(|scope| {
            let there = scope.spawn(|| may_wait_after(&mut spin, &mut now, &[micros(10)]));
            assert!(!there.join().expect("no panic"));
        });
    }

    #[test]
    fn an_idle_connection_is_looked_at_for_the_set_time_and_once() {
        let longest = Duration::from_millis(1);
        let mut spin = Spinners::of_cores(longest, 2).connection();
        let mut now = Instant::now();
        may_wait_after(&mut spin, &mut now, &[micros(10); 8]);
        spin.note_input(now);
        let idle = later(u32::MAX);
        let began = Instant::now();
        spin.wait(&idle);
        // A core that is taken away ends the wait sooner.
        let looks = idle.looks.get();
        assert!(looks >= 1 && (looks > 1 || began.elapsed() >= LOOK_MAX));
        for _ in 0..10 {
            spin.wait(&idle);
        }
        assert_eq!(idle.looks.get(), looks);
        // After a wait in vain, the next gaps are slept through.
        spin.note_input(Instant::now());
        spin.wait(&idle);
        assert_eq!(idle.looks.get(), looks);
    }

    #[test]
    fn every_wait_in_vain_doubles_the_short_gaps_before_the_next() {
        let mut spin = Spinners::of_cores(micros(100), 2).connection();
        let mut now = Instant::now();
        assert!(may_wait_after(&mut spin, &mut now, &[micros(10); 9]));
        spin.note_wait(false);
        assert!(!may_wait_after(&mut spin, &mut now, &[micros(10); 15]));
        assert!(may_wait_after(&mut spin, &mut now, &[micros(10)]));
        spin.note_wait(true);
        assert!(may_wait_after(&mut spin, &mut now, &[micros(10)]));
        for _ in 0..20 {
            spin.note_wait(false);
        }
        assert!(!may_wait_after(&mut spin, &mut now, &[micros(10); 1023]));
        assert!(may_wait_after(&mut spin, &mut now, &[micros(10)]));
        for _ in 0..2000 {
            spin.note_wait(true);
        }
        assert_eq!(spin.short_gaps_needed, SHORT_GAPS);
    }

    #[test]
    fn a_wait_ends_with_the_input() {
        let spinners = Spinners::of_cores(Duration::from_secs(3600), 2);
        let spin = spinners.connection();
        let socket = later(3);
        let found = spin.look(&socket, Instant::now());
        assert_eq!(found, socket.looks.get() == 4);
        assert_eq!(spinners.waiting.load(Relaxed), 0);
    }

    #[test]
    fn half_of_the_cores_wait_at_most() {
        let one_core = Spinners::of_cores(Duration::from_secs(3600), 1);
        let three_cores = Spinners::of_cores(Duration::from_secs(3600), 3);
        let place = SpinPlace::take(&three_cores);
        assert!(place.is_some());
        for spinners in [&one_core, &three_cores] {
            let socket = later(0);
            assert!(spinners.connection().look(&socket, Instant::now()));
            assert_eq!(socket.looks.get(), 0);
        }
        drop(place);
        assert!(SpinPlace::take(&three_cores).is_some());
    }

    #[test]
    fn a_setting_of_zero_never_waits() {
        let mut spin = Spinners::of_cores(Duration::ZERO, 2).connection();
        let socket = later(u32::MAX);
        for _ in 0..20 {
            spin.note_input(Instant::now());
            spin.wait(&socket);
        }
        assert_eq!(socket.looks.get(), 0);
    }

    #[tokio::test]
    async fn a_socket_has_input_once_its_peer_has_written_or_closed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (client, (server, _)) = (client.expect("connected"), accepted.expect("accepted"));
        assert!(!server.has_input());
        client.writable().await.expect("open");
        client.try_write(b"x").expect("it fits");
        server.readable().await.expect("open");
        assert!(server.has_input());
        server.try_read(&mut [0; 8]).expect("a byte");
        assert!(!server.has_input());
        drop(client);
        server.readable().await.expect("open");
        // The end is reported by a read, and the look finds it as well.
        while !server.has_input() {
            tokio::task::yield_now().await;
        }
    }
}
