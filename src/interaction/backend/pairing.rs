//! Results brought to their calls: the turns of a history as every provider
//! wants them, each call answered right after the turn that made it.

use std::collections::{HashMap, VecDeque};

use super::{
    call_id::CallIds,
    notes::Notes,
    raw::start_of,
    unit::{CallResult, Content, Native, Speaker, Unit},
};

/// What a model reads where the history has no result.
const LOST: &str = "the call was cancelled or its result was lost";

/// One speaker's units out of one interaction, and what its calls came to.
pub(super) struct Turn {
    pub(super) speaker: Speaker,
    pub(super) interaction: String,
    pub(super) units: Vec<Unit>,
    /// One a call of these units, in their order.
    pub(super) answers: Vec<Answer>,
}

/// A call's id and name as they are sent, and its result.
pub(super) struct Answer {
    pub(super) id: String,
    pub(super) name: String,
    /// The id its own provider gave, where the call goes back there.
    pub(super) own_id: Option<String>,
    /// Whether the call goes back as its own provider wrote it.
    pub(super) is_native: bool,
    pub(super) result: CallResult,
    pub(super) native: Option<Native>,
}

/// Brings each result to its call. A result without a call is left out, and a
/// call without a result is given one that says so; both are noted.
pub(super) fn pair(
    history: impl Iterator<Item = (String, Vec<Unit>)>,
    mut ids: CallIds,
    notes: &mut Notes,
) -> Vec<Turn> {
    let mut pairing = Pairing::default();
    for (interaction, units) in history {
        pairing.start_interaction();
        for unit in units {
            if unit.has_result() {
                pairing.result(&interaction, unit, notes);
            } else {
                pairing.said(&interaction, unit, &mut ids);
            }
        }
    }
    pairing.finish(notes)
}

#[derive(Default)]
struct Pairing {
    turns: Vec<Turn>,
    answered: Vec<Vec<bool>>,
    waiting: Waiting,
    /// Whether the next unit of the same speaker still belongs to the last turn.
    open: bool,
    calls_of_interaction: usize,
}

impl Pairing {
    fn start_interaction(&mut self) {
        self.open = false;
        self.calls_of_interaction = 0;
    }

    fn said(&mut self, interaction: &str, unit: Unit, ids: &mut CallIds) {
        let speaker = unit.speaker;
        if !self.open || self.turns.last().is_none_or(|turn| turn.speaker != speaker) {
            let interaction = interaction.to_owned();
            self.turns.push(Turn { speaker, interaction, units: vec![], answers: vec![] });
            self.answered.push(vec![]);
            self.open = true;
        }
        let at = self.turns.len() - 1;
        let Some(turn) = self.turns.last_mut() else { return };
        if let [Content::Call(call)] = &unit.parts[..] {
            let is_native = unit.native.is_some();
            let place = turn.answers.len();
            let alias = format!("call_{}", self.calls_of_interaction);
            self.calls_of_interaction += 1;
            let key = call.id.as_deref().unwrap_or(&alias);
            self.waiting.add(at, place, key, &call.name);
            self.answered[at].push(false);
            turn.answers.push(Answer {
                id: ids.assign(call.id.as_deref(), &call.name, is_native),
                name: ids.name(&call.name, is_native),
                own_id: call.id.clone(),
                is_native,
                result: CallResult::default(),
                native: None,
            });
        }
        turn.units.push(unit);
    }

    fn result(&mut self, interaction: &str, mut unit: Unit, notes: &mut Notes) {
        let Some(Content::Result(result)) = unit.parts.pop() else { return };
        let found = self.waiting.take(&result, &self.answered);
        let Some((turn, place)) = found else {
            let call = result.id.as_deref().or(result.name.as_deref()).unwrap_or("without an id");
            notes.dropped(
                interaction,
                format!("the result of call {}", start_of(call)),
                "no call before it is waiting for it",
            );
            return;
        };
        self.answered[turn][place] = true;
        let answer = &mut self.turns[turn].answers[place];
        answer.result = result;
        answer.native = unit.native;
        // What the same speaker says after a result was said knowing it.
        self.open = false;
    }

    fn finish(mut self, notes: &mut Notes) -> Vec<Turn> {
        for (turn, answered) in self.turns.iter_mut().zip(&self.answered) {
            let unanswered = turn.answers.iter_mut().zip(answered).filter(|(_, done)| !**done);
            for (answer, _) in unanswered {
                answer.result.is_error = true;
                LOST.clone_into(&mut answer.result.text);
                notes.added(
                    &turn.interaction,
                    format!("a result of call {}", start_of(&answer.id)),
                    LOST,
                );
            }
        }
        self.turns
    }
}

/// The calls that wait for a result, by what a result may be told by.
#[derive(Default)]
struct Waiting {
    by_id: HashMap<String, Rounds>,
    by_name: HashMap<String, Rounds>,
    in_order: Rounds,
}

/// Calls of equal key: the latest turn's first, and within it in order.
type Rounds = Vec<(usize, VecDeque<usize>)>;

impl Waiting {
    fn add(&mut self, turn: usize, place: usize, id: &str, name: &str) {
        let by_id = self.by_id.entry(id.to_owned()).or_default();
        let by_name = self.by_name.entry(name.to_owned()).or_default();
        for rounds in [by_id, by_name, &mut self.in_order] {
            match rounds.last_mut() {
                Some((last, places)) if *last == turn => places.push_back(place),
                _ => rounds.push((turn, VecDeque::from([place]))),
            }
        }
    }

    fn take(&mut self, result: &CallResult, answered: &[Vec<bool>]) -> Option<(usize, usize)> {
        let rounds = match (&result.id, &result.name) {
            (Some(id), _) => self.by_id.get_mut(id)?,
            (None, Some(name)) => self.by_name.get_mut(name)?,
            (None, None) => &mut self.in_order,
        };
        while let Some((turn, places)) = rounds.last_mut() {
            let turn = *turn;
            while let Some(place) = places.pop_front() {
                if !answered[turn][place] {
                    return Some((turn, place));
                }
            }
            rounds.pop();
        }
        None
    }
}
