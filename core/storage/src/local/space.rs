//! The free space of the disk: the moment at which the store stops to grow, and the reserve file.
//!
//! | free space | commits that grow the store | commits that may use the reserve |
//! |---|---|---|
//! | at least [`Limits::growth`] | accepted | accepted |
//! | less | refused | accepted |
//! | less than [`Limits::deletion`], the reserve is released | refused | refused |
//!
//! `growth` is the space that the store needs to finish what it has accepted: two memtables that
//! become tables, and the growth of the journal by one group of the largest size. On a small file
//! system both limits are a part of its size.
//!
//! The reserve is a file with allocated blocks. It is removed when the space falls below
//! `deletion`, so that flushes, compactions and deletions go on, and is allocated again before
//! growth resumes.
//! Growth resumes at a higher limit than the one at which it stops, so that the state does not
//! change with each commit.
//!
//! A file system that does not tell its free space counts as one with enough. What the store does
//! when a write fails nevertheless is in `reopening.rs`.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use orrery_model::sync;

use super::directory::owner_only;

/// The most free space below which the store stops to grow, in bytes.
const GROWTH_BYTES: u64 = 64 << 20;
/// The part of the file system that the limit and the reserve take at most.
const PART_OF_FILE_SYSTEM: u64 = 8;
/// The shortest time between two looks at the free space.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes that a probe allocates.
const PROBE_BYTES: u64 = 1 << 20;
/// Bytes that are written at once where the system cannot allocate blocks.
const ZEROS_BYTES: usize = 1 << 20;

const RESERVE_FILE: &str = "reserve";
const PROBE_FILE: &str = "probe";

/// The commits that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Accepted {
    /// All commits are accepted.
    All = 0,
    /// Only commits that may use the reserve are accepted.
    Deletions = 1,
    /// No commit is accepted.
    Nothing = 2,
}

/// The size of a file system and its free space, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) free: u64,
    pub(super) total: u64,
}

/// The limits of the free space, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    /// Below this the store stops to grow.
    growth: u64,
    /// From this on the store grows again.
    resumption: u64,
    /// Below this the reserve is released, and no commit is accepted without it.
    deletion: u64,
    /// Bytes of the reserve file.
    reserve: u64,
}

impl Limits {
    fn new(total: u64, reserve_bytes: u64) -> Limits {
        let part = total / PART_OF_FILE_SYSTEM;
        let growth = GROWTH_BYTES.min(part);
        Limits {
            growth,
            resumption: growth + growth / 4,
            deletion: growth / 4,
            reserve: reserve_bytes.min(part),
        }
    }
}

/// Returns the space of the file system that holds a path; `None` if it is not known.
pub(super) type Source = Box<dyn Fn(&Path) -> Option<Space> + Send + Sync>;

/// Watches the free space of the file system that holds the data directory.
pub(super) struct SpaceWatch {
    root: PathBuf,
    reserve_bytes: u64,
    source: Source,
    accepted: AtomicU8,
    state: Mutex<State>,
}

struct State {
    last_look: Option<Instant>,
    /// Bytes of the reserve file; 0 if it is released or was never allocated.
    reserved: u64,
    /// The file system cannot hold a reserve, for a reason other than its free space.
    cannot_reserve: bool,
}

impl SpaceWatch {
    /// Starts to watch. The reserve of an earlier process is taken over, and released at once if
    /// the disk is full.
    pub(super) fn start(root: &Path, reserve_bytes: u64) -> SpaceWatch {
        SpaceWatch::with_source(root, reserve_bytes, Box::new(space_of))
    }

    pub(super) fn with_source(root: &Path, reserve_bytes: u64, source: Source) -> SpaceWatch {
        let reserve = root.join(RESERVE_FILE);
        let mut reserved = reserve.metadata().map_or(0, |data| data.len());
        if reserve_bytes == 0 && reserved > 0 && std::fs::remove_file(&reserve).is_ok() {
            reserved = 0;
        }
        let watch = SpaceWatch {
            root: root.to_owned(),
            reserve_bytes,
            source,
            accepted: AtomicU8::new(Accepted::All as u8),
            state: Mutex::new(State {
                last_look: None,
                reserved,
                cannot_reserve: false,
            }),
        };
        watch.look();
        watch
    }

