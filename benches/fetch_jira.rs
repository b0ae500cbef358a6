//! The bare loop for Jira Cloud: a page of a search after the other, by its tokens.

use std::time::Instant;

use serde_json::json;

#[derive(serde::Deserialize)]
struct Page {
    issues: Vec<serde::de::IgnoredAny>,
    #[serde(rename = "nextPageToken")]
    next_page_token: Option<String>,
}

/// The least anybody could do: the same fields, a page after the other.
pub async fn read(base_url: String) -> (Instant, usize, usize, u64) {
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().gzip(true).build().unwrap();
    let fields = [
        "summary",
        "status",
        "resolution",
        "issuetype",
        "priority",
        "updated",
        "created",
        "project",
        "components",
        "labels",
        "fixVersions",
        "assignee",
        "parent",
        "issuelinks",
        "subtasks",
        "attachment",
        "description",
        "environment",
    ];
    let start = Instant::now();
    let (mut items, mut bytes, mut requests) = (0, 0, 0);
    let mut token: Option<String> = None;
    loop {
        let mut body = json!({ "jql": "project = PARCEL AND updated >= 0 ORDER BY updated ASC, key ASC",
                               "fields": fields, "maxResults": 100 });
        if let Some(token) = token {
            body["nextPageToken"] = json!(token);
        }
        let url = format!("{base_url}/rest/api/3/search/jql");
        let request = http.post(url).bearer_auth("none").json(&body);
        let answer = request.send().await.unwrap().bytes().await.unwrap();
        (bytes, requests) = (bytes + answer.len(), requests + 1);
        // As much of an answer as the next question needs.
        let page: Page = serde_json::from_slice(&answer).unwrap();
        items += page.issues.len();
        token = page.next_page_token;
        if token.is_none() {
            return (start, items, bytes, requests);
        }
    }
}
