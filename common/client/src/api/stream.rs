//! The lines of a watch.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;

use super::Error;

/// The longest line accepted. An object is at most a few MB in any server.
const MAX_LINE: usize = 32 << 20;

/// Splits a response body into lines.
#[derive(Debug)]
pub struct Lines {
    body: Body,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    scanned: usize,
    ended: bool,
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self { body, buffer: BytesMut::new(), scanned: 0, ended: false }
    }

    /// Whether the last thing that came was no whole line.
    pub fn in_a_line(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// The next line, without its end; `None` when the server has closed the stream. Safe to cancel.
    ///
    /// # Errors
    /// [`Error::Lost`] when the connection breaks, a line is too long, or the stream ends in the middle of one.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) {
                let line = self.buffer.split_to(self.scanned + at).freeze();
                self.buffer.advance(1);
                self.scanned = 0;
                if line.is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            self.scanned = self.buffer.len();
            if self.ended {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(Error::Lost(format!("the stream ended in the middle of a line of {} bytes", self.buffer.len())))
                };
            }
            if self.buffer.len() > MAX_LINE {
                return Err(Error::Lost(format!("a line is longer than {MAX_LINE} bytes")));
            }
            let frame = self.body.frame().await.transpose();
            match frame.map_err(|e| Error::Lost(format!("the stream broke off: {e}")))? {
                None => self.ended = true,
                Some(frame) => self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &'static str) -> (Vec<Bytes>, Option<Error>) {
        let mut lines = Lines::new(Body::from(text.as_bytes().to_vec()));
        let mut got = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(line)) => got.push(line),
                Ok(None) => {
                    assert!(!lines.in_a_line());
                    return (got, None);
                }
                Err(e) => {
                    assert!(lines.in_a_line());
                    return (got, Some(e));
                }
            }
        }
    }

    #[tokio::test]
    async fn lines_come_whole_and_empty_ones_are_skipped() {
        let (lines, error) = read("{\"a\":1}\n\n{\"b\":2}\n").await;
        assert_eq!(lines, [&b"{\"a\":1}"[..], &b"{\"b\":2}"[..]]);
        assert!(error.is_none());
    }

    #[tokio::test]
    async fn half_a_line_at_the_end_is_an_error() {
        let (lines, error) = read("{\"a\":1}\n{\"b\"").await;
        assert_eq!(lines.len(), 1);
        assert!(matches!(error, Some(Error::Lost(_))));
    }
}
