//! Single nodes, written and read over connections that come and go.

use a11_grpc::client::Client;
use a11_grpc::session::{Config, MAX_NODES};
use a11_grpc::wire::pb::node_service_client::NodeServiceClient;
use a11_grpc::wire::pb::read_node_response::Event;
use a11_grpc::wire::pb::write_node_request::Message;
use a11_grpc::wire::pb::{self, WriteNodeRequest};
use a11_grpc::wire::{Chunk, Code, NodeFragment, Reason, Status};
use tonic::transport::Channel;

use crate::service::Service;

type Nodes = NodeServiceClient<Channel>;

async fn write(
    nodes: &mut Nodes,
    session: &str,
    messages: Vec<Message>,
) -> Result<pb::WriteNodeResponse, Status> {
    write_to(nodes, session, "notes", messages).await
}

async fn write_to(
    nodes: &mut Nodes,
    session: &str,
    id: &str,
    messages: Vec<Message>,
) -> Result<pb::WriteNodeResponse, Status> {
    let start =
        pb::WriteNodeStart { session: session.to_owned(), id: id.to_owned(), ..Default::default() };
    let messages = std::iter::once(Message::Start(start)).chain(messages);
    let requests: Vec<_> =
        messages.map(|message| WriteNodeRequest { message: Some(message) }).collect();
    Ok(nodes.write_node(futures::stream::iter(requests)).await?.into_inner())
}

/// What a node holds from `offset` on, and how it ended.
async fn read(
    nodes: &mut Nodes,
    session: &str,
    offset: u32,
) -> Result<(Vec<String>, Status), Status> {
    let request = pb::ReadNodeRequest {
        session: session.to_owned(),
        id: "notes".into(),
        offset,
        ..Default::default()
    };
    let mut responses = nodes.read_node(request).await?.into_inner();
    let mut texts = vec![];
    while let Some(response) = responses.message().await? {
        match response.event.expect("an event") {
            Event::Fragments(fragments) => texts.extend(fragments.fragments.iter().map(|it| {
                let data = it.chunk().expect("a chunk").data();
                format!("{}:{}", it.seq.expect("a seq"), String::from_utf8_lossy(data))
            })),
            Event::End(status) => return Ok((texts, status.into())),
        }
    }
    panic!("no end")
}

fn fragments(texts: &[(u32, &str, bool)]) -> Message {
    let fragments = texts.iter().map(|(seq, text, continued)| NodeFragment {
        seq: Some(*seq),
        continued: *continued,
        ..NodeFragment::more("", Chunk::text(*text))
    });
    Message::Fragments(pb::NodeFragments { fragments: fragments.collect() })
}

#[tokio::test]
async fn a_node_is_written_by_parts_and_read_by_several_from_where_they_like() {
    let service = Service::start().await;
    let client = Client::connect(service.channel().await).await.expect("attaches");
    let session = client.session().id().to_owned();
    let mut nodes = NodeServiceClient::new(service.channel().await);
    let mut early = nodes.clone();
    let reading = read(&mut early, &session, 0);
    let writing = async {
        let first = fragments(&[(0, "a", true), (1, "b", true)]);
        let answer = write(&mut nodes, &session, vec![first]).await.expect("is written");
        assert_eq!((answer.next_seq, answer.complete), (2, false));
        // Not sure what arrived, the writer repeats itself.
        let rest = fragments(&[(1, "b", true), (2, "c", false)]);
        let answer = write(&mut nodes, &session, vec![rest]).await.expect("is written");
        assert_eq!((answer.next_seq, answer.complete), (3, true));
        read(&mut nodes, &session, 1).await.expect("is kept")
    };
    let (early, late) = tokio::join!(reading, writing);
    let all: Vec<String> = ["0:a", "1:b", "2:c"].map(str::to_owned).into();
    assert_eq!(early.expect("reads"), (all.clone(), Status::ok()));
    assert_eq!(late, (all[1..].to_vec(), Status::ok()));
}

#[tokio::test]
async fn a_node_ends_as_its_writer_says() {
    let service = Service::start().await;
    let client = Client::connect(service.channel().await).await.expect("attaches");
    let session = client.session().id().to_owned();
    let mut nodes = NodeServiceClient::new(service.channel().await);
    let failure = Status::handler(Code::DataLoss, "the disk is gone");
    let close = Message::Close(failure.clone().into());
    write(&mut nodes, &session, vec![close]).await.expect("is closed");
    let (texts, end) = read(&mut nodes, &session, 0).await.expect("reads");
    assert_eq!((texts.len(), end), (0, failure));
}

#[tokio::test]
async fn what_no_session_has_is_refused() {
    let service = Service::start().await;
    let mut nodes = NodeServiceClient::new(service.channel().await);
    let status = read(&mut nodes, "nobody", 0).await.expect_err("is unknown");
    assert_eq!(status.reason, Reason::UnknownSession);
    let client = Client::connect(service.channel().await).await.expect("attaches");
    let session = client.session().id().to_owned();
    let both = vec![fragments(&[(0, "a", true)]), fragments(&[(0, "other", true)])];
    let status = write(&mut nodes, &session, both).await.expect_err("contradicts itself");
    assert_eq!(status.reason, Reason::SeqConflict);
}

