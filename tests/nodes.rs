//! Nodes: whatever the arrival, readers see one exact stream.

#![allow(missing_docs)]

use a11_grpc::node::{Ending, Node, Piece, Reader, WhenRead, WhenUnread, join};
use a11_grpc::wire::pb::{NodeRef, chunk::Body, node_fragment::Payload};
use a11_grpc::wire::{Chunk, Code, NodeFragment, Reason, Status};
use futures::FutureExt as _;
use proptest::prelude::*;

fn fragment(seq: u32, text: &str, continued: bool) -> NodeFragment {
    NodeFragment { seq: Some(seq), continued, ..NodeFragment::more("n", Chunk::text(text)) }
}

fn text_of(piece: &Piece) -> String {
    let chunk = piece.chunk().expect("a chunk");
    String::from_utf8(chunk.data().to_vec()).expect("text")
}

/// All that can be read without waiting, and whether the end was reached.
fn read_now(reader: &mut Reader) -> (Vec<String>, Option<Ending>) {
    let mut texts = vec![];
    while let Some(Ok(Some(piece))) = reader.next().now_or_never() {
        texts.push(text_of(&piece));
    }
    (texts, reader.ending())
}

proptest! {
    #[test]
    fn order_duplicates_and_batches_do_not_change_what_is_read(
        texts in prop::collection::vec(".{0,8}", 1..40),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..120),
        late_after in 0_usize..120,
    ) {
        let last = texts.len() - 1;
        let node = Node::default();
        let mut writer = node.writer();
        let mut early = node.reader();
        let mut late = None;
        // Any order with repeats, then each once so that none is missing.
        let arrivals = order.iter().map(|index| index.index(texts.len())).chain(0..texts.len());
        let mut seen = vec![];
        for (number, seq) in arrivals.enumerate() {
            if number == late_after {
                late = Some(node.reader());
            }
            let fragment = fragment(seq as u32, &texts[seq], seq != last);
            writer.write_fragment(fragment).now_or_never().expect("room").expect("fits");
            seen.extend(read_now(&mut early).0);
            prop_assert_eq!(&seen[..], &texts[..seen.len()]);
        }
        prop_assert_eq!(&seen, &texts);
        prop_assert_eq!(read_now(&mut early).1, Some(Ending::Final));
        for mut reader in [late.unwrap_or_else(|| node.reader()), node.reader()] {
            prop_assert_eq!(read_now(&mut reader), (texts.clone(), Some(Ending::Final)));
        }
    }

    #[test]
    fn a_value_is_the_same_however_it_is_split(
        text in ".{0,64}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(bytes.len());
        let mut start = 0;
        let pieces: Vec<Piece> = cuts
            .iter()
            .map(|end| {
                let part = Chunk::new("text/plain", bytes[start..*end].to_vec());
                start = *end;
                Piece::more(part)
            })
            .collect();
        let whole = join(&pieces).expect("no references").expect("a value");
        prop_assert_eq!(&whole.data()[..], bytes);
    }
}

#[tokio::test]
async fn a_reader_is_woken_as_soon_as_the_next_piece_is_there() {
    let node = Node::default();
    let (mut reader, mut writer) = (node.reader(), node.writer());
    let read = tokio::spawn(async move { reader.next().await });
    writer.write_fragment(fragment(1, "b", false)).await.expect("early");
    tokio::task::yield_now().await;
    assert!(!read.is_finished());
    writer.write_fragment(fragment(0, "a", true)).await.expect("next");
    let piece = read.await.expect("no panic").expect("no failure").expect("a piece");
    assert_eq!(text_of(&piece), "a");
}

#[tokio::test]
async fn a_node_that_fails_gives_every_reader_its_status_after_what_is_there() {
    let node = Node::default();
    let mut writer = node.writer();
    writer.send(Chunk::text("a")).await.expect("fits");
    let failure = Status::handler(Code::Unavailable, "gone");
    node.fail(failure.clone());
    for _ in 0..2 {
        let mut reader = node.reader();
        assert_eq!(text_of(&reader.next().await.expect("kept").expect("kept")), "a");
        assert_eq!(reader.next().await, Err(failure.clone()));
        assert_eq!(reader.value(1).await, Err(failure.clone()));
    }
    assert_eq!(writer.finish().await, Err(failure));
}

