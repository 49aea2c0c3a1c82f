//! Keeps a client attached: resumes its session after a broken connection, opens
//! a new one after a lost session, and publishes what changes in its registry.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::Channel;

use super::{
    dial::{self, Opened},
    peer::Attached,
};
use crate::action::Registry;
use crate::action::schema::{Ports, Runnable};
use crate::session::core::{Core, Limits, Side, limits::DEFAULT_GRACE};
use crate::session::driver::{self, Session, SessionParts};
use crate::session::{Directory, next_connection};
use crate::wire::time_limit::{self, LONGEST};
use crate::wire::{Reason, Status, pb};

/// The first wait before the next attempt to connect; it doubles up to the longest.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
const MOST_PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Keeper {
    channel: Channel,
    registry: Arc<Registry>,
    name: String,
    tasks: TaskTracker,
}

/// Action name → what was published of it.
type Published = BTreeMap<String, pb::ActionSchema>;

/// How long to wait before the next attempt: not at all after what was of use.
#[derive(Debug, Default)]
struct Pause(Duration);

impl Pause {
    /// What began then is over. A service that ends at once what it has taken is not
    /// asked again at once.
    fn after(&mut self, begun: Instant, was_of_use: bool) {
        if was_of_use || begun.elapsed() >= MOST_PAUSE {
            self.0 = Duration::ZERO;
        } else {
            self.grow();
        }
    }

    fn grow(&mut self) {
        self.0 = (self.0 * 2).clamp(LEAST_PAUSE, MOST_PAUSE);
    }

    async fn wait(&self) {
        if !self.0.is_zero() {
            sleep(self.0).await;
        }
    }
}

/// A session and its first connection.
pub(super) struct Open {
    session: Session,
    opened: Opened,
    published: Published,
}

impl Keeper {
    pub(super) fn new(
        channel: Channel,
        registry: Arc<Registry>,
        name: String,
        tasks: TaskTracker,
    ) -> Self {
        Self { channel, registry, name, tasks }
    }

    /// Opens a session.
    pub(super) async fn open(&self) -> Result<(Attached, Open), Status> {
        let published = self.hosted();
        let limits = Limits::default();
        let open = pb::OpenFrame {
            peer: self.name.clone(),
            actions: published.values().cloned().collect(),
            limits: Some(limits.into()),
            ..pb::OpenFrame::default()
        };
        let opened = dial::open(self.channel.clone(), open).await?;
        let frame = &opened.opened;
        let peer_limits = Limits::try_from(frame.limits)?;
        let grace = match frame.grace {
            Some(grace) => time_limit::read("grace", grace)?.min(LONGEST),
            None => DEFAULT_GRACE,
        };
        let core = Core::new(Side::Opener, limits, peer_limits, grace, Instant::now());
        let session = Session::new(
            core,
            SessionParts {
                id: frame.session.clone(),
                peer: String::new(),
                registry: self.registry.clone(),
                handlers: Arc::default(),
                // The service publishes nothing to its clients.
                publications: Weak::<Directory>::new(),
                tasks: self.tasks.clone(),
                runs: None,
            },
        );
        let refused: Arc<[_]> = frame.refused.clone().into();
        let attached = Attached { session: session.clone(), refused };
        Ok((attached, Open { session, opened, published }))
    }

    /// Keeps a session for as long as `stop` is not cancelled.
    pub(super) async fn keep(
        self,
        mut open: Open,
        current: watch::Sender<Attached>,
        stop: CancellationToken,
    ) {
        let mut pause = Pause::default();
        loop {
            let (session, begun) = (open.session.clone(), Instant::now());
            self.keep_session(open, &current, &stop).await;
            pause.after(begun, session.received() > 0);
            open = loop {
                let opening = async {
                    pause.wait().await;
                    self.open().await
                };
                tokio::select! {
                    () = stop.cancelled() => return,
                    opened = opening => match opened {
                        Ok((attached, open)) => {
                            current.send_replace(attached);
                            break open;
                        }
                        Err(status) => tracing::debug!(status = status.to_string(), "no session could be opened"),
                    },
                }
                pause.grow();
            };
        }
    }

