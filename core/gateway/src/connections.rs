//! The open connections of a port: their number in all and by address, and the choice of the one
//! that makes room for another.
//!
//! A port takes connections up to a limit. Beyond the limit a new connection takes the place of one
//! that is not in use: the oldest of those that have not sent a whole head within a second, else
//! the one that has been idle longest, else the one that has waited for its client for longest, a
//! second at least: the client takes nothing of its answer or sends nothing of a body. The last
//! that give way are connections that have just been opened, and those that have waited for a body
//! for a tenth of a second. Among equals the address with the most connections gives way, so that
//! one address cannot drive the connections of others out, and a connection that has just been
//! opened gives way to no address with more connections than its own. A client that loses an idle
//! connection opens another.
//!
//! A body that arrives at the rate that bodies must have is not waited for (`activity.rs`), so a
//! slow upload loses its place only if the port has no other.
//!
//! A connection is refused by closing it: an answer could only be sent in plain text, and clients
//! of TLS would not understand it.

use crate::activity::{Activity, CloseReason, Stage};
use crate::metrics::ConnectionCounters;
use orrery_model::sync::lock;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The time that a new connection has before it gives way to others first.
const GRACE: Duration = Duration::from_secs(1);

/// The time that a client has for the next part of a body before its connection may give way: more
/// than a body in transit needs between two parts, and too little to keep a port full.
const BODY_GRACE: Duration = Duration::from_millis(100);

/// The rank of the connections that give way last.
const FRESH: u8 = 3;

/// The largest numbers of open connections of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// All connections.
    pub total: usize,
    /// The connections of one address.
    pub per_address: usize,
}

/// The reason why a connection gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All connections are in use. One of them will end.
    Full,
    /// All connections of the address are in use.
    AddressFull,
}

/// The open connections of a port.
pub(crate) struct Connections {
    limits: ConnectionLimits,
    counters: Arc<ConnectionCounters>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, OpenConnection>,
    by_address: HashMap<IpAddr, usize>,
}

struct OpenConnection {
    address: IpAddr,
    activity: Arc<Activity>,
    /// Dropped to end the connection.
    displace: oneshot::Sender<()>,
}

/// The place of an open connection; dropping it makes the place free.
pub(crate) struct ConnectionSlot {
    connections: Arc<Connections>,
    number: u64,
    /// The activity of the connection.
    pub(crate) activity: Arc<Activity>,
    /// Resolves when the connection must end for another.
    pub(crate) displaced: oneshot::Receiver<()>,
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits, counters: Arc<ConnectionCounters>) -> Arc<Self> {
        Arc::new(Connections {
            limits,
            counters,
            open: Mutex::default(),
        })
    }

    /// Returns the largest number of connections of one address.
    pub(crate) fn per_address(&self) -> usize {
        self.limits.per_address
    }

    /// Gives a place to a new connection, if need be that of another one.
    pub(crate) fn admit(
        self: &Arc<Self>,
        address: IpAddr,
        now: Instant,
    ) -> Result<ConnectionSlot, NoPlace> {
        let address = address.to_canonical();
        let mut open = lock(&self.open);
        let of_address = open.by_address.get(&address).copied().unwrap_or(0);
        // An address that may have every place waits for one as all others do.
        let has_share = self.limits.per_address < self.limits.total;
        if has_share && of_address >= self.limits.per_address {
            self.displace_one(&mut open, Some(address), 0, now)
                .ok_or(NoPlace::AddressFull)?;
        }
        if open.connections.len() >= self.limits.total {
            self.displace_one(&mut open, None, of_address, now)
                .ok_or(NoPlace::Full)?;
        }

        let number = open.next;
        open.next += 1;
        let activity = Activity::new(now);
        let (displace, displaced) = oneshot::channel();
        let entry = OpenConnection {
            address,
            activity: activity.clone(),
            displace,
        };
        open.connections.insert(number, entry);
        *open.by_address.entry(address).or_default() += 1;
        self.counters.open.add(1);
        Ok(ConnectionSlot {
            connections: self.clone(),
            number,
            activity,
            displaced,
        })
    }

    /// Ends a connection that is not in use, if there is one, so that its descriptor becomes free.
    pub(crate) fn make_room(&self, now: Instant) {
        // Without such a connection there is nothing to do but wait.
        let _ = self.displace_one(&mut lock(&self.open), None, 0, now);
    }

    /// Ends the connection that gives way, of one address or of all. Returns `None` if all are in
    /// use, or are fresh ones of addresses with fewer than `share` connections.
    fn displace_one(
        &self,
        open: &mut Open,
        of: Option<IpAddr>,
        share: usize,
        now: Instant,
    ) -> Option<()> {
        let mut first: Option<(u64, (u8, usize, Instant))> = None;
        for (number, entry) in &open.connections {
            if of.is_some_and(|address| address != entry.address) {
                continue;
            }
            let Some((rank, since)) = rank(&entry.activity, now) else {
                continue;
            };
            let of_address = open.by_address.get(&entry.address).copied().unwrap_or(0);
            if rank == FRESH && of_address < share {
                continue;
            }
            let order = (rank, usize::MAX - of_address, since);
            if first.is_none_or(|(_, least)| order < least) {
                first = Some((*number, order));
            }
        }
        let (number, _) = first?;
        let entry = open.remove(number)?;
        self.counters.open.add(-1);
        self.counters.count(CloseReason::Displaced);
        drop(entry.displace);
        Some(())
    }
}