#[tokio::test]
async fn one_whole_value_needs_a_final_fragment() {
    let check = |end: fn(&Node), expected: Result<Option<&'static str>, Reason>| async move {
        let node = Node::default();
        node.writer().send(Chunk::text("a")).await.expect("fits");
        end(&node);
        let value = node.reader().value(1).await;
        let value = value.as_ref().map(|chunk| {
            chunk.as_ref().map(|chunk| std::str::from_utf8(chunk.data()).expect("text"))
        });
        assert_eq!(value.map_err(|status| status.reason), expected);
    };
    check(|node| node.close(), Err(Reason::NotFinal)).await;
    check(
        |node| {
            node.writer().finish().now_or_never();
        },
        Ok(Some("a")),
    )
    .await;
}

#[tokio::test]
async fn a_writer_waits_for_its_slowest_reader_and_holds_no_more_than_the_capacity() {
    const CAPACITY: usize = 64 * 1024;
    const PIECE: usize = 1024;
    let node = Node::new(CAPACITY, "text/plain", WhenUnread::Wait);
    let (mut fast, mut slow) = (node.reader(), node.reader());
    let mut writer = node.writer();
    let mut written = 0;
    while writer.send(Chunk::text("x".repeat(PIECE))).now_or_never().is_some() {
        written += 1;
        assert!(fast.next().now_or_never().is_some());
    }
    assert!(written * PIECE <= CAPACITY && written * PIECE * 2 > CAPACITY, "{written}");
    let mut waiting = tokio::spawn(async move { writer.send(Chunk::text("y")).await });
    assert!((&mut waiting).now_or_never().is_none());
    slow.next().await.expect("no failure").expect("a piece");
    waiting.await.expect("no panic").expect("has room now");
}

#[tokio::test]
async fn everything_that_a_piece_holds_counts_against_the_capacity() {
    const CAPACITY: usize = 64 * 1024;
    let check = |what: &str, bytes: usize, payload: Payload| {
        let node = Node::new(CAPACITY, "", WhenUnread::Wait);
        let mut writer = node.writer();
        let piece = || Piece { payload: payload.clone(), continued: true };
        let mut written = 0;
        while writer.write(piece()).now_or_never().is_some() {
            written += 1;
            assert!(written * bytes <= CAPACITY + bytes, "{what}: {written}");
        }
        assert!(node.held_bytes() >= written * bytes, "{what}: {}", node.held_bytes());
    };
    let chunk = Chunk::text("x".repeat(2000));
    check("data", 2000, Payload::Chunk(chunk));
    check("media type", 255, Payload::Chunk(Chunk::new("t".repeat(255), "")));
    let reference = Chunk { metadata: None, body: Some(Body::Ref("r".repeat(2048))) };
    check("ref", 2048, Payload::Chunk(reference));
    let mut chunk = Chunk::text("");
    let attributes = &mut chunk.metadata.get_or_insert_default().attributes;
    attributes.insert("n".repeat(255), vec![0; 4096].into());
    check("attributes", 255 + 4096, Payload::Chunk(chunk));
    let node = NodeRef { id: "n".repeat(255), ..Default::default() };
    check("node_ref", 255, Payload::NodeRef(node));
}

#[tokio::test]
async fn a_fragment_that_cannot_be_fails_its_node() {
    let node = Node::default();
    let mut reader = node.reader();
    let odd = NodeFragment::last("n", Chunk::new("t".repeat(256), "x"));
    let status = node.writer().write_fragment(odd).await.expect_err("is refused");
    assert_eq!((status.code, status.reason), (Code::InvalidArgument, Reason::InvalidRequest));
    assert!(status.message.contains("media_type"), "{status}");
    assert_eq!(reader.next().await, Err(status));
}

