//! Resources other than issues: the server, the account, projects, priorities, permissions.

use serde_json::{Value, json};

use super::reply::{self, Reply};
use super::server::{JiraRequest, JiraState};
use super::tracker_data::{OTHER, PRIORITIES, PROJECT, PROJECT_NAME};

/// The account of every credential.
pub const ME: &str = "Parcel Build Service";

/// The response, if the request is about one of these.
pub fn answer(shared: &JiraState, request: &JiraRequest) -> Option<Reply> {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    Some(match path.as_slice() {
        ["serverInfo"] => reply::json(&server_info(shared)),
        ["myself"] => reply::json(&user(shared, ME)),
        ["priority"] => reply::json(&priorities(shared)),
        ["project"] => reply::json(&json!([project(shared, PROJECT), project(shared, OTHER)])),
        ["project", name] => match shared.board.project(name) {
            Some(key) => reply::json(&project(shared, &key)),
            None => reply::error(404, &format!("No project could be found with key '{name}'.")),
        },
        ["mypermissions"] => {
            let one = |key: &str, has: bool| json!({ "key": key, "havePermission": has });
            reply::json(&json!({ "permissions": {
                "BROWSE_PROJECTS": one("BROWSE_PROJECTS", true),
                "ADD_COMMENTS": one("ADD_COMMENTS", shared.may_comment),
                "EDIT_ISSUES": one("EDIT_ISSUES", shared.may_edit),
            } }))
        }
        ["field"] => reply::json(&json!([
            { "id": "summary", "key": "summary", "name": "Summary", "custom": false },
            { "id": "description", "key": "description", "name": "Description", "custom": false },
            { "id": "customfield_10020", "key": "customfield_10020", "name": "Sprint", "custom": true,
              "schema": { "type": "array", "custom": "com.pyxis.greenhopper.jira:gh-sprint" } },
        ])),
        _ => return None,
    })
}

fn server_info(shared: &JiraState) -> Value {
    let version = if shared.is_cloud { "1001.0.0-SNAPSHOT" } else { "9.12.8" };
    let kind = if shared.is_cloud { "Cloud" } else { "Server" };
    let numbers: Vec<i64> =
        version.split(['.', '-']).filter_map(|part| part.parse().ok()).collect();
    json!({
        "baseUrl": shared.base_url, "version": version, "versionNumbers": numbers,
        "deploymentType": kind, "buildNumber": 100_289, "serverTitle": "Jira",
        "serverTime": shared.board.time(shared.board.now()),
    })
}

pub fn user(shared: &JiraState, name: &str) -> Value {
    let id = format!("5b10{:020x}", name.bytes().map(u64::from).sum::<u64>());
    let zone = shared.board.zone.iana_name().unwrap_or("UTC");
    if shared.is_cloud {
        json!({ "accountId": id, "accountType": "atlassian", "displayName": name, "active": true,
                "timeZone": zone, "self": format!("{}/rest/api/3/user?accountId={id}", shared.base_url) })
    } else {
        let login = name.to_lowercase().replace(' ', ".");
        json!({ "name": login, "key": login, "displayName": name, "active": true, "timeZone": zone,
                "self": format!("{}/rest/api/2/user?username={login}", shared.base_url) })
    }
}

pub fn project(shared: &JiraState, key: &str) -> Value {
    let name = if key == OTHER { "Operations" } else { PROJECT_NAME };
    let id = if key == OTHER { "10002" } else { "10001" };
    json!({ "id": id, "key": key, "name": name, "projectTypeKey": "software",
            "self": format!("{}/rest/api/2/project/{id}", shared.base_url) })
}

pub fn priority(shared: &JiraState, name: &str) -> Value {
    let id = PRIORITIES.iter().position(|known| *known == name).map_or(3, |at| at + 1).to_string();
    json!({ "id": id, "name": name, "self": format!("{}/rest/api/2/priority/{id}", shared.base_url) })
}

fn priorities(shared: &JiraState) -> Vec<Value> {
    PRIORITIES.iter().map(|name| priority(shared, name)).collect()
}
