//! gRPC-Web as text, before gRPC-Web is read: a caller may pad each part of the
//! body that it encodes by itself, and tonic takes padding at the end alone.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, header::CONTENT_TYPE};
use http_body::{Body as HttpBody, Frame};
use thiserror::Error;
use tonic::body::Body;

/// Makes text binary, and leaves every other request as it is. What is answered
/// follows the `accept` header, which stays.
pub(super) fn as_binary<B>(mut request: Request<B>) -> Request<Body>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if !matches!(kind, Some(b"application/grpc-web-text" | b"application/grpc-web-text+proto")) {
        return request.map(Body::new);
    }
    let binary = HeaderValue::from_static("application/grpc-web+proto");
    request.headers_mut().insert(CONTENT_TYPE, binary);
    request.map(|inner| Body::new(Decoded { inner, text: BytesMut::new() }))
}

/// Why a body of text could not be read.
#[derive(Debug, Error)]
enum TextError {
    #[error("the body is not base64")]
    NotBase64,
    #[error(transparent)]
    Body(Box<dyn Error + Send + Sync>),
}

/// The bytes of a body of base64.
struct Decoded<B> {
    inner: B,
    /// What came and is not decoded yet.
    text: BytesMut,
}

impl<B> HttpBody for Decoded<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = TextError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TextError>>> {
        loop {
            let whole = self.text.len() / GROUP * GROUP;
            if whole > 0 {
                let text = self.text.split_to(whole);
                return Poll::Ready(Some(decode(&text).map(Frame::data)));
            }
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.text.extend_from_slice(&data),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(TextError::Body(error.into())))),
                None if self.text.is_empty() => return Poll::Ready(None),
                None => {
                    self.text.clear();
                    return Poll::Ready(Some(Err(TextError::NotBase64)));
                }
            }
        }
    }
}

/// How many characters stand for three bytes.
const GROUP: usize = 4;

/// Decodes whole groups, any of which may be padded.
fn decode(mut text: &[u8]) -> Result<Bytes, TextError> {
    let mut bytes = Vec::with_capacity(text.len() / GROUP * 3);
    while !text.is_empty() {
        let padded = text.iter().position(|character| *character == b'=');
        let end = padded.map_or(text.len(), |at| (at / GROUP + 1) * GROUP);
        let (part, rest) = text.split_at(end);
        BASE64_STANDARD.decode_vec(part, &mut bytes).map_err(|_| TextError::NotBase64)?;
        text = rest;
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_group_may_be_padded() {
        let check = |text: &str, expected: Option<&[u8]>| {
            assert_eq!(decode(text.as_bytes()).ok().as_deref(), expected, "{text}");
        };
        check("aGVsbG8=", Some(b"hello"));
        check("aGU=bGxv", Some(b"hello"));
        check("aA==ZQ==bGxv", Some(b"hello"));
        check("", Some(b""));
        check("a===", None);
        check("=aaa", None);
        check("aG=l", None);
        check("!!!!", None);
    }
}
