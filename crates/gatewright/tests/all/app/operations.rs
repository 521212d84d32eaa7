use axum::Router;
use axum::routing::get;

use super::Server;

#[tokio::test]
async fn a_live_server_with_a_database_is_healthy_and_ready() {
    let server = Server::plain().await;
    for (path, body) in [("/healthz", "ok\n"), ("/readyz", "{\"status\":\"ready\",\"degraded\":[]}")] {
        let answer = server.get(path).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
        assert!(answer.contains("x-content-type-options: nosniff") && answer.contains("x-request-id: "), "{answer}");
    }
}

#[tokio::test]
async fn metrics_count_requests_by_template_method_and_status_and_never_by_path() {
    let server = Server::start(|_| {}, Router::new().route("/things/{id}", get(async || "thing"))).await;
    server.get("/things/canary-1").await;
    server.get("/things/canary-2?canary=3").await;
    server.get("/canary-4").await;
    server.exchange("CANARY /things/1 HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").await;
    let metrics = server.get("/metrics").await;
    for line in [
        r#"gatewright_http_requests_total{method="GET",route="/things/{id}",status="200"} 2"#,
        r#"gatewright_http_requests_total{method="GET",route="unmatched",status="404"} 1"#,
        r#"gatewright_http_requests_total{method="OTHER",route="/things/{id}",status="405"} 1"#,
        r#"gatewright_http_request_duration_seconds_count{method="GET",route="/things/{id}"} 2"#,
        "gatewright_http_requests_in_flight 1",
        "gatewright_password_hashing_waiting 0",
        "gatewright_event_subscribers 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert!(!metrics.to_lowercase().contains("canary"), "{metrics}");
}

#[tokio::test]
async fn an_unknown_path_is_a_problem() {
    let server = Server::plain().await;
    let answer = server.get("/nowhere").await;
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("application/problem+json"), "{answer}");
    let answer = server.exchange("DELETE /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 405") && answer.contains("allow: GET,HEAD"), "{answer}");
}
