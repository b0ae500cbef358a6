//! Handles requests: authentication, API version, resource.

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Method, Request};
use axum::response::Response;
use serde_json::{Value, json};

use super::fault::Fault;
use super::reply::{MIN_PACKED_LEN, Reply, sent};
use super::request::AdoRequest;
use super::tracker_data::{AdoData, PROJECT, PROJECT_ID};
use super::{control, items, patch, queries};
use crate::simulate::connection::Switch;
use crate::simulate::shared::secret;
use crate::simulate::traffic::Traffic;

/// The service's list of its resources.
static LOCATIONS: &str = include_str!("locations.json");

/// State shared by all requests.
#[derive(Debug)]
pub struct AdoState {
    pub board: AdoData,
    pub traffic: Traffic<Fault>,
    /// Whether responses are compressed for clients that accept it.
    pub packs: bool,
    /// Number of compressed responses.
    pub packed: u64,
    /// The only accepted secret; `None` accepts any.
    pub token: Option<String>,
    pub max_version: (u32, u32),
    /// Maximum number of rows of a query.
    pub row_limit: usize,
    /// Path before the project.
    pub collection: String,
    /// Address of the collection.
    pub base_url: String,
}

pub type AdoServer = crate::simulate::shared::Server<AdoState>;

/// Compresses a response if it is long enough.
fn pack(server: &AdoServer, reply: Reply) -> Reply {
    {
        let mut shared = server.lock();
        if !shared.packs || reply.body.len() < MIN_PACKED_LEN {
            return reply;
        }
        shared.packed += 1;
    }
    reply.packed()
}

pub async fn handle(
    State(server): State<AdoServer>,
    ConnectInfo(switch): ConnectInfo<Switch>,
    request: Request<Body>,
) -> Response {
    let (parts, body) = request.into_parts();
    let session = parts.headers.get("x-tfs-session").cloned();
    let body = match axum::body::to_bytes(body, 16 << 20).await {
        Ok(body) => body,
        Err(_) => return sent(Reply::page(413, "Request Entity Too Large"), None, false),
    };
    if let Some(rest) = parts.uri.path().strip_prefix("/_simulator/") {
        return sent(control::handle(&server, &parts.method, rest, &body), None, false);
    }
    let collection = server.lock().collection.clone();
    let request =
        AdoRequest::new(&parts.method, &parts.uri, &parts.headers, &collection, body.to_vec());
    let Some(request) = request else {
        return sent(Reply::no_controller(parts.uri.path()), session.as_ref(), false);
    };
    let fault =
        server.lock().traffic.arrived(request.kind(), request.method.as_str(), &request.path);
    let reply = match fault {
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Reset) => {
            switch.cut();
            Reply::bytes(200, "", vec![])
        }
        Some(fault) => {
            tokio::time::sleep(fault.delay()).await;
            match fault.answer(&request.path) {
                Some(reply) => reply,
                None => {
                    let mut shared = server.lock();
                    let reset_at = shared.board.now().as_second() + 300;
                    fault.modify(shared.answer(&request, &parts.headers), reset_at)
                }
            }
        }
        None => server.lock().answer(&request, &parts.headers),
    };
    server.lock().traffic.answered();
    let reply = if accepts_gzip(&parts.headers) { pack(&server, reply) } else { reply };
    sent(reply, session.as_ref(), fault == Some(Fault::Truncated))
}

impl AdoState {
    fn answer(&mut self, request: &AdoRequest, headers: &HeaderMap) -> Reply {
        if let Some(refused) = self.reject_unauthenticated(request, headers) {
            return refused;
        }
        if let Some(refused) = self.refuse_version(request) {
            return refused;
        }
        let mut reply = self.route(request);
        if let Some(version) = &request.version
            && reply.content_type.starts_with("application/json;")
        {
            reply.content_type = format!("{}; api-version={version}", reply.content_type);
        }
        reply
    }

    /// An unauthenticated client gets the sign-in page, or a bare 401 if it asks for that.
    fn reject_unauthenticated(&self, request: &AdoRequest, headers: &HeaderMap) -> Option<Reply> {
        let known = match (secret(headers), &self.token) {
            (Some(secret), Some(token)) => secret == *token,
            (Some(secret), None) => !secret.is_empty(),
            (None, _) => false,
        };
        if known {
            return None;
        }
        let suppressed = headers.contains_key("x-tfs-fedauthredirect");
        let fault = match (suppressed, &request.method) {
            (true, _) => Fault::Empty401,
            (false, method) if *method == Method::PATCH => Fault::Denied401,
            (false, _) => Fault::Html203,
        };
        fault.answer(&request.path)
    }

