//! Mistakes in the sections of providers.

use super::{APPLE_KEY, problems, read};

#[test]
fn a_wrong_registration_of_a_provider_says_what_belongs_there() {
    let apple = |team: &str, key: &str, pem: &str| {
        format!(
            "[auth.oauth.apple]\nclient_id = \"c\"\nteam_id = \"{team}\"\nkey_id = \"{key}\"\nprivate_key = {pem}\n"
        )
    };
    let microsoft = |tenant: &str| {
        format!("[auth.oauth.microsoft]\nclient_id = \"c\"\nclient_secret = \"s\"\ntenant = \"{tenant}\"\n")
    };
    let secret = "client_id = \"c\"\nclient_secret = \"s\"\n";
    let service = |name: &str, more: &str| {
        format!(
            "[[auth.oauth.oauth2]]\nname = \"{name}\"\n{secret}authorize_url = \"https://a.example/a\"\n\
             token_url = \"https://a.example/t\"\nuserinfo_url = \"https://a.example/u\"\n{more}"
        )
    };
    let oidc = |name: &str| format!("[[auth.oauth.oidc]]\nname = \"{name}\"\nissuer = \"https://i.example\"\n{secret}");
    let public = APPLE_KEY.replace("PRIVATE", "PUBLIC");
    for (text, expected) in [
        (apple("ABCDE12345", "ABCDE12345", APPLE_KEY), &[][..]),
        (
            "[auth.oauth.apple]\nclient_id = \"c\"\nteam_id = \"ABCDE12345\"\nkey_id = \"ABCDE12345\"\n".to_owned(),
            &["`private_key` is missing"],
        ),
        (
            apple("ABCDE12345", "ABCDE12345", "\"canary\""),
            &["f.toml:5:15: auth.oauth.apple.private_key: must be a private key"],
        ),
        (
            apple("ABCDE12345", "ABCDE12345", &public),
            &["auth.oauth.apple.private_key: must be a private key on the curve P-256"],
        ),
        (
            apple("team", "", APPLE_KEY),
            &["f.toml:3:11: auth.oauth.apple.team_id: must be ten", "auth.oauth.apple.key_id: must be ten"],
        ),
        (
            format!("{}client_secret = \"canary\"\n", apple("ABCDE12345", "ABCDE12345", APPLE_KEY)),
            &["unknown key `auth.oauth.apple.client_secret`"],
        ),
        (microsoft("common"), &[]),
        (microsoft("8eaef023-2b34-4da1-9baa-8bc8c9d6a490"), &[]),
        (
            microsoft("everyone"),
            &["f.toml:4:10: auth.oauth.microsoft.tenant: must be \"common\", \"organizations\", \"consumers\""],
        ),
        (microsoft("contoso.com"), &["auth.oauth.microsoft.tenant: must be"]),
        (
            format!("[auth.oauth.gitlab]\n{secret}scopes = [\"email\"]\n"),
            &["auth.oauth.gitlab.scopes: must contain \"openid\""],
        ),
        (
            format!("[auth.oauth.gitlab]\n{secret}issuer = \"gitlab.example\"\n"),
            &["auth.oauth.gitlab.issuer: must be an https://"],
        ),
        (
            format!("[auth.oauth.linkedin]\n{secret}send_pkce = true\n"),
            &["unknown key `auth.oauth.linkedin.send_pkce`"],
        ),
        (
            "[auth.oauth.discord]\nclient_id = \"\"\nclient_secret = \"\"\n".to_owned(),
            &["auth.oauth.discord.client_id: must not be empty", "auth.oauth.discord.client_secret: must not be empty"],
        ),
        (service("strava", ""), &[]),
        (service("Strava", ""), &["auth.oauth.oauth2[0].name: must be 1 to 48 lower-case letters"]),
        (service("strava", "token_auth = \"jwt\"\n"), &["auth.oauth.oauth2[0].token_auth: expected"]),
        (
            service("strava", "issuer = \"\"\nclaims = { subject = \"\", email_verified = \"\" }\n"),
            &[
                "oauth2[0].issuer: must not be empty",
                "claims.subject: must not be empty",
                "claims.email_verified: must not be empty",
            ],
        ),
        // Names are keys of stored links, so each is one provider's.
        (service("github", ""), &["auth.oauth.oauth2[0].name: the name \"github\" is taken by another provider"]),
        (format!("{}{}", oidc("one"), service("one", "")), &["auth.oauth.oauth2[0].name: the name \"one\" is taken"]),
        (
            format!("{}{}", microsoft("common"), oidc("microsoft")),
            &["auth.oauth.oidc[0].name: the name \"microsoft\" is taken"],
        ),
        (
            format!("{}{}", microsoft("common"), service("microsoft", "")),
            &["auth.oauth.oauth2[0].name: the name \"microsoft\" is taken"],
        ),
        // The name of a preset is free as long as the preset is not used.
        (oidc("microsoft"), &[]),
    ] {
        let found = problems(read(&text));
        assert_eq!(found.is_empty(), expected.is_empty(), "{text}\n{found}");
        for expected in expected {
            assert!(found.contains(expected), "{expected}\n{found}");
        }
        assert!(!found.contains("canary"), "{found}");
    }
}

#[test]
fn no_secret_of_a_provider_is_shown_with_the_configuration() {
    let text = format!(
        "[auth.oauth.apple]\nclient_id = \"c\"\nteam_id = \"ABCDE12345\"\nkey_id = \"ABCDE12345\"\nprivate_key = {APPLE_KEY}\n\
         [auth.oauth.discord]\nclient_id = \"c\"\nclient_secret = \"canary-discord\"\n\
         [auth.oauth.microsoft]\nclient_id = \"c\"\nclient_secret = \"canary-microsoft\"\n\
         [[auth.oauth.oauth2]]\nname = \"a\"\nclient_id = \"c\"\nclient_secret = \"canary-oauth2\"\n\
         authorize_url = \"https://a.example\"\ntoken_url = \"https://a.example\"\nuserinfo_url = \"https://a.example\"\n"
    );
    let shown = format!("{:?}", read(&text).unwrap());
    let key = APPLE_KEY.split("\\n").nth(1).unwrap();
    for secret in ["canary-", key] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(shown.contains("ABCDE12345"), "{shown}");
}
