//! Limits on connections, and the choice of the connection that is dropped for a new one.
//!
//! A new connection is always admitted, because it may be a probe of the kubelet, and failed probes restart this process. If
//! the peer of the new connection has reached its limit, the longest idle connection of that peer is dropped. If the total
//! limit is reached, the longest idle connection of the peer with the most connections is dropped. A peer that opens idle
//! connections therefore loses only connections of its own.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use crate::clock::Instant;

/// Limits on the connections of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionLimits {
    /// Maximum number of open connections of all peers together.
    pub(super) max_connections: usize,
    /// Maximum number of open connections of one peer.
    pub(super) max_connections_per_peer: usize,
    /// The longest time between the accept of a connection and the head of its first request, the TLS handshake included.
    pub(super) first_request_timeout: Duration,
    /// The longest time without the start or the end of a request, after the first request.
    pub(super) idle_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            max_connections: 256,
            max_connections_per_peer: 32,
            first_request_timeout: Duration::from_secs(10),
            // Upstream: `IdleTimeout` of `k8s.io/apiserver`'s secure server.
            idle_timeout: Duration::from_secs(90),
        }
    }
}

/// The origin of connections that share one limit: an IPv4 address, or the 64-bit network of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Peer(IpAddr);

impl Peer {
    pub(super) fn from_address(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
            }
            address => address,
        })
    }
}

/// Serial number of a connection, unique in its table.
pub(super) type ConnectionId = u64;

struct TableEntry<H> {
    /// When the connection was opened, or its last request began.
    since: Instant,
    handle: H,
}

/// The connections of one listener. Dropping the handle `H` of a connection ends the connection.
pub(super) struct ConnectionTable<H> {
    limits: ConnectionLimits,
    next: ConnectionId,
    peers: BTreeMap<Peer, BTreeMap<ConnectionId, TableEntry<H>>>,
}

impl<H> ConnectionTable<H> {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self { limits, next: 0, peers: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.peers.values().map(BTreeMap::len).sum()
    }

    /// Admits a connection. Returns its serial number and, if a limit is reached, the handle of another connection to drop.
    pub(super) fn admit(&mut self, peer: Peer, now: Instant, handle: H) -> (ConnectionId, Option<H>) {
        let own = self.peers.get(&peer).map_or(0, BTreeMap::len);
        let crowded = if own >= self.limits.max_connections_per_peer {
            Some(peer)
        } else if self.len() >= self.limits.max_connections {
            self.peer_with_most_connections()
        } else {
            None
        };
        let evicted = crowded.and_then(|peer| self.evict(peer));
        let id = self.next;
        self.next += 1;
        self.peers.entry(peer).or_default().insert(id, TableEntry { since: now, handle });
        (id, evicted)
    }

    /// Records that a request has started on a connection.
    pub(super) fn record_request(&mut self, peer: Peer, id: ConnectionId, now: Instant) {
        if let Some(entry) = self.peers.get_mut(&peer).and_then(|entries| entries.get_mut(&id)) {
            entry.since = now;
        }
    }

    pub(super) fn remove(&mut self, peer: Peer, id: ConnectionId) -> Option<H> {
        let entries = self.peers.get_mut(&peer)?;
        let removed = entries.remove(&id);
        if entries.is_empty() {
            self.peers.remove(&peer);
        }
        removed.map(|entry| entry.handle)
    }

    /// Returns the peer with the most connections; among equals, the peer with the longest idle connection.
    fn peer_with_most_connections(&self) -> Option<Peer> {
        let oldest = |entries: &BTreeMap<ConnectionId, TableEntry<H>>| entries.values().map(|entry| entry.since).min();
        let peers = self.peers.iter().map(|(peer, entries)| (entries.len(), std::cmp::Reverse(oldest(entries)), *peer));
        peers.max().map(|(_, _, peer)| peer)
    }

