//! `NodeService`: reading and writing single nodes.

use std::pin::Pin;

use futures::Stream;
use tonic::{Request, Response, Streaming};

use crate::node::{Completeness, Ending, Reader};
use crate::session::{FreeNodes, Writing};
use crate::wire::pb::{
    self, node_service_server::NodeService, read_node_response::Event, write_node_request::Message,
};
use crate::wire::{Reason, Status};

/// Serves the free nodes of sessions. Cheap to clone.
#[derive(Clone)]
pub struct NodeApi {
    nodes: FreeNodes,
}

impl NodeApi {
    /// A service of these nodes.
    pub fn new(nodes: FreeNodes) -> Self {
        Self { nodes }
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
        let pb::ReadNodeRequest { session, id, offset } = request.into_inner();
        let node = self.nodes.node(&session, &id)?;
        Ok(Response::new(Box::pin(read(id, node.reader_from(offset)))))
    }

    async fn write_node(
        &self,
        request: Request<Streaming<pb::WriteNodeRequest>>,
    ) -> Result<Response<pb::WriteNodeResponse>, tonic::Status> {
        let mut requests = request.into_inner();
        let first = requests.message().await?.and_then(|request| request.message);
        let Some(Message::Start(pb::WriteNodeStart { session, id })) = first else {
            return Err(invalid("the first message must be `start`").into());
        };
        let mut writing = self.nodes.write(&session, &id)?;
        write(&mut writing, requests).await?;
        let (next_seq, completeness) = writing.node().progress();
        let complete = completeness == Completeness::Complete;
        Ok(Response::new(pb::WriteNodeResponse { next_seq, complete }))
    }
}

/// What comes of a node, then how it ended.
fn read(
    id: String,
    mut reader: Reader,
) -> impl Stream<Item = Result<pb::ReadNodeResponse, tonic::Status>> + Send {
    async_stream::try_stream! {
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

async fn write(
    writing: &mut Writing,
    mut requests: Streaming<pb::WriteNodeRequest>,
) -> Result<(), tonic::Status> {
    let mut writer = writing.node().writer();
    while let Some(request) = requests.message().await? {
        match request.message {
            Some(Message::Fragments(fragments)) => {
                for fragment in fragments.fragments {
                    writer.write_fragment(fragment).await?;
                }
            }
            Some(Message::Close(status)) => {
                writing.close(status.into());
                return Ok(());
            }
            Some(Message::Start(_)) => {
                return Err(invalid("`start` can only be the first message").into());
            }
            None => return Err(invalid("a message without content").into()),
        }
    }
    Ok(())
}

fn invalid(message: &str) -> Status {
    Status::of(Reason::InvalidRequest, message)
}
