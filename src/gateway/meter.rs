//! The account of one session: tokens, money, calls, and how its requests ended. The caps hold
//! while requests run.
//!
//! A session's cap is reserved in the budgets of its run and its day before it starts, so that what
//! holds for the session holds for those too. In the same way an answer is reserved in the session's
//! cap before it is asked for: requests in progress can together cost no more than the cap.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;

use super::failure::Failure;
use super::prices::{DEAREST, price_of};
use super::request::{LIMITS, Models};
use super::wire::{Seen, estimated_tokens};
use crate::model::{Usage, Usd};
use crate::settings::Price;

/// An answer shorter than this is of no use: the request is refused instead.
const MIN_ANSWER_LEN: u64 = 256;
/// Providers accept no smaller budget for thinking, which is a part of the answer.
const MIN_THINKING: u64 = 1024;

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
    /// What it may ask for.
    pub models: Models,
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
    /// All requests together.
    pub usage: Usage,
    /// Requests that the agent made.
    pub requests: u32,
    /// Answers of the model, whether complete or not.
    pub calls: u32,
    pub stop: Option<Stop>,
    /// Why the last request failed; `None` if it was answered.
    pub failure: Option<Failure>,
    /// A model without a price: it counted as the dearest that is known.
    pub unpriced: Option<String>,
}

/// One request in progress or over.
#[derive(Debug, Clone)]
struct Call {
    request_bytes: u64,
    price: Price,
    /// Output tokens that were allowed.
    reserved: u64,
    /// The model began to answer.
    answered: bool,
    /// The model, if it has no price.
    unpriced: Option<String>,
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
        self.done_cost += call.price.of(&tokens);
        if let Some(model) = call.unpriced.as_ref().filter(|_| tokens.tokens() > 0) {
            self.unpriced = Some(model.clone());
            self.estimated = true;
        }
    }

    /// Everything up to now; a request in progress counts with its input at least.
    fn spent(&self) -> Usd {
        self.with_open(|_| 0)
    }

    /// The same with what requests in progress may still cost.
    fn reserved(&self) -> Usd {
        self.with_open(|call| call.reserved)
    }

    fn with_open(&self, output: impl Fn(&Call) -> u64) -> Usd {
        let open = self.open.values().map(|call| {
            let (mut tokens, _) = call.seen.tokens(call.request_bytes);
            if call.seen.bytes == 0 {
                tokens.input_tokens = estimated_tokens(call.request_bytes);
            }
            if !call.seen.is_final {
                tokens.output_tokens = tokens.output_tokens.max(output(call));
            }
            call.price.of(&tokens)
        });
        open.fold(self.done_cost, |sum, cost| sum + cost)
    }
}

#[derive(Debug)]
pub struct Meter {
    bounds: Bounds,
    state: Mutex<State>,
    /// A request is over: those that wait look again.
    freed: Notify,
}

impl Meter {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, state: Mutex::default(), freed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the session may ask for this model.
    pub fn may_ask(&self, model: &str) -> bool {
        self.bounds.models.allow(model)
    }

    /// The model has answered this session before.
    pub fn has_answered(&self) -> bool {
        self.state().calls > 0
    }

    /// Admits a request, or says why not; the answer that it allows is shortened to what the rest of
    /// the cap can pay. While others are in progress it waits until there is enough for it.
    pub async fn admit(&self, body: &mut Value, bytes: u64) -> Result<u64, Stop> {
        let id = {
            let mut state = self.state();
            state.requests = state.requests.saturating_add(1);
            u64::from(state.requests)
        };
        loop {
            // Before the look, so that no end is missed.
            let freed = self.freed.notified();
            if let Some(admitted) = self.try_admit(id, body, bytes) {
                return admitted.map(|()| id);
            }
            freed.await;
        }
    }

