//! `NodeService`: reading and writing single nodes.

use std::pin::Pin;

use futures::Stream;
use tonic::{Request, Response, Streaming};

use crate::node::{Completeness, Ending, Node, Reader};
use crate::session::{FreeNodes, Reading, Writing, core::cost};
use crate::wire::pb::{
    self, node_service_server::NodeService, read_node_response::Event, write_node_request::Message,
};
use crate::wire::{Reason, Status};

/// Serves the free nodes of sessions, and the ports of runs. Cheap to clone.
#[derive(Clone)]
pub struct NodeApi {
    nodes: FreeNodes,
}

impl NodeApi {
    /// A service of these nodes, and of the runs of the same directory.
    pub fn new(nodes: FreeNodes) -> Self {
        Self { nodes }
    }
}

/// What a node belongs to.
enum Owner {
    Session(String),
    Run(String),
}

impl Owner {
    fn of(session: String, run: String) -> Result<Self, Status> {
        match (session.is_empty(), run.is_empty()) {
            (_, true) => Ok(Self::Session(session)),
            (true, false) => Ok(Self::Run(run)),
            (false, false) => Err(invalid("session and run: only one can be given")),
        }
    }
}

type Events = Pin<Box<dyn Stream<Item = Result<pb::ReadNodeResponse, tonic::Status>> + Send>>;

#[tonic::async_trait]
impl NodeService for NodeApi {
    type ReadNodeStream = Events;

    async fn read_node(
        &self,
        request: Request<pb::ReadNodeRequest>,
    ) -> Result<Response<Self::ReadNodeStream>, tonic::Status> {
        let pb::ReadNodeRequest { session, id, offset, run } = request.into_inner();
        let node = match Owner::of(session, run)? {
            Owner::Session(session) => {
                let reading = self.nodes.read(&session, &id)?;
                let reader = reading.node().reader_from(offset);
                return Ok(Response::new(Box::pin(read(id, reader, Some(reading)))));
            }
            Owner::Run(run) => self.nodes.runs().output(&run, &id)?,
        };
        Ok(Response::new(Box::pin(read(id, node.reader_from(offset), None))))
    }

    async fn write_node(
        &self,
        request: Request<Streaming<pb::WriteNodeRequest>>,
    ) -> Result<Response<pb::WriteNodeResponse>, tonic::Status> {
        let mut requests = request.into_inner();
        let first = requests.message().await?.and_then(|request| request.message);
        let Some(Message::Start(pb::WriteNodeStart { session, id, run })) = first else {
            return Err(invalid("the first message must be `start`").into());
        };
        let (next_seq, completeness) = match Owner::of(session, run)? {
            Owner::Session(session) => {
                let mut writing = self.nodes.write(&session, &id)?;
                if let Some(status) =
                    write(writing.node(), Some(&writing), &id, &mut requests).await?
                {
                    writing.close(status);
                    nothing_follows(requests).await?;
                }
                writing.node().progress()
            }
            Owner::Run(run) => {
                let node = self.nodes.runs().input(&run, &id)?;
                if let Some(status) = write(&node, None, &id, &mut requests).await? {
                    node.end(status);
                    nothing_follows(requests).await?;
                }
                node.progress()
            }
        };
        let complete = completeness == Completeness::Complete;
        Ok(Response::new(pb::WriteNodeResponse { next_seq, complete }))
    }
}

/// What comes of a node, then how it ended.
fn read(
    id: String,
    mut reader: Reader,
    reading: Option<Reading>,
) -> impl Stream<Item = Result<pb::ReadNodeResponse, tonic::Status>> + Send {
    async_stream::try_stream! {
        // Its node is kept for as long as it is read.
        let _reading = reading;
        loop {
            let first = reader.seq();
            let mut pieces = vec![];
            let end = match reader.next_batch(&mut pieces).await {
                Ok(true) => {
                    let fragments = pieces.into_iter().zip(first..);
                    let fragments =
                        fragments.map(|(piece, seq)| piece.into_fragment(id.clone(), seq)).collect();
                    let event = Some(Event::Fragments(pb::NodeFragments { fragments }));
                    yield pb::ReadNodeResponse { event };
                    continue;
                }
                Ok(false) if reader.ending() == Some(Ending::Final) => Status::ok(),
                Ok(false) => {
                    Status::of(Reason::NotFinal, "the node was closed without a final fragment")
                }
                Err(status) if status.reason == Reason::Trimmed => Err(status)?,
                Err(status) => status,
            };
            yield pb::ReadNodeResponse { event: Some(Event::End(end.into())) };
            return;
        }
    }
}

/// Writes what comes; answers how the node is to be closed, if it is. A session's
/// node counts against what those of all sessions hold.
async fn write(
    node: &Node,
    counted: Option<&Writing>,
    id: &str,
    requests: &mut Streaming<pb::WriteNodeRequest>,
) -> Result<Option<Status>, tonic::Status> {
    let mut writer = node.writer();
    while let Some(request) = requests.message().await? {
        match request.message {
            Some(Message::Fragments(pb::NodeFragments { fragments })) => {
                if let Some(writing) = counted {
                    let bytes: u64 = fragments.iter().map(cost).sum();
                    writing.make_room(usize::try_from(bytes).unwrap_or(usize::MAX))?;
                }
                for fragment in fragments {
                    if !fragment.id.is_empty() && fragment.id != id {
                        return Err(invalid("fragments.id: it is another node's").into());
                    }
                    writer.write_fragment(fragment).await?;
                }
                counted.inspect(|writing| writing.written());
            }
            Some(Message::Close(status)) => {
                return Ok(Some(status.into()));
            }
            Some(Message::Start(_)) => {
                return Err(invalid("`start` can only be the first message").into());
            }
            None => return Err(invalid("a message without content").into()),
        }
    }
    Ok(None)
}

/// Holds what comes after `close` to be nothing.
async fn nothing_follows(
    mut requests: Streaming<pb::WriteNodeRequest>,
) -> Result<(), tonic::Status> {
    match requests.message().await? {
        Some(_) => Err(invalid("`close` can only be the last message").into()),
        None => Ok(()),
    }
}

fn invalid(message: &str) -> Status {
    Status::of(Reason::InvalidRequest, message)
}
