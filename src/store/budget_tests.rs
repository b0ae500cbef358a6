//! Budgets in the state: reserved, spent, estimated.

use proptest::prelude::*;

use super::budget::{Reservation, month_of, release, reserve, settle};
use super::tests::{caps, claim, ended, key, ledger_row, page, planned, state};
use super::*;
use crate::event::Decision;
use crate::model::{FailureKind, Outcome, Phase, RunId, SessionEnd, SessionId, Stage, Usage, Usd};
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
    assert_eq!(
        (deep.day.as_str(), deep.stage, deep.money.sessions),
        ("2026-11-16", Stage::Deep, 3)
    );
    assert_eq!(deep.money.spent, Usd::from_dollars(0.6));
    assert_eq!(deep.money.assumed, Usd::from_dollars(0.5), "one of them never reported");
    assert_eq!(deep.money.billed, Usd::from_dollars(0.1));
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

#[tokio::test]
async fn a_month_and_a_source_have_budgets_of_their_own() {
    let state = state().await;
    let journal = &state.journal;
    let items = (1..=3).map(|id| planned(id, "f1", Decision::New)).collect();
    journal.items().record_page("ado", page(items)).await.unwrap();
    let month = BudgetCaps { per_month: Some(Usd::from_dollars(0.7)), ..caps(5.0, 5.0) };
    assert_eq!(journal.claims().take(claim(&state, 1, month)).await.unwrap(), Ok(1));
    let refusal = journal.claims().take(claim(&state, 2, month)).await.unwrap().unwrap_err();
    assert!(refusal.to_string().contains("$0.70 per month"), "{refusal}");
    let own = Some(Usd::from_dollars(0.8));
    let source = BudgetCaps { source_per_day: own, ..caps(5.0, 5.0) };
    let refusal = journal.claims().take(claim(&state, 3, source)).await.unwrap().unwrap_err();
    let ClaimRefusal::Budget(refusal) = refusal else { panic!("{refusal}") };
    assert!(refusal.of_source, "{refusal}");
    assert!(refusal.to_string().contains("per day for its source"), "{refusal}");
    let triage = Claim { stage: Stage::Triage, ..claim(&state, 3, source) };
    assert_eq!(journal.claims().take(triage).await.unwrap(), Ok(1), "triage counts for no source");
}

/// One step of a random sequence of budget operations.
#[derive(Debug, Clone)]
enum Step {
    Reserve { day: u8, source: Option<u8>, cost: i64 },
    Settle(usize, i64),
    Release(usize),
}

fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..4_u8, prop::option::of(0..2_u8), 1..400_i64)
            .prop_map(|(day, source, cost)| Step::Reserve { day, source, cost }),
        1 => (any::<usize>(), 0..100_i64).prop_map(|(which, percent)| Step::Settle(which, percent)),
        1 => any::<usize>().prop_map(Step::Release),
    ];
    prop::collection::vec(step, 1..60)
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// I6: in whatever order amounts are reserved, settled and released, no window of any budget
    /// ever exceeds its cap.
    #[test]
    fn no_budget_is_ever_exceeded(steps in steps(), caps in proptest::array::uniform5(200..900_i64)) {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = rusqlite::Connection::open_in_memory().unwrap();
        migrate::migrate(&mut connection, folder.path()).unwrap();
        let cap = |n: usize| Usd::from_micros(caps[n]);
        let limits = BudgetCaps {
            per_run: cap(0),
            per_day: cap(1),
            per_month: Some(cap(2)),
            source_per_day: Some(cap(3)),
            source_per_month: Some(cap(4)),
        };
        // The last two days are in another month.
        let days = ["2026-11-29", "2026-11-30", "2026-12-01", "2026-12-02"];
        let run = RunId(uuid::Uuid::now_v7());
        let mut live: Vec<(SessionId, i64)> = Vec::new();
        for step in steps {
            let transaction = connection.transaction().unwrap();
            match step {
                Step::Reserve { day, source, cost } => {
                    let session = SessionId(uuid::Uuid::now_v7());
                    let source = source.map(|source| ["web", "server"][usize::from(source)]);
                    let stage = if source.is_some() { Stage::Deep } else { Stage::Triage };
                    let (day, worst_case) = (days[usize::from(day)], Usd::from_micros(cost));
                    let wanted = Reservation { session, run, stage, day, source, worst_case };
                    if reserve(&transaction, &wanted, limits).unwrap().is_ok() {
                        live.push((session, cost));
                    }
                }
                Step::Settle(which, percent) if !live.is_empty() => {
                    let (session, cost) = live.swap_remove(which % live.len());
                    settle(&transaction, session, Usd::from_micros(cost * percent / 100), false).unwrap();
                }
                Step::Release(which) if !live.is_empty() => {
                    let (session, _) = live.swap_remove(which % live.len());
                    release(&transaction, session).unwrap();
                }
                _ => {}
            }
            transaction.commit().unwrap();
            let sum = |condition: &str| -> i64 {
                let sql = format!("SELECT coalesce(sum(coalesce(spent, reserved)), 0) FROM budget WHERE {condition}");
                connection.query_row(&sql, [], |row| row.get(0)).unwrap()
            };
            proptest::prop_assert!(sum("1") <= caps[0]);
            for day in days {
                let month = month_of(day);
                let (on, within) = (format!("day = '{day}'"), format!("day LIKE '{month}-%'"));
                proptest::prop_assert!(sum(&on) <= caps[1]);
                proptest::prop_assert!(sum(&within) <= caps[2]);
                for source in ["web", "server"] {
                    let own = |days: &str| sum(&format!("{days} AND source = '{source}'"));
                    proptest::prop_assert!(own(&on) <= caps[3]);
                    proptest::prop_assert!(own(&within) <= caps[4]);
                }
            }
        }
    }
}

/// What a session may report: a cost, tokens and a price, or nothing.
fn account() -> impl Strategy<Value = Usage> {
    let price = Price { input: 1.0, cached_input: Some(0.1), cache_write: None, output: 10.0 };
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
        // Without a price, or ended before they reported.
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

    /// For every kind of agent and every end of its sessions: spent plus reserved never exceeds the
    /// budget, and an answer of unknown price is never free.
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
                // Two at once, so that reserved and spent amounts mix.
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
