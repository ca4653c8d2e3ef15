//! Addresses of nodes and Pods, unique among those that are there.

use std::net::{Ipv4Addr, Ipv6Addr};

use common::map::HashSet;

/// Nodes: 192.168.0.0/16, and what follows it.
const HOSTS: u32 = u32::from_be_bytes([192, 168, 0, 0]);
/// Pods: 10.64.0.0/10.
const PODS: u32 = u32::from_be_bytes([10, 64, 0, 0]);
const POD_COUNT: u32 = 1 << 22;

/// The address of the `index`-th node.
pub(super) fn host(index: u32) -> Ipv4Addr {
    Ipv4Addr::from(HOSTS.wrapping_add(index).wrapping_add(1))
}

/// The address of the other family that belongs to an address: `fd00::a40:1` to `10.64.0.1`.
pub(super) fn other_family(address: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from((0xfd00 << 112) | u128::from(u32::from(address)))
}

#[derive(Debug, Default)]
pub(super) struct Pool {
    used: HashSet<Ipv4Addr>,
    last: u32,
}

impl Pool {
    /// An address nobody has; the Pod's `own`, if it has one that is free.
    pub(super) fn take(&mut self, own: Option<&str>) -> Ipv4Addr {
        if let Some(own) = own.and_then(|ip| ip.parse().ok())
            && self.used.insert(own)
        {
            return own;
        }
        // An address is used again as late as possible.
        for _ in 0..POD_COUNT {
            self.last = self.last % (POD_COUNT - 2) + 1;
            let address = Ipv4Addr::from(PODS + self.last);
            if self.used.insert(address) {
                return address;
            }
        }
        Ipv4Addr::UNSPECIFIED
    }

    /// An address is free again.
    pub(super) fn give_back(&mut self, address: Ipv4Addr) {
        self.used.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pods_share_an_address() {
        let mut pool = Pool::default();
        assert_eq!(pool.take(Some("10.64.0.2")), Ipv4Addr::new(10, 64, 0, 2));
        assert_eq!(pool.take(None), Ipv4Addr::new(10, 64, 0, 1));
        assert_eq!(pool.take(None), Ipv4Addr::new(10, 64, 0, 3));
        assert_eq!(pool.take(Some("10.64.0.3")), Ipv4Addr::new(10, 64, 0, 4));
        pool.give_back(Ipv4Addr::new(10, 64, 0, 1));
        assert_eq!(pool.take(None), Ipv4Addr::new(10, 64, 0, 5), "not used again so soon");
        assert_eq!(host(0), Ipv4Addr::new(192, 168, 0, 1));
        assert_eq!(other_family(Ipv4Addr::new(10, 64, 0, 1)).to_string(), "fd00::a40:1");
    }
}
