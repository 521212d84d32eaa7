//! Configurations that are refused. It is long because every refusal has its example here.

use gatewright_auth::password::PasswordAlgorithm;

use super::{SECRET, problems, read, read_for_production};

#[test]
fn a_job_that_cannot_run_is_refused_with_its_position() {
    let job = |lines: &str| problems(read(&format!("[[job]]\nname = \"a\"\n{lines}\n")));
    let url = "url = \"https://a\"\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"";
    assert_eq!(job(&format!("schedule = \"0 3 * * *\"\n{url}")), "");
    for (lines, expected) in [
        (
            format!("schedule = \"0 25 * * *\"\n{url}"),
            "f.toml:3:15: job[0].schedule: hour: \"25\" is no number from 0 to 23",
        ),
        (format!("schedule = \"0 3 * * 1-9\"\n{url}"), "f.toml:3:21: job[0].schedule: day of the week: \"9\""),
        (format!("schedule = \"0 0 30 2 *\"\n{url}"), "f.toml:3:17: job[0].schedule: no month has such a day"),
        (
            format!("schedule = \"0 3 * * *\"\ntimezone = \"Berlin\"\n{url}"),
            "f.toml:4:12: job[0].timezone: \"Berlin\" is no time zone",
        ),
        ("schedule = \"0 3 * * *\"".to_owned(), "job[0].name: a job needs `url`, or `emit`"),
        ("schedule = \"0 3 * * *\"\nurl = \"https://a\"".to_owned(), "job[0].url: needs `secret`"),
        ("schedule = \"0 3 * * *\"\nurl = \"ftp://a\"".to_owned(), "job[0].url: must be an http://"),
        ("schedule = \"0 3 * * *\"\nemit = \"a.due\"".to_owned(), "job[0].emit: needs `outbox.enabled = true`"),
        (
            "schedule = \"0 3 * * *\"\nemit = \"entity.created\"\n[outbox]\nenabled = true".to_owned(),
            "job[0].emit: the service itself emits",
        ),
        (
            "schedule = \"0 3 * * *\"\nemit = \"a.due\"\nallow_private = true\n[outbox]\nenabled = true".to_owned(),
            "job[0].allow_private: is for a job with `url`",
        ),
        (format!("schedule = \"0 3 * * *\"\nemit = \"a.due\"\n{url}"), "job[0].emit: is for a job without `url`"),
        (
            format!("schedule = \"0 3 * * *\"\n{url}\n[[job]]\nname = \"a\"\nschedule = \"0 3 * * *\"\n{url}"),
            "job[1].name: the name \"a\" is taken",
        ),
        (
            format!("schedule = \"0 3 * * *\"\n{url}\n[functions]\njob_timeout_ms = 0"),
            "functions.job_timeout_ms: must be from 1 to 86400000",
        ),
    ] {
        let found = job(&lines);
        assert!(found.contains(expected), "{lines}\n{found}");
        assert!(found.ends_with(" (job \"a\")") || found.contains("functions."), "{found}");
    }
}

#[test]
fn a_hook_that_cannot_be_asked_is_refused() {
    let hook = |lines: &str| problems(read(&format!("[[entity]]\nname = \"posts\"\n[[hook]]\n{lines}\n")));
    let secret = "secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"";
    let good = format!("entity = \"posts\"\non = [\"before_create\"]\nurl = \"https://a\"\n{secret}");
    assert_eq!(hook(&good), "");
    for (from, to, expected) in [
        ("posts", "post", "hook[0].entity: there is no entity \"post\""),
        ("\"before_create\"", "", "hook[0].on: names at least one"),
        ("before_create", "after_create", "hook[0].on: \"after_create\" is none of"),
        ("\"before_create\"", "\"before_create\", \"before_create\"", "hook[0].on: \"before_create\" is named twice"),
        ("https://a", "a", "hook[0].url: must be an http://"),
        ("https://a", "http://127.0.0.1:9000/a", "hook[0].url: this is an address of this machine"),
        ("https://a", "http://localhost:9000/a", "hook[0].url: this is an address of this machine"),
        ("https://a", "http://[::ffff:10.0.0.1]/a", "hook[0].url: this is an address of this machine"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "canary", "hook[0].secret: a webhook's secret"),
        ("https://a\"", "https://a\"\ntimeout_ms = 30001", "hook[0].timeout_ms: must be from 1 to 30000"),
        (
            "https://a\"",
            "https://a\"\non_error = \"retry\"",
            "hook[0].on_error: expected one of \"refuse\", \"ignore\"",
        ),
    ] {
        let found = hook(&good.replacen(from, to, 1));
        assert!(found.contains(expected), "{to}: {found}");
        assert!(!found.contains("canary"), "{found}");
    }
}