    /// Removes the longest idle connection of a peer, and returns the handle of the connection.
    fn evict(&mut self, peer: Peer) -> Option<H> {
        let (id, _) = self.peers.get(&peer)?.iter().min_by_key(|(id, entry)| (entry.since, **id))?;
        self.remove(peer, *id)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::Clock;

    fn peer(last: u8) -> Peer {
        Peer::from_address(IpAddr::from([10, 0, 0, last]))
    }

    fn table(connections: usize, per_peer: usize) -> ConnectionTable<&'static str> {
        ConnectionTable::new(ConnectionLimits {
            max_connections: connections,
            max_connections_per_peer: per_peer,
            ..ConnectionLimits::default()
        })
    }

    #[test]
    fn a_peer_at_its_limit_loses_its_own_longest_silent_connection() {
        let now = Clock::system().monotonic_now();
        let mut table = table(100, 2);
        let (first, _) = table.admit(peer(1), now, "first");
        table.admit(peer(1), now + Duration::from_secs(1), "second");
        table.admit(peer(2), now, "other");
        // A request arrives on the first connection after the second connection was opened.
        table.record_request(peer(1), first, now + Duration::from_secs(2));
        assert_eq!(table.admit(peer(1), now + Duration::from_secs(3), "third").1, Some("second"));
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn a_full_table_drops_a_connection_of_the_peer_with_the_most() {
        let now = Clock::system().monotonic_now();
        let mut table = table(4, 4);
        table.admit(peer(1), now, "silent for longest, and alone");
        for _ in 0..3 {
            table.admit(peer(2), now + Duration::from_secs(1), "one of three");
        }
        assert_eq!(table.admit(peer(3), now + Duration::from_secs(2), "new").1, Some("one of three"));
        assert_eq!(table.admit(peer(4), now + Duration::from_secs(3), "new").1, Some("one of three"));
        // Every peer has one connection, so the longest idle connection of all is dropped.
        assert_eq!(table.admit(peer(5), now + Duration::from_secs(4), "new").1, Some("silent for longest, and alone"));
    }

    #[test]
    fn addresses_of_one_host_are_one_peer() {
        let of = |text: &str| Peer::from_address(text.parse().unwrap());
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("127.0.0.1"), of("127.0.0.2"));
    }

    proptest! {
        /// For any behaviour of peers, new connections are admitted and the limits hold. A peer with one connection does not
        /// lose that connection to a peer with several.
        /// COMMON-97.
        #[test]
        fn limits_hold_and_single_connections_survive(steps in prop::collection::vec((0u8..6, 0u8..4), 1..200)) {
            let now = Clock::system().monotonic_now();
            let mut table = ConnectionTable::new(ConnectionLimits { max_connections: 8, max_connections_per_peer: 3, ..ConnectionLimits::default() });
            let mut open: Vec<(Peer, ConnectionId)> = Vec::new();
            for (at, (from, what)) in steps.into_iter().enumerate() {
                let now = now + Duration::from_secs(at as u64);
                match what {
                    0 if !open.is_empty() => {
                        let (peer, id) = open.swap_remove(usize::from(from) % open.len());
                        table.remove(peer, id);
                    }
                    1 if !open.is_empty() => {
                        let (peer, id) = open[usize::from(from) % open.len()];
                        table.record_request(peer, id, now);
                    }
                    _ => {
                        let counts = |open: &[(Peer, ConnectionId)], of: Peer| open.iter().filter(|(peer, _)| *peer == of).count();
                        let before = open.clone();
                        let most = before.iter().map(|(peer, _)| counts(&before, *peer)).max().unwrap_or(0);
                        let (id, evicted) = table.admit(peer(from), now, (peer(from), at));
                        if let Some((victim, _)) = evicted {
                            prop_assert!(counts(&before, victim) == most || victim == peer(from));
                            let known: Vec<ConnectionId> = table.peers.get(&victim).map(|e| e.keys().copied().collect()).unwrap_or_default();
                            open.retain(|(peer, id)| *peer != victim || known.contains(id));
                        }
                        open.push((peer(from), id));
                        prop_assert!(counts(&open, peer(from)) <= 3);
                    }
                }
                prop_assert!(table.len() <= 8);
                prop_assert_eq!(table.len(), open.len());
            }
        }
    }
}
