//! A client of HTTP/2, frame by frame: one that writes when no library would any
//! more, as one far away does.

#![allow(unreachable_pub)]

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The kinds of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// Flags.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A frame of data with more to come.
pub const MESSAGE: u8 = 0;

pub struct Connection {
    io: TcpStream,
    next: u32,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        let mut io = TcpStream::connect(address).await.unwrap();
        io.set_nodelay(true).unwrap();
        io.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        io.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        Self { io, next: 1 }
    }

    /// Begins a gRPC call: the number of its stream.
    pub async fn call(&mut self, path: &str) -> u32 {
        let stream = self.next;
        self.next += 2;
        let headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        let block: Vec<u8> =
            headers.into_iter().flat_map(|(name, value)| literal(name, value)).collect();
        self.io.write_all(&frame(HEADERS, END_HEADERS, stream, &block)).await.unwrap();
        stream
    }

    /// Writes frames of data.
    pub async fn write(&mut self, stream: u32, data: &[(u8, &[u8])]) {
        let frames: Vec<u8> =
            data.iter().flat_map(|(flags, data)| frame(DATA, *flags, stream, data)).collect();
        self.io.write_all(&frames).await.unwrap();
    }

    pub async fn half_close(&mut self, stream: u32) {
        self.write(stream, &[(END_STREAM, &[])]).await;
    }

    pub async fn cancel(&mut self, stream: u32) {
        self.io.write_all(&frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])).await.unwrap();
    }

    /// Reads until the server has ended a stream.
    ///
    /// # Panics
    /// Where it ends the connection.
    pub async fn ended(&mut self, stream: u32) {
        loop {
            let mut head = [0; 9];
            self.io.read_exact(&mut head).await.unwrap();
            let [_, _, _, kind, flags, ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.io.read_exact(&mut payload).await.unwrap();
            assert_ne!(kind, GOAWAY, "stream {stream}: {}", String::from_utf8_lossy(&payload));
            let of = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if of == stream && matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                return;
            }
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header as it is (RFC 7541, 6.2.2).
fn literal(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}
