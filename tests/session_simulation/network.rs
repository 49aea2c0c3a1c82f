//! A network that delays, repeats, and delivers late what a broken connection
//! still held. Within one connection frames keep their order, except over an unruly
//! network: there some overtake others, and some are lost, after which the
//! connection breaks sooner or later.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use a11_grpc::session::core::Connection;
use a11_grpc::wire::pb::Frame;

use super::random::Random;

pub(crate) struct Network {
    random: Random,
    connection: Connection,
    /// By time of arrival, then by order of sending.
    under_way: BTreeMap<(Instant, u64), (usize, Connection, Frame)>,
    sent: u64,
    /// When the last frame to each side arrives.
    last: [Option<Instant>; 2],
    is_unruly: bool,
    /// When a connection that lost a frame breaks.
    breaks_at: Option<Instant>,
    /// How many frames came twice.
    pub(crate) repeated: u64,
}

impl Network {
    pub(crate) fn new(mut random: Random) -> Self {
        let is_unruly = random.one_in(3);
        Self {
            random,
            connection: Connection(0),
            under_way: BTreeMap::new(),
            sent: 0,
            last: [None; 2],
            is_unruly,
            breaks_at: None,
            repeated: 0,
        }
    }

    pub(crate) fn is_unruly(&self) -> bool {
        self.is_unruly
    }

    /// When the connection breaks of itself.
    pub(crate) fn breaks_at(&self) -> Option<Instant> {
        self.breaks_at
    }

    pub(crate) fn open(&mut self, connection: Connection) {
        self.connection = connection;
        self.last = [None; 2];
        self.breaks_at = None;
    }

    /// The connection breaks: most of what is under way is lost, some of it
    /// arrives much later.
    pub(crate) fn abandon(&mut self) {
        self.breaks_at = None;
        let under_way = std::mem::take(&mut self.under_way);
        for ((at, order), frame) in under_way {
            if self.random.one_in(3) {
                let late = self.random.millis(0, 30_000);
                self.under_way.insert((at + late, order), frame);
            }
        }
    }

    pub(crate) fn send(&mut self, to: usize, frame: Frame, now: Instant) {
        let delay = match self.random.one_in(10) {
            true => self.random.millis(0, 500),
            false => self.random.millis(0, 5),
        };
        let at = self.last[to].map_or(now, |last| last.max(now));
        // Half of the time everything comes at once.
        let at = if self.random.one_in(2) { at + delay } else { at };
        if self.is_unruly && self.random.one_in(150) {
            let breaks_at = now + self.random.millis(0, 5_000);
            self.breaks_at.get_or_insert(breaks_at);
            return;
        }
        if self.is_unruly && self.random.one_in(60) {
            let late = self.random.millis(1, 50);
            return self.deliver(to, frame, at + late);
        }
        self.last[to] = Some(at);
        if self.random.one_in(20) {
            self.repeated += 1;
            // At once, or behind others.
            let late = if self.random.one_in(2) { self.random.millis(0, 500) } else { delay };
            self.deliver(to, frame.clone(), at + late);
        }
        self.deliver(to, frame, at);
    }

    fn deliver(&mut self, to: usize, frame: Frame, at: Instant) {
        self.sent += 1;
        self.under_way.insert((at, self.sent), (to, self.connection, frame));
    }

    pub(crate) fn due(&mut self, now: Instant) -> Vec<(usize, Connection, Frame)> {
        let later = self.under_way.split_off(&(now + Duration::from_nanos(1), 0));
        std::mem::replace(&mut self.under_way, later).into_values().collect()
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
        arrival.into_iter().chain(self.breaks_at).min()
    }
}
