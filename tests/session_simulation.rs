//! Two session cores on a simulated network: virtual time, delay, broken
//! connections, late, repeated and lost frames, and such as overtake others, all
//! from a seed. Every stream must be exact, every call end once, every publication
//! be heard and answered once, and memory stay within its bounds.
//!
//! `A11_SIMULATION_SEED=7` runs one seed, `A11_SIMULATION_SEEDS=100000` more.

#[path = "session_simulation/content.rs"]
mod content;
#[path = "session_simulation/network.rs"]
mod network;
#[path = "session_simulation/program.rs"]
mod program;
#[path = "session_simulation/publishing.rs"]
mod publishing;
#[path = "session_simulation/random.rs"]
mod random;

use std::{
    num::NonZero,
    time::{Duration, Instant},
};

use a11_grpc::session::core::{Connection, Core, Limits, Side};
use a11_grpc::wire::Reason;
use parking_lot::Mutex;

use network::Network;
use program::Program;
use random::Random;

const SEEDS: u64 = 2_000;
const GRACE: Duration = Duration::from_secs(60);
/// Nothing that is alive takes longer, in virtual time.
const LONGEST: Duration = Duration::from_secs(3_600);

#[test]
fn every_stream_is_exact_and_every_call_ends_once() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect(name));
    if let Some(seed) = number("A11_SIMULATION_SEED") {
        println!("{:?}", simulate(seed));
        return;
    }
    let seeds = number("A11_SIMULATION_SEEDS").unwrap_or(SEEDS);
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let happened = Mutex::new(Happened::default());
    std::thread::scope(|scope| {
        for first in 0..threads {
            let happened = &happened;
            scope.spawn(move || {
                for seed in (first..seeds).step_by(threads as usize) {
                    match std::panic::catch_unwind(|| simulate(seed)) {
                        Ok(it) => happened.lock().add(it),
                        Err(panic) => {
                            eprintln!("failed with A11_SIMULATION_SEED={seed}");
                            std::panic::resume_unwind(panic);
                        }
                    }
                }
            });
        }
    });
    let happened = happened.into_inner();
    println!("{happened:?}");
    if seeds >= SEEDS {
        let Happened { broken, gaps, repeated, answers } = happened;
        let least = [broken, gaps, repeated, answers].into_iter().min();
        assert!(least > Some(seeds / 10), "too little happened: {happened:?}");
    }
}

/// What the sessions went through.
#[derive(Debug, Clone, Copy, Default)]
struct Happened {
    /// Connections that broke.
    broken: u64,
    /// Connections that a side gave up for a frame that was missing.
    gaps: u64,
    /// Frames that came twice over one connection.
    repeated: u64,
    /// Publications that were answered.
    answers: u64,
}

impl Happened {
    fn add(&mut self, other: Self) {
        self.broken += other.broken;
        self.gaps += other.gaps;
        self.repeated += other.repeated;
        self.answers += other.answers;
    }
}

/// How a simulated connection goes.
enum Fate {
    /// It breaks now and then, and comes back in time.
    Flaky,
    /// It breaks once and never comes back.
    Lost,
}

fn simulate(seed: u64) -> Happened {
    let mut random = Random::new(seed);
    let start = Instant::now();
    let fate = if random.one_in(8) { Fate::Lost } else { Fate::Flaky };
    let limits = [0, 1].map(|_| Limits {
        node_window_bytes: random.between(4_096, 40_000) as u32,
        max_calls: random.between(1, 6) as u32,
        ..Limits::default()
    });
    let sides = [Side::Opener, Side::Acceptor];
    let mut programs = [0, 1].map(|at| {
        let core = Core::new(sides[at], limits[at], limits[1 - at], GRACE, start);
        Program::new(core, limits[at], seed, random.fork())
    });
    let mut network = Network::new(random.fork());
    let mut now = start;
    let mut connections = 0;
    let mut attach_at = Some(start);
    let mut break_at = None;
    let mut happened = Happened::default();
    loop {
        if attach_at.is_some_and(|at| at <= now) {
            attach_at = None;
            connections += 1;
            let connection = Connection(connections);
            let received = [0, 1].map(|at: usize| programs[at].core.received());
            for at in [0, 1] {
                programs[at].core.attach(connection, received[1 - at], now).expect("resumes");
            }
            network.open(connection);
            break_at = random.one_in(2).then(|| now + random.millis(1, 4_000));
        }
        if break_at.is_some_and(|at| at <= now) {
            break_at = None;
            happened.broken += 1;
            network.abandon();
            // One side may notice long before the other, or only by resuming.
            for program in &mut programs {
                program.core.detach(Connection(connections), now);
            }
            attach_at = match fate {
                Fate::Flaky => Some(now + random.millis(0, 20_000)),
                Fate::Lost => None,
            };
        }
        if network.breaks_at().is_some_and(|at| at <= now) {
            happened.broken += 1;
            network.abandon();
            for program in &mut programs {
                program.core.detach(Connection(connections), now);
            }
            attach_at = attach_at.or_else(|| Some(now + random.millis(0, 5_000)));
        }
        for (to, connection, frame) in network.due(now) {
            programs[to].core.handle_frame(connection, frame, now);
        }
        for at in [0, 1] {
            programs[at].core.handle_timeout(now);
            programs[at].step(now);
            while let Some(frame) = programs[at].core.poll_frame(now) {
                network.send(1 - at, frame, now);
                programs[at].step(now);
            }
        }
        for at in [0, 1] {
            if !programs[at].gave_up() {
                continue;
            }
            assert!(network.is_unruly(), "gave up a connection that kept the rules");
            happened.gaps += 1;
            network.abandon();
            // The other side notices at once, or only by resuming.
            if random.one_in(2) {
                programs[1 - at].core.detach(Connection(connections), now);
            }
            attach_at = attach_at.or_else(|| Some(now + random.millis(0, 5_000)));
        }
        let [one, other] = &programs;
        for program in [one, other] {
            program.check_memory();
        }
        if one.is_done(other) && other.is_done(one) {
            break;
        }
        let next = [
            network.next(),
            attach_at,
            break_at,
            one.next(),
            other.next(),
            one.core.next_timeout(),
            other.core.next_timeout(),
        ];
        now = next.into_iter().flatten().min().expect("something is left to happen").max(now);
        assert!(now < start + LONGEST, "no progress: {one:?} {other:?}");
    }
    for at in [0, 1] {
        programs[at].check_calls(&programs[1 - at]);
        programs[at].publishing.check(&programs[1 - at].publishing);
        happened.answers += programs[at].publishing.answers();
        let ended = programs[at].ended.as_ref().map(|status| status.reason);
        match fate {
            Fate::Flaky => assert_eq!(ended, None),
            // It may have done everything before it was lost.
            Fate::Lost => assert!(matches!(ended, None | Some(Reason::PeerLost)), "{ended:?}"),
        }
    }
    Happened { repeated: network.repeated, ..happened }
}
