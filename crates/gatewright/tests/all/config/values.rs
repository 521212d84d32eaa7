use std::time::Duration;

use gatewright::Config;
use gatewright::config::{Loader, Plugin};

use super::{problems, read, variables};

#[test]
fn an_empty_file_is_the_documented_defaults() {
    let config = read("").unwrap();
    assert_eq!(config.server.address().to_string(), "127.0.0.1:8080");
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
    assert_eq!(config.server.address().to_string(), "127.0.0.1:9000");
    assert_eq!(config.api_prefix(), "/api/v1");
    assert!(config.server.trusted_proxies.contains("10.1.2.3".parse().unwrap()));
    assert_eq!(config.auth.plugins.as_deref(), Some(&[Plugin::Core][..]));
    assert_eq!(config.auth.limits.register.policy.max_attempts(), 10);
}

#[test]
fn trusted_proxies_turn_trust_on_for_every_limiter_that_does_not_set_it() {
    let limiters = |text: &str| {
        let limits = read(text).unwrap().auth.limits;
        let all = [
            limits.login,
            limits.login_account,
            limits.register,
            limits.magic_link,
            limits.email_code,
            limits.device,
            limits.two_factor,
            limits.two_factor_account,
            limits.password_reset,
            limits.email_verification,
            limits.oauth,
        ];
        all.map(|limit| limit.trust_forwarded_for)
    };
    assert_eq!(limiters(""), [false; 11]);
    assert_eq!(limiters("[server]\ntrusted_proxies = []"), [false; 11]);
    let proxies = "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    assert_eq!(limiters(proxies), [true; 11]);
    let mut but_login = [true; 11];
    but_login[0] = false;
    assert_eq!(limiters(&format!("{proxies}[auth.limits.login]\ntrust_forwarded_for = false")), but_login);
    let mut login_alone = [false; 11];
    login_alone[0] = true;
    assert_eq!(limiters("[auth.limits.login]\ntrust_forwarded_for = true"), login_alone);
}

#[test]
fn a_server_drains_for_two_seconds_and_in_dev_mode_not_at_all() {
    assert_eq!(Config::default().drain(), Duration::from_secs(2));
    assert_eq!(read("").unwrap().drain(), Duration::ZERO);
    assert_eq!(read("[server]\ndrain_seconds = 5").unwrap().drain(), Duration::from_secs(5));
}

#[test]
fn an_https_server_on_loopback_without_a_trusted_proxy_is_warned_about() {
    let warned = |text: &str| {
        let warnings = read(text).unwrap().warnings();
        warnings.iter().any(|warning| warning.key == "server.trusted_proxies")
    };
    let https = "[server]\npublic_url = \"https://app.example.com\"\n";
    assert!(warned(https));
    assert!(warned(&format!("{https}listen = \"[::1]:8080\"")));
    assert!(!warned(&format!("{https}trusted_proxies = [\"127.0.0.1\"]")));
    let elsewhere = format!("{https}listen = \"0.0.0.0:8080\"\nallow_public_dev_mode = true");
    assert!(!warned(&elsewhere));
    assert!(!warned("[server]\npublic_url = \"http://127.0.0.1:8080\""));
    assert!(!warned(""));
}

#[test]
fn dev_mode_needs_addresses_of_this_computer_or_an_acknowledgement() {
    let listen = |address: &str| format!("listen = \"{address}\"");
    let public = |url: &str| format!("public_url = \"{url}\"");
    let own = ["127.0.0.1:8080", "127.1.2.3:80", "localhost:80", "[::1]:80", "[::ffff:127.0.0.1]:80"].map(listen);
    let own_names =
        ["http://localhost", "https://127.0.0.1:8443", "http://app.localhost:1", "http://[::1]:80"].map(public);
    let others = ["0.0.0.0:8080", "[::]:8080", "192.168.1.20:80", "[::ffff:0.0.0.0]:80"].map(listen);
    let other_names = [
        "https://example.com",
        "http://10.0.0.1",
        "http://0.0.0.0:8080",
        "https://localhost.example.com",
        "https://notlocalhost",
        "http://[::ffff:10.0.0.1]",
        "http://[2001:db8::1]",
    ];
    for setting in own.into_iter().chain(own_names) {
        for text in [format!("[server]\n{setting}"), format!("[server]\ndev_mode = true\n{setting}")] {
            let loaded = Loader::text("f.toml", text).dev_mode().load_with_warnings().unwrap();
            assert_eq!(loaded.1.iter().filter(|warning| warning.message.contains("dev_mode")).count(), 0, "{setting}");
        }
    }
    for setting in others.into_iter().chain(other_names.map(public)) {
        let file = |more: &str| Loader::text("f.toml", format!("[server]\n{more}{setting}"));
        for loader in [file("dev_mode = true\n"), file("").dev_mode()] {
            let refused = problems(loader.clone().load());
            assert!(refused.contains("server.dev_mode: is on") && refused.contains("--allow-public-dev"), "{refused}");
            let (_, warnings) = loader.clone().allow_public_dev_mode().load_with_warnings().unwrap();
            assert!(warnings.iter().any(|warning| warning.message.contains("sign in as any user")), "{setting}");
            // Commands other than `serve` work with such a configuration.
            loader.for_management().load().unwrap();
        }
        file("dev_mode = true\nallow_public_dev_mode = true\n").load().unwrap();
    }
    // The environment, as in a container, and the flag for the address.
    let listens = [("GATEWRIGHT__SERVER__LISTEN", "0.0.0.0:8080")];
    assert!(problems(Loader::empty().environment(variables(listens)).dev_mode().load()).contains("server.dev_mode"));
    assert!(problems(Loader::empty().dev_mode().listen("0.0.0.0:8080").load()).contains("server.dev_mode"));
    let insists = [listens[0], ("GATEWRIGHT__SERVER__ALLOW_PUBLIC_DEV_MODE", "true")];
    Loader::empty().environment(variables(insists)).dev_mode().load().unwrap();
}
