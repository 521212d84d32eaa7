use std::time::Duration;

use gatewright::config::Plugin;

use super::read;

#[test]
fn an_empty_file_is_the_documented_defaults() {
    let config = read("").unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.server.request_timeout, Duration::from_secs(30));
    assert_eq!(config.server.max_body_bytes, 1_048_576);
    assert_eq!(config.database.url.expose(), "sqlite://gatewright.db");
    assert_eq!(config.database.max_connections, 16);
    assert_eq!(config.auth.base_path, "/auth");
    assert_eq!(config.auth.jwt_expiry, Duration::from_hours(1));
    assert_eq!(config.auth.session_ttl, Duration::from_hours(168));
    assert_eq!(config.auth.limits.login.policy.max_attempts(), 10);
    assert_eq!(config.auth.limits.login.policy.window(), Duration::from_mins(15));
    assert_eq!(config.auth.limits.login.policy.block(), Duration::from_mins(30));
    assert_eq!(config.events.heartbeat, Duration::from_secs(15));
    assert_eq!(config.events.max_subscribers, 10_000);
    assert_eq!(config.api_prefix(), "");
}

#[test]
fn settings_are_read_as_written() {
    let config = read(
        r#"
        [server]
        listen = "localhost:9000"
        api_prefix = "/api/v1"
        json_case = "snake"
        trusted_proxies = ["10.0.0.0/8", "::1"]
        [auth]
        plugins = ["core"]
        password_hash = "argon2id"
        [auth.limits.register]
        max_attempts = 0
        "#,
    )
    .unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:9000");
    assert_eq!(config.api_prefix(), "/api/v1");
    assert!(config.server.trusted_proxies.contains("10.1.2.3".parse().unwrap()));
    assert_eq!(config.auth.plugins.as_deref(), Some(&[Plugin::Core][..]));
    assert_eq!(config.auth.limits.register.policy.max_attempts(), 10);
}
