//! The log of a store beside its backups: each second of it can be restored, also after gaps,
//! restarts and damage; what cannot be restored is named.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_backup::{
    BackupError, ContinuousBackup, ContinuousOptions, CreateOptions, Moment, Retention,
    create_base, prune, restore_to, verify, windows,
};
use orrery_model::Json;
use orrery_model::world::split_mix;
use orrery_storage::{
    Commit, CommitOutcome, LocalOptions, LocalStore, LogKeeping, Lsn, PartitionId, Store,
};
use orrery_test_wait::wait_for;

use crate::support::{Writer, backup, check_heads, files_below, flip, manifests, options, write};

/// The second in which each test begins.
const START: u64 = 1_795_714_805;
/// The partitions that are written.
const PARTITIONS: [u64; 2] = [1, 2];

/// Creates a clock of its own for a test.
macro_rules! clock {
    () => {{
        static SECOND: AtomicU64 = AtomicU64::new(START);
        fn read() -> u64 {
            SECOND.load(Ordering::SeqCst)
        }
        (&SECOND, read as fn() -> u64)
    }};
}

/// A store whose log is copied, and the heads of its partitions at the end of each second.
struct World {
    dir: tempfile::TempDir,
    second: &'static AtomicU64,
    clock: fn() -> u64,
    store: Option<LocalStore>,
    log: Option<ContinuousBackup>,
    options: ContinuousOptions,
    heads: BTreeMap<u64, BTreeMap<PartitionId, Lsn>>,
}

