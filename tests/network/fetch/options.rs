//! Configuration options: saved queries, comments, custom fields, older servers, other kinds of
//! credential.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use heartbeat::fetch::{Connection, Credential, FetchError, Source as _, connect};
use heartbeat::model::{BoxFuture, FailureClass as Class, Format, ItemId};
use heartbeat::ports::SourceMemory;
use heartbeat::settings::SourceAuth;
use heartbeat::simulate::ado::{FIRST_ID, Fault, SimulatorOptions};
use secrecy::SecretString;
use serde_json::json;

use super::setup::{QUICK, Setup, everything, ids, read_all};

async fn setup() -> Setup {
    Setup::new(SimulatorOptions::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn saved_queries_are_found_by_path_or_id_and_read_in_the_order_of_change() {
    for (name, expected) in [
        ("Shared Queries/Open bugs", 12),
        ("253d8eb4-0bd1-4c92-adc9-d305c8b99b92", 12),
        ("Shared Queries/Backlog", 21),
        ("Shared Queries/Linked", 21),
    ] {
        let mut setup = setup().await;
        setup.config.saved_query = name.to_owned();
        let pages = read_all(&setup.guarded(), everything()).await.unwrap();
        assert_eq!(ids(&pages).len(), expected, "{name}");
        let changes: Vec<_> =
            pages.iter().flat_map(|page| &page.items).map(|item| item.changed_at).collect();
        assert!(changes.is_sorted(), "{name}");
        assert_eq!(pages.last().unwrap().cursor, changes.last().copied(), "{name}");
    }
    let mut setup = setup().await;
    setup.config.saved_query = "Shared Queries".to_owned();
    let error = read_all(&setup.source(), everything()).await.unwrap_err();
    assert!(error.message.contains("is a folder"), "{error}");
    setup.config.saved_query = "Shared Queries/Nothing".to_owned();
    let error = read_all(&setup.source(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::Config);
    assert!(error.message.contains("source.saved_query"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn comments_are_read_where_there_are_some_newest_last_and_dropped_when_limits_are_low() {
    let mut setup = setup().await;
    setup.config.comments = 1;
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    let bug = pages.iter().flat_map(|p| &p.items).find(|i| i.id.0 == FIRST_ID + 1).unwrap();
    assert_eq!(bug.comments.len(), 1);
    assert_eq!(bug.comments[0].author, "Mira Lindqvist");
    assert!(bug.comments[0].raw.contains("CSV export"));
    assert_eq!(setup.simulator.requests_of("comments"), 4, "only where CommentCount says so");

    setup.config.comments = 9;
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    let bug = pages.iter().flat_map(|p| &p.items).find(|i| i.id.0 == FIRST_ID + 1).unwrap();
    assert!(bug.comments.is_sorted_by_key(|comment| comment.at));
    assert_eq!(bug.comments.len(), 2);

    let before = setup.simulator.requests_of("comments");
    setup.simulator.set_faults([Fault::Delayed200.into()]);
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    assert_eq!(ids(&pages).len(), 20);
    assert_eq!(setup.simulator.requests_of("comments"), before, "optional calls are dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_the_collection_lacks_are_left_out_and_plain_ones_distinguished() {
    let mut setup = setup().await;
    setup.simulator.remove_field("Microsoft.VSTS.TCM.SystemInfo");
    setup.simulator.remove_field("System.Parent");
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    assert_eq!(ids(&pages).len(), 20);
    assert_eq!(setup.simulator.requests_of("fields"), 1);

    setup.config.text_fields.extend(["Custom.ReleaseNote".into(), "Custom.Unknown".into()]);
    let id = FIRST_ID + 1;
    let note = json!("Tracking works < 1 s after label > creation");
    setup.simulator.edit_item(id, &[("Custom.ReleaseNote", note.clone())]).unwrap();
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    let bug = pages.iter().flat_map(|p| &p.items).find(|i| i.id.0 == id).unwrap();
    let text = bug.texts.iter().find(|text| text.name == "Custom.ReleaseNote").unwrap();
    assert_eq!((text.format, text.raw.as_str()), (Format::Plain, note.as_str().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_server_is_spoken_to_in_its_own_version_and_that_is_remembered() {
    let options = SimulatorOptions {
        max_version: (6, 0),
        collection: "tfs/DefaultCollection".to_owned(),
        ..SimulatorOptions::default()
    };
    let mut setup = Setup::new(options).await;
    setup.config.comments = 2;
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    assert_eq!(ids(&pages).len(), 20);
    assert!(pages.iter().flat_map(|p| &p.items).any(|item| !item.comments.is_empty()));
    assert_eq!(setup.simulator.requests_of("options"), 1);
    let probe = setup.source().probe().await;
    assert_eq!(probe.project.unwrap(), "Parcel");
    let agreed = setup.source().notebook().read().await.unwrap().api_versions;
    assert_eq!(agreed["wiql"], "6.0");
    assert_eq!(agreed["comments"], "6.0-preview.4");
    let before = setup.simulator.requests();
    read_all(&setup.guarded(), everything()).await.unwrap();
    assert_eq!(setup.simulator.requests_of("options"), 1, "a restart does not ask again");
    assert!(setup.simulator.requests() > before);
}

/// Returns a new token each time.
struct Renewed(AtomicU32);

impl Credential for Renewed {
    fn current(&self) -> BoxFuture<'_, Result<SecretString, FetchError>> {
        let token = format!("token {}", self.0.load(Ordering::SeqCst));
        Box::pin(async move { Ok(token.into()) })
    }

    fn refresh(&self) -> BoxFuture<'_, Result<bool, FetchError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(true) })
    }

    fn origin(&self) -> String {
        "source.token_command".to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bearer_token_that_ran_out_is_renewed_once() {
    let mut setup = setup().await;
    setup.config.auth = SourceAuth::Bearer;
    let new = |first: u32| {
        let memory = Arc::clone(&setup.memory) as Arc<dyn SourceMemory>;
        let credential = Arc::new(Renewed(AtomicU32::new(first)));
        let connection = Connection::new(credential, setup.clock.clone(), memory);
        connect(&setup.config, Connection { retry: QUICK, ..connection }).unwrap()
    };
    setup.simulator.set_token(Some("token 2".into()));
    assert_eq!(ids(&read_all(&new(1), everything()).await.unwrap()).len(), 20);
    assert_eq!(setup.simulator.requests(), 3, "one refusal, then the query and the batch");
    let error = read_all(&new(5), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::Auth);
    assert!(error.message.contains("source.token_command"), "{error}");
    assert_eq!(setup.simulator.requests(), 5, "two tries and no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_hears_about_account_project_and_query_or_what_is_wrong_with_each() {
    let mut setup = setup().await;
    let probe = setup.source().probe().await;
    assert_eq!(probe.account.unwrap(), "Parcel Build Service");
    assert_eq!(probe.project.unwrap(), "Parcel");
    assert_eq!(probe.matching.unwrap(), 20);
    setup.config.project = "Parzel".to_owned();
    let probe = setup.source().probe().await;
    assert!(probe.account.is_ok());
    let error = probe.project.unwrap_err();
    assert_eq!(error.class, Class::Config);
    assert!(error.message.contains("Parzel") && error.message.contains("TF200016"), "{error}");
    assert_eq!(probe.matching.unwrap_err().class, Class::Config);
    setup.config.where_clause = "[Custom.Team] = 'x'".to_owned();
    setup.config.project = "parcel".to_owned();
    let error = setup.source().probe().await.matching.unwrap_err();
    assert_eq!(error.class, Class::BadQuery);
    assert!(error.message.contains("TF51005"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_macro_that_needs_a_team_works_with_one_and_is_a_config_error_without() {
    let mut setup = setup().await;
    setup.config.where_clause = "[System.IterationPath] = @CurrentIteration".to_owned();
    let error = read_all(&setup.source(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::BadQuery);
    assert!(error.message.contains("source.team"), "{error}");
    setup.config.team = "Parcel Team".to_owned();
    let pages = read_all(&setup.source(), everything()).await.unwrap();
    assert_eq!(ids(&pages).len(), 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn current_states_have_revision_and_state_without_the_texts() {
    let setup = setup().await;
    let id = FIRST_ID + 1;
    setup.simulator.edit_item(id, &[("System.State", json!("Closed"))]).unwrap();
    let ids = [id, 1, id + 1].map(ItemId).to_vec();
    let states = setup.source().current_states(ids).await.unwrap().unwrap();
    assert_eq!(states.len(), 2);
    assert_eq!((states[0].id.0, states[0].rev, states[0].state.as_str()), (id, 2, "Closed"));
    assert_eq!((states[1].id.0, states[1].rev), (id + 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_cannot_work_is_refused_before_anything_is_sent() {
    let mut setup = setup().await;
    for (address, part) in [
        ("dev.azure.com/contoso", "is not a valid URL"),
        ("ftp://contoso", "is not an http(s) URL"),
        ("https://user:secret@dev.azure.com/contoso", "contains a credential"),
        ("https://dev.azure.com/contoso?x=1", "contains a query"),
        ("", "is not a valid URL"),
    ] {
        setup.config.base_url = address.to_owned();
        let memory = Arc::clone(&setup.memory) as Arc<dyn SourceMemory>;
        let credential = super::setup::credential();
        let connection = Connection::new(credential, setup.clock.clone(), memory);
        let error = connect(&setup.config, connection).err().unwrap();
        assert_eq!(error.class, Class::Config, "{address}");
        assert!(error.message.contains(part), "{address}: {error}");
    }
}
