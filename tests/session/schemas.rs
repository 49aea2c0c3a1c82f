//! What a client knows of the service's actions, and how much of its own it may
//! publish.

use std::sync::Arc;

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::client::{Client, Peer};
use a11_grpc::session::{Config, Directory, Session, driver::Publications as _};
use a11_grpc::wire::{Chunk, Reason, Status, pb};
use futures::TryStreamExt as _;

use crate::service::Service;

/// Says what it was told, by the input of a name.
fn host_told(service: &Service, input: &'static str, description: &str) {
    let schema = ActionSchema::builder("tell")
        .describe(description)
        .input(Port::json(input).schema(r#"{"type":"integer"}"#).required())
        .output(Port::json("told"));
    let run = move |context: Context| async move {
        let told: i64 = context.read(input).await?;
        context.write("told", &told).await
    };
    service.registry.register(schema.build(), handler(run)).expect("registers");
}

/// What the client takes the action for.
async fn known(client: &Client) -> Result<String, Status> {
    let run = client.call("tell").start().await?;
    Ok(run.schema().description().to_owned())
}

async fn told(client: &Client, input: &str, value: impl serde::Serialize) -> Result<i64, Status> {
    client.call("tell").argument(input, &value).run().await?.value("told")
}

#[tokio::test]
async fn a_schema_is_asked_for_once_and_again_when_it_may_have_changed() {
    let service = Service::start().await;
    host_told(&service, "a", "first");
    let client = Client::connect(service.channel().await).await.expect("attaches");
    assert_eq!(told(&client, "a", 1).await, Ok(1));

    // Nobody told the client.
    let replace = |input, description| {
        service.registry.remove("tell");
        host_told(&service, input, description);
    };
    replace("a", "second");
    assert_eq!(known(&client).await.as_deref(), Ok("first"));
    assert_eq!(told(&client, "a", 2).await, Ok(2));
    assert_eq!(known(&client).await.as_deref(), Ok("first"));

    // An argument that does not fit what is known may fit what there is.
    replace("b", "third");
    assert_eq!(told(&client, "b", 3).await, Ok(3));
    assert_eq!(known(&client).await.as_deref(), Ok("third"));
    let refused = told(&client, "a", 3).await.expect_err("has no such input");
    assert_eq!(refused.reason, Reason::UndeclaredInput);

    // What is known fits, and the service does not take it.
    replace("c", "fourth");
    let refused = told(&client, "b", 4).await.expect_err("has no such input");
    assert_eq!(refused.reason, Reason::UndeclaredInput, "{refused}");
    assert_eq!(known(&client).await.as_deref(), Ok("fourth"));

    // The action goes, and comes back.
    service.registry.remove("tell");
    for _ in 0..2 {
        let refused = told(&client, "c", 5).await.expect_err("is gone");
        assert_eq!(refused.reason, Reason::UnknownAction);
    }
    host_told(&service, "c", "fifth");
    assert_eq!(told(&client, "c", 5).await, Ok(5));
    assert_eq!(known(&client).await.as_deref(), Ok("fifth"));
}

#[tokio::test]
async fn an_input_that_the_client_has_not_heard_of_is_waited_for_by_nobody() {
    let service = Service::start().await;
    host_told(&service, "a", "first");
    let client = Client::connect(service.channel().await).await.expect("attaches");
    assert_eq!(told(&client, "a", 1).await, Ok(1));

    service.registry.remove("tell");
    let schema = ActionSchema::builder("tell")
        .input(Port::json("a").required())
        .input(Port::json("times"))
        .input(Port::json("others").stream())
        .output(Port::json("told"));
    let run = |context: Context| async move {
        let told: i64 = context.read("a").await?;
        let times: Option<i64> = context.read_optional("times").await?;
        let others: Vec<i64> = context.read_stream::<i64>("others")?.try_collect().await?;
        let told = told * times.unwrap_or(10) + others.iter().sum::<i64>();
        context.write("told", &told).await
    };
    service.registry.register(schema.build(), handler(run)).expect("registers");
    assert_eq!(told(&client, "a", 2).await, Ok(20));
    let call = client.call("tell").argument("a", &2).argument("times", &3);
    assert_eq!(call.run().await.and_then(|outputs| outputs.value("told")), Ok(6));
}

#[tokio::test]
async fn a_call_that_puts_out_more_than_is_wanted_is_stopped() {
    let service = Service::start().await;
    let schema = ActionSchema::builder("pour").output(Port::text("drops").stream());
    let run = |context: Context| async move {
        loop {
            context.write_chunk("drops", Chunk::text("x".repeat(60_000))).await?;
        }
    };
    service.registry.register(schema.build(), handler(run)).expect("registers");
    let client = Client::connect(service.channel().await).await.expect("attaches");
    let refused = client.call("pour").max_output_bytes(1 << 20).run().await.expect_err("endless");
    assert_eq!(refused.reason, Reason::OutputTooLarge, "{refused}");
    assert!(refused.message.contains("more than 1048576 bytes"), "{refused}");
    let refused = client.call("pour").run().await.expect_err("endless");
    assert!(refused.message.contains("more than 25165824 bytes"), "{refused}");
}

#[tokio::test]
async fn what_a_session_publishes_past_its_bounds_is_refused_by_name() {
    let service = Service::start().await;
    let check = async |count: usize, description: usize, expected: &[&str]| {
        let registry = Registry::new();
        for at in 0..count {
            let schema = ActionSchema::builder(format!("a{at:04}"))
                .describe("x".repeat(description))
                .build();
            registry.register(schema, handler(|_: Context| async { Ok(()) })).expect("registers");
        }
        let peer = Peer::host(Arc::new(registry)).connect(service.channel().await).await;
        let peer = peer.expect("attaches");
        let refused: Vec<_> = peer.refused().iter().map(|refused| refused.name.clone()).collect();
        assert_eq!(refused, expected);
        for refused in peer.refused().iter() {
            let status = Status::from(refused.status.clone().unwrap_or_default());
            assert_eq!(status.reason, Reason::SessionLimit);
            assert!(status.message.contains(&refused.name), "{status}");
        }
        peer.close().await;
    };
    check(1026, 0, &["a1024", "a1025"]).await;
    check(5, 1_000_000, &["a0004"]).await;
    check(4, 1_000_000, &[]).await;
}

#[tokio::test]
async fn what_is_withdrawn_counts_no_longer() {
    let service = Service::start().await;
    let hosted = Arc::new(Registry::new());
    let peer = Peer::host(hosted.clone()).connect(service.channel().await).await;
    let peer = peer.expect("attaches");
    for _ in 0..3 {
        for at in 0..4 {
            let schema = ActionSchema::builder(format!("a{at}")).describe("x".repeat(1_000_000));
            let run = handler(|_: Context| async { Ok(()) });
            hosted.register(schema.build(), run).expect("registers");
        }
        service.until(|registry| registry.entries(None).len() == 4).await;
        hosted.entries(None).iter().for_each(|it| drop(hosted.remove(it.schema().name().as_str())));
        service.until(|registry| registry.entries(None).is_empty()).await;
    }
    assert!(peer.refused().is_empty());
}

#[test]
fn what_all_sessions_publish_is_bounded_too_and_free_again_when_one_ends() {
    let config = Config { max_published_bytes: 10_000, ..Config::default() };
    let directory = Directory::new(Arc::default(), Arc::default(), config);
    let open = || directory.open("p".into(), None).expect("there is room").0;
    let publish = |session: &Session, name: &str, bytes: usize| {
        let description = "x".repeat(bytes);
        let schema = pb::ActionSchema { name: name.to_owned(), description, ..Default::default() };
        directory.publish(session, vec![schema]).len()
    };
    let (one, two) = (open(), open());
    for _ in 0..3 {
        // Published anew, it counts once.
        assert_eq!(publish(&one, "a", 6_000), 0);
    }
    assert_eq!(publish(&two, "b", 6_000), 1);
    assert_eq!(publish(&two, "b", 3_000), 0);
    directory.withdraw(&two, vec!["b".to_owned()]);
    one.end(Status::ok());
    assert_eq!(publish(&two, "b", 9_000), 0);
}