impl World {
    fn new((second, clock): (&'static AtomicU64, fn() -> u64)) -> World {
        let mut world = World {
            dir: tempfile::tempdir().unwrap(),
            second,
            clock,
            store: None,
            log: None,
            options: ContinuousOptions {
                base_bytes: 60_000,
                ..ContinuousOptions::new(3_600_000)
            },
            heads: BTreeMap::new(),
        };
        world.start(true);
        world
    }

    fn repository(&self) -> PathBuf {
        self.dir.path().join("backups")
    }

    fn store(&self) -> &LocalStore {
        self.store.as_ref().expect("it is open")
    }

    /// Opens the store, with its log or without.
    fn start(&mut self, has_log: bool) {
        let options = LocalOptions {
            log: match has_log {
                true => LogKeeping::On(self.clock),
                false => LogKeeping::Off,
            },
            ..options()
        };
        self.store = Some(LocalStore::open(self.dir.path().join("data"), options).unwrap());
        self.log = None;
        if has_log {
            let (repository, options) = (self.repository(), self.options.clone());
            let log = ContinuousBackup::open(self.store(), &repository, options).unwrap();
            self.log = Some(log);
        }
    }

    fn stop(&mut self) {
        self.log = None;
        self.store = None;
    }

    fn now_ms(&self) -> u64 {
        self.second.load(Ordering::SeqCst) * 1_000 + 300
    }

    /// Lets seconds pass. The heads stay as they are at the end of each.
    fn pass(&mut self, seconds: u64) {
        let mut heads = BTreeMap::new();
        for partition in PARTITIONS {
            let lsn = Writer::open(self.store(), partition).lsn;
            heads.insert(PartitionId(partition), lsn);
        }
        for _ in 0..seconds {
            let second = self.second.fetch_add(1, Ordering::SeqCst);
            self.heads.insert(second, heads.clone());
        }
    }

    fn round(&mut self) -> orrery_backup::Round {
        let now_ms = self.now_ms();
        let store = self.store.as_ref().expect("it is open");
        let log = self.log.as_mut().expect("there is a log");
        log.round(store, now_ms).unwrap()
    }

    /// Copies the log, and makes a base if one is wanted.
    fn round_with_base(&mut self) {
        self.round();
        let now_ms = self.now_ms();
        let log = self.log.as_ref().expect("there is a log");
        if log.wanted_base(now_ms).is_some() {
            self.base();
        }
    }

    fn base(&mut self) {
        let now_ms = self.now_ms();
        let wanted = self.log.as_ref().unwrap().wanted_base(now_ms);
        let options = CreateOptions {
            about: Json::Object(orrery_model::object! { "containers" => Vec::<Json>::new() }),
            ..CreateOptions::new(now_ms, "1.2.3")
        };
        create_base(self.store(), &self.repository(), &options).unwrap();
        if let Some(wanted) = wanted {
            self.log.as_mut().unwrap().note_base(&wanted);
        }
    }

    /// Restores a second and compares it with the model.
    fn check(&self, second: u64) {
        let target = self.dir.path().join("restored");
        let moment = Moment::Second(second);
        let restored = restore_to(&self.repository(), moment, &target, &mut |_| {});
        let restored = restored.unwrap_or_else(|error| panic!("{second}: {error}"));
        assert_eq!(restored.second, second);
        check_heads(&target, &self.heads[&second]);
        std::fs::remove_dir_all(&target).unwrap();
    }

    /// Returns the seconds that can be restored, by the list.
    fn window(&self) -> (u64, u64) {
        let windows = windows(&self.repository()).unwrap();
        let window = windows.last().expect("there is one");
        (window.from.expect("there is a base"), window.to)
    }

    fn refused(&self, moment: Moment) -> BackupError {
        let target = self.dir.path().join("refused");
        let error = restore_to(&self.repository(), moment, &target, &mut |_| {}).unwrap_err();
        let _ = std::fs::remove_dir_all(&target);
        error
    }
}

/// Returns the segments of a repository, in order.
fn segments(repository: &Path) -> Vec<PathBuf> {
    let mut files = files_below(&repository.join("log"));
    files.retain(|file| file.extension().is_some_and(|ending| ending == "seg"));
    files
}

#[test]
fn each_second_of_the_log_can_be_restored_also_through_restarts() {
    let mut world = World::new(clock!());
    world.round_with_base();
    for step in 0..150 {
        let random = split_mix(step);
        for partition in PARTITIONS {
            write(world.store(), partition, (random >> partition) % 5);
        }
        world.pass(1 + u64::from(random.is_multiple_of(11)) * 3);
        if random.is_multiple_of(3) {
            world.round_with_base();
        }
        if random.is_multiple_of(29) {
            world.stop();
            world.start(true);
        }
    }
    world.round_with_base();
    let windows = windows(&world.repository()).unwrap();
    assert_eq!(windows.len(), 1, "a restart is no gap: {windows:?}");
    assert!(
        windows[0].bases > 3 && windows[0].segments > 20,
        "{windows:?}"
    );

    let (from, to) = world.window();
    assert_eq!(
        (from, to),
        (START + 1, world.second.load(Ordering::SeqCst) - 1)
    );
    for second in (from..=to).step_by(3).chain([to]) {
        world.check(second);
    }
    let verified = verify(&world.repository(), None, &mut |_| {}).unwrap();
    assert!(!verified.has_problems(), "{verified:?}");
}

#[test]
fn the_latest_state_of_the_log_is_restored_with_the_second_that_is_not_over() {
    let mut world = World::new(clock!());
    world.round_with_base();
    write(world.store(), 1, 5);
    world.pass(1);
    write(world.store(), 1, 4);
    world.round();
    let target = world.dir.path().join("latest");
    let restored = restore_to(&world.repository(), Moment::Latest, &target, &mut |_| {}).unwrap();
    assert_eq!(restored.second, START + 1);
    check_heads(&target, &BTreeMap::from([(PartitionId(1), 9)]));
    // The second that is not over may still get groups.
    let refused = world.refused(Moment::Second(START + 1));
    let expected = format!("{}", jiff::Timestamp::from_second(START as i64).unwrap());
    assert!(refused.to_string().contains(&expected), "{refused}");
}

#[test]
fn a_clock_that_is_set_back_leaves_the_order_of_groups() {
    let mut world = World::new(clock!());
    world.round_with_base();
    world.pass(1);
    write(world.store(), 1, 5);
    world.second.store(START, Ordering::SeqCst);
    write(world.store(), 1, 5);
    world.second.store(START + 1, Ordering::SeqCst);
    world.pass(1);
    world.second.store(START + 2, Ordering::SeqCst);
    write(world.store(), 1, 5);
    world.pass(2);
    world.round();
    world.check(START + 1);
    world.check(START + 2);
}

/// Writes about 25 MB to a partition: journals are begun at 64 MB, and removed when their tables
/// exist.
fn write_much(store: &LocalStore, partition: u64) {
    let lease = store.open(PartitionId(partition)).unwrap();
    let first = lease.head().lsn;
    for lsn in first + 1..=first + 28 {
        let noise = (0..64_000 / 8u64).flat_map(|i| split_mix(i * lsn).to_le_bytes());
        let value: Vec<u8> = noise.collect();
        let commit = Commit {
            expect_lsn: lsn - 1,
            new_lsn: lsn,
            puts: (0..14u8)
                .map(|key| (vec![1, key, lsn as u8], value.clone()))
                .collect(),
            ..Commit::default()
        };
        assert_eq!(store.submit(&lease, commit).wait(), CommitOutcome::Ok);
    }
}

#[test]
fn journals_that_the_store_has_removed_are_in_the_log_until_too_many_wait() {
    let mut world = World::new(clock!());
    world.options.base_bytes = u64::MAX;
    world.options.kept_bytes_max = 32 << 20;
    world.stop();
    world.start(true);
    world.round_with_base();
    write(world.store(), 1, 10);
    for second in 0..4 {
        write_much(world.store(), 3);
        write(world.store(), 2, 3);
        world.pass(1);
        if second == 1 {
            world.round();
        }
    }
    world.round();
    let kept = world.dir.path().join("data/kept-journals");
    let journals = || {
        let mut files = files_below(&kept);
        files.retain(|file| file.extension().is_some_and(|ending| ending == "jnl"));
        files
    };
    let left = journals();
    assert_eq!(left.len(), 1, "what is copied is given up: {left:?}");
    let name = left[0].file_stem().unwrap().to_string_lossy().into_owned();
    assert!(
        name.parse::<u64>().unwrap() >= 1,
        "few journals were begun: {name}"
    );
    for second in [START + 1, START + 3] {
        world.check(second);
    }

    // No round runs for long, so the journals wait. A start makes tables of all but the newest.
    for _ in 0..3 {
        write_much(world.store(), 3);
    }
    world.stop();
    world.start(true);
    let store = world.store.as_ref().unwrap();
    let log = world.log.as_mut().unwrap();
    let is_given_up = || log.limit_kept(store).unwrap();
    wait_for(
        "the removal of journals by the store",
        is_given_up,
        |given_up| *given_up,
    );
    assert_eq!(journals().len(), 1);
    world.pass(1);
    assert!(
        world
            .round()
            .gap
            .is_some_and(|reason| reason.contains("too many"))
    );
    world.round_with_base();
    world.pass(2);
    world.round();
    let windows = windows(&world.repository()).unwrap();
    assert_eq!(windows.len(), 2, "{windows:?}");
    world.check(windows[1].to);
}

#[test]
fn a_server_without_the_log_leaves_a_gap_whose_seconds_are_refused() {
    let mut world = World::new(clock!());
    world.round_with_base();
    write(world.store(), 1, 5);
    world.pass(3);
    world.round();
    world.stop();

    // The journals go on, but without seconds.
    world.start(false);
    write(world.store(), 1, 5);
    world.pass(5);
    world.stop();
    let kept = world.dir.path().join("data/kept-journals");
    assert!(!kept.exists());
    world.start(true);
    write(world.store(), 1, 5);
    world.pass(2);
    assert!(world.round().gap.is_some());
    world.round_with_base();
    write(world.store(), 1, 1);
    world.pass(4);
    world.round_with_base();

    assert_eq!(windows(&world.repository()).unwrap().len(), 2);
    world.check(START + 2);
    world.check(START + 12);
    let refused = world.refused(Moment::Second(START + 5));
    let BackupError::MomentNotInLog { before, after, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!((before, after), (Some(START + 2), Some(START + 11)));
    let verified = verify(&world.repository(), None, &mut |_| {}).unwrap();
    assert!(!verified.has_problems());
}

#[test]
fn what_is_older_than_the_retention_is_removed() {
    let mut world = World::new(clock!());
    world.options.retention_ms = 20_000;
    world.stop();
    world.start(true);
    for _ in 0..60 {
        write(world.store(), 1, 10);
        world.pass(1);
        world.round_with_base();
        let now_ms = world.now_ms();
        world.log.as_ref().unwrap().expiry().run(now_ms).unwrap();
        let (from, to) = world.window();
        if to < from {
            continue;
        }
        // A base of before the first second of the retention is kept.
        let age = to + 1 - from;
        assert!(age <= 20 + 12, "{age} seconds are kept");
        assert!(to < START + 25 || age >= 20, "only {age} seconds are kept");
    }
    let (from, to) = world.window();
    for second in [from, to - 19, to - 7, to] {
        world.check(second);
    }
    let early = world.refused(Moment::Second(from - 2));
    assert!(
        matches!(early, BackupError::MomentNotInLog { after: Some(_), .. }),
        "{early}"
    );
    let late = world.refused(Moment::Second(to + 1));
    assert!(
        matches!(
            late,
            BackupError::MomentNotInLog {
                before: Some(_),
                ..
            }
        ),
        "{late}"
    );
    let verified = verify(&world.repository(), None, &mut |_| {}).unwrap();
    assert!(!verified.has_problems());
}

#[test]
fn a_damaged_or_missing_segment_is_named_with_the_moments_that_can_be_restored() {
    let mut world = World::new(clock!());
    world.options.base_bytes = u64::MAX;
    world.stop();
    world.start(true);
    world.round_with_base();
    for step in 0..12 {
        write(world.store(), 1, 3);
        world.pass(1);
        world.round();
        if step == 8 {
            world.base();
        }
    }
    let repository = world.repository();
    let all = segments(&repository);
    assert_eq!(all.len(), 12);
    let content = std::fs::read(&all[4]).unwrap();
    for is_missing in [false, true] {
        if is_missing {
            std::fs::remove_file(&all[4]).unwrap();
        } else {
            flip(&all[4], 700);
        }
        let verified = verify(&repository, None, &mut |_| {}).unwrap();
        assert!(verified.has_problems());
        let problems = &verified.spans[0].problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        let named = if is_missing { &all[5] } else { &all[4] };
        assert_eq!(&problems[0].path, named);
        let (before, after) = (problems[0].before.unwrap(), problems[0].after.unwrap());

        let refused = world.refused(Moment::Second(START + 6));
        assert!(
            matches!(refused, BackupError::DamagedLog { .. }),
            "{refused}"
        );
        world.check(before);
        world.check(after);
        assert!(
            before >= START + 2 && after <= START + 10,
            "{before} and {after}"
        );
        std::fs::write(&all[4], &content).unwrap();
    }
    world.check(START + 6);
}

#[test]
fn a_folder_takes_the_log_of_one_store_and_one_writer() {
    let mut world = World::new(clock!());
    world.round_with_base();
    let other = tempfile::tempdir().unwrap();
    let options = LocalOptions {
        log: LogKeeping::On(world.clock),
        ..options()
    };
    let store = LocalStore::open(other.path().join("data"), options).unwrap();
    let continuous = || ContinuousOptions::new(1_000);
    let refused = ContinuousBackup::open(&store, &world.repository(), continuous()).err();
    assert!(
        matches!(refused, Some(BackupError::OtherStore { .. })),
        "{refused:?}"
    );
    let refused = ContinuousBackup::open(world.store(), &world.repository(), continuous()).err();
    assert!(
        matches!(refused, Some(BackupError::Locked { .. })),
        "{refused:?}"
    );

    let plain = LocalStore::open(other.path().join("plain"), crate::support::options()).unwrap();
    let refused = ContinuousBackup::open(&plain, &other.path().join("b"), continuous()).err();
    assert!(
        matches!(refused, Some(BackupError::Store(_))),
        "{refused:?}"
    );
    assert!(!other.path().join("b").exists());
}

#[test]
fn a_folder_without_a_log_or_a_base_restores_no_moment() {
    let mut world = World::new(clock!());
    world.round();
    write(world.store(), 1, 3);
    world.pass(2);
    world.round();
    let refused = world.refused(Moment::Second(START + 1));
    assert!(matches!(refused, BackupError::NoLog { .. }), "{refused}");
    assert!(matches!(
        world.refused(Moment::Latest),
        BackupError::NoLog { .. }
    ));
    let plain = world.dir.path().join("plain.tar.zst");
    assert!(windows(&plain).unwrap().is_empty());
}

#[test]
fn a_round_that_fails_is_repeated_from_where_it_was() {
    let mut world = World::new(clock!());
    world.round_with_base();
    write(world.store(), 1, 3);
    world.pass(1);
    world.round();
    let log = world.repository().join("log");
    let span = windows(&world.repository()).unwrap().pop().unwrap().span;
    let (folder, aside) = (log.join(&span), log.join("aside"));
    std::fs::rename(&folder, &aside).unwrap();
    write(world.store(), 1, 3);
    world.pass(1);
    let now_ms = world.now_ms();
    let mut copying = world.log.take().unwrap();
    let failed = copying.round(world.store(), now_ms).unwrap_err();
    assert!(matches!(failed, BackupError::Io { .. }), "{failed}");
    std::fs::rename(&aside, &folder).unwrap();
    let round = copying.round(world.store(), now_ms).unwrap();
    assert_eq!((round.gap, round.segments), (None, 1));
    world.log = Some(copying);
    world.pass(1);
    world.round();
    world.check(START + 2);
}

#[test]
fn pruning_leaves_the_bases_of_the_log() {
    let mut world = World::new(clock!());
    for _ in 0..20 {
        write(world.store(), 1, 10);
        world.pass(1);
        world.round_with_base();
    }
    let before = world.window();
    backup(world.store(), &world.repository(), world.now_ms());
    backup(world.store(), &world.repository(), world.now_ms());
    let retention = Retention {
        keep_last: 1,
        keep_within_ms: 0,
        now_ms: world.now_ms(),
    };
    let pruned = prune(&world.repository(), &retention).unwrap();
    assert_eq!(pruned.removed.len(), 1);
    assert_eq!(world.window(), before);
    world.check(before.0);
}

#[test]
fn a_clock_that_is_set_back_far_ends_the_span_and_begins_another() {
    let mut world = World::new(clock!());
    world.round_with_base();
    write(world.store(), 1, 5);
    world.pass(3);
    world.round();
    // The clock was an hour ahead.
    world.second.store(START + 3_600, Ordering::SeqCst);
    write(world.store(), 1, 5);
    world.pass(1);
    world.round();
    world.second.store(START + 10, Ordering::SeqCst);
    write(world.store(), 1, 5);
    world.pass(1);
    assert!(world.round().gap.is_some());
    world.round_with_base();
    write(world.store(), 1, 5);
    world.pass(3);
    world.round();
    let windows = windows(&world.repository()).unwrap();
    assert_eq!(windows.len(), 2, "{windows:?}");
    assert_eq!(
        (windows[1].from, windows[1].to),
        (Some(START + 12), START + 13)
    );
    world.check(START + 2);
    world.check(START + 13);
}

#[test]
fn a_missing_end_is_found_by_the_note_of_the_last_second() {
    let mut world = World::new(clock!());
    world.options.base_bytes = u64::MAX;
    world.stop();
    world.start(true);
    world.round_with_base();
    for _ in 0..5 {
        write(world.store(), 1, 3);
        world.pass(1);
        world.round();
    }
    let repository = world.repository();
    let newest = segments(&repository).pop().unwrap();
    let content = std::fs::read(&newest).unwrap();
    std::fs::remove_file(&newest).unwrap();
    let (_, to) = world.window();
    assert_eq!(to, START + 2, "the fourth second may lack groups");
    world.check(to);
    let late = world.refused(Moment::Second(START + 4));
    assert!(matches!(late, BackupError::MomentNotInLog { .. }), "{late}");
    let latest = world.refused(Moment::Latest);
    assert!(matches!(latest, BackupError::DamagedLog { .. }), "{latest}");
    assert!(
        verify(&repository, None, &mut |_| {})
            .unwrap()
            .has_problems()
    );
    std::fs::write(&newest, content).unwrap();
    world.check(START + 4);

    // Without the note, the last second counts that has a later group.
    let note = newest.with_file_name("reached.json");
    let content = std::fs::read(&note).unwrap();
    for damage in [None, Some(b"{}")] {
        match damage {
            None => std::fs::remove_file(&note).unwrap(),
            Some(text) => std::fs::write(&note, text).unwrap(),
        }
        assert!(
            verify(&repository, None, &mut |_| {})
                .unwrap()
                .has_problems()
        );
        world.check(START + 3);
        std::fs::write(&note, &content).unwrap();
    }
    world.check(START + 4);
    let first = segments(&repository).remove(0);
    std::fs::remove_file(first).unwrap();
    assert!(
        verify(&repository, None, &mut |_| {})
            .unwrap()
            .has_problems()
    );
    let refused = world.refused(Moment::Second(START + 4));
    assert!(
        matches!(refused, BackupError::DamagedLog { .. }),
        "{refused}"
    );
}

#[test]
fn a_segment_that_was_copied_twice_counts_once() {
    let mut world = World::new(clock!());
    world.round_with_base();
    write(world.store(), 1, 3);
    world.pass(1);
    world.round();
    let first = segments(&world.repository());
    // The sync of the folder failed after the file had its name, and the server did not know.
    let copy = world.dir.path().join("copy");
    std::fs::copy(&first[0], &copy).unwrap();
    std::fs::remove_file(&first[0]).unwrap();
    world.stop();
    world.start(true);
    write(world.store(), 1, 3);
    world.pass(1);
    world.round();
    std::fs::copy(&copy, &first[0]).unwrap();
    assert_eq!(segments(&world.repository()).len(), 2);
    world.pass(1);
    world.round();
    world.check(START + 2);
    let verified = verify(&world.repository(), None, &mut |_| {}).unwrap();
    assert!(!verified.has_problems(), "{verified:?}");
}

#[test]
fn a_damaged_base_is_replaced_by_an_older_one_with_more_segments() {
    let mut world = World::new(clock!());
    world.options.base_bytes = u64::MAX;
    world.stop();
    world.start(true);
    world.round_with_base();
    for step in 0..4 {
        write(world.store(), 1, 30);
        world.pass(1);
        world.round();
        if step == 1 {
            world.base();
        }
    }
    let newest = manifests(&world.repository()).pop().unwrap();
    let journal = newest
        .files
        .iter()
        .find(|file| file.name.ends_with(".jnl"))
        .unwrap();
    let objects = world.repository().join("objects");
    flip(
        &objects.join(&journal.sha256[..2]).join(&journal.sha256),
        5_000,
    );
    world.check(START + 3);
}

#[test]
fn a_folder_that_was_replaced_is_noticed() {
    let mut world = World::new(clock!());
    world.round_with_base();
    assert!(!world.log.as_ref().unwrap().is_lost());
    let repository = world.repository();
    std::fs::rename(&repository, world.dir.path().join("aside")).unwrap();
    std::fs::create_dir(&repository).unwrap();
    write(world.store(), 1, 3);
    let now_ms = world.now_ms();
    let mut log = world.log.take().unwrap();
    assert!(log.round(world.store(), now_ms).is_err());
    assert!(log.is_lost());
    drop(log);
    world.stop();
    world.start(true);
    world.round_with_base();
    world.pass(3);
    world.round();
    world.check(START + 2);
}

#[test]
fn a_file_is_no_folder_of_a_log() {
    let world = World::new(clock!());
    for name in ["x.tar.zst", "file"] {
        let path = world.dir.path().join(name);
        if name == "file" {
            std::fs::write(&path, "text").unwrap();
        }
        let options = ContinuousOptions::new(1_000);
        let refused = ContinuousBackup::open(world.store(), &path, options).err();
        assert!(
            matches!(refused, Some(BackupError::NoFolder { .. })),
            "{refused:?}"
        );
    }
}