/// Returns the rank of a connection among those that give way, the lowest first, and the time to
/// compare equals by. Returns `None` for a connection that is in use.
fn rank(activity: &Activity, now: Instant) -> Option<(u8, Instant)> {
    let (stage, mut since) = activity.stage();
    let mut awaits_body = false;
    if stage == Stage::Busy {
        // A client that does not take its answer or send its body keeps no other client out.
        awaits_body = activity.untaken_since().is_none();
        since = activity.waits_for_client_since()?;
    }
    let waited = now.saturating_duration_since(since);
    let is_settled = waited >= GRACE;
    let rank = match (stage, is_settled) {
        (Stage::Opening | Stage::Head, true) => 0,
        (Stage::Idle, true) => 1,
        (Stage::Busy, true) => 2,
        (Stage::Opening | Stage::Head | Stage::Idle, false) => FRESH,
        (Stage::Busy, false) if awaits_body && waited >= BODY_GRACE => FRESH,
        (Stage::Busy, false) => return None,
    };
    Some((rank, since))
}

impl Open {
    fn remove(&mut self, number: u64) -> Option<OpenConnection> {
        let entry = self.connections.remove(&number)?;
        if let Some(count) = self.by_address.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&entry.address);
            }
        }
        Some(entry)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        // A displaced connection has lost its place before.
        if lock(&self.connections.open).remove(self.number).is_some() {
            self.connections.counters.open.add(-1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn connections(total: usize, per_address: usize) -> Arc<Connections> {
        let limits = ConnectionLimits { total, per_address };
        Connections::new(limits, Arc::default())
    }

    fn admit(connections: &Arc<Connections>, address: IpAddr, now: Instant) -> ConnectionSlot {
        connections
            .admit(address, now)
            .map_err(|_| ())
            .expect("a place")
    }

    fn is_displaced(place: &mut ConnectionSlot) -> bool {
        place.displaced.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn a_new_connection_takes_the_place_of_the_oldest_without_a_head() {
        let connections = connections(3, 3);
        let start = Instant::now();
        let later = start + Duration::from_secs(5);
        let mut idle = admit(&connections, ONE, start);
        drop(idle.activity.begin_request());
        let mut old = admit(&connections, ONE, start);
        let mut new = admit(&connections, ONE, later);
        let _fourth = admit(&connections, ONE, later);
        assert!(is_displaced(&mut old));
        let mut fifth = admit(&connections, ONE, later);
        assert!(is_displaced(&mut idle) && !is_displaced(&mut new) && !is_displaced(&mut fifth));
        assert_eq!(connections.counters.open.get(), 3);
        assert_eq!(connections.counters.closed(CloseReason::Displaced), 2);
        drop((old, idle, new));
        assert_eq!(connections.counters.open.get(), 2);
    }

    #[test]
    fn a_connection_with_a_request_keeps_its_place() {
        let connections = connections(2, 2);
        let now = Instant::now();
        let places = [admit(&connections, ONE, now), admit(&connections, TWO, now)];
        let requests = places
            .each_ref()
            .map(|place| place.activity.begin_request());
        let refused = connections.admit(ONE, now).err();
        assert_eq!(refused, Some(NoPlace::Full));
        drop(requests);
        admit(&connections, ONE, now);
    }

    #[test]
    fn a_connection_whose_client_takes_no_answer_gives_way_after_idle_ones() {
        let connections = connections(2, 2);
        let start = Instant::now();
        let second = start + Duration::from_secs(1);
        let mut untaken = admit(&connections, ONE, start);
        let answer = untaken
            .activity
            .track_answer(bytes::Bytes::from_static(b"x"), start);
        untaken.activity.stalled(start);
        let busy = admit(&connections, TWO, start);
        let request = busy.activity.begin_request();
        // A client may pause for less than a second.
        assert_eq!(connections.admit(TWO, start).err(), Some(NoPlace::Full));
        drop(request);
        let mut other = busy;
        let mut third = admit(&connections, TWO, second + GRACE);
        assert!(is_displaced(&mut other) && !is_displaced(&mut untaken));
        let _request = third.activity.begin_request();
        let _fourth = admit(&connections, TWO, second);
        assert!(is_displaced(&mut untaken) && !is_displaced(&mut third));
        drop(answer);
    }

    #[test]
    fn a_connection_that_waits_for_a_body_gives_way_the_longest_wait_first() {
        let connections = connections(3, 2);
        let start = Instant::now();
        let mut places = [
            admit(&connections, ONE, start),
            admit(&connections, ONE, start),
            admit(&connections, TWO, start),
        ];
        let requests = places
            .each_ref()
            .map(|place| place.activity.begin_request());
        for place in &places {
            place.activity.begin_body(start);
        }
        // The next part of a body may take a moment.
        let refused = connections.admit(ONE, start + BODY_GRACE / 2).err();
        assert_eq!(refused, Some(NoPlace::AddressFull));
        let refused = connections.admit(TWO, start + BODY_GRACE / 2).err();
        assert_eq!(refused, Some(NoPlace::Full));
        // The first client sends a part, so the second has waited for longer.
        places[0].activity.body_arrived(8 * 1024, start + GRACE);
        let new = admit(&connections, ONE, start + GRACE + BODY_GRACE);
        assert_eq!(places.each_mut().map(is_displaced), [false, true, false]);
        drop(new);
        // A whole body is a request in progress.
        places[2].activity.end_body();
        let _new = admit(&connections, TWO, start + GRACE + BODY_GRACE);
        let _newer = admit(&connections, TWO, start + GRACE + BODY_GRACE);
        assert!(!is_displaced(&mut places[2]));
        drop(requests);
    }

    #[test]
    fn a_connection_that_has_just_been_opened_gives_way_to_no_address_with_more() {
        let connections = connections(3, 3);
        let now = Instant::now();
        let places = [admit(&connections, ONE, now), admit(&connections, ONE, now)];
        let requests = places
            .each_ref()
            .map(|place| place.activity.begin_request());
        let mut visitor = admit(&connections, TWO, now);
        assert_eq!(connections.admit(ONE, now).err(), Some(NoPlace::Full));
        assert!(!is_displaced(&mut visitor));
        let _another = admit(&connections, TWO, now);
        assert!(is_displaced(&mut visitor));
        drop(requests);
    }

    #[test]
    fn an_address_that_may_have_every_place_waits_for_one() {
        let connections = connections(1, 1);
        let now = Instant::now();
        let place = admit(&connections, ONE, now);
        let request = place.activity.begin_request();
        assert_eq!(connections.admit(ONE, now).err(), Some(NoPlace::Full));
        drop(request);
        admit(&connections, ONE, now);
    }

    #[test]
    fn the_address_with_the_most_connections_gives_way() {
        let connections = connections(4, 3);
        let now = Instant::now();
        let mut other = admit(&connections, TWO, now);
        let mut many: Vec<ConnectionSlot> = (0..3).map(|_| admit(&connections, ONE, now)).collect();
        // The address is at its own limit, and then the port at its limit.
        many.push(admit(&connections, ONE, now));
        let mut another = admit(&connections, TWO, now);
        assert!(!is_displaced(&mut other) && !is_displaced(&mut another));
        let displaced = many.iter_mut().map(is_displaced).filter(|is| *is).count();
        assert_eq!(displaced, 2);
    }

    #[test]
    fn an_address_whose_connections_are_all_busy_is_refused() {
        let connections = connections(4, 1);
        let now = Instant::now();
        let place = admit(&connections, ONE, now);
        let _request = place.activity.begin_request();
        assert_eq!(
            connections.admit(ONE, now).err(),
            Some(NoPlace::AddressFull)
        );
        // The same address in the form of IPv6 is the same client.
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().expect("an address");
        assert_eq!(
            connections.admit(mapped, now).err(),
            Some(NoPlace::AddressFull)
        );
        admit(&connections, TWO, now);
    }
}
