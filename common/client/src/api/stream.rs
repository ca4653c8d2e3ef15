//! Splits the stream of a watch into frames: lines of JSON, or protobuf messages with a length prefix.

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, Response, header};
use http_body_util::BodyExt as _;
use kube::client::Body;

use super::Error;

/// Size limit of a frame in bytes. API servers limit an object to a few MB.
const MAX_FRAME: usize = 32 << 20;
/// Maximum number of bytes reserved in one step for the rest of a frame, because its length prefix may be wrong.
const ROOM: usize = 256 << 10;
/// Size in bytes of the length prefix of a protobuf message, which is big-endian.
const LENGTH: usize = 4;

/// Encoding of the objects in an answer or a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireFormat {
    /// JSON; the default for an unknown content type.
    #[default]
    Json,
    /// Kubernetes' protobuf encoding.
    Protobuf,
}

impl WireFormat {
    /// Returns the media type for the `Accept` header.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Returns the format of a media type, ignoring the case of letters; `None` for an unknown media type.
    pub fn from_media_type(media_type: &str) -> Option<Self> {
        [Self::Json, Self::Protobuf].into_iter().find(|format| media_type.eq_ignore_ascii_case(format.media_type()))
    }

    /// Returns the format of an answer with these headers.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] if the answer is compressed, which this client never requests.
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, Error> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim();
        match header(header::CONTENT_ENCODING) {
            "" | "identity" => {}
            encoding => {
                return Err(Error::OutcomeUnknown(format!("unexpected compression of the answer: {encoding:?}")));
            }
        }
        let media_type = header(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
        Ok(Self::from_media_type(media_type).unwrap_or_default())
    }
}

/// The frames of a watch, read one by one from the body of the answer.
#[derive(Debug)]
pub struct WatchFrames {
    body: Body,
    format: WireFormat,
    buffer: BytesMut,
    /// Number of bytes at the beginning of `buffer` that were searched for a line end without success.
    scanned: usize,
    ended: bool,
}

impl WatchFrames {
    pub(super) fn new(response: Response<Body>) -> Result<Self, Error> {
        let (parts, body) = response.into_parts();
        let format = WireFormat::from_headers(&parts.headers)?;
        Ok(Self { body, format, buffer: BytesMut::new(), scanned: 0, ended: false })
    }

    /// Returns the encoding of the frames.
    pub fn format(&self) -> WireFormat {
        self.format
    }

    /// Whether the received bytes end in the middle of a frame, once [`Self::next_frame`] has returned all complete frames.
    pub fn has_incomplete_frame(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Returns the next frame, without line end or length prefix; `None` after the server has closed the stream. Cancel-safe.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] if the connection breaks, a frame is too long, or the stream ends in the middle of a frame.
    pub async fn next_frame(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let frame = match self.format {
                WireFormat::Json => self.line()?,
                WireFormat::Protobuf => self.message()?,
            };
            if frame.is_some() {
                return Ok(frame);
            }
            if self.ended {
                let left = self.buffer.len();
                let broken =
                    || Error::OutcomeUnknown(format!("the stream ended in the middle of a frame, after {left} bytes"));
                return if left == 0 { Ok(None) } else { Err(broken()) };
            }
            let frame = self.body.frame().await.transpose();
            match frame.map_err(|e| Error::OutcomeUnknown(format!("the connection of the stream broke: {e}")))? {
                None => self.ended = true,
                Some(frame) => self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default()),
            }
        }
    }

    /// Returns the next line that is not empty; `None` if the buffer does not contain a whole line.
    fn line(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(at) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) {
            let line = self.buffer.split_to(self.scanned + at).freeze();
            self.buffer.advance(1);
            self.scanned = 0;
            if !line.is_empty() {
                return Ok(Some(line));
            }
        }
        self.scanned = self.buffer.len();
        if self.buffer.len() > MAX_FRAME {
            return Err(Error::OutcomeUnknown(format!("a line is longer than {MAX_FRAME} bytes")));
        }
        Ok(None)
    }

    /// Returns the next message; `None` if the buffer does not contain the whole message.
    fn message(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(length) = self.buffer.first_chunk::<LENGTH>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_FRAME {
            return Err(Error::OutcomeUnknown(format!("a frame of {length} bytes is longer than {MAX_FRAME}")));
        }
        if self.buffer.len() < LENGTH + length {
            self.buffer.reserve((LENGTH + length - self.buffer.len()).min(ROOM));
            return Ok(None);
        }
        self.buffer.advance(LENGTH);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(content_type: &str, body: &[u8]) -> Response<Body> {
        Response::builder().header("content-type", content_type).body(Body::from(body.to_vec())).unwrap()
    }

    async fn read(content_type: &str, body: &[u8]) -> (Vec<Bytes>, Option<Error>) {
        let mut frames = WatchFrames::new(response(content_type, body)).unwrap();
        let mut got = Vec::new();
        loop {
            match frames.next_frame().await {
                Ok(Some(frame)) => got.push(frame),
                Ok(None) => {
                    assert!(!frames.has_incomplete_frame());
                    return (got, None);
                }
                Err(e) => {
                    assert!(frames.has_incomplete_frame());
                    return (got, Some(e));
                }
            }
        }
    }

    const JSON: &str = "application/json";
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";

    #[tokio::test]
    async fn lines_are_returned_whole_and_empty_lines_are_skipped() {
        let (lines, error) = read(JSON, b"{\"a\":1}\n\n{\"b\":2}\n").await;
        assert_eq!(lines, [&b"{\"a\":1}"[..], &b"{\"b\":2}"[..]]);
        assert!(error.is_none());
    }

    #[tokio::test]
    async fn half_a_line_at_the_end_is_an_error() {
        let (lines, error) = read(JSON, b"{\"a\":1}\n{\"b\"").await;
        assert_eq!(lines.len(), 1);
        assert!(matches!(error, Some(Error::OutcomeUnknown(_))));
    }

    #[tokio::test]
    async fn messages_with_any_bytes_are_returned_whole() {
        let (frames, error) = read(PROTOBUF, b"\0\0\0\x03a\nb\0\0\0\0\0\0\0\x01c").await;
        assert_eq!(frames, [&b"a\nb"[..], &b""[..], &b"c"[..]]);
        assert!(error.is_none());
    }

    #[tokio::test]
    async fn a_truncated_message_and_an_overlong_one_are_errors() {
        for body in [&b"\0\0\0\x01a\0\0\0\x09bc"[..], b"\0\0\0\x01a\0\0", b"\0\0\0\x01a\xff\xff\xff\xffbc"] {
            let (frames, error) = read(PROTOBUF, body).await;
            assert_eq!(frames, [&b"a"[..]]);
            assert!(matches!(error, Some(Error::OutcomeUnknown(_))), "{body:?}");
        }
    }

    #[test]
    fn a_compressed_answer_is_refused() {
        let mut compressed = response(PROTOBUF, b"");
        compressed.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        assert!(matches!(WatchFrames::new(compressed), Err(Error::OutcomeUnknown(_))));
    }
}
