//! Resources other than issues: accounts, repositories, rate limits.

use serde_json::json;

use super::app;
use super::reply::{self, Reply};
use super::server::{GithubRequest, GithubState};
use super::tracker_data::{ME, StoredRepository, account};

/// The response, if the request is about one of these.
pub fn answer(shared: &mut GithubState, request: &GithubRequest) -> Option<Reply> {
    let base = shared.base_url.clone();
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    Some(match path.as_slice() {
        [] => Reply::json(&json!({ "current_user_url": format!("{base}/user") })),
        ["user"] => {
            let ends = "2027-11-13 21:31:56 +0100";
            Reply::json(&account(&base, ME)).with("github-authentication-token-expiration", ends)
        }
        ["rate_limit"] => match shared.limit {
            None => reply::not_found(),
            Some(limit) => {
                let core = json!({
                    "limit": limit, "remaining": (limit - shared.used).max(0), "used": shared.used,
                    "reset": shared.window_ends,
                });
                Reply::json(&json!({ "resources": { "core": core }, "rate": core }))
            }
        },
        ["app", ..] | ["repos", _, _, "installation"] | ["users" | "orgs", _, "installation"] => {
            app::answer(shared, request)
        }
        ["installation", "repositories"] => {
            let all: Vec<_> = shared.board.repositories.iter().map(|r| r.to_json(&base)).collect();
            Reply::json(&json!({ "total_count": all.len(), "repositories": all }))
        }
        ["users" | "orgs", owner] => Reply::json(&account(&base, owner)),
        [kind @ ("users" | "orgs"), owner, "repos"] => {
            let prefix = format!("{}/", owner.to_lowercase());
            let is_owned = |r: &&StoredRepository| r.name.to_lowercase().starts_with(&prefix);
            let all: Vec<_> = shared.board.repositories.iter().filter(is_owned).collect();
            if all.is_empty() && *kind == "orgs" {
                return Some(reply::not_found());
            }
            let rows: Vec<_> = all.into_iter().map(|r| r.to_json(&base)).collect();
            counted(&rows, request, &base)
        }
        _ => return None,
    })
}

/// A page by its number, with links to the next and the last.
pub fn counted(rows: &[serde_json::Value], request: &GithubRequest, base: &str) -> Reply {
    let size = request.number("per_page").unwrap_or(30).clamp(1, 100);
    let page = request.number("page").unwrap_or(1).max(1);
    let start = (page - 1).saturating_mul(size);
    let shown: Vec<&serde_json::Value> = rows.iter().skip(start).take(size).collect();
    let reply = Reply::json(&shown);
    let last = rows.len().div_ceil(size);
    if page >= last {
        return reply;
    }
    let to = |number: usize| {
        let mut query: Vec<String> = request
            .query
            .iter()
            .filter(|(name, _)| *name != "page")
            .map(|(name, value)| format!("{name}={}", encode(value)))
            .collect();
        query.push(format!("page={number}"));
        format!("{base}/{}?{}", request.path.join("/"), query.join("&"))
    };
    reply.with("link", format!("<{}>; rel=\"next\", <{}>; rel=\"last\"", to(page + 1), to(last)))
}

pub fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
