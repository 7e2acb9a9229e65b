//! The functions of the C library that stand in for those of the system library: they record the
//! calls for files of a simulated disk, and hand every call on to the kernel.
//!
//! The linker takes these functions for all calls of the program, those of the standard library
//! included. Calls that a library makes without the C library, such as renames by `rustix`, are
//! found by their effect: see `Recorder::find_names`.
#![allow(unsafe_code)] // the functions have the names and the forms of C

use crate::Call;
use crate::record::{self, Recorder};
use libc::{c_int, c_long, c_void, iovec, off64_t, size_t, ssize_t};

/// The functions, so that the linker keeps them in every program that records.
pub(crate) fn are_linked() -> bool {
    let functions: [*const c_void; 8] = [
        write as *const c_void,
        writev as *const c_void,
        pwrite as *const c_void,
        pwrite64 as *const c_void,
        ftruncate as *const c_void,
        ftruncate64 as *const c_void,
        fsync as *const c_void,
        fdatasync as *const c_void,
    ];
    functions.iter().all(|function| !function.is_null())
}

/// Writes `count` bytes at the position of a file.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    let call = || unsafe { libc::syscall(libc::SYS_write, fd, buffer, count) };
    let bytes = |done: usize| unsafe { bytes(buffer, done) };
    written(fd, None, call, bytes)
}

/// Writes several buffers at the position of a file.
#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let call = || unsafe { libc::syscall(libc::SYS_writev, fd, parts, count) };
    let bytes = |done: usize| {
        let mut all: Vec<u8> = Vec::with_capacity(done);
        for part in 0..count as usize {
            // The kernel has read the first `done` bytes only.
            let part = unsafe { *parts.add(part) };
            let length = part.iov_len.min(done - all.len());
            all.extend(unsafe { bytes(part.iov_base, length) });
        }
        all
    };
    written(fd, None, call, bytes)
}

/// Writes `count` bytes at an offset of a file.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    offset: off64_t,
) -> ssize_t {
    let call = || unsafe { libc::syscall(libc::SYS_pwrite64, fd, buffer, count, offset) };
    let bytes = |done: usize| unsafe { bytes(buffer, done) };
    written(fd, Some(offset as u64), call, bytes)
}

/// As [`pwrite64`]: an offset has 64 bits.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    offset: off64_t,
) -> ssize_t {
    unsafe { pwrite64(fd, buffer, count, offset) }
}

/// Sets the length of a file.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(fd: c_int, length: off64_t) -> c_int {
    let call = || unsafe { libc::syscall(libc::SYS_ftruncate, fd, length) };
    let note = |recorder: &mut Recorder<'_>, _| recorder.resized(length as u64);
    recorded(fd, Call::Write, call, note) as c_int
}

/// As [`ftruncate64`]: a length has 64 bits.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate(fd: c_int, length: off64_t) -> c_int {
    unsafe { ftruncate64(fd, length) }
}

/// Makes a file or the names of a directory durable.
#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    synced(fd, libc::SYS_fsync)
}

/// Makes the bytes of a file durable.
#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    synced(fd, libc::SYS_fdatasync)
}

/// Syncs a file. The record says what is durable, so the real disk is not waited for.
fn synced(fd: c_int, number: c_long) -> c_int {
    let disk = record::disk_of(fd);
    let Some(mut recorder) = disk.as_ref().and_then(|disk| disk.of_call(fd)) else {
        return (unsafe { libc::syscall(number, fd) }) as c_int;
    };
    recorder.find_names();
    match recorder.failure(Call::Sync) {
        None => {
            recorder.synced();
            0
        }
        Some(error) => {
            recorder.sync_failed();
            drop(recorder);
            fail(error) as c_int
        }
    }
}

/// Carries out a write, and records the bytes that were written.
fn written<B: AsRef<[u8]>>(
    fd: c_int,
    offset: Option<u64>,
    call: impl FnOnce() -> c_long,
    bytes: impl FnOnce(usize) -> B,
) -> ssize_t {
    let note = |recorder: &mut Recorder<'_>, done: c_long| {
        // The position behind a write is its end, also if a file was opened for appending.
        let begin = offset.or_else(|| position(fd)?.checked_sub(done as u64));
        recorder.written(begin, bytes(done as usize).as_ref());
    };
    recorded(fd, Call::Write, call, note) as ssize_t
}

/// Carries out a call, and notes its result if it succeeded.
fn recorded(
    fd: c_int,
    kind: Call,
    call: impl FnOnce() -> c_long,
    note: impl FnOnce(&mut Recorder<'_>, c_long),
) -> c_long {
    let disk = record::disk_of(fd);
    let Some(mut recorder) = disk.as_ref().and_then(|disk| disk.of_call(fd)) else {
        return call();
    };
    if let Some(error) = recorder.failure(kind) {
        drop(recorder);
        return fail(error);
    }
    let done = call();
    if done >= 0 {
        note(&mut recorder, done);
    }
    done
}

/// Fails a call with an error of the system.
fn fail(error: i32) -> c_long {
    unsafe { *libc::__errno_location() = error };
    -1
}

/// Returns the position of a file at which the next write begins.
fn position(fd: c_int) -> Option<u64> {
    let position = unsafe { libc::lseek64(fd, 0, libc::SEEK_CUR) };
    u64::try_from(position).ok()
}

/// Returns the numbers of the file system and of the file, its length, and true for a directory, if
/// it is a file or a directory.
pub(crate) fn identity(fd: c_int) -> Option<(record::Identity, u64, bool)> {
    let mut stat = std::mem::MaybeUninit::<libc::stat64>::uninit();
    if unsafe { libc::fstat64(fd, stat.as_mut_ptr()) } != 0 {
        return None;
    }
    let stat = unsafe { stat.assume_init() };
    let is_directory = match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG => false,
        libc::S_IFDIR => true,
        _ => return None,
    };
    Some((
        (stat.st_dev, stat.st_ino),
        stat.st_size as u64,
        is_directory,
    ))
}

/// Returns the bytes of a buffer of a caller.
unsafe fn bytes<'a>(buffer: *const c_void, count: usize) -> &'a [u8] {
    match count {
        0 => &[],
        _ => unsafe { std::slice::from_raw_parts(buffer.cast(), count) },
    }
}
