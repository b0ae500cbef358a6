//! The account of one session: tokens, money, calls, and how its requests ended. The caps hold
//! while requests run.
//!
//! A session's cap is reserved in the budgets of its run and its day before it starts, so that what
//! holds for the session holds for those too.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::failure::Failure;
use super::prices::price_of;
use super::wire::{Seen, estimated_tokens};
use crate::model::{Usage, Usd};
use crate::settings::Price;

/// An answer shorter than this is of no use: the request is refused instead.
const MIN_ANSWER_LEN: u64 = 256;

/// The limits of one session.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounds {
    /// Most that the session may cost.
    pub cap: Usd,
    /// Answers of the model; `None`: no limit.
    pub max_calls: Option<u32>,
    /// The user's prices by model name.
    pub prices: BTreeMap<String, Price>,
    /// The model's name in the configuration.
    pub model: String,
}

/// Why the gateway itself ended a session's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The cap is reached.
    Budget,
    /// The model was called as often as allowed.
    Calls,
}

/// What a session has used and how its requests ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Account {
    /// All requests together; the cost is `None` if a model has no price.
    pub usage: Usage,
    /// Requests that the agent made.
    pub requests: u32,
    /// Answers of the model, whether complete or not.
    pub calls: u32,
    pub stop: Option<Stop>,
    /// Why the last request failed; `None` if it was answered.
    pub failure: Option<Failure>,
    /// Models without a price.
    pub unpriced: Option<String>,
}

/// One request in progress or over.
#[derive(Debug, Clone, Default)]
struct Call {
    request_bytes: u64,
    price: Option<Price>,
    model: String,
    seen: Seen,
}

#[derive(Debug, Default)]
struct State {
    /// Sum of the requests that are over.
    done: Usage,
    done_cost: Usd,
    estimated: bool,
    unpriced: Option<String>,
    open: BTreeMap<u64, Call>,
    requests: u32,
    calls: u32,
    /// Calls before the current question.
    calls_before: u32,
    stop: Option<Stop>,
    failure: Option<Failure>,
    /// The latest request that is over.
    last_settled: u64,
}

impl State {
    fn add(&mut self, call: &Call) {
        let (tokens, estimated) = call.seen.tokens(call.request_bytes);
        self.done = self.done.plus(&tokens);
        self.estimated |= estimated;
        match call.price {
            Some(price) => self.done_cost += price.of(&tokens),
            None if tokens.tokens() > 0 => self.unpriced = Some(call.model.clone()),
            None => {}
        }
    }

    /// Everything up to now; a request in progress counts with its input at least.
    fn spent(&self) -> Usd {
        let open = self.open.values().map(|call| {
            let (mut tokens, _) = call.seen.tokens(call.request_bytes);
            if call.seen.bytes == 0 {
                tokens.input_tokens = estimated_tokens(call.request_bytes);
            }
            call.price.map_or(Usd::ZERO, |price| price.of(&tokens))
        });
        open.fold(self.done_cost, |sum, cost| sum + cost)
    }
}

#[derive(Debug)]
pub struct Meter {
    bounds: Bounds,
    state: Mutex<State>,
}

impl Meter {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a request, or says why not. The answer that it allows is shortened to what the rest
    /// of the cap can pay; `true` if the body was changed.
    pub fn admit(&self, body: &mut Value, bytes: u64) -> Result<(u64, bool), Stop> {
        let mut state = self.state();
        state.requests = state.requests.saturating_add(1);
        if let Some(stop) = state.stop {
            return Err(stop);
        }
        let asked = state.calls - state.calls_before;
        if self.bounds.max_calls.is_some_and(|max| asked >= max) {
            state.stop = Some(Stop::Calls);
            return Err(Stop::Calls);
        }
        let model = body["model"].as_str().unwrap_or_default().to_owned();
        let price = price_of(&self.bounds.prices, &model, &self.bounds.model);
        let mut changed = false;
        if let Some(price) = price {
            let left = self.bounds.cap - state.spent();
            let affordable = affordable_answer(price, left, estimated_tokens(bytes));
            if affordable < MIN_ANSWER_LEN {
                state.stop = Some(Stop::Budget);
                return Err(Stop::Budget);
            }
            changed = shorten_answer(body, affordable);
        }
        let id = u64::from(state.requests);
        state.open.insert(id, Call { request_bytes: bytes, price, model, seen: Seen::default() });
        Ok((id, changed))
    }