    /// Keeps one session until it is over.
    async fn keep_session(
        &self,
        open: Open,
        current: &watch::Sender<Attached>,
        stop: &CancellationToken,
    ) {
        let Open { session, opened, published } = open;
        let token = opened.opened.resume_token.clone();
        let publishing = self.publish_changes(&session, published, current);
        let connecting = async {
            let (mut opened, mut pause) = (opened, Pause::default());
            loop {
                let (received, begun) = (session.received(), Instant::now());
                self.run_connection(&session, opened, stop).await;
                if session.is_over() {
                    return;
                }
                pause.after(begun, session.received() > received);
                match self.resume(&session, &token, &mut pause, stop).await {
                    Some(resumed) => opened = resumed,
                    None => return,
                }
            }
        };
        // The connection decides: it still has the end to tell.
        tokio::select! {
            () = connecting => {}
            never = publishing => match never {},
        }
    }

    async fn run_connection(&self, session: &Session, opened: Opened, stop: &CancellationToken) {
        let Opened { opened, frames, sink } = opened;
        let connection = next_connection();
        match session.attach(connection, opened.received, Instant::now()) {
            Ok(_) => {
                let ended = CancellationToken::new();
                let running = driver::run(session, connection, frames, sink, &ended);
                tokio::pin!(running);
                tokio::select! {
                    () = &mut running => {}
                    () = stop.cancelled() => {
                        session.end(Status::ok());
                        // The end is told, if the service reads at all.
                        let _ = tokio::time::timeout(MOST_PAUSE, running).await;
                    }
                }
            }
            Err(status) => session.end(status),
        }
    }

    /// Tries to resume until it works; `None` once the session is over.
    async fn resume(
        &self,
        session: &Session,
        token: &bytes::Bytes,
        pause: &mut Pause,
        stop: &CancellationToken,
    ) -> Option<Opened> {
        let attempts = async {
            loop {
                pause.wait().await;
                let open = pb::OpenFrame {
                    peer: self.name.clone(),
                    resume_token: token.clone(),
                    received: session.received(),
                    ..pb::OpenFrame::default()
                };
                match dial::open(self.channel.clone(), open).await {
                    Ok(opened) => return Ok(opened),
                    Err(status) if is_final(&status) => return Err(status),
                    Err(status) => tracing::debug!(
                        status = status.to_string(),
                        "the session was not resumed yet"
                    ),
                }
                pause.grow();
            }
        };
        tokio::select! {
            attempt = attempts => match attempt {
                Ok(opened) => Some(opened),
                Err(status) => {
                    session.end(Status::of(Reason::PeerLost, status.message));
                    None
                }
            },
            () = session.keep_until_resumed() => None,
            () = stop.cancelled() => {
                session.end(Status::ok());
                None
            }
        }
    }

    /// Publishes and withdraws as the registry changes, for as long as it is
    /// polled.
    async fn publish_changes(
        &self,
        session: &Session,
        mut published: Published,
        current: &watch::Sender<Attached>,
    ) -> Infallible {
        let mut changes = self.registry.changes();
        loop {
            let hosted = self.hosted();
            let gone: Vec<String> =
                published.keys().filter(|name| !hosted.contains_key(*name)).cloned().collect();
            if !gone.is_empty() {
                session.withdraw(gone);
            }
            let new: Vec<_> = hosted
                .iter()
                .filter(|(name, schema)| published.get(*name) != Some(*schema))
                .map(|(_, schema)| schema.clone())
                .collect();
            // What was refused of those that stay as they were.
            let unchanged =
                |name: &String| hosted.get(name).is_some_and(|it| published.get(name) == Some(it));
            let mut refused = current.borrow().refused.to_vec();
            refused.retain(|refused| unchanged(&refused.name));
            published = hosted;
            if !new.is_empty() {
                match session.publish(new).await {
                    Ok(newly) => {
                        for action in &newly {
                            let status = action.status.as_ref();
                            let why = status.map(|status| status.message.as_str());
                            tracing::warn!(
                                action = action.name,
                                why,
                                "the service refused an action"
                            );
                        }
                        refused.extend(newly);
                    }
                    Err(status) => {
                        tracing::warn!(status = status.to_string(), "actions were not published")
                    }
                }
            }
            current.send_modify(|attached| attached.refused = refused.into());
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// What this program hosts now.
    fn hosted(&self) -> Published {
        let entries = self.registry.entries(None);
        let runnable = entries.iter().filter(|entry| entry.handler().is_some());
        let messages = runnable.map(|entry| {
            let message = entry.schema().to_message(Runnable::Yes, Ports::Callable);
            (message.name.clone(), message)
        });
        messages.collect()
    }
}

/// Whether trying again is of no use.
fn is_final(status: &Status) -> bool {
    matches!(status.reason, Reason::UnknownSession | Reason::ShuttingDown | Reason::InvalidFrame)
}