    /// `None`: not now.
    fn try_admit(&self, id: u64, body: &mut Value, bytes: u64) -> Option<Result<(), Stop>> {
        let mut state = self.state();
        if let Some(stop) = state.stop {
            return Some(Err(stop));
        }
        let asked = state.calls - state.calls_before;
        let unanswered = state.open.values().filter(|call| !call.answered).count();
        let unanswered = u32::try_from(unanswered).unwrap_or(u32::MAX);
        let max_calls = self.bounds.max_calls.unwrap_or(u32::MAX);
        if asked >= max_calls {
            state.stop = Some(Stop::Calls);
            return Some(Err(Stop::Calls));
        }
        if asked.saturating_add(unanswered) >= max_calls {
            return None;
        }
        let model = body["model"].as_str().unwrap_or_default();
        let known = price_of(&self.bounds.prices, model, &self.bounds.model);
        let (price, unpriced) = (known.unwrap_or(DEAREST), known.is_none().then(|| model.into()));
        let left = self.bounds.cap - state.reserved();
        let affordable = affordable_answer(price, left, estimated_tokens(bytes));
        let wanted = LIMITS.iter().filter_map(|name| body[name].as_u64()).max();
        let wanted = wanted.unwrap_or(u64::MAX);
        if affordable < wanted && !state.open.is_empty() {
            return None;
        }
        if affordable < shortest_answer(body) {
            state.stop = Some(Stop::Budget);
            return Some(Err(Stop::Budget));
        }
        shorten_answer(body, affordable);
        let reserved = wanted.min(affordable);
        let (answered, seen) = (false, Seen::default());
        let call = Call { request_bytes: bytes, price, reserved, answered, unpriced, seen };
        state.open.insert(id, call);
        Some(Ok(()))
    }

    /// The model began to answer.
    pub fn answered(&self, id: u64) {
        let mut state = self.state();
        state.calls = state.calls.saturating_add(1);
        if let Some(call) = state.open.get_mut(&id) {
            call.answered = true;
        }
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
        drop(state);
        self.freed.notify_waiters();
    }

