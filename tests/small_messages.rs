//! Many small messages that wait for a reader, or that nobody will read: the
//! connection stands, and all that are wanted arrive.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "small_messages/wire.rs"]
mod wire;

use std::sync::Arc;

use a11_grpc::{
    action::{ActionSchema, Context, Port, Registry, handler},
    client::{self, connect},
    serve::{Options, Server},
    wire::pb::{
        CallActionRequest, CallStart, NodeFragments, call_action_request::Message,
        call_action_response::Event,
    },
    wire::{Chunk, NodeFragment},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;
use tokio::{sync::Notify, task::yield_now};
use wire::{Connection, MESSAGE};

/// Each way.
const MESSAGES: usize = 3_000;

/// An action that writes a small value for each it is to read, and then reads
/// once it is told to.
fn registry(written: &Arc<Notify>, read: &Arc<Notify>) -> Arc<Registry> {
    let registry = Registry::new();
    let schema = ActionSchema::builder("write_then_read")
        .input(Port::json("numbers").stream())
        .output(Port::json("echo").stream())
        .output(Port::json("sum"))
        .build();
    let (written, read) = (written.clone(), read.clone());
    let action = handler(move |context: Context| {
        let (written, read) = (written.clone(), read.clone());
        async move {
            for number in 0..MESSAGES {
                context.write("echo", &number).await?;
                // A message each, and not one for all that are ready.
                yield_now().await;
            }
            written.notify_one();
            read.notified().await;
            let numbers: Vec<usize> =
                context.read_stream::<usize>("numbers")?.try_collect().await?;
            context.write("sum", &numbers.iter().sum::<usize>()).await
        }
    });
    registry.register(schema, action).unwrap();
    Arc::new(registry)
}

#[tokio::test]
async fn small_messages_that_wait_for_a_reader_break_no_connection() {
    let (written, read, sent) = <(Arc<Notify>, Arc<Notify>, Arc<Notify>)>::default();
    let server = Server::bind(Options::new("127.0.0.1:0", registry(&written, &read))).await;
    let server = server.unwrap();
    let url = format!("http://{}", server.address());
    tokio::spawn(server.run(std::future::pending()));

    let start = CallStart { action: "write_then_read".to_owned(), ..Default::default() };
    let numbers = (0..MESSAGES).map(|number| {
        let chunk = Chunk::new("application/json", number.to_string());
        let fragment = NodeFragment::more("numbers", chunk);
        Message::Inputs(NodeFragments { fragments: vec![fragment] })
    });
    let all_sent = sent.clone();
    let requests = stream::iter(std::iter::once(Message::Start(start)).chain(numbers))
        .then(async |message| {
            yield_now().await;
            CallActionRequest { message: Some(message) }
        })
        .chain(stream::poll_fn(move |_| {
            all_sent.notify_one();
            std::task::Poll::Ready(None)
        }));
    let mut client = client::actions(connect(&url).await.unwrap());
    let mut events = client.call_action(requests).await.unwrap().into_inner();
    // Nobody reads on either side until everything has been written.
    tokio::join!(sent.notified(), written.notified());
    read.notify_one();

    let (mut echoed, mut sum) = (0, String::new());
    while let Some(event) = events.message().await.unwrap() {
        match event.event {
            Some(Event::Outputs(outputs)) => {
                for fragment in outputs.fragments {
                    let Some(chunk) = fragment.chunk() else { continue };
                    match &*fragment.id {
                        "sum" => sum = String::from_utf8(chunk.data().to_vec()).unwrap(),
                        _ => echoed += usize::from(!chunk.data().is_empty()),
                    }
                }
            }
            Some(Event::Status(status)) => assert_eq!(status.code, 0, "{}", status.message),
            Some(Event::Log(_)) | None => {}
        }
    }
    assert_eq!(echoed, MESSAGES);
    assert_eq!(sum, (MESSAGES * (MESSAGES - 1) / 2).to_string());
}

#[tokio::test]
async fn callers_whose_messages_come_after_their_calls_ended_break_no_connection() {
    // Together twice what a connection bears that is not read.
    const CALLS: usize = 400;
    const MESSAGES_EACH: usize = 200;
    let registry = Registry::new();
    let schema = ActionSchema::builder("at_once").input(Port::json("numbers").stream()).build();
    registry.register(schema, handler(async |_: Context| Ok(()))).unwrap();
    let server = Server::bind(Options::new("127.0.0.1:0", Arc::new(registry))).await.unwrap();
    let mut connection = Connection::open(server.address()).await;
    tokio::spawn(server.run(std::future::pending()));

    let message = |message| {
        let message = CallActionRequest { message: Some(message) };
        [&[0; 4][..], &[u8::try_from(message.encoded_len()).unwrap()], &message.encode_to_vec()]
            .concat()
    };
    let number = NodeFragment::more("numbers", Chunk::new("application/json", "1"));
    let number = message(Message::Inputs(NodeFragments { fragments: vec![number] }));
    for call in 0..CALLS {
        let action = if call % 2 == 0 { "at_once" } else { "nobody" }.to_owned();
        let start = message(Message::Start(CallStart { action, ..Default::default() }));
        let stream = connection.call("/a11.v1.ActionService/CallAction").await;
        connection.write(stream, &[(MESSAGE, &start)]).await;
        connection.ended(stream).await;
        // Under way before the caller could know of the end.
        connection.write(stream, &[(MESSAGE, &number[..]); MESSAGES_EACH]).await;
        if call % 4 < 2 {
            connection.half_close(stream).await;
        } else {
            connection.cancel(stream).await;
        }
    }
}
