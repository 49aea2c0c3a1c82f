//! Connections that break: cut by a proxy while calls stream both ways.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use a11_grpc::action::Registry;
use a11_grpc::client::{Client, Peer};
use a11_grpc::wire::{Chunk, Reason};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::service::{Service, channel, host_echo, host_endless};

/// A way to a service that can be cut, again and again.
struct Proxy {
    address: SocketAddr,
    /// Connections before the cut with this number are broken.
    cuts: watch::Sender<u64>,
    /// New connections are let through.
    open: watch::Sender<bool>,
}

impl Proxy {
    async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (cuts, _) = watch::channel(0);
        let (open, is_open) = watch::channel(true);
        let cut = cuts.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if !*is_open.borrow() {
                    continue;
                }
                let mut cuts = cut.subscribe();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(target).await.expect("the service");
                    tokio::select! {
                        _ = cuts.changed() => {}
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    }
                });
            }
        });
        Self { address, cuts, open }
    }

    fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    fn close(&self) {
        self.open.send_replace(false);
        self.cut();
    }
}

const CUTS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_cuts_lose_and_repeat_nothing() {
    let service = Service::start().await;
    let (to_host, to_caller) = (Proxy::to(service.address).await, Proxy::to(service.address).await);
    let hosted = Arc::new(Registry::new());
    host_echo(&hosted);
    let host = Peer::host(hosted).connect(channel(to_host.address).await).await.expect("attaches");
    let caller = Client::connect(channel(to_caller.address).await).await.expect("attaches");
    let sessions = [host.session().id().to_owned(), caller.session().id().to_owned()];

    let mut run = caller.call("echo").start().await.expect("starts");
    let mut values = run.input("values").expect("an input");
    let mut echoes = run.take_output("echoes").expect("an output");
    let (received, mut progress) = watch::channel(0_u64);
    let stop = watch::channel(false).0;
    let writing = async {
        let mut written = 0_u64;
        while !*stop.borrow() {
            values.send(Chunk::text(written.to_string())).await.expect("is written");
            written += 1;
        }
        values.finish().await.expect("ends");
        written
    };
    let reading = async {
        let mut next = 0_u64;
        while let Some(piece) = echoes.next().await.expect("no failure") {
            if piece.is_null() {
                continue;
            }
            assert_eq!(piece.chunk().expect("a chunk").data(), next.to_string().as_bytes());
            next += 1;
            received.send_replace(next);
        }
        next
    };
    let cutting = async {
        for cut in 0..CUTS {
            // Something came through since the last cut.
            let seen = *progress.borrow_and_update();
            progress.wait_for(|now| *now > seen + 10).await.expect("the reader lives");
            if cut % 2 == 0 { to_host.cut() } else { to_caller.cut() }
        }
        stop.send_replace(true);
    };
    let (written, read, (), status) = tokio::join!(writing, reading, cutting, run.finished());
    assert!(status.is_ok(), "{status}");
    assert_eq!(written, read);
    assert_eq!([host.session().id(), caller.session().id()], [&*sessions[0], &*sessions[1]]);
}

#[tokio::test]
async fn a_peer_that_does_not_come_back_in_time_is_lost() {
    let service = Service::with_grace(Duration::from_millis(200)).await;
    let proxy = Proxy::to(service.address).await;
    let hosted = Arc::new(Registry::new());
    let mut happened = host_endless(&hosted);
    let _host = Peer::host(hosted).connect(channel(proxy.address).await).await.expect("attaches");
    let caller = Client::connect(service.channel().await).await.expect("attaches");
    let mut run = caller.call("endless").start().await.expect("starts");
    assert_eq!(happened.recv().await, Some("begun"));
    proxy.close();
    let status = run.finished().await;
    assert_eq!(status.reason, Reason::PeerLost);
    assert_eq!(happened.recv().await, Some("dropped"));
    service.until(|registry| registry.entry("endless").is_none()).await;
    // And when it does come back it hosts again, in a new session.
    proxy.open.send_replace(true);
    service.until(|registry| registry.entry("endless").is_some()).await;
}