    fn refuse_version(&self, request: &AdoRequest) -> Option<Reply> {
        if request.method == Method::OPTIONS || request.kind() == "resourceareas" {
            return None;
        }
        let Some(version) = &request.version else {
            if request.method == Method::GET {
                return None;
            }
            let text = "No api-version was supplied for the request. The version must be supplied \
                        either as part of the Accept header or as a query parameter.";
            return Some(Reply::error(400, "VssVersionNotSpecifiedException", text));
        };
        let number = version.split('-').next().unwrap_or_default();
        let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
        let parsed = (major.parse().unwrap_or(0), minor.parse().unwrap_or(0));
        if parsed > self.max_version {
            let (major, minor) = self.max_version;
            let text = format!(
                "The requested REST API version of {version} is out of range for this server. The \
                 latest REST API version this server supports is {major}.{minor}."
            );
            return Some(Reply::error(400, "VssVersionOutOfRangeException", &text));
        }
        if request.kind() == "comments" && !version.contains("-preview") {
            let text = format!(
                "The requested version \"{version}\" of the resource is under preview. The \
                 -preview flag must be supplied in the api-version for such requests."
            );
            return Some(Reply::error(400, "VssInvalidPreviewVersionException", &text));
        }
        None
    }

    fn route(&mut self, request: &AdoRequest) -> Reply {
        if request.method == Method::OPTIONS {
            return self.locations(&request.part(0));
        }
        let base_url = self.base_url.clone();
        match request.part(0).as_str() {
            "resourceareas" => resource_areas(request, &base_url),
            "connectiondata" => connection_data(),
            "projects" => project(request, &base_url),
            "git" => super::linked::code(&self.board, request),
            "wit" => match request.scope.first() {
                Some(name) if !is_project(name) => no_project(name),
                _ => self.route_work_items(request, &base_url),
            },
            _ => Reply::no_controller(&request.path),
        }
    }

    fn route_work_items(&mut self, request: &AdoRequest, base_url: &str) -> Reply {
        let (name, rest) = (request.part(1), request.resource.get(2).cloned().unwrap_or_default());
        let board = &mut self.board;
        let limit = self.row_limit;
        match (request.method.as_str(), name.as_str()) {
            ("POST", "wiql") => queries::run(board, request, base_url, limit),
            ("GET", "wiql") => queries::run_saved(board, request, &rest, base_url, limit),
            ("GET", "queries") => queries::saved_query(
                board,
                &request.resource[2.min(request.resource.len())..].join("/"),
            ),
            ("POST", "workitemsbatch") => items::batch(board, request, base_url),
            ("GET", "workitems") if rest.is_empty() => items::get_many(board, request, base_url),
            ("POST", "workitems") if rest.starts_with('$') => {
                patch::create(board, request, &rest[1..], base_url)
            }
            (_, "workitems") => route_item(board, request, &rest, base_url),
            ("GET" | "POST", "attachments") => super::linked::attachments(board, request, base_url),
            ("GET", "fields") => fields(board, &rest, base_url),
            ("GET", "recyclebin") => recycle_bin(board),
            ("GET", "workitemtypes") => states(request),
            _ => Reply::no_controller(&request.path),
        }
    }

    fn locations(&self, area: &str) -> Reply {
        let list: Value = serde_json::from_str(LOCATIONS).unwrap_or_default();
        let (major, minor) = self.max_version;
        let mut value = list["value"].as_array().cloned().unwrap_or_default();
        value.retain(|entry| {
            area.is_empty()
                || entry["area"].as_str().is_some_and(|name| name.eq_ignore_ascii_case(area))
        });
        if self.max_version < (7, 2) {
            for entry in &mut value {
                entry["maxVersion"] = json!(format!("{major}.{minor}"));
                if entry["releasedVersion"] != "0.0" {
                    entry["releasedVersion"] = json!(format!("{major}.{minor}"));
                }
            }
        }
        Reply::json(&json!({ "count": value.len(), "value": value }))
    }
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get("accept-encoding").and_then(|value| value.to_str().ok());
    accepted.is_some_and(|list| {
        list.split(',').any(|entry| {
            let (name, weight) = entry.split_once(';').unwrap_or((entry, ""));
            name.trim().eq_ignore_ascii_case("gzip") && !weight.trim().ends_with("q=0")
        })
    })
}