#[tokio::test]
async fn what_is_not_of_the_node_or_comes_after_its_end_is_refused() {
    let service = Service::start().await;
    let client = Client::connect(service.channel().await).await.expect("attaches");
    let session = client.session().id().to_owned();
    let mut nodes = NodeServiceClient::new(service.channel().await);
    let mut check = async |id: &str, messages: Vec<Message>, expected: Reason| {
        let status = write_to(&mut nodes, &session, id, messages).await.expect_err("is refused");
        assert_eq!(status.reason, expected, "{id}: {status}");
    };
    let of_another = NodeFragment::more("other", Chunk::text("x"));
    let of_another = Message::Fragments(pb::NodeFragments { fragments: vec![of_another] });
    check("one", vec![of_another], Reason::InvalidRequest).await;
    let a = || fragments(&[(0, "a", true)]);
    let close = Message::Close(pb::Status::default());
    check("two", vec![a(), close, a()], Reason::InvalidRequest).await;
    let next = NodeFragment::last("", Chunk::text("next"));
    let next = Message::Fragments(pb::NodeFragments { fragments: vec![next] });
    let messages = vec![fragments(&[(u32::MAX, "last", false)]), next];
    check("three", messages, Reason::PastFinal).await;
}

#[tokio::test]
async fn a_node_that_was_only_read_goes_with_its_readers() {
    let service = Service::start().await;
    let client = Client::connect(service.channel().await).await.expect("attaches");
    let session = client.session().id().to_owned();
    let mut nodes = NodeServiceClient::new(service.channel().await);
    for at in 0..MAX_NODES + 100 {
        let (session, id) = (session.clone(), format!("n{at}"));
        let request = pb::ReadNodeRequest { session, id, ..Default::default() };
        drop(nodes.read_node(request).await.expect("there is room"));
    }
    // One that is read still, and was written after the reader came, stays.
    let mut early = nodes.clone();
    let reading = read(&mut early, &session, 0);
    let writing = write(&mut nodes, &session, vec![fragments(&[(0, "a", false)])]);
    let (reading, writing) = tokio::join!(reading, writing);
    assert!(writing.expect("there is room").complete);
    assert_eq!(reading.expect("reads").0, ["0:a"]);
    assert_eq!(read(&mut nodes, &session, 0).await.expect("is kept").0, ["0:a"]);
}

#[tokio::test]
async fn the_nodes_of_all_sessions_hold_so_much_and_the_oldest_that_nobody_uses_go() {
    let config = Config { max_node_bytes: 100 << 10, ..Config::default() };
    let service = Service::with(config).await;
    let clients = [
        Client::connect(service.channel().await).await.expect("attaches"),
        Client::connect(service.channel().await).await.expect("attaches"),
    ];
    let sessions = clients.each_ref().map(|client| client.session().id().to_owned());
    let mut nodes = NodeServiceClient::new(service.channel().await);
    let mut write_so_much = async |session: &str, id: &str, bytes: usize| {
        let text = "x".repeat(bytes);
        write_to(&mut nodes, session, id, vec![fragments(&[(0, &text, false)])]).await
    };
    write_so_much(&sessions[0], "notes", 60 << 10).await.expect("there is room");
    write_so_much(&sessions[1], "notes", 60 << 10).await.expect("the other one goes");
    assert_eq!(service.nodes.count(), 1);
    let status = write_so_much(&sessions[0], "large", 120 << 10).await.expect_err("too much");
    assert_eq!((status.code, status.reason), (Code::ResourceExhausted, Reason::SessionLimit));
}

#[tokio::test]
async fn a_reader_from_far_ahead_does_not_hold_the_node_up() {
    let service = Service::start().await;
    let client = Client::connect(service.channel().await).await.expect("attaches");
    let session = client.session().id().to_owned();
    let mut nodes = NodeServiceClient::new(service.channel().await);
    for offset in [1_000, u32::MAX] {
        let (session, id) = (session.clone(), "notes".to_owned());
        let request = pb::ReadNodeRequest { session, id, offset, ..Default::default() };
        // It is there, and goes on waiting.
        let responses = nodes.read_node(request).await.expect("begins").into_inner();
        tokio::spawn(async move {
            let mut responses = responses;
            responses.message().await
        });
    }
    let large = "x".repeat(256 << 10);
    let messages = (0..16).map(|seq| fragments(&[(seq, &large, seq < 15)])).collect();
    let mut reader = nodes.clone();
    let reading = read(&mut reader, &session, 0);
    let written = write(&mut nodes, &session, messages);
    let both = async { tokio::join!(reading, written) };
    let both = tokio::time::timeout(std::time::Duration::from_secs(30), both).await;
    let (read, written) = both.expect("nobody is held up");
    assert!(written.expect("is written").complete);
    assert_eq!(read.expect("reads").0.len(), 16);
}
