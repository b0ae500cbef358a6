//! The dashboard's files, embedded in the binary.

use axum::http::StatusCode;
use axum::response::Response;

use super::answer::full_response;

/// `GET /`, and every address of a page: the script shows what the address names.
pub async fn index() -> Response {
    full_response(StatusCode::OK, "text/html; charset=utf-8", include_str!("page/index.html"))
}

/// The page's script finds no such address and says so.
pub fn not_found() -> Response {
    let page = include_str!("page/index.html");
    full_response(StatusCode::NOT_FOUND, "text/html; charset=utf-8", page)
}

/// `GET /app.css`
pub async fn style() -> Response {
    full_response(StatusCode::OK, "text/css; charset=utf-8", include_str!("page/app.css"))
}

/// `GET /*.js`
pub async fn script(name: &'static str) -> Response {
    let text = match name {
        "dom.js" => include_str!("page/dom.js"),
        "views.js" => include_str!("page/views.js"),
        "finding.js" => include_str!("page/finding.js"),
        "items.js" => include_str!("page/items.js"),
        "run.js" => include_str!("page/run.js"),
        _ => include_str!("page/app.js"),
    };
    full_response(StatusCode::OK, "text/javascript; charset=utf-8", text)
}

/// `GET /icon.svg`
pub async fn icon() -> Response {
    full_response(StatusCode::OK, "image/svg+xml", include_str!("page/icon.svg"))
}
