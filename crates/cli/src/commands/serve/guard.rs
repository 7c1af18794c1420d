//! Access control: checks the token, the Host and the Origin of each request, and sets the headers of each answer.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Served;
use super::connections::{Busy, Connection, held};

/// Content security policy of the explorer's page: nothing from other sites, workers from its own text, and the
/// compiled engine.
pub const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src blob:; style-src 'self'; \
                          img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every answer, unless it has its own.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Refuses requests of other users, and requests that did not come from this page.
pub async fn guard(
    State(served): State<Arc<Served>>,
    Extension(connection): Extension<Arc<Connection>>,
    request: Request,
    next: Next,
) -> Response {
    let busy = Busy::of(&connection);
    let mut answer = match (connection.refused(), refusal(&served, &request)) {
        (Some(why), _) => (StatusCode::FORBIDDEN, why.to_owned()).into_response(),
        (None, Some((status, why))) => (status, why).into_response(),
        (None, None) => next.run(request).await,
    };
    let headers = answer.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    held(answer, &connection, busy)
}

fn refusal(served: &Served, request: &Request) -> Option<(StatusCode, &'static str)> {
    let Some(host) = text(request.headers(), header::HOST) else {
        return Some((StatusCode::BAD_REQUEST, "no Host\n"));
    };
    // A name that resolves to this host could be another site's (DNS rebinding).
    if !is_own_host(host) {
        return Some((StatusCode::MISDIRECTED_REQUEST, "the Host is no address of this host: use its IP address\n"));
    }
    let strange = |origin: &str| origin.strip_prefix("http://").is_none_or(|origin| origin != host);
    if request.headers().contains_key(header::ORIGIN) && text(request.headers(), header::ORIGIN).is_none_or(strange) {
        return Some((StatusCode::FORBIDDEN, "asked from another page\n"));
    }
    let key = served.key.as_ref()?;
    let shown = request.uri().path().split('/').nth(1).unwrap_or_default();
    (!key.is_page_token(shown)).then_some((StatusCode::NOT_FOUND, "no such page\n"))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Whether `host` is an IP address or localhost, with or without a port.
fn is_own_host(host: &str) -> bool {
    let is_port = |text: &str| text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    let (is_own, rest) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => (address.parse::<Ipv6Addr>().is_ok(), rest),
        None => {
            let (name, rest) = host.split_at(host.find(':').unwrap_or(host.len()));
            (name == "localhost" || name.parse::<Ipv4Addr>().is_ok(), rest)
        }
    };
    is_own && (rest.is_empty() || is_port(rest))
}

/// The answer to a request for a page that does not exist.
pub async fn nothing() -> Response<Body> {
    (StatusCode::NOT_FOUND, "no such page\n").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_own() {
        for own in ["127.0.0.1:9941", "127.0.0.1", "[::1]:80", "localhost:9941", "10.0.0.7:1"] {
            assert!(is_own_host(own), "{own}");
        }
        for strange in [
            "evil.example:9941",
            "127.0.0.1.evil.example",
            "",
            "[::1",
            "::1",
            "localhost.evil:1",
            "127.0.0.1:evil.example",
            "127.0.0.1:1:1",
            "127.0.0.1:",
            "127.0.0.1:65536",
            "[::1].evil.example:1",
            "[::1]evil",
            "[127.0.0.1]",
        ] {
            assert!(!is_own_host(strange), "{strange}");
        }
    }
}
