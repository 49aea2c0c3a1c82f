//! A network that delays, repeats, and delivers late what a broken connection
//! still held. Within one connection frames keep their order.

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
}

impl Network {
    pub(crate) fn new(random: Random) -> Self {
        Self {
            random,
            connection: Connection(0),
            under_way: BTreeMap::new(),
            sent: 0,
            last: [None; 2],
        }
    }

    pub(crate) fn open(&mut self, connection: Connection) {
        self.connection = connection;
        self.last = [None; 2];
    }

    /// The connection breaks: most of what is under way is lost, some of it
    /// arrives much later.
    pub(crate) fn abandon(&mut self) {
        let under_way = std::mem::take(&mut self.under_way);
        for ((at, order), frame) in under_way {
            if self.random.one_in(3) {
                let late = self.random.millis(0, 30_000);
                self.under_way.insert((at + late, order), frame);
            }
        }
    }

    pub(crate) fn send(&mut self, to: usize, frame: Frame, now: Instant) {
        let copies = if self.random.one_in(20) { 2 } else { 1 };
        for _ in 0..copies {
            let delay = match self.random.one_in(10) {
                true => self.random.millis(0, 500),
                false => self.random.millis(0, 5),
            };
            let at = self.last[to].map_or(now, |last| last.max(now)) + delay;
            // Half of the time everything comes at once.
            let at = if self.random.one_in(2) { at } else { at - delay };
            self.last[to] = Some(at);
            self.sent += 1;
            self.under_way.insert((at, self.sent), (to, self.connection, frame.clone()));
        }
    }

    pub(crate) fn due(&mut self, now: Instant) -> Vec<(usize, Connection, Frame)> {
        let later = self.under_way.split_off(&(now + Duration::from_nanos(1), 0));
        std::mem::replace(&mut self.under_way, later).into_values().collect()
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.under_way.first_key_value().map(|((at, _), _)| *at)
    }
}