    /// The gateway refused a request itself; `why` stays until the next one is over.
    pub fn refused(&self, why: Failure) {
        let mut state = self.state();
        state.requests = state.requests.saturating_add(1);
        (state.last_settled, state.failure) = (u64::from(state.requests), Some(why));
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
        Account {
            usage: Usage { cost: Some(all.done_cost), estimated: all.estimated, ..all.done },
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

/// The budget for thinking that a request states.
fn thinking(body: &mut Value) -> Option<&mut Value> {
    body.pointer_mut("/thinking/budget_tokens").filter(|budget| budget.is_u64())
}

/// Fewer tokens are of no use to this request.
fn shortest_answer(body: &mut Value) -> u64 {
    if thinking(body).is_some() { 2 * MIN_THINKING } else { MIN_ANSWER_LEN }
}

/// Lowers the limit that a request states for its answer. A limit is not added: a model may refuse
/// one that it does not know, so an answer without a limit is cut when the cap is reached.
fn shorten_answer(body: &mut Value, affordable: u64) {
    for key in LIMITS {
        if let Some(limit) = body.get_mut(key)
            && limit.as_u64().is_some_and(|limit| limit > affordable)
        {
            *limit = affordable.into();
        }
    }
    // A request whose limit is not above its thinking budget is invalid.
    if let Some(budget) = thinking(body)
        && budget.as_u64().is_some_and(|budget| budget >= affordable)
    {
        *budget = (affordable / 2).into();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use serde_json::json;

    use super::*;

    /// `None`: it waits.
    fn now<T>(admission: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match admission.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(admitted) => Some(admitted),
            Poll::Pending => None,
        }
    }

    fn meter(cap: f64, max_calls: Option<u32>) -> Meter {
        let price = Price { input: 1.0, cached_input: Some(0.1), cache_write: None, output: 10.0 };
        Meter::new(Bounds {
            cap: Usd::from_dollars(cap),
            max_calls,
            prices: BTreeMap::from([("m".to_owned(), price)]),
            model: "m".to_owned(),
            models: Models::default(),
        })
    }

    /// Admits a request that has not to wait.
    fn admit(meter: &Meter, body: &mut Value, bytes: u64) -> Result<u64, Stop> {
        now(pin!(meter.admit(body, bytes))).expect("it does not wait")
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
        let id = admit(&meter, &mut body, 40_000).unwrap();
        assert_eq!(body["max_tokens"], 49_000, "half a dollar without a cent for the input");
        assert!(meter.progress(id, &seen(10_000, 0, 30_000)));
        meter.settle(id, None);
        let mut next = json!({ "model": "m", "max_tokens": 8_000 });
        admit(&meter, &mut next, 40_000).unwrap();
        assert_eq!(next["max_tokens"], 8_000, "it asks for less");
        let account = meter.account();
        assert_eq!(account.usage.cost, Some(Usd::from_dollars(0.31)));
        assert!(!account.usage.estimated, "a request without an answer costs nothing");
    }

    #[test]
    fn a_thinking_budget_is_lowered_with_the_limit_and_stays_below_it() {
        let meter = meter(0.5, None);
        let mut body = json!({
            "model": "m", "max_tokens": 128_000, "thinking": { "budget_tokens": 60_000 },
        });
        let id = admit(&meter, &mut body, 40_000).unwrap();
        assert_eq!(
            (&body["max_tokens"], &body["thinking"]["budget_tokens"]),
            (&json!(49_000), &json!(24_500))
        );
        meter.progress(id, &seen(10_000, 0, 47_000));
        meter.settle(id, None);
        let admitted = admit(&meter, &mut body, 4);
        assert_eq!(admitted, Err(Stop::Budget), "providers accept no budget below 1,024");
    }

    #[test]
    fn an_answer_is_cut_at_the_cap_and_the_retry_is_refused() {
        let meter = meter(0.5, None);
        let id = admit(&meter, &mut json!({ "model": "m" }), 400).unwrap();
        let flowing = |bytes| Seen { bytes, delta_bytes: bytes, ..Seen::default() };
        assert!(meter.progress(id, &flowing(190_000)));
        assert!(!meter.progress(id, &flowing(200_000)), "50,000 tokens");
        meter.settle(id, None);
        assert_eq!(admit(&meter, &mut json!({ "model": "m" }), 400), Err(Stop::Budget));
        let account = meter.account();
        assert_eq!(account.stop, Some(Stop::Budget));
        assert!(account.usage.estimated && account.usage.cost >= Some(Usd::from_dollars(0.5)));
    }

    #[test]
    fn requests_in_progress_are_reserved_and_others_wait_for_what_is_left() {
        let meter = meter(0.5, None);
        // Each may cost $0.20 for its input and $0.04 for its answer.
        let body = || json!({ "model": "m", "max_tokens": 4_000 });
        let first = admit(&meter, &mut body(), 800_000).unwrap();
        let mut second = body();
        admit(&meter, &mut second, 800_000).unwrap();
        assert_eq!(second["max_tokens"], 4_000);
        let mut third = body();
        let mut waiting = Box::pin(meter.admit(&mut third, 800_000));
        assert_eq!(now(waiting.as_mut()), None, "$0.02 are left");
        meter.progress(first, &seen(1_000, 0, 100));
        meter.settle(first, None);
        assert!(now(waiting.as_mut()).is_some_and(|admitted| admitted.is_ok()));
        drop(waiting);
        assert_eq!(third["max_tokens"], 4_000);
        // Without a limit it could cost everything: it is alone.
        let mut endless = json!({ "model": "m", "stream": true });
        assert_eq!(now(pin!(meter.admit(&mut endless, 4))), None);
    }

    #[test]
    fn more_calls_than_allowed_are_not_made_at_once() {
        let meter = meter(100.0, Some(1));
        let body = || json!({ "model": "m", "max_tokens": 100 });
        let first = admit(&meter, &mut body(), 4).unwrap();
        let mut second = body();
        let mut waiting = Box::pin(meter.admit(&mut second, 4));
        assert_eq!(now(waiting.as_mut()), None);
        meter.answered(first);
        meter.settle(first, None);
        assert_eq!(now(waiting.as_mut()), Some(Err(Stop::Calls)));
    }

    #[test]
    fn calls_are_counted_and_cached_tokens_have_their_own_price() {
        let meter = meter(100.0, Some(2));
        for _ in 0..2 {
            let id = admit(&meter, &mut json!({ "model": "m" }), 4).unwrap();
            meter.answered(id);
            meter.progress(id, &seen(0, 1_000_000, 0));
            meter.settle(id, None);
        }
        assert_eq!(admit(&meter, &mut json!({ "model": "m" }), 4), Err(Stop::Calls));
        assert_eq!(meter.account().usage.cost, Some(Usd::from_dollars(0.2)));
        meter.allow_another_question();
        assert!(admit(&meter, &mut json!({ "model": "m" }), 4).is_ok());
    }

    #[test]
    fn a_model_without_a_price_counts_as_the_dearest_and_is_capped() {
        let meter = Meter::new(Bounds {
            cap: Usd::from_dollars(0.75),
            max_calls: None,
            prices: BTreeMap::new(),
            model: String::new(),
            models: Models::default(),
        });
        let mut body = json!({ "model": "unheard-of", "max_tokens": 128_000 });
        let id = admit(&meter, &mut body, 4).unwrap();
        let limit = body["max_tokens"].as_u64().unwrap();
        assert!((9_990..10_000).contains(&limit), "at $75 a million: {limit}");
        meter.progress(id, &seen(0, 0, 10_000));
        let account = meter.account();
        assert_eq!(account.usage.cost, Some(Usd::from_dollars(0.75)));
        assert!(account.usage.estimated);
        assert_eq!(account.unpriced.as_deref(), Some("unheard-of"));
        meter.settle(id, None);
        assert_eq!(admit(&meter, &mut body, 4), Err(Stop::Budget));
    }
}
