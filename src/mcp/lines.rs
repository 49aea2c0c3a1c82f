//! JSON-RPC messages, one a line, read and written; lines that are no message
//! are answered here, and the end of input waits for accepted requests.
//!
//! The SDK's own reader drops a last line without an end, is silent about lines
//! that are no JSON, and gives calls that run at the end of input five seconds.

use std::{future::Future, io, time::Duration};

use bytes::Bytes;
use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientRequest, GetMeta as _, JsonRpcMessage, ServerJsonRpcMessage,
    },
    transport::Transport,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    refusal::{Refusal, check_weight, fault, has_id},
    request_ids::RequestIds,
    unanswered::{Unanswered, answered_by},
};

/// The longest line, in bytes: a call's arguments with pictures in them.
pub(super) const MAX_LINE_BYTES: usize = 16 << 20;
/// How many answers wait to be written; past it those who answer wait.
const MAX_WAITING: usize = 64;

/// The transport: messages that were read, and where answers go.
pub(super) struct Lines {
    read: mpsc::Receiver<ClientJsonRpcMessage>,
    write: Option<mpsc::Sender<Bytes>>,
    unanswered: Unanswered,
    ids: RequestIds,
    reader: JoinHandle<()>,
}

/// The end of the writing.
pub(super) struct Written(JoinHandle<io::Result<()>>);

impl Written {
    /// Waits until everything is written.
    pub(super) async fn ended(self) -> io::Result<()> {
        self.0.await.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}

impl Lines {
    /// Begins to read and write. Input ends where it ends, or with
    /// `end_of_input`; accepted requests are waited for until `longest` after.
    pub(super) fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        end_of_input: CancellationToken,
        longest: Duration,
    ) -> (Self, Written) {
        let (write, to_write) = mpsc::channel(MAX_WAITING);
        // What was read is taken at once: requests run side by side.
        let (deliver, read) = mpsc::channel(1);
        let unanswered = Unanswered::default();
        let broken = CancellationToken::new();
        let writer = tokio::spawn(write_all(output, to_write, broken.clone()));
        let reader = Reader {
            input: BufReader::new(input),
            line: Vec::new(),
            answers: write.clone(),
            unanswered: unanswered.clone(),
            opened: false,
        };
        let reader = tokio::spawn(async move {
            // Where nobody takes answers, nothing more is read or waited for.
            let read = reader.read_all(deliver, end_of_input, longest);
            broken.run_until_cancelled(read).await;
        });
        let ids = RequestIds::default();
        (Self { read, write: Some(write), unanswered, ids, reader }, Written(writer))
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        mut message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let write = self.write.clone();
        let unanswered = self.unanswered.clone();
        let is_awaited = self.ids.let_out(&mut message);
        async move {
            if !is_awaited {
                return Ok(());
            }
            let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
            let mut line = serde_json::to_vec(&message).map_err(io::Error::other)?;
            line.push(b'\n');
            let write = write.ok_or_else(closed)?;
            let sent = write.reserve().await.map_err(|_| closed());
            let sent = sent.map(|place| unanswered.if_wanted(&message, || place.send(line.into())));
            answered_by(&message).iter().for_each(|id| unanswered.remove(id));
            sent
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let mut message = self.read.recv().await?;
        self.ids.take_in(&mut message);
        Some(message)
    }

    async fn close(&mut self) -> io::Result<()> {
        self.write = None;
        self.reader.abort();
        Ok(())
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Writes lines until nobody has more, flushing when none is waiting.
async fn write_all(
    mut output: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Bytes>,
    broken: CancellationToken,
) -> io::Result<()> {
    let written = async {
        while let Some(line) = lines.recv().await {
            output.write_all(&line).await?;
            if lines.is_empty() {
                output.flush().await?;
            }
        }
        output.flush().await
    }
    .await;
    if written.is_err() {
        broken.cancel();
    }
    written
}

struct Reader<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    answers: mpsc::Sender<Bytes>,
    unanswered: Unanswered,
    /// Whether the client has begun the protocol; before that only requests
    /// are passed on.
    opened: bool,
}

/// What a line is.
enum Line {
    Text,
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    async fn read_all(
        mut self,
        deliver: mpsc::Sender<ClientJsonRpcMessage>,
        end_of_input: CancellationToken,
        longest: Duration,
    ) {
        loop {
            let line = tokio::select! {
                () = end_of_input.cancelled() => break,
                line = self.next_line() => line,
            };
            let message = match line {
                Err(error) => {
                    tracing::warn!(%error, "input failed");
                    break;
                }
                Ok(Line::End) => break,
                Ok(Line::TooLong) => Err(Refusal::TooLong),
                Ok(Line::Text) => self.message(),
            };
            match message {
                Ok(None) => {}
                Ok(Some(message)) => {
                    if deliver.send(message).await.is_err() {
                        return;
                    }
                }
                Err(refusal) => {
                    if self.answers.send(refusal.answer()).await.is_err() {
                        break;
                    }
                }
            }
        }
        // While these run, the protocol goes on for what they send.
        let _ = timeout(longest, self.unanswered.none()).await;
    }

    /// Reads up to the end of a line, or of the input.
    async fn next_line(&mut self) -> io::Result<Line> {
        self.line.clear();
        let mut too_long = false;
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                let is_line = !too_long && !self.line.is_empty();
                return Ok(if is_line { Line::Text } else { Line::End });
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            too_long = too_long || self.line.len() + taken > MAX_LINE_BYTES;
            if !too_long {
                self.line.extend_from_slice(&available[..taken]);
            }
            self.input.consume(taken);
            if end.is_some() {
                return Ok(if too_long { Line::TooLong } else { Line::Text });
            }
        }
    }

    /// What a line says; `None` for one that needs no answer.
    fn message(&mut self) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
        let line = self.line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.line).trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        check_weight(line)?;
        let message = match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
            Ok(message) => message,
            Err(_) => return fault(line).map_or(Ok(None), Err),
        };
        match &message {
            JsonRpcMessage::Request(request) => {
                self.opened = self.opened
                    || matches!(request.request, ClientRequest::InitializeRequest(_))
                    || request.request.get_meta().protocol_version().is_some();
                self.unanswered.add(request)?;
            }
            JsonRpcMessage::Notification(notification) => {
                if has_id(line) {
                    return Err(Refusal::NotAMessage(None));
                }
                self.unanswered.note_told(&notification.notification);
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        Ok((self.opened || is_request).then_some(message))
    }
}
