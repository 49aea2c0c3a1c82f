//! What a client does with a service that takes its connections and breaks them, or
//! sends what is no frame.

use std::time::Duration;

use a11_grpc::client::Client;
use a11_grpc::wire::pb::{self, Frame, frame::Body};
use a11_grpc::wire::{NodeFragment, Reason};
use futures::{StreamExt as _, stream};
use tokio::time::timeout;

use crate::{frames::Frames, service::Service, services};

/// A frame within every limit on its bytes that would take gigabytes of memory.
fn too_heavy() -> Body {
    let fragments = vec![NodeFragment::default(); 1_000_000];
    Body::Fragments(pb::FragmentsFrame { call: 1, fragments })
}

/// The paused clock moves only while nothing else goes on.
#[tokio::test(start_paused = true)]
async fn a_service_that_breaks_every_connection_at_once_is_asked_after_a_pause() {
    let ends = |_: usize| {
        let status = Some(pb::Status::default());
        let end = Body::End(pb::EndFrame { status });
        stream::iter([Frame { number: 0, ack: 0, body: Some(end) }]).boxed()
    };
    let check = async |script: fn(usize) -> stream::BoxStream<'static, Frame>| {
        let (channel, mut opens) = services::start(script);
        let client = Client::connect(channel).await.expect("attaches");
        let many = async {
            for _ in 0..20 {
                opens.recv().await.expect("the service runs");
            }
        };
        assert!(timeout(Duration::from_secs(10), many).await.is_err(), "20 in 10 s");
        drop(client);
    };
    check(|_| stream::empty().boxed()).await;
    check(ends).await;
}

#[tokio::test]
async fn a_frame_that_is_too_heavy_ends_the_session_on_either_side() {
    let service = Service::start().await;
    let mut peer = Frames::open(&service, vec![]).await;
    peer.send(too_heavy()).await;
    let Body::End(pb::EndFrame { status: Some(status) }) = peer.next().await else {
        panic!("not the end")
    };
    assert_eq!(a11_grpc::wire::Status::from(status).reason, Reason::InvalidFrame);

    let (channel, mut opens) = services::start(|number| match number {
        0 => {
            let frame = Frame { number: 1, ack: 0, body: Some(too_heavy()) };
            stream::iter([frame]).chain(stream::pending()).boxed()
        }
        _ => stream::pending().boxed(),
    });
    let _client = Client::connect(channel).await.expect("attaches");
    opens.recv().await.expect("opens");
    let again = timeout(Duration::from_secs(60), opens.recv()).await.expect("comes back");
    assert!(again.expect("the service runs").resume_token.is_empty(), "not to the same session");
}
