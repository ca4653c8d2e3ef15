//! Bytes that processes have received over TCP, as the kernel counts them for each connection.
//!
//! The kernel is asked with the protocol of `ss -ti` (`sock_diag(7)`), and `/proc/<pid>/fd` tells which connection belongs to
//! which process. A connection that opens and closes between two readings is missed; those of watches stay open.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket};

/// `SOCK_DIAG_BY_FAMILY`; a message of any other type ends the answer.
const BY_FAMILY: u16 = 20;

/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// `INET_DIAG_INFO`, the attribute with `struct tcp_info`.
const INFO: u16 = 2;
/// Lengths of `struct nlmsghdr`, of `struct inet_diag_req_v2` and of `struct inet_diag_msg`.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const MESSAGE: usize = 72;
/// Offset of the inode in `struct inet_diag_msg`, and of `tcpi_bytes_received` in `struct tcp_info`.
const INODE: usize = 68;
const BYTES_RECEIVED: usize = 128;

/// The connections of some processes and what each of them has received.
#[derive(Clone, Debug, Default)]
pub struct Received(BTreeMap<(u32, u64), u64>);

impl Received {
    /// Reads the counters of the open connections of these processes. Does nothing where the kernel does not tell.
    pub fn update(&mut self, pids: impl Iterator<Item = u32>) {
        let Ok(connections) = connections() else { return };
        for pid in pids {
            for inode in sockets(pid) {
                if let Some(bytes) = connections.get(&u64::from(inode)) {
                    self.0.insert((pid, u64::from(inode)), *bytes);
                }
            }
        }
    }

    /// The bytes that a process has received so far, also over connections that are closed.
    pub fn of(&self, pid: u32) -> u64 {
        self.0.range((pid, 0)..=(pid, u64::MAX)).map(|(_, bytes)| bytes).sum()
    }
}

fn sockets(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

/// The bytes received by each TCP connection of this network namespace, by inode.
fn connections() -> io::Result<HashMap<u64, u64>> {
    let mut all = HashMap::new();
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        let kernel = socket(AddressFamily::NETLINK, SocketType::RAW, Some(netlink::SOCK_DIAG))?;
        send(&kernel, &request(family), SendFlags::empty())?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let (length, _) = recv(&kernel, &mut buffer[..], RecvFlags::empty())?;
            if length == 0 || read(buffer.get(..length).unwrap_or_default(), &mut all) {
                break;
            }
        }
    }
    Ok(all)
}

fn request(family: AddressFamily) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER + REQUEST);
    message.extend(((HEADER + REQUEST) as u32).to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(DUMP.to_ne_bytes());
    // Sequence number and port.
    message.extend([0; 8]);
    message.extend([family.as_raw() as u8, TCP, 1 << (INFO - 1), 0]);
    // Connections in all states.
    message.extend(u32::MAX.to_ne_bytes());
    message.resize(HEADER + REQUEST, 0);
    message
}

/// Reads the messages of one datagram; whether the answer ends with it.
fn read(mut datagram: &[u8], into: &mut HashMap<u64, u64>) -> bool {
    while let (Some(length), Some(kind)) = (u32_at(datagram, 0), u16_at(datagram, 4)) {
        let length = (length as usize).max(HEADER);
        if kind != BY_FAMILY {
            // The end, or an error.
            return true;
        }
        let message = datagram.get(HEADER..length).unwrap_or_default();
        if let (Some(inode), Some(bytes)) = (u32_at(message, INODE), bytes_received(message)) {
            into.insert(u64::from(inode), bytes);
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

/// The attribute `INET_DIAG_INFO` of a message.
fn bytes_received(message: &[u8]) -> Option<u64> {
    let mut attributes = message.get(MESSAGE..)?;
    loop {
        let (length, kind) = (usize::from(u16_at(attributes, 0)?), u16_at(attributes, 2)?);
        if kind == INFO {
            let at = 4 + BYTES_RECEIVED;
            return Some(u64::from_ne_bytes(attributes.get(at..at + 8)?.try_into().ok()?));
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[test]
    fn bytes_of_open_and_of_closed_connections_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut received = Received::default();
        let own = std::process::id();
        received.update(std::iter::once(own));
        let before = received.of(own);
        server.write_all(&[0; 5000]).unwrap();
        client.read_exact(&mut [0; 5000]).unwrap();
        received.update(std::iter::once(own));
        assert!(received.of(own) >= before + 5000, "{before} {}", received.of(own));
        let open = received.of(own);
        drop((client, server));
        received.update(std::iter::once(own));
        assert!(received.of(own) >= open);
        assert_eq!(received.of(0), 0);
    }

    #[test]
    fn a_datagram_that_is_cut_off_ends_nothing() {
        let mut all = HashMap::new();
        let mut message = vec![0; HEADER + MESSAGE];
        message[0..4].copy_from_slice(&((HEADER + MESSAGE) as u32).to_ne_bytes());
        message[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        assert!(!read(&message, &mut all));
        assert!(!read(&message[..20], &mut all) && all.is_empty());
        message[4..6].copy_from_slice(&3_u16.to_ne_bytes());
        assert!(read(&message, &mut all));
    }
}
