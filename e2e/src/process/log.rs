//! The log of a process.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc};

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

const LINES: usize = 5_000;

/// The newest lines of a process. Cheap to clone; clones are the same log.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    lines: VecDeque<String>,
    debug_address: Option<SocketAddr>,
}

impl Log {
    pub(super) fn follow(&self, stream: impl AsyncRead + Unpin + Send + 'static) {
        let log = self.clone();
        tokio::spawn(async move {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            loop {
                line.clear();
                match reader.read_until(b'\n', &mut line).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => log.add(String::from_utf8_lossy(&line).trim_end()),
                }
            }
        });
    }

    fn add(&self, line: &str) {
        let mut inner = self.inner.lock();
        if inner.debug_address.is_none() {
            inner.debug_address = debug_address(line);
        }
        if inner.lines.len() == LINES {
            inner.lines.pop_front();
        }
        inner.lines.push_back(line.to_owned());
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.inner.lock().lines.iter().cloned().collect()
    }

    pub(super) fn last_words(&self) -> String {
        let inner = self.inner.lock();
        let from = inner.lines.len().saturating_sub(3);
        let last: Vec<&str> = inner.lines.iter().skip(from).map(String::as_str).collect();
        if last.is_empty() { "it has logged nothing".to_owned() } else { last.join(" | ") }
    }

    pub(super) fn debug_address(&self) -> Option<SocketAddr> {
        self.inner.lock().debug_address
    }
}

/// What the line begins with by which a controller says where it serves for local use.
const SERVING: &str = "Serving without TLS";

fn debug_address(line: &str) -> Option<SocketAddr> {
    if !line.contains(SERVING) {
        return None;
    }
    let start = line.find("127.0.0.1:")?;
    let rest = &line[start..];
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':')).unwrap_or(rest.len());
    let address: SocketAddr = rest[..end].trim_end_matches(['.', ':']).parse().ok()?;
    (address.port() != 0).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_text_and_json() {
        for line in [
            r#"I0101 12:00:00.000000 1 server.rs:1] "Serving without TLS for local use" address="127.0.0.1:4711""#,
            r#"{"ts":1,"msg":"Serving without TLS for local use","address":"127.0.0.1:4711"}"#,
        ] {
            assert_eq!(debug_address(line), Some(([127, 0, 0, 1], 4711).into()), "{line}");
        }
        for line in ["server=https://127.0.0.1:6443", r#"FLAG: --debug-address="127.0.0.1:0""#] {
            assert_eq!(debug_address(line), None, "{line}");
        }
    }
}
