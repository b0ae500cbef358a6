//! Money in the state: reserved, spent, estimated.

use super::tests::{caps, claim, ended, key, ledger_row, page, planned, state};
use super::*;
use crate::event::Decision;
use proptest::prelude::*;

use crate::model::{FailureKind, Outcome, Phase, SessionEnd, Stage, Usage, Usd};
use crate::ports::Ledger;
use crate::settings::Price;

#[tokio::test]
async fn a_budget_counts_worst_cases_until_the_real_cost_is_known() {
    let state = state().await;
    let journal = &state.journal;
    let items = (1..=4).map(|id| planned(id, "f1", Decision::New)).collect();
    journal.items().record_page("ado", page(items)).await.unwrap();
    let caps = caps(1.0, 20.0);
    let claims: Vec<_> = (1..=4).map(|id| claim(&state, id, caps)).collect();
    assert_eq!(journal.claims().take(claims[0].clone()).await.unwrap(), Ok(1));
    assert_eq!(journal.claims().take(claims[1].clone()).await.unwrap(), Ok(1));
    let refusal = journal.claims().take(claims[2].clone()).await.unwrap().unwrap_err();
    assert!(
        matches!(refusal, ClaimRefusal::Budget(BudgetRefusal { window: "run", .. })),
        "{refusal}"
    );
    let left = journal.store().items().get(key(3)).await.unwrap().unwrap();
    assert_eq!((left.phase, left.attempts), (Phase::Pending, 0), "a refused claim takes nothing");
    journal.register(ledger_row(&claims[0]), 3).await.unwrap();
    journal.close(claims[0].session, ended(Outcome::Completed, 0.01)).await.unwrap();
    assert_eq!(
        journal.claims().take(claims[2].clone()).await.unwrap().unwrap_err().to_string(),
        "$0.50 more would exceed the budget of $1.00 per run ($0.51 spent or reserved)"
    );
    journal.claims().give_back(claims[1].clone()).await.unwrap();
    assert_eq!(journal.claims().take(claims[2].clone()).await.unwrap(), Ok(1));
}

#[tokio::test]
async fn a_session_that_never_reported_its_cost_counts_at_its_worst() {
    let state = state().await;
    let journal = &state.journal;
    let items = [1, 2, 3].map(|id| planned(id, "f1", Decision::New)).to_vec();
    journal.items().record_page("ado", page(items)).await.unwrap();
    for (id, outcome, cost) in [
        (1, Outcome::TimedOut, 0.5),
        (2, Outcome::SpawnFailed { why: crate::model::FailureKind::NotFound }, 0.0),
    ] {
        let claim = claim(&state, id, caps(5.0, 5.0));
        let before = journal.store().budget().in_run(state.run).await.unwrap().spent;
        journal.claims().take(claim.clone()).await.unwrap().unwrap();
        journal.register(ledger_row(&claim), 3).await.unwrap();
        journal.close(claim.session, ended(outcome, 0.0)).await.unwrap();
        let after = journal.store().budget().in_run(state.run).await.unwrap();
        assert_eq!(after.spent - before, Usd::from_dollars(cost));
        assert_eq!(after.reserved, Usd::ZERO);
    }
    let reported = claim(&state, 3, caps(5.0, 5.0));
    journal.claims().take(reported.clone()).await.unwrap().unwrap();
    journal.register(ledger_row(&reported), 3).await.unwrap();
    journal.close(reported.session, ended(Outcome::Completed, 0.1)).await.unwrap();
    let spending = journal.store().budget().by_stage_in_run(state.run).await.unwrap();
    let [deep] = spending.as_slice() else { panic!("{spending:?}") };
    assert_eq!((deep.day.as_str(), deep.stage, deep.sessions), ("2026-11-16", Stage::Deep, 3));
    assert_eq!(deep.spent, Usd::from_dollars(0.6));
    assert_eq!(deep.estimated, Usd::from_dollars(0.5), "one of them never reported");
    assert_eq!(journal.store().budget().by_stage_since("2026-11-17".into()).await.unwrap(), []);
}

