//! An answer of the API server before it is turned into a result or an error.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::client::Body;

use super::{Error, ErrorStatus, MAX_RETRY_AFTER, WireFormat};

/// A complete answer: the status, the format, and the body.
pub(super) struct Answer {
    status: StatusCode,
    /// Wait before a retry, if the server asked for one and did not execute the request.
    retry_after: Option<Duration>,
    format: WireFormat,
    pub(super) body: Bytes,
}

impl Answer {
    /// Reads a response to its end.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] if the connection breaks, the body is longer than `limit` bytes, or the body is compressed.
    pub(super) async fn read_response(response: Response<Body>, limit: usize) -> Result<Self, Error> {
        let (parts, body) = response.into_parts();
        let format = WireFormat::from_headers(&parts.headers)?;
        let body = Limited::new(body, limit).collect().await.map_err(|e| {
            let too_long = e.is::<LengthLimitError>();
            Error::OutcomeUnknown(if too_long {
                format!("the answer is longer than {limit} bytes")
            } else {
                format!("the connection broke during the answer: {e}")
            })
        })?;
        let body = body.to_bytes();
        let retry_after = parts
            .headers
            .get(header::RETRY_AFTER)
            .and_then(|v| v.to_str().ok())
            .and_then(|v| v.trim().parse().ok())
            .map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
            .filter(|_| matches!(parts.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE));
        Ok(Self { status: parts.status, retry_after, format, body })
    }

    /// Returns the format and the body of a success, and an error for any other status.
    pub(super) fn into_result(self) -> Result<(WireFormat, Bytes), Error> {
        if self.status.is_success() {
            return Ok((self.format, self.body));
        }
        Err(Error::Status(Box::new(ErrorStatus::decode_status(
            self.status.as_u16(),
            self.format,
            &self.body,
            self.retry_after,
        ))))
    }
}
