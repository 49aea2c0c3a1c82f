//! What happens by itself as time passes: asking whether the other side is
//! there, giving up a silent connection, and the end of the grace period.

use std::time::Instant;

use super::{
    event::Event,
    limits::{BROKEN_AFTER, PING_AFTER},
    session::{Core, Ping},
};
use crate::wire::{Reason, Status};

impl Core {
    /// When [`handle_timeout`](Self::handle_timeout) and
    /// [`poll_frame`](Self::poll_frame) are to be called again, if nothing else
    /// happens.
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.is_over() {
            return None;
        }
        let Some(attached) = &self.attached else {
            return self.detached_at.checked_add(self.grace);
        };
        let silence = match attached.ping {
            Ping::None => attached.heard + PING_AFTER,
            Ping::Due | Ping::Sent => attached.heard + BROKEN_AFTER,
        };
        Some(self.link.tell_by().map_or(silence, |by| by.min(silence)))
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_over() {
            return;
        }
        match &mut self.attached {
            Some(attached) if now >= attached.heard + BROKEN_AFTER => {
                let connection = attached.connection;
                self.detach(connection, now);
                self.events.push_back(Event::Disconnected);
            }
            Some(attached) if attached.ping == Ping::None && now >= attached.heard + PING_AFTER => {
                attached.ping = Ping::Due;
            }
            Some(_) => {}
            None if now.saturating_duration_since(self.detached_at) >= self.grace => {
                let seconds = self.grace.as_secs_f64();
                self.end(Status::of(
                    Reason::PeerLost,
                    format!("the peer was gone for {seconds} s and did not come back"),
                ));
            }
            None => {}
        }
    }
}
