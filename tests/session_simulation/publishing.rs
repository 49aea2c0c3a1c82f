//! What a program on one side of a simulated session tells the other of its actions,
//! and what it hears: both in order, each publication answered once.

use std::collections::VecDeque;

use a11_grpc::session::core::Core;
use a11_grpc::wire::{Reason, Status, pb};

use super::random::Random;

/// How often a program publishes or withdraws, at most.
const MOST: u64 = 12;

#[derive(Debug, Clone, PartialEq)]
enum Told {
    Published(Vec<pb::ActionSchema>),
    Withdrawn(Vec<String>),
}

#[derive(Default)]
pub(crate) struct Publishing {
    left: u64,
    told: Vec<Told>,
    heard: Vec<Told>,
    /// What this side's publications were answered with, in order.
    answers: Vec<Vec<pb::RefusedAction>>,
    /// What is still to be answered of the other side's.
    unanswered: VecDeque<Vec<pb::RefusedAction>>,
}

impl Publishing {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self { left: random.between(0, MOST), ..Self::default() }
    }

    /// Publishes, withdraws and answers, as the seed will have it.
    pub(crate) fn step(&mut self, core: &mut Core, random: &mut Random) {
        if self.left > 0 && random.one_in(4) {
            self.left -= 1;
            self.tell(core, random);
        }
        while !self.unanswered.is_empty() && random.one_in(2) {
            core.answer_publish(self.unanswered.pop_front().expect("is not empty"));
        }
    }

    fn tell(&mut self, core: &mut Core, random: &mut Random) {
        let place = self.told.len();
        let names = (0..random.between(0, 3)).map(|at| format!("action_{place}_{at}"));
        let told = if random.one_in(3) {
            let names: Vec<_> = names.collect();
            core.withdraw(names.clone());
            // An empty one needs no frame.
            if names.is_empty() {
                return;
            }
            Told::Withdrawn(names)
        } else {
            let description = "x".repeat(random.between(0, 2_000) as usize);
            let action = |name| pb::ActionSchema {
                name,
                description: description.clone(),
                ..Default::default()
            };
            let actions: Vec<_> = names.map(action).collect();
            core.publish(actions.clone()).expect("fits");
            Told::Published(actions)
        };
        self.told.push(told);
    }

    pub(crate) fn published(&mut self, actions: Vec<pb::ActionSchema>) {
        self.unanswered.push_back(answer(&actions));
        self.heard.push(Told::Published(actions));
    }

    pub(crate) fn withdrawn(&mut self, names: Vec<String>) {
        self.heard.push(Told::Withdrawn(names));
    }

    pub(crate) fn answered(&mut self, refused: Vec<pb::RefusedAction>) {
        self.answers.push(refused);
    }

    /// What this side's publications are to be answered with, in order.
    fn expected(&self) -> impl Iterator<Item = Vec<pb::RefusedAction>> {
        self.told.iter().filter_map(|told| match told {
            Told::Published(actions) => Some(answer(actions)),
            Told::Withdrawn(_) => None,
        })
    }

    /// Whether all that is to be told has been told, heard and answered.
    pub(crate) fn is_done(&self, other: &Self) -> bool {
        let answered = self.answers.len() == self.expected().count();
        self.left == 0 && answered && other.heard.len() == self.told.len()
    }

    /// Checks that what was told was heard in order and once, and so its answers:
    /// all of it, or what came through before the session was lost.
    pub(crate) fn check(&self, other: &Self) {
        assert!(self.told.starts_with(&other.heard), "{:?} {:?}", self.told, other.heard);
        let expected: Vec<_> = self.expected().take(self.answers.len()).collect();
        assert_eq!(self.answers, expected);
    }

    pub(crate) fn answers(&self) -> u64 {
        self.answers.len() as u64
    }
}

/// Every other action is refused.
fn answer(actions: &[pb::ActionSchema]) -> Vec<pb::RefusedAction> {
    let refused = actions.iter().skip(1).step_by(2).map(|action| {
        let status = Status::of(Reason::NameTaken, format!("{} is taken", action.name));
        pb::RefusedAction { name: action.name.clone(), status: Some(status.into()) }
    });
    refused.collect()
}
