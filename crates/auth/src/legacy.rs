use gatewright_db::legacy::Booleans;

/// The boolean columns in the tables of one component of authentication. An earlier program stored them as integers;
/// `gatewright_db::legacy` converts them. Empty for other components.
pub fn legacy_booleans(component: &str) -> &'static [Booleans] {
    match component {
        "users" => &[Booleans { table: "users", columns: &["password_set", "email_verified"] }],
        "sessions" => &[Booleans { table: "sessions", columns: &["pending_two_factor", "two_factor_verified"] }],
        "single_use" => &[Booleans { table: "single_use_tokens", columns: &["spent"] }],
        "two_factor" => &[Booleans { table: "two_factor", columns: &["enabled"] }],
        "tokens" => &[Booleans { table: "service_accounts", columns: &["disabled"] }],
        _ => &[],
    }
}
