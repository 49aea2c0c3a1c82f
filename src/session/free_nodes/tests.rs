//! How long free nodes are kept, and how much of them.

use std::time::Duration;

use super::*;
use crate::action::{Handlers, Registry};
use crate::node::Reader;
use crate::session::Config;
use crate::wire::{Chunk, Code};

const ID: &str = "notes";

/// Nodes, and a session that they can belong to.
fn nodes() -> (FreeNodes, Session) {
    nodes_of(Config::default())
}

fn nodes_of(config: Config) -> (FreeNodes, Session) {
    let registry = Arc::new(Registry::new());
    let handlers = Arc::new(Handlers::default());
    let directory = Directory::new(registry, handlers, config);
    let (session, _) = directory.open("p".into(), None).expect("there is room");
    (FreeNodes::new(directory), session)
}

/// Writes a value and leaves.
async fn write(nodes: &FreeNodes, session: &Session, value: &str, is_last: bool) {
    let writing = nodes.write(session.id(), ID).expect("is attached");
    let mut writer = writing.node().writer();
    writer.send(Chunk::text(value)).await.expect("is taken");
    if is_last {
        writer.finish().await.expect("ends");
    }
}

fn read(nodes: &FreeNodes, session: &Session) -> (Reading, Reader) {
    let reading = nodes.read(session.id(), ID).expect("is attached");
    let reader = reading.node().reader_from(0);
    (reading, reader)
}

/// The values of a node, and how it ended.
async fn all(reader: &mut Reader) -> (usize, Status) {
    let mut count = 0;
    loop {
        match reader.next().await {
            Ok(Some(piece)) => count += usize::from(!piece.is_null()),
            Ok(None) => return (count, Status::ok()),
            Err(status) => return (count, status),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_kept_for_late_readers_for_its_time_and_no_longer() {
    let (nodes, session) = nodes();
    write(&nodes, &session, "a", true).await;
    tokio::time::sleep(KEPT - Duration::from_secs(1)).await;
    let (reading, mut reader) = read(&nodes, &session);
    assert_eq!(all(&mut reader).await, (1, Status::ok()));
    drop((reading, reader));
    assert_eq!(nodes.count(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(nodes.count(), 0);
    // Who names it now names another.
    let (_reading, reader) = read(&nodes, &session);
    assert_eq!((reader.ending(), nodes.count()), (None, 1));
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_left_is_waited_for_and_then_its_readers_are_told() {
    let (nodes, session) = nodes();
    write(&nodes, &session, "a", false).await;
    let (_reading, mut reader) = read(&nodes, &session);
    tokio::time::sleep(KEPT - Duration::from_secs(1)).await;
    // It comes back, and has all of its time again.
    write(&nodes, &session, "b", false).await;
    let again = tokio::time::Instant::now();
    let (count, status) = all(&mut reader).await;
    assert_eq!((count, status.reason), (2, Reason::PeerLost), "{status}");
    assert!(again.elapsed() >= KEPT && again.elapsed() < KEPT + Duration::from_secs(1));
    assert_eq!(nodes.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn writers_that_come_and_go_leave_one_task_which_ends_with_the_service() {
    let (nodes, session) = nodes();
    for _ in 0..100 {
        write(&nodes, &session, "a", false).await;
        nodes.write(session.id(), "other").expect("is attached");
    }
    assert_eq!(nodes.0.state.lock().left.len(), 2);
    let tasks = nodes.0.directory.tasks();
    assert_eq!(tasks.len(), 2, "for the nodes, and for the session");
    let began = Instant::now();
    nodes.0.directory.shut_down().await;
    assert_eq!((nodes.count(), began.elapsed()), (0, Duration::ZERO));
}

/// Writes so much to a node as the service does, and leaves.
async fn fill(nodes: &FreeNodes, session: &Session, id: &str, bytes: usize) -> Result<(), Status> {
    let writing = nodes.write(session.id(), id)?;
    writing.make_room(bytes)?;
    writing.node().writer().send(Chunk::text("x".repeat(bytes))).await?;
    writing.written();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_nodes_of_all_sessions_have_one_bound_and_those_that_nobody_uses_go_first() {
    const KIB: usize = 1024;
    let (nodes, session) = nodes_of(Config { max_node_bytes: 100 * KIB, ..Config::default() });
    let (other, _) = nodes.0.directory.open("q".into(), None).expect("there is room");
    for id in ["a", "b", "c"] {
        fill(&nodes, &session, id, 20 * KIB).await.expect("there is room");
    }
    // One that is read is not let go, one that is idle is: first the oldest.
    let reading = nodes.read(session.id(), "a").expect("is attached");
    let mut reader = reading.node().reader_from(0);
    fill(&nodes, &other, "d", 40 * KIB).await.expect("there is room without b");
    let there = |id| nodes.0.state.lock().nodes[session.id()].contains_key(id);
    assert_eq!(["a", "b", "c"].map(there), [true, false, true]);
    // What is read counts after its time, too.
    tokio::time::sleep(2 * KEPT).await;
    assert_eq!((all(&mut reader).await.0, nodes.count()), (1, 0));
    let refused = fill(&nodes, &other, "d", 80 * KIB).await.expect_err("there is no room");
    assert_eq!((refused.code, refused.reason), (Code::ResourceExhausted, Reason::SessionLimit));
    drop((reader, reading));
    fill(&nodes, &other, "d", 80 * KIB).await.expect("there is room");
    // A writer that is cut off takes back what it did not write; and a node that was
    // read can be let go again.
    let cut_off = nodes.write(other.id(), "e").expect("there is room");
    cut_off.make_room(10 * KIB).expect("there is room");
    drop(cut_off);
    drop(nodes.read(other.id(), "d").expect("is there"));
    fill(&nodes, &session, "f", 90 * KIB).await.expect("there is room without d");
    assert_eq!((nodes.count(), nodes.0.state.lock().idle.len()), (2, 2));
    fill(&nodes, &other, "d", 70 * KIB).await.expect("there is room without f");
    // Nodes that hold nothing count, too.
    let writing = nodes.write(other.id(), "d").expect("is there");
    let readings: Vec<_> =
        (0..100).map_while(|id| nodes.read(session.id(), &format!("n{id}")).ok()).collect();
    assert!((1..30).contains(&readings.len()), "{}", readings.len());
    session.end(Status::ok());
    other.end(Status::ok());
    nodes.0.directory.shut_down().await;
    drop((readings, writing));
    assert_eq!(nodes.0.bytes.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn one_writer_of_two_that_stays_is_enough() {
    let (nodes, session) = nodes();
    let stays = nodes.write(session.id(), ID).expect("is attached");
    write(&nodes, &session, "a", false).await;
    tokio::time::sleep(2 * KEPT).await;
    stays.node().writer().finish().await.expect("still takes more");
    drop(stays);
    let (_reading, mut reader) = read(&nodes, &session);
    assert_eq!(all(&mut reader).await, (1, Status::ok()));
}

#[tokio::test(start_paused = true)]
async fn the_nodes_of_a_session_go_with_it_and_their_readers_are_told() {
    let (nodes, session) = nodes();
    write(&nodes, &session, "a", false).await;
    let (_reading, mut reader) = read(&nodes, &session);
    let began = tokio::time::Instant::now();
    session.end(Status::ok());
    let (count, status) = all(&mut reader).await;
    assert_eq!((count, status.reason), (1, Reason::PeerLost), "{status}");
    assert_eq!((nodes.count(), began.elapsed()), (0, Duration::ZERO));
    let refused = nodes.read(session.id(), ID).err().expect("is gone");
    assert_eq!(refused.reason, Reason::UnknownSession);
}