/// Each text is refused with exactly these lines.
#[test]
fn an_invalid_file_is_refused_with_its_position() {
    for (text, expected) in [
        (
            "[server]\nlisten = 5",
            "f.toml:2:10: server.listen: expected an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\", got a whole number",
        ),
        (
            "[server]\nlisten = \"localhost\"",
            "f.toml:2:10: server.listen: expected an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\"",
        ),
        (
            "[server]\nmax_body_bytes = -1",
            "f.toml:2:18: server.max_body_bytes: expected a whole number of 0 to 9223372036854775807, got -1",
        ),
        (
            "[server]\njson_case = \"camle\"",
            "f.toml:2:13: server.json_case: expected one of \"camel\", \"snake\", got \"camle\"; did you mean \"camel\"?",
        ),
        (
            "[server]\npublic_url = \"example\"",
            "f.toml:2:14: server.public_url: expected a URL, such as \"https://example.com\"",
        ),
        (
            "[server]\ntrusted_proxies = [\"10.0.0.0/8\", \"x\", 4]",
            "f.toml:2:34: server.trusted_proxies[1]: expected a network or an address, such as \"10.0.0.0/8\" or \"::1\"\nf.toml:2:39: server.trusted_proxies[2]: expected a network or an address, such as \"10.0.0.0/8\" or \"::1\", got a whole number",
        ),
        ("[auth]\nenabled = \"yes\"", "f.toml:2:11: auth.enabled: expected true or false, got text"),
        (
            "[auth]\ndefault_roles = \"user\"",
            "f.toml:2:17: auth.default_roles: expected a list, such as [\"a\", \"b\"], got text",
        ),
        ("auth = 1", "f.toml:1:8: auth: expected a section, headed [auth], got a whole number"),
        (
            "[entity]\nname = \"posts\"",
            "f.toml:1:1: entity: expected a list of sections, each headed [[entity]], got a section",
        ),
        ("entity = [1]", "f.toml:1:11: entity[0]: expected a section, got a whole number"),
        (
            "[[entity]]\n[[entity.field]]\ntype = \"string\"",
            "f.toml:1:1: entity[0]: `name` is missing\nf.toml:2:1: entity[0].field[0]: `name` is missing",
        ),
        (
            "[roles]\neditor = [\"posts\"]",
            "f.toml:2:10: roles.editor: \"posts\" is not a scope: write resource:verb, such as posts:read, posts:* or *:read",
        ),
        ("[auth]\njwt_expiry_seconds = 99999999999999999999", "f.toml:2:22: this whole number is too large"),
    ] {
        assert_eq!(problems(read(text)), expected, "for:\n{text}");
    }
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one_at_every_depth() {
    for (text, expected) in [
        ("[sever]", "f.toml:1:2: unknown key `sever`; did you mean `server`?"),
        ("zebra = 1", "f.toml:1:1: unknown key `zebra`"),
        ("[[entities]]\nname = \"a\"", "f.toml:1:3: unknown key `entities`; did you mean `entity`?"),
        (
            "[auth]\nsession_ttl = 60",
            "f.toml:2:1: unknown key `auth.session_ttl`; did you mean `auth.session_ttl_seconds`?",
        ),
        (
            "[[entity]]\nname = \"a\"\nsearch_fields = [\"zebra\"]",
            "f.toml:3:17: entity[0].search_fields: there is no field \"zebra\" (entity \"a\")",
        ),
        (
            "[[entity]]\nname = \"a\"\n[entity.search]\nfields = { zebra = 1 }",
            "f.toml:3:1: entity[0].search: there is no field \"zebra\" (entity \"a\")",
        ),
        ("[server]\ndev_mod = true", "f.toml:2:1: unknown key `server.dev_mod`; did you mean `server.dev_mode`?"),
        (
            "[auth.limits.login]\nmax_attempt = 1",
            "f.toml:2:1: unknown key `auth.limits.login.max_attempt`; did you mean `auth.limits.login.max_attempts`?",
        ),
        (
            "[auth.limits.logins]\nmax_attempts = 1",
            "f.toml:1:14: unknown key `auth.limits.logins`; did you mean `auth.limits.login`?",
        ),
        (
            "[[entity]]\nname = \"a\"\n[[entity]]\nname = \"b\"\nowner = \"x\"\ntabel = \"c\"",
            "f.toml:5:1: unknown key `entity[1].owner`; did you mean `entity[1].owner_field`? (entity \"b\")\nf.toml:6:1: unknown key `entity[1].tabel`; did you mean `entity[1].table`? (entity \"b\")",
        ),
        (
            "[[entity]]\nname = \"a\"\naccess = { raed = \"public\" }",
            "f.toml:3:12: unknown key `entity[0].access.raed`; did you mean `entity[0].access.read`? (entity \"a\")",
        ),
        (
            "[[entity]]\nname = \"a\"\n[[entity.field]]\nname = \"b\"\ntype = \"int\"\nrequird = true",
            "f.toml:6:1: unknown key `entity[0].field[0].requird`; did you mean `entity[0].field[0].required`? (entity \"a\", field \"b\")",
        ),
    ] {
        assert_eq!(problems(read(text)), expected, "for:\n{text}");
    }
}

#[test]
fn all_errors_are_reported_together_in_the_order_of_the_file() {
    let text = "[server]\nlisten = 1\nx = 2\n[auth]\njwt_secret = \"short\"\nbcrypt_cost = 99\n[events]\nheartbeat_seconds = 0\n";
    let found = problems(read_for_production(text));
    let lines: Vec<&str> = found.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(lines, ["f.toml:2:10", "f.toml:3:1", "f.toml:5:14", "f.toml:6:15", "f.toml:8:21"], "{found}");
}

#[test]
fn a_value_out_of_its_range_is_refused() {
    for (text, expected) in [
        ("[server]\nrequest_timeout_seconds = 0", "f.toml:2:27: server.request_timeout_seconds: must be at least 1"),
        (
            "[server]\napi_prefix = \"api\"",
            "f.toml:2:14: server.api_prefix: must be empty or a path such as \"/api\": starting with a slash, not ending with one",
        ),
        ("[server]\napi_prefix = \"/mcp\"", "f.toml:2:14: server.api_prefix: /mcp is one of the server's own paths"),
        (
            "[server]\napi_prefix = \"/auth/api\"",
            "f.toml: auth.base_path: /auth and the entities' prefix /auth/api must not contain each other",
        ),
        (
            "[server]\npublic_url = \"https://u:p@example.com\"",
            "f.toml:2:14: server.public_url: must not contain a user name or a password: it is public",
        ),
        (
            "[server]\npublic_url = \"https://example.com/app\"",
            "f.toml:2:14: server.public_url: must be only an origin, such as \"https://example.com\", without path or query: paths are appended to it",
        ),
        (
            "[server]\npublic_url = \"ftp://example.com\"",
            "f.toml:2:14: server.public_url: must be an http:// or https:// URL with a host",
        ),
        (
            "[database]\ndirect_url = \"postgres://canary@h/d\"",
            "f.toml:2:14: database.direct_url: is only for a `database.url` that is a pooler before Postgres",
        ),
        (
            "[database]\nurl = \"postgres://h/d\"\ndirect_url = \"sqlite://canary.db\"",
            "f.toml:3:14: database.direct_url: must start with postgres://",
        ),
        (
            "[database]\nurl = \"mysql://canary@h/d\"",
            "f.toml:2:7: database.url: must start with sqlite:// or postgres://",
        ),
        (
            "[auth.oauth.google]\nclient_id = \"c\"\nclient_secret = \"s\"\nredirect_url = \"https://u:p@example.com/\"",
            "f.toml:4:16: auth.oauth.google.redirect_url: must be https, or http to localhost or 127.0.0.1, without user information and fragment",
        ),
        (
            "[auth.oauth.google]\nclient_id = \"c\"\nclient_secret = \"s\"\ntoken_url = \"http://example.com/token\"",
            "f.toml:4:13: auth.oauth.google.token_url: must be https, or http to localhost or 127.0.0.1, without user information and fragment",
        ),
        (
            "[auth.oauth.google]\nclient_id = \"c\"\nclient_secret = \"s\"\nuserinfo_url = \"https://example.com/#x\"",
            "f.toml:4:16: auth.oauth.google.userinfo_url: must be https, or http to localhost or 127.0.0.1, without user information and fragment",
        ),
        (
            "[[auth.oauth.oidc]]\nname = \"A/b\"\nissuer = \"https://example.com/?x\"\nclient_id = \"c\"\nclient_secret = \"\"\nscopes = []",
            "f.toml:2:8: auth.oauth.oidc[0].name: must be 1 to 48 lower-case letters, digits, `-` or `_`: it is part of paths (provider \"A/b\")\n\
             f.toml:3:10: auth.oauth.oidc[0].issuer: must be an https:// URL without a query; http:// is allowed only for localhost and 127.0.0.1 (provider \"A/b\")\n\
             f.toml:5:17: auth.oauth.oidc[0].client_secret: must not be empty (provider \"A/b\")\n\
             f.toml:6:10: auth.oauth.oidc[0].scopes: must contain \"openid\" (provider \"A/b\")",
        ),
        (
            "[auth]\nbase_path = \"/auth/\"",
            "f.toml:2:13: auth.base_path: must be a path such as \"/auth\": starting with a slash, not ending with one, of letters, digits, `-` and `_`",
        ),
        (
            "[auth]\nbase_path = \"\"\n[server]\napi_prefix = \"/api\"",
            "f.toml:2:13: auth.base_path: must be a path such as \"/auth\": starting with a slash, not ending with one, of letters, digits, `-` and `_`",
        ),
        ("[auth]\nbcrypt_cost = 3", "f.toml:2:15: auth.bcrypt_cost: must be 4 to 31, is 3"),
        (
            "[auth.two_factor]\nissuer = \"My: app\"",
            "f.toml:2:10: auth.two_factor.issuer: must have 1 to 64 characters and no colon, which ends the name in authenticator apps",
        ),
        (
            "[browser_backend]\nallowed_origins = [\"https://app.example.com\", \"https://*.example.com\"]",
            "f.toml:2:47: browser_backend.allowed_origins[1]: \"https://*.example.com\" cannot be an allowed origin: wildcards are not accepted, so list every origin by its name",
        ),
        (
            "[server]\npublic_url = \"http://api.example.com\"\n[browser_backend]\nallowed_origins = [\"https://app.example.com\"]",
            "f.toml:2:14: server.public_url: must be https (or a loopback host) when [browser_backend] is on: its cookies need HTTPS",
        ),
        (
            "[server]\nlisten = \"10.0.0.5:80\"\nallow_public_dev_mode = true\n[browser_backend]\nallowed_origins = []",
            "f.toml:1:1: server.public_url: must be set, and https, when [browser_backend] is on and the server listens on an address of the network",
        ),
        (
            "[csrf]\nprevious_secrets = [\"old\"]",
            "f.toml:2:20: csrf.previous_secrets: only verifies existing tokens: `csrf.secret` is required to sign new ones",
        ),
        ("[auth]\nsession_ttl_seconds = 0", "f.toml:2:23: auth.session_ttl_seconds: must be at least 1"),
        (
            "[auth]\nbase_path = \"/posts\"\n[[entity]]\nname = \"posts\"\n[[entity.field]]\nname = \"title\"\ntype = \"string\"",
            "f.toml:4:8: entity[0].name: its path /posts contains `auth.base_path` (/posts) (entity \"posts\")",
        ),
        ("[tenancy]\nheader = \"a b\"", "f.toml:2:10: tenancy.header: must be the name of an HTTP header"),
    ] {
        let found = problems(read(text)).replace("f.toml:1:1: auth", "f.toml: auth");
        assert_eq!(found, expected, "for:\n{text}");
    }
}

#[test]
fn unusable_addresses_of_other_servers_are_refused_without_their_password() {
    for (text, expected) in [
        (
            "[rate_limit]\nstore = \"redis\"",
            "f.toml:2:9: rate_limit.store: needs `rate_limit.redis_url`, the address of its server",
        ),
        (
            "[rate_limit]\nredis_url = \"redis://h\"",
            "f.toml:2:13: rate_limit.redis_url: is for `rate_limit.store = \"redis\"`",
        ),
        (
            "[rate_limit]\nstore = \"redis\"\nredis_url = \"redis://:canary@h/x\"",
            "f.toml:3:13: rate_limit.redis_url: not a Redis URL, which reads redis://[user:password@]host[:port][/database], or rediss:// for TLS: ",
        ),
        ("[rate_limit.api]\nburst = 0", "f.toml:2:9: rate_limit.api.burst: must be at least 1"),
        (
            "[rate_limit.api]\nkey = \"tokn\"",
            "f.toml:2:7: rate_limit.api.key: expected one of \"user\", \"token\", \"address\", got \"tokn\"; did you mean \"token\"?",
        ),
        (
            "[rate_limit.api]\nper_second = 1e9",
            "f.toml:1:1: rate_limit.api: a rate needs between 0.000001 and 1000000 requests per second and a burst between 1 and 1000000",
        ),
        (
            "[events]\nfanout = \"postgres\"",
            "f.toml:2:10: events.fanout: needs Postgres, and `database.url` is SQLite: one server needs no `fanout`; for \
             several, set `database.url` to a Postgres database",
        ),
        (
            "[events]\nfanout = \"redis\"",
            "f.toml:2:10: events.fanout: needs `events.fanout_url`, the address of its server",
        ),
        (
            "[events]\nfanout_url = \"redis://h\"",
            "f.toml:2:14: events.fanout_url: is for `events.fanout`, which is not set",
        ),
        (
            "[events]\nfanout = \"redis\"\nfanout_url = \"http://:canary@h\"",
            "f.toml:3:14: events.fanout_url: not a Redis URL, which reads redis://[user:password@]host[:port][/database], or rediss:// for TLS: ",
        ),
        (
            "[events]\nfanout = \"nats\"\nfanout_url = \"nats://:canary@h?channel=a.b\"",
            "f.toml:3:14: events.fanout_url: a channel's name is 1 to 63 letters, digits, `_` and `-`",
        ),
        (
            "[events]\nfanout = \"postgres\"\nfanout_url = \"sqlite://canary\"",
            "f.toml:3:14: events.fanout_url: must start with postgres://",
        ),
    ] {
        assert_one_problem(text, expected);
    }
}

#[test]
fn a_consumer_that_pulls_has_a_name_for_scopes_and_no_address() {
    let outbox = |consumer: &str| format!("[outbox]\nenabled = true\n[[outbox.consumer]]\nevent = \"a\"\n{consumer}");
    assert_eq!(problems(read(&outbox("pull = true\nname = \"crm-1\""))), "");
    for (text, expected) in [
        ("pull = true\nname = \"Crm\"", "outbox.consumer[0].name: must be 1 to 100 of a-z, 0-9, `_` and `-`"),
        ("pull = true\nname = \"read\"", "outbox.consumer[0].name: is a verb of every entity's scopes"),
        ("pull = true\nname = \"crm\"\nurl = \"https://a\"", "unknown key `outbox.consumer[0].url`"),
        ("pull = true\nname = \"crm\"\nsecret = \"canary\"", "unknown key `outbox.consumer[0].secret`"),
        ("pull = false\nname = \"crm\"\nurl = \"https://a\"", "outbox.consumer[0]: `secret` is missing"),
        ("pull = true\nname = \"crm\"\n[auth]\nplugins = [\"core\"]", "outbox.consumer[0].pull: needs `auth.enabled"),
        (
            "pull = true\nname = \"crm\"\n[[entity]]\nname = \"consumers\"\n[[entity.field]]\nname = \"a\"\ntype = \"int\"",
            "entity[0].name: its path /consumers is where consumers",
        ),
    ] {
        let found = problems(read(&outbox(text)));
        assert!(found.contains(expected) && !found.contains("canary"), "for:\n{text}\nfound:\n{found}");
    }
}

#[test]
fn features_with_account_tables_need_accounts() {
    let found = problems(read("[audit]\nentities = true\n[auth]\nenabled = false"));
    assert!(found.starts_with("f.toml:2:12: audit.entities: needs `auth.enabled`"), "{found}");
    assert_eq!(problems(read("[audit]\nentities = true")), "");
}

#[test]
fn disabled_sections_cause_no_problems() {
    for harmless in
        ["[mcp]\nenabled = false", "[csrf]\nenabled = false", "[outbox]\nenabled = false", "[events]\nfanout = \"\""]
    {
        assert_eq!(problems(read(harmless)), "", "for:\n{harmless}");
    }
}

/// The declarations' own checks, with the line they are about.
#[test]
fn a_wrong_declaration_is_refused_at_its_line() {
    const PROFILE: &str = "[[auth.profile.field]]\nname = \"b\"\n";
    const FIELD: &str = "[[entity]]\nname = \"a\"\n[[entity.field]]\nname = \"b\"\n";
    for (text, place, words) in [
        ("[[entity]]\nname = \"Posts\"".to_owned(), "f.toml:2:8: entity[0].name: ", "Posts"),
        ("[[entity]]\nname = \"auth\"".to_owned(), "f.toml:2:8: entity[0].name: ", "auth"),
        ("[[entity]]\nname = \"a\"\n[[entity]]\nname = \"a\"".to_owned(), "f.toml:4:8: entity[1].name: ", "already"),
        (
            "[[entity]]\nname = \"a\"\npublic = true\nowner_field = \"o\"".to_owned(),
            "f.toml:3:10: entity[0].public: ",
            "owner_field",
        ),
        (
            "[[entity]]\nname = \"a\"\naccess = { read = \"posts\" }".to_owned(),
            "f.toml:3:10: entity[0].access: ",
            "posts",
        ),
        (format!("{FIELD}type = \"strin\""), "f.toml:5:8: entity[0].field[0].type: ", "did you mean \"string\"?"),
        (format!("{FIELD}type = \"int\"\ndefault = \"x\""), "f.toml:6:11: entity[0].field[0].default: ", "default"),
        (format!("{FIELD}type = \"int\"\nmin = 5\nmax = 3"), "f.toml:6:7: entity[0].field[0].min: ", "3"),
        (
            format!("{FIELD}type = \"relation\"\nto = \"as\""),
            "f.toml:6:6: entity[0].field[0].to: ",
            "did you mean \"a\"?",
        ),
        (
            format!("{FIELD}type = \"relation\"\nto = \"a\"\non_delete = \"drop\""),
            "f.toml:7:13: entity[0].field[0].on_delete: ",
            "cascade",
        ),
        (format!("{FIELD}type = \"list\""), "f.toml:3:1: entity[0].field[0].of: ", "a list needs of"),
        (format!("{FIELD}type = \"list\"\nof = \"strin\""), "f.toml:6:6: entity[0].field[0].of: ", "\"string\"?"),
        (format!("{FIELD}type = \"list\"\nof = \"bool\""), "f.toml:6:6: entity[0].field[0].of: ", "cannot be bool"),
        (
            format!("{FIELD}type = \"list\"\nof = \"int\"\nmax_items = 0"),
            "f.toml:7:13: entity[0].field[0].max_items: ",
            "1 to 10000",
        ),
        (
            format!("{FIELD}type = \"list\"\nof = \"int\"\ndefault = [1, \"x\"]"),
            "f.toml:7:11: entity[0].field[0].default: ",
            "a whole number",
        ),
        (
            format!("{FIELD}type = \"string\"\nunique_items = true"),
            "f.toml:6:16: entity[0].field[0].unique_items: ",
            "no meaning",
        ),
        (format!("{FIELD}type = \"enum\""), "f.toml:3:1: entity[0].field[0].values: ", "values"),
        (format!("{PROFILE}type = \"relation\"\nto = \"users\""), "f.toml:3:8: auth.profile.field[0].type: ", "\"b\""),
        (
            format!("{PROFILE}type = \"json\"\nrequired = true"),
            "f.toml:4:12: auth.profile.field[0].required: ",
            "no page can ask for it",
        ),
        (format!("{PROFILE}type = \"int\"\nunique = true"), "f.toml:4:10: auth.profile.field[0].unique: ", "unique"),
        (format!("{PROFILE}type = \"int\"\nmin = 5\nmax = 3"), "f.toml:4:7: auth.profile.field[0].min: ", "3"),
        (
            format!("{PROFILE}type = \"int\"\npublc = true"),
            "f.toml:4:1: unknown key `auth.profile.field[0].publc`",
            "public",
        ),
    ] {
        let found = problems(read(&text));
        assert_eq!(found.lines().count(), 1, "for:\n{text}\nfound:\n{found}");
        assert!(found.starts_with(place) && found.contains(words), "for:\n{text}\nfound:\n{found}");
    }
}

#[test]
fn the_check_finds_what_the_start_would_refuse() {
    for (text, expected) in [
        (
            "[auth]\nplugins = [\"core\", \"tokens\", \"core\"]",
            "f.toml:2:30: auth.plugins[2]: \"core\" is named twice; name it once",
        ),
        (
            "[database]\nurl = \"postgres://ada:7/canary@h/d\"",
            "f.toml:2:7: database.url: the database URL is not usable: its password seems to end early; percent-encode",
        ),
        (
            "[database]\nurl = \"sqlite://a.db?mode=ro\"",
            "f.toml:2:7: database.url: the database URL is not usable: a SQLite",
        ),
        (
            "[outbox]\nenabled = true\n[[outbox.consumer]]\nname = \"crm\"\nevent = \"entity.created\"\nurl = \"https://h/\"\n\
             secret = \"whsec_AAAAAAAAAAAAAAAAAAAAAA\"\nentities = [\"psots\"]\n[[entity]]\nname = \"posts\"",
            "f.toml:8:13: outbox.consumer[0].entities[0]: there is no entity \"psots\"; did you mean \"posts\"? (consumer \"crm\")",
        ),
        (
            "[outbox]\nenabled = true\n[[outbox.consumer]]\nname = \"crm\"\nevent = \"entity.created\"\nurl = \"https://h/\"\n\
             secret = \"whsec_AAAA\"",
            "f.toml:7:10: outbox.consumer[0].secret: a webhook's secret is whsec_ and at least 16 random bytes in base64",
        ),
    ] {
        assert_one_problem(text, expected);
    }
}

#[test]
fn a_configuration_built_in_code_obeys_the_same_rules() {
    let mut config = gatewright::Config::default();
    config.auth.password = PasswordAlgorithm::Bcrypt { cost: 99 };
    config.outbox.max_attempts = 0;
    let keys: Vec<String> = config.check().unwrap_err().0.into_iter().map(|fault| fault.key).collect();
    assert_eq!(keys, ["auth.jwt_secret", "auth.bcrypt_cost", "outbox.max_attempts"]);
    config = gatewright::Config::default();
    config.auth.jwt_secret = gatewright_base::Secret::new(SECRET);
    assert!(config.check().is_ok());
}

/// An entity never gets a table of the service, whether the feature with the table is enabled or not.
#[tokio::test]
async fn no_entity_has_the_name_of_a_table_of_the_service() {
    let everything = "[outbox]\nenabled = true\n[authorization_server]\nenabled = true\n[rate_limit]\nstore = \"database\"\n\
                      [database]\nurl = \"sqlite://no-such-folder/app.db\"\n\
                      [email]\nsmtp_url = \"smtp://127.0.0.1\"\nfrom = \"a@example.com\"\n\
                      [[entity]]\nname = \"invoices\"\nmulti_tenant = true\n";
    let plan = gatewright::schema::plan(&read(everything).unwrap()).await.unwrap();
    let sql = plan.statements.join(";\n").replace("IF NOT EXISTS ", "");
    let made = sql.split("CREATE TABLE ").skip(1).filter_map(|rest| rest.split([' ', '(']).next());
    let tables: Vec<&str> = made.filter(|table| *table != "\"invoices\"").chain(["event_fanout"]).collect();
    assert!(tables.len() > 25, "{tables:?}");
    for table in tables {
        for entity in [format!("name = \"{table}\""), format!("name = \"posts\"\ntable = \"{table}\"")] {
            let refused = problems(read(&format!("[[entity]]\n{entity}\n")));
            assert!(refused.contains("is reserved for the service"), "{table}: {refused}");
        }
    }
}

/// A configuration has one problem, which starts with these words, and no message contains a secret.
#[track_caller]
fn assert_one_problem(text: &str, expected: &str) {
    let found = problems(read(text));
    // The driver's own text may follow.
    assert!(found.starts_with(expected) && found.lines().count() == 1, "for:\n{text}\nfound:\n{found}");
    assert!(!found.contains("canary"), "{found}");
}
