//! `[[sources]]`: what entries inherit, and their errors, with location.

use crate::config_load::{Place, contains};

const TWO: &str = "[source]\nbase_url = \"https://dev.azure.com/contoso\"\npage_size = 50\n\
                   [[sources]]\nname = \"web\"\nproject = \"Web\"\n\
                   [[sources]]\nname = \"server\"\nbase_url = \"https://tfs/c\"\nproject = \"Billing\"\n\
                   token_file = \"pat\"\nrepository = \"billing\"\n";

#[test]
fn an_entry_has_what_the_section_says_where_it_says_nothing() {
    let place = Place::with_file(TWO).set("HEARTBEAT_SOURCE__COMMENTS", "7");
    let loaded = place.load().unwrap();
    let [web, server] = loaded.config.sources() else { panic!("two") };
    assert_eq!((web.name.as_str(), web.project.as_str()), ("web", "Web"));
    assert_eq!((web.base_url.as_str(), web.page_size), ("https://dev.azure.com/contoso", 50));
    assert_eq!((server.base_url.as_str(), server.comments), ("https://tfs/c", 7));
    assert_eq!(server.token_file, place.path("work/pat"), "relative to the file");
    assert_eq!(server.repository, place.path("work/billing"));
    let origin = |key: &str| loaded.origins[key].to_string();
    assert!(origin("sources[1].name").ends_with("work/heartbeat.toml:5:8"));
    assert!(origin("sources[2].page_size").ends_with("work/heartbeat.toml:3:13"), "inherited");
    let shown = heartbeat::config::show::values(&loaded);
    assert!(shown.iter().any(|value| value.key == "sources[2].project"));
}

#[test]
fn one_section_is_one_source_as_it_always_was() {
    let loaded = Place::with_file("[source]\nname = \"only\"\nproject = \"P\"\n").load().unwrap();
    let [only] = loaded.config.sources() else { panic!("one") };
    assert_eq!(*only, loaded.config.source);
    assert!(loaded.config.require_for_run().unwrap_err().to_string().contains("source.base_url"));
}

#[test]
fn every_fault_has_its_place_and_its_fix() {
    let problem = |extra: &str| Place::with_file(&format!("{TWO}{extra}")).problem();
    contains(
        &problem("pagesize = 9\n"),
        &["heartbeat.toml:13:1", "sources[2].pagesize", "sources[2].page_size"],
    );
    contains(
        &problem("page_size = 900\n"),
        &["heartbeat.toml:13:13", "sources[2].page_size = 900", "1 to 200"],
    );
    contains(&problem("page_size = \"9\"\n"), &["heartbeat.toml:13:13", "whole number"]);
    contains(&problem("kind = \"bugzilla\"\n"), &["heartbeat.toml:13:8", "\"ado\""]);
    contains(&problem("schedule = \"daily\"\n"), &["heartbeat.toml:13:12", "cron"]);
    contains(&problem("token = \"x\"\n"), &["heartbeat.toml:13:1", "looks like a secret"]);
    contains(
        &problem("[[sources]]\nname = \"Web\"\nproject = \"Other\"\n"),
        &["heartbeat.toml:14:8", "sources[3].name = \"Web\"", "sources[1] has the same name"],
    );
    contains(
        &problem("[agent]\npass_env = [\"AZURE_DEVOPS_PAT\"]\n"),
        &["agent.pass_env", "never passed to the agent"],
    );
}

#[test]
fn entries_without_a_name_are_reported_with_their_place() {
    let problem =
        Place::with_file("[[sources]]\nproject = \"A\"\n\n[[sources]]\nproject = \"B\"\n")
            .problem();
    contains(&problem, &["heartbeat.toml:4:1", "sources[2].name = \"ado\"", "a different name"]);
}

#[test]
fn what_all_entries_inherit_is_reported_once() {
    let entries = "[[sources]]\nname = \"a\"\n[[sources]]\nname = \"b\"\n";
    let problem = Place::with_file(&format!("[source]\npage_size = 900\n{entries}")).problem();
    contains(&problem, &["heartbeat.toml:2:13", "source.page_size = 900"]);
}

#[test]
fn a_list_that_is_none_says_how_to_write_one() {
    let problem = Place::with_file("[sources]\nname = \"web\"\n").problem();
    contains(&problem, &["heartbeat.toml:1:", "[[sources]]"]);
    let problem = Place::with_file("sources = [\"web\"]\n").problem();
    contains(&problem, &["[[sources]]"]);
}

#[test]
fn what_a_run_needs_is_asked_for_of_each_source() {
    let place = Place::with_file(
        "[repository]\npath = \"/\"\n[[sources]]\nname = \"web\"\nbase_url = \"https://a/b\"\n",
    );
    let told = place.load().unwrap().config.require_for_run().unwrap_err().to_string();
    contains(&told, &["sources[1].project is empty"]);
}