#[tokio::test]
async fn a_reader_that_comes_too_late_is_told_so() {
    let node = Node::new(1024, "text/plain", WhenUnread::Wait);
    let (mut reader, mut writer) = (node.reader(), node.writer());
    for _ in 0..8 {
        writer.send(Chunk::text("x".repeat(512))).await.expect("room");
        reader.next().await.expect("no failure").expect("a piece");
    }
    let status = node.reader().next().await.expect_err("trimmed");
    assert_eq!((status.code, status.reason), (Code::OutOfRange, Reason::Trimmed));
    node.writer().finish().await.expect("room");
    assert!(node.reader_from(8).next().await.expect("kept").is_some());
}

#[tokio::test]
async fn what_nobody_reads_any_more_does_not_hold_its_writer_up() {
    let node = Node::new(1024, "text/plain", WhenUnread::Discard);
    drop(node.reader());
    let mut writer = node.writer();
    for _ in 0..100 {
        writer.send(Chunk::text("x".repeat(512))).await.expect("let go");
    }
}

#[tokio::test]
async fn what_nobody_asks_for_again_is_let_go_once_it_was_read() {
    let node = Node::new(1024, "text/plain", WhenUnread::Discard);
    node.set_when_read(WhenRead::LetGo);
    let (mut reader, mut slow, mut writer) = (node.reader(), node.reader(), node.writer());
    let held = |node: &Node| node.held_bytes() > 0;
    writer.send(Chunk::text("a")).await.expect("room");
    reader.next().await.expect("no failure").expect("a piece");
    assert!(held(&node), "another reader has not read it");
    slow.next().await.expect("no failure").expect("a piece");
    assert!(!held(&node));
    assert_eq!(node.reader().next().await.expect_err("let go").reason, Reason::Trimmed);
    drop(slow);

    // From the first piece that names its place, another one at that place is told.
    let fragment =
        |text: &str| NodeFragment { seq: Some(1), ..NodeFragment::more("n", Chunk::text(text)) };
    writer.write_fragment(fragment("b")).await.expect("next");
    reader.next().await.expect("no failure").expect("a piece");
    writer.write_fragment(fragment("b")).await.expect("is a repetition");
    let status = writer.write_fragment(fragment("c")).await.expect_err("is another");
    assert_eq!(status.reason, Reason::SeqConflict);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_waits_is_told_when_another_one_breaks_the_node() {
    let node = Node::new(1024, "text/plain", WhenUnread::Wait);
    let _reader = node.reader();
    let (mut waiting, mut breaking) = (node.writer(), node.writer());
    while waiting.send(Chunk::text("x".repeat(512))).now_or_never().is_some() {}
    let waits = tokio::spawn(async move { waiting.send(Chunk::text("more")).await });
    tokio::task::yield_now().await;
    let broken = breaking.write_fragment(fragment(0, "another", true)).await.expect_err("differs");
    let told = tokio::time::timeout(std::time::Duration::from_secs(1), waits).await;
    assert_eq!(told.expect("is woken").expect("no panic"), Err(broken));
}

#[tokio::test]
async fn a_reader_ahead_of_what_is_written_holds_up_nobody() {
    const PIECES: u32 = 100;
    let node = Node::new(4096, "text/plain", WhenUnread::Wait);
    let (mut ahead, mut beyond) = (node.reader_from(PIECES), node.reader_from(u32::MAX));
    let mut writer = node.writer();
    for at in 0..=PIECES {
        let sent = writer.send(Chunk::text(at.to_string().repeat(200))).now_or_never();
        sent.expect("there is room").expect("is written");
        assert!(at == PIECES || ahead.next().now_or_never().is_none());
    }
    // From its own place on it counts as any other.
    while writer.send(Chunk::text("x".repeat(500))).now_or_never().is_some() {}
    let piece = ahead.next().await.expect("is kept").expect("a piece");
    assert_eq!(text_of(&piece), PIECES.to_string().repeat(200));
    node.close();
    assert_eq!(beyond.next().await, Ok(None));
}