#[tokio::test]
async fn a_session_that_cannot_be_killed_keeps_its_money_taken() {
    let state = state().await;
    let journal = &state.journal;
    journal.items().record_page("ado", page(vec![planned(1, "f1", Decision::New)])).await.unwrap();
    let claim = claim(&state, 1, caps(5.0, 5.0));
    journal.claims().take(claim.clone()).await.unwrap().unwrap();
    journal.register(ledger_row(&claim), 3).await.unwrap();
    let next = "2026-11-16T08:15:00Z".parse().unwrap();
    let result = DeepResult::TryAgain(Outcome::Unkillable, next);
    journal
        .results()
        .apply_deep(claim.session, state.run, key(1), "f1".into(), result)
        .await
        .unwrap();
    let spending = journal.store().budget().in_run(state.run).await.unwrap();
    assert_eq!(spending.committed(), claim.worst_case);
}

/// What a session of any kind may leave: a cost of its own, tokens and a price, or nothing.
fn account() -> impl Strategy<Value = Usage> {
    let price = Price { input: 1.0, cached_input: Some(0.1), output: 10.0 };
    let tokens = (0..20_000_u64, 0..20_000_u64, 0..2_000_u64);
    let used = tokens.prop_map(|(input, cached, output)| Usage {
        input_tokens: input,
        cache_read_tokens: cached,
        output_tokens: output,
        ..Usage::default()
    });
    let reported = (0..500_000_i64).prop_map(|micros| Some(Usd::from_micros(micros)));
    prop_oneof![
        // Claude.
        (used.clone(), reported).prop_map(|(used, cost)| Usage { cost, ..used }),
        // Codex and Copilot with a price.
        used.clone().prop_map(move |used| Usage {
            cost: Some(price.of(&used)),
            estimated: true,
            ..used
        }),
        // Without one, or ended before they told.
        used,
    ]
}

fn end() -> impl Strategy<Value = (Outcome, Usage)> {
    let error = |why| Outcome::AgentError { why };
    let outcome = prop::sample::select(vec![
        Outcome::Completed,
        Outcome::TimedOut,
        Outcome::BadOutput { why: FailureKind::SchemaViolated },
        error(FailureKind::MaxToolCalls),
        error(FailureKind::Interrupted),
        error(FailureKind::ApiError),
        Outcome::ProviderLimit { why: FailureKind::RateLimit },
        Outcome::Signal { signal: 9 },
    ]);
    (outcome, account())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever kind of agent it is and however its sessions end: what is spent and reserved never
    /// passes the budget, and an answer that nobody can price is never free.
    #[test]
    fn budgets_bind_for_every_kind(ends in prop::collection::vec(end(), 1..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (state, cap) = (state().await, Usd::from_dollars(2.0));
            let journal = &state.journal;
            let items = (1..=20).map(|id| planned(id, "f1", Decision::New)).collect();
            journal.items().record_page("ado", page(items)).await.unwrap();
            let mut open: Vec<(_, (Outcome, Usage))> = Vec::new();
            for (id, (outcome, usage)) in (1..).zip(ends) {
                let claim = claim(&state, id, caps(2.0, 2.0));
                if journal.claims().take(claim.clone()).await.unwrap().is_ok() {
                    journal.register(ledger_row(&claim), 20).await.unwrap();
                    open.push((claim, (outcome, usage)));
                }
                // Two at once, so that reserved and spent money meet.
                if open.len() > 1 {
                    let (claim, (outcome, usage)) = open.remove(0);
                    let before = journal.store().budget().in_run(state.run).await.unwrap();
                    let free = !outcome.counts_at_worst(&usage);
                    let answered = outcome.is_success() || outcome == Outcome::TimedOut;
                    let end = SessionEnd { usage, ..ended(outcome, 0.0) };
                    journal.close(claim.session, end).await.unwrap();
                    let after = journal.store().budget().in_run(state.run).await.unwrap();
                    let booked = after.spent - before.spent;
                    match (usage.cost, free) {
                        (Some(cost), _) => assert_eq!(booked, cost),
                        (None, false) => assert_eq!(booked, claim.worst_case),
                        (None, true) => assert!(booked == Usd::ZERO && !answered),
                    }
                }
                let now = journal.store().budget().in_run(state.run).await.unwrap();
                assert!(now.committed() <= cap, "{now:?}");
            }
        });
    }
}
