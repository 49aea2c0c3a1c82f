//! The service, and programs that call its `echo` over sessions.

use std::sync::Arc;

use a11_grpc::action::{ActionSchema, Context, Port, Registry, Run, handler};
use a11_grpc::client::{Client, connect};
use a11_grpc::node::{Piece, Reader, Writer};
use a11_grpc::serve::{Limits, Options, Server};
use a11_grpc::wire::Chunk;

const MEDIA_TYPE: &str = "application/octet-stream";

/// Serves `echo`, whatever it is given; the address is what it answers.
pub(crate) async fn start() -> String {
    let registry = Registry::new();
    let schema = ActionSchema::builder("echo")
        .input(Port::of("values", MEDIA_TYPE).stream())
        .output(Port::of("echoes", MEDIA_TYPE).stream());
    let run = |context: Context| async move {
        let (mut values, mut echoes) = (context.input("values")?, context.output("echoes")?);
        let mut pieces: Vec<Piece> = vec![];
        while values.next_batch(&mut pieces).await? {
            for piece in pieces.drain(..) {
                echoes.write_piece(piece).await?;
            }
        }
        Ok(())
    };
    registry.register(schema.build(), handler(run)).expect("registers");
    let limits = Limits { connections: usize::MAX, ..Limits::default() };
    let options = Options { limits, ..Options::new("127.0.0.1:0", Arc::new(registry)) };
    let server = Server::bind(options).await.expect("a free port");
    let address = server.address().to_string();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// A call of `echo` over a session of its own.
pub(crate) struct Echo {
    _client: Client,
    _run: Run,
    values: Writer,
    echoes: Reader,
}

impl Echo {
    pub(crate) async fn open(address: &str) -> Self {
        let channel = connect(address).await.expect("connects");
        let client = Client::connect(channel).await.expect("attaches");
        let mut run = client.call("echo").start().await.expect("starts");
        let values = run.input("values").expect("an input");
        let echoes = run.take_output("echoes").expect("an output");
        Self { _client: client, _run: run, values, echoes }
    }

    /// Sends fragments, and waits for as many.
    pub(crate) async fn round(&mut self, size: usize, count: usize) {
        let chunk = Chunk::new(MEDIA_TYPE, vec![b'x'; size]);
        let Self { values, echoes, .. } = self;
        let write = async {
            for _ in 0..count {
                values.send(chunk.clone()).await.expect("is written");
            }
        };
        let read = async {
            let (mut pieces, mut received) = (vec![], 0);
            while received < count {
                assert!(echoes.next_batch(&mut pieces).await.expect("goes on"));
                received += pieces.drain(..).len();
            }
        };
        tokio::join!(write, read);
    }
}

/// A program that calls again and again.
#[derive(Clone)]
pub(crate) struct Caller(Client);

impl Caller {
    pub(crate) async fn open(address: &str) -> Self {
        let channel = connect(address).await.expect("connects");
        Self(Client::connect(channel).await.expect("attaches"))
    }

    pub(crate) async fn call(&self) {
        let mut run = self.0.call("echo").start().await.expect("starts");
        let mut values = run.input("values").expect("an input");
        values.send(Chunk::new(MEDIA_TYPE, vec![b'x'; 16])).await.expect("is written");
        run.close_inputs();
        assert!(run.finished().await.is_ok());
    }
}