    /// The model began to answer.
    pub fn answered(&self) {
        let mut state = self.state();
        state.calls = state.calls.saturating_add(1);
    }

    /// Takes what has been seen of an answer. Returns whether it may go on: a complete answer
    /// always may, since it is paid for.
    pub fn progress(&self, id: u64, seen: &Seen) -> bool {
        let mut state = self.state();
        if let Some(call) = state.open.get_mut(&id) {
            call.seen = seen.clone();
        }
        if seen.is_final || state.spent() < self.bounds.cap {
            return true;
        }
        state.stop = Some(Stop::Budget);
        false
    }

    /// The request is over; `failure`: why it was not answered.
    pub fn settle(&self, id: u64, failure: Option<Failure>) {
        let mut state = self.state();
        if let Some(call) = state.open.remove(&id) {
            state.add(&call);
        }
        // The end of an earlier answer may be noticed after the next request was refused.
        if id >= state.last_settled {
            (state.last_settled, state.failure) = (id, failure);
        }
    }

    /// Another value than before if a request ended since.
    pub fn last_settled(&self) -> u64 {
        self.state().last_settled
    }

    #[cfg(test)]
    pub fn open_calls(&self) -> usize {
        self.state().open.len()
    }

    pub fn allow_another_question(&self) {
        let mut state = self.state();
        state.calls_before = state.calls;
        if state.stop == Some(Stop::Calls) {
            state.stop = None;
        }
    }

    pub fn account(&self) -> Account {
        let state = self.state();
        let mut all = State {
            done: state.done,
            done_cost: state.done_cost,
            estimated: state.estimated,
            unpriced: state.unpriced.clone(),
            ..State::default()
        };
        // The agent is gone, or still at work: what was served so far.
        state.open.values().for_each(|call| all.add(call));
        let cost = all.unpriced.is_none().then_some(all.done_cost);
        Account {
            usage: Usage { cost, estimated: all.estimated, ..all.done },
            requests: state.requests,
            calls: state.calls,
            stop: state.stop,
            failure: state.failure.clone(),
            unpriced: all.unpriced,
        }
    }
}

/// Output tokens that the rest of the cap can pay, after the input.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates: a negative rest pays nothing"
)]
fn affordable_answer(price: Price, left: Usd, input_tokens: u64) -> u64 {
    let input = price.of(&Usage { input_tokens, ..Usage::default() });
    let rest = (left - input).dollars().max(0.0);
    if price.output <= 0.0 {
        return if rest > 0.0 { u64::MAX } else { 0 };
    }
    (rest * 1e6 / price.output) as u64
}