    /// Returns the accepted commits as of the last look.
    pub(super) fn accepted(&self) -> Accepted {
        match self.accepted.load(Ordering::Relaxed) {
            accepted if accepted == Accepted::All as u8 => Accepted::All,
            accepted if accepted == Accepted::Deletions as u8 => Accepted::Deletions,
            _ => Accepted::Nothing,
        }
    }

    /// Looks at the free space, unless the last look was a moment ago. Releases and allocates the
    /// reserve.
    pub(super) fn look(&self) -> Accepted {
        let mut state = sync::lock(&self.state);
        let is_recent = match state.last_look {
            Some(last) => last.elapsed() < LOOK_INTERVAL,
            None => false,
        };
        if is_recent {
            return self.accepted();
        }
        self.look_now(&mut state)
    }

    /// Looks at the free space now. Returns true if growth is refused.
    pub(super) fn is_low_now(&self) -> bool {
        let mut state = sync::lock(&self.state);
        self.look_now(&mut state) != Accepted::All
    }

    /// Looks at the free space if growth is refused, so that new space is noticed without a commit.
    pub(super) fn look_if_low(&self) -> Accepted {
        match self.accepted() {
            Accepted::All => Accepted::All,
            Accepted::Deletions | Accepted::Nothing => self.look(),
        }
    }

    /// Releases the reserve, because a write failed for want of space.
    pub(super) fn release_reserve(&self) {
        let mut state = sync::lock(&self.state);
        self.release(&mut state);
        self.set(Accepted::Deletions);
    }

    /// Returns true if the disk has space, for deletions at least, and takes new blocks, which a
    /// quota may refuse although the file system has free space.
    pub(super) fn has_space_for_sure(&self) -> bool {
        let accepted = {
            let mut state = sync::lock(&self.state);
            self.look_now(&mut state)
        };
        if accepted == Accepted::Nothing {
            return false;
        }
        let probe = self.root.join(PROBE_FILE);
        let allocated = allocate(&probe, PROBE_BYTES);
        let _ = std::fs::remove_file(&probe);
        allocated.is_ok()
    }

    fn look_now(&self, state: &mut MutexGuard<'_, State>) -> Accepted {
        state.last_look = Some(Instant::now());
        let Some(mut space) = (self.source)(&self.root) else {
            self.set(Accepted::All);
            return Accepted::All;
        };
        let limits = Limits::new(space.total, self.reserve_bytes);
        if space.free < limits.deletion && state.reserved > 0 {
            self.release(state);
            space = (self.source)(&self.root).unwrap_or(space);
        }
        let missing = limits.reserve.saturating_sub(state.reserved);
        let has_space_for_reserve = space.free >= limits.resumption + missing;
        let is_reserved = missing == 0
            || state.cannot_reserve
            || (has_space_for_reserve && self.reserve(state, limits.reserve));
        let accepted = if space.free < limits.deletion {
            Accepted::Nothing
        } else if space.free < limits.growth {
            Accepted::Deletions
        } else if self.accepted() == Accepted::All || (has_space_for_reserve && is_reserved) {
            Accepted::All
        } else {
            Accepted::Deletions
        };
        self.set(accepted);
        accepted
    }

    fn set(&self, accepted: Accepted) {
        self.accepted.store(accepted as u8, Ordering::Relaxed);
    }

    fn release(&self, state: &mut MutexGuard<'_, State>) {
        match std::fs::remove_file(self.root.join(RESERVE_FILE)) {
            Ok(()) => state.reserved = 0,
            Err(e) if e.kind() == ErrorKind::NotFound => state.reserved = 0,
            Err(_) => {}
        }
    }

    /// Allocates the reserve. Returns false if the disk has no space for it.
    fn reserve(&self, state: &mut MutexGuard<'_, State>, bytes: u64) -> bool {
        let reserve = self.root.join(RESERVE_FILE);
        match allocate(&reserve, bytes) {
            Ok(()) => {
                state.reserved = bytes;
                true
            }
            Err(error) => {
                let _ = std::fs::remove_file(&reserve);
                state.reserved = 0;
                let is_full = matches!(
                    error.kind(),
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded
                );
                state.cannot_reserve = !is_full;
                !is_full
            }
        }
    }
}

