//! Messages to systemd about the state of a server: `Type=notify` of a unit.
//!
//! Promises: without the variable `NOTIFY_SOCKET` of systemd nothing is sent. A message that cannot
//! be sent is left out: a server must not fail because its supervisor does not listen.
//! Leaves out: the passing of sockets. Systems other than Unix send nothing.

/// Tells that the server accepts requests, or that it has read its keys again.
pub fn ready() {
    #[cfg(unix)]
    send(&[sd_notify::NotifyState::Ready]);
}

/// Tells that the server stops.
pub fn stopping() {
    #[cfg(unix)]
    send(&[sd_notify::NotifyState::Stopping]);
}

/// Tells that the server reads its keys again; [`ready`] ends it.
#[cfg(unix)]
pub(crate) fn reloading() {
    // systemd compares the time with that of its signal.
    if let Ok(now) = sd_notify::NotifyState::monotonic_usec_now() {
        send(&[sd_notify::NotifyState::Reloading, now]);
    }
}

/// Starts a task that tells regularly that the workers of the server run, if the unit asks for it
/// with `WatchdogSec`. A server whose workers are all blocked stays silent, and is started again.
pub fn start_watchdog() {
    // Half of the time leaves room for a late message. A time of nothing asks for no messages.
    #[cfg(unix)]
    let pause = sd_notify::watchdog_enabled().unwrap_or_default() / 2;
    #[cfg(unix)]
    if !pause.is_zero() {
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(pause);
            loop {
                ticks.tick().await;
                send(&[sd_notify::NotifyState::Watchdog]);
            }
        });
    }
}

#[cfg(unix)]
fn send(states: &[sd_notify::NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