/// Lowers the limit that a request states for its answer. A limit is not added: a model may refuse
/// one that it does not know, so an answer without a limit is cut when the cap is reached.
fn shorten_answer(body: &mut Value, affordable: u64) -> bool {
    let thinking = body.pointer("/thinking/budget_tokens").and_then(Value::as_u64).unwrap_or(0);
    // A request whose limit is not above its thinking budget is invalid.
    if affordable <= thinking {
        return false;
    }
    let mut changed = false;
    for key in ["max_tokens", "max_output_tokens", "max_completion_tokens"] {
        if let Some(limit) = body.get_mut(key)
            && limit.as_u64().is_some_and(|limit| limit > affordable)
        {
            *limit = affordable.into();
            changed = true;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meter(cap: f64, max_calls: Option<u32>) -> Meter {
        let price = Price { input: 1.0, cached_input: Some(0.1), cache_write: None, output: 10.0 };
        Meter::new(Bounds {
            cap: Usd::from_dollars(cap),
            max_calls,
            prices: BTreeMap::from([("m".to_owned(), price)]),
            model: "m".to_owned(),
        })
    }

    fn seen(input: u64, cached: u64, output: u64) -> Seen {
        let counted = Usage {
            input_tokens: input,
            cache_read_tokens: cached,
            output_tokens: output,
            ..Usage::default()
        };
        Seen { bytes: 1, counted, has_input: true, is_final: true, ..Seen::default() }
    }

    #[test]
    fn the_limit_of_an_answer_is_lowered_to_what_the_cap_can_pay() {
        let meter = meter(0.5, None);
        let mut body = json!({ "model": "m", "max_tokens": 128_000 });
        let (id, changed) = meter.admit(&mut body, 40_000).unwrap();
        assert!(changed);
        assert_eq!(body["max_tokens"], 49_000, "half a dollar without a cent for the input");
        assert!(meter.progress(id, &seen(10_000, 0, 30_000)));
        meter.settle(id, None);
        let mut next = json!({ "model": "m", "max_tokens": 8_000 });
        let (_, changed) = meter.admit(&mut next, 40_000).unwrap();
        assert!(!changed, "it asks for less");
        let account = meter.account();
        assert_eq!(account.usage.cost, Some(Usd::from_dollars(0.31)));
        assert!(!account.usage.estimated, "a request without an answer costs nothing");
    }

    #[test]
    fn a_thinking_budget_is_never_undercut() {
        let meter = meter(0.5, None);
        let mut body = json!({
            "model": "m", "max_tokens": 128_000, "thinking": { "budget_tokens": 60_000 },
        });
        assert!(!meter.admit(&mut body, 4).unwrap().1, "the answer is cut in flight instead");
    }

    #[test]
    fn an_answer_is_cut_at_the_cap_and_the_retry_is_refused() {
        let meter = meter(0.5, None);
        let (id, _) = meter.admit(&mut json!({ "model": "m" }), 400).unwrap();
        let flowing = |bytes| Seen { bytes, delta_bytes: bytes, ..Seen::default() };
        assert!(meter.progress(id, &flowing(190_000)));
        assert!(!meter.progress(id, &flowing(200_000)), "50,000 tokens");
        meter.settle(id, None);
        assert_eq!(meter.admit(&mut json!({ "model": "m" }), 400), Err(Stop::Budget));
        let account = meter.account();
        assert_eq!(account.stop, Some(Stop::Budget));
        assert!(account.usage.estimated && account.usage.cost >= Some(Usd::from_dollars(0.5)));
    }

    #[test]
    fn parallel_requests_share_the_cap() {
        let meter = meter(0.5, None);
        // Each sends 200,000 tokens: $0.20.
        let admit = || meter.admit(&mut json!({ "model": "m" }), 800_000);
        assert!(admit().is_ok() && admit().is_ok());
        assert_eq!(admit(), Err(Stop::Budget));
    }

    #[test]
    fn calls_are_counted_and_cached_tokens_have_their_own_price() {
        let meter = meter(100.0, Some(2));
        for _ in 0..2 {
            let (id, _) = meter.admit(&mut json!({ "model": "m" }), 4).unwrap();
            meter.answered();
            meter.progress(id, &seen(0, 1_000_000, 0));
            meter.settle(id, None);
        }
        assert_eq!(meter.admit(&mut json!({ "model": "m" }), 4), Err(Stop::Calls));
        assert_eq!(meter.account().usage.cost, Some(Usd::from_dollars(0.2)));
        meter.allow_another_question();
        assert!(meter.admit(&mut json!({ "model": "m" }), 4).is_ok());
    }

    #[test]
    fn a_model_without_a_price_has_no_cost_but_its_tokens() {
        let meter = Meter::new(Bounds {
            cap: Usd::from_dollars(0.5),
            max_calls: None,
            prices: BTreeMap::new(),
            model: String::new(),
        });
        let (id, _) = meter.admit(&mut json!({ "model": "unheard-of" }), 4).unwrap();
        assert!(meter.progress(id, &seen(9_000_000, 0, 1)));
        let account = meter.account();
        assert_eq!((account.usage.cost, account.usage.input_tokens), (None, 9_000_000));
        assert_eq!(account.unpriced.as_deref(), Some("unheard-of"));
    }
}