/// Creates a file whose blocks are allocated, or extends one.
fn allocate(path: &Path, bytes: u64) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    let mut file = owner_only(&mut options).open(path)?;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Err(rustix::io::Errno::OPNOTSUPP) => {}
            done => return done.map_err(io::Error::from),
        }
    }
    let zeros = vec![0; ZEROS_BYTES];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(ZEROS_BYTES as u64);
        file.write_all(&zeros[..part as usize])?;
        left -= part;
    }
    file.sync_data()
}

#[cfg(unix)]
fn space_of(path: &Path) -> Option<Space> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let total = stat.f_blocks.checked_mul(stat.f_frsize)?;
    // Some file systems of networks and of user space report no size.
    (total > 0).then_some(Space {
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
        total,
    })
}

#[cfg(not(unix))]
fn space_of(_: &Path) -> Option<Space> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    const MB: u64 = 1 << 20;

    /// Returns a watch over a file system of 4 GB, and its free space.
    fn watch(root: &Path, reserve: u64, free: u64) -> (SpaceWatch, Arc<AtomicU64>) {
        let free = Arc::new(AtomicU64::new(free));
        let shared = free.clone();
        let source = Box::new(move |_: &Path| {
            Some(Space {
                free: shared.load(Ordering::SeqCst),
                total: 4096 * MB,
            })
        });
        (SpaceWatch::with_source(root, reserve, source), free)
    }

    fn accepted_with(watch: &SpaceWatch, free: &AtomicU64, bytes: u64) -> Accepted {
        free.store(bytes, Ordering::SeqCst);
        watch.look_now(&mut sync::lock(&watch.state))
    }

    #[test]
    fn growth_stops_below_one_limit_and_resumes_above_another() {
        let dir = tempfile::tempdir().unwrap();
        let (watch, free) = watch(dir.path(), 0, 1000 * MB);
        assert_eq!(watch.accepted(), Accepted::All);
        assert_eq!(accepted_with(&watch, &free, 64 * MB), Accepted::All);
        assert_eq!(accepted_with(&watch, &free, 63 * MB), Accepted::Deletions);
        assert_eq!(accepted_with(&watch, &free, 70 * MB), Accepted::Deletions);
        assert_eq!(accepted_with(&watch, &free, 15 * MB), Accepted::Nothing);
        assert_eq!(accepted_with(&watch, &free, 16 * MB), Accepted::Deletions);
        assert_eq!(accepted_with(&watch, &free, 80 * MB), Accepted::All);
    }

    #[test]
    fn the_reserve_is_allocated_released_when_the_space_is_gone_and_allocated_again() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = dir.path().join(RESERVE_FILE);
        let (watch, free) = watch(dir.path(), 2 * MB, 1000 * MB);
        assert_eq!(reserve.metadata().unwrap().len(), 2 * MB);
        assert_eq!(accepted_with(&watch, &free, 20 * MB), Accepted::Deletions);
        assert!(reserve.exists());
        assert_eq!(accepted_with(&watch, &free, 15 * MB), Accepted::Nothing);
        assert!(!reserve.exists());
        assert_eq!(accepted_with(&watch, &free, 81 * MB), Accepted::Deletions);
        assert!(!reserve.exists());
        assert_eq!(accepted_with(&watch, &free, 82 * MB), Accepted::All);
        assert_eq!(reserve.metadata().unwrap().len(), 2 * MB);
    }

    #[cfg(unix)]
    #[test]
    fn the_reserve_has_blocks_and_is_taken_over_by_the_next_process() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let reserve = dir.path().join(RESERVE_FILE);
        for _ in 0..2 {
            let (_watch, _) = watch(dir.path(), MB, 1000 * MB);
            let data = reserve.metadata().unwrap();
            assert_eq!((data.len(), data.blocks() * 512 >= MB), (MB, true));
        }
        let (_watch, _) = watch(dir.path(), 0, 1000 * MB);
        assert!(!reserve.exists());
    }

    #[test]
    fn a_small_file_system_has_smaller_limits() {
        let limits = Limits::new(80 * MB, 64 * MB);
        assert_eq!((limits.growth, limits.reserve), (10 * MB, 10 * MB));
    }
}