fn route_item(board: &mut AdoData, request: &AdoRequest, rest: &str, base_url: &str) -> Reply {
    let Ok(id) = rest.parse::<i64>() else { return Reply::no_controller(&request.path) };
    match (request.method.as_str(), request.part(3).as_str()) {
        ("GET" | "POST", "comments") => items::comments(board, request, id, base_url),
        ("GET", "") => items::get_one(board, request, id, base_url),
        ("PATCH", "") => patch::update(board, request, id, base_url),
        ("DELETE", "") => items::delete(board, id, base_url),
        _ => Reply::no_controller(&request.path),
    }
}

fn is_project(name: &str) -> bool {
    name.eq_ignore_ascii_case(PROJECT) || name.eq_ignore_ascii_case(PROJECT_ID)
}

fn no_project(name: &str) -> Reply {
    let text = format!(
        "TF200016: The following project does not exist: {name}. Verify that the \
                        name of the project is correct and that the project exists on the server."
    );
    Reply::error(404, "ProjectDoesNotExistWithNameException", &text)
}

fn project(request: &AdoRequest, base_url: &str) -> Reply {
    let one = json!({ "id": PROJECT_ID, "name": PROJECT, "state": "wellFormed",
                      "url": format!("{base_url}/_apis/projects/{PROJECT_ID}") });
    match request.resource.get(1) {
        None => Reply::json(&json!({ "count": 1, "value": [one] })),
        Some(name) if is_project(name) => Reply::json(&one),
        Some(name) => no_project(name),
    }
}

fn resource_areas(request: &AdoRequest, base_url: &str) -> Reply {
    let area = json!({ "id": "5264459e-e5e0-4bd8-b118-0985e68a4ec5", "name": "wit",
                       "locationUrl": format!("{base_url}/") });
    match request.resource.get(1) {
        Some(_) => Reply::json(&area),
        None => Reply::json(&json!({ "count": 1, "value": [area] })),
    }
}

fn connection_data() -> Reply {
    let user = json!({ "id": "b8a1c7d2-1111-4222-8333-444455556666",
                       "providerDisplayName": "Parcel Build Service" });
    Reply::json(&json!({ "authenticatedUser": user, "authorizedUser": user,
                         "instanceId": "0a9e1d5c-2222-4222-8333-444455556666" }))
}

fn fields(board: &AdoData, name: &str, base_url: &str) -> Reply {
    let show = |name: &str, kind: &str| {
        json!({ "name": name.rsplit('.').next(), "referenceName": name, "type": kind,
                "readOnly": false, "url": format!("{base_url}/_apis/wit/fields/{name}") })
    };
    if !name.is_empty() {
        return match board.field(name) {
            Some((name, kind)) => Reply::json(&show(name, kind)),
            None => {
                let text = format!("TF51535: Cannot find field {name}.");
                Reply::error(404, "WorkItemTrackingFieldDefinitionNotFoundException", &text)
            }
        };
    }
    let all: Vec<Value> = board.fields.iter().map(|(name, kind)| show(name, kind)).collect();
    Reply::json(&json!({ "count": all.len(), "value": all }))
}

fn recycle_bin(board: &AdoData) -> Reply {
    let deleted = board.items.values().filter(|item| item.deleted.is_some());
    let value: Vec<Value> = deleted
        .map(|item| json!({ "id": item.id, "deletedDate": item.deleted, "project": PROJECT }))
        .collect();
    Reply::json(&json!({ "count": value.len(), "value": value }))
}

fn states(request: &AdoRequest) -> Reply {
    if request.part(3) != "states" {
        return Reply::no_controller(&request.path);
    }
    let states = [
        ("New", "Proposed"),
        ("Active", "InProgress"),
        ("Resolved", "Resolved"),
        ("Closed", "Completed"),
        ("Removed", "Removed"),
    ];
    let value: Vec<Value> =
        states.iter().map(|(name, kind)| json!({ "name": name, "category": kind })).collect();
    Reply::json(&json!({ "count": value.len(), "value": value }))
}
