use gatewright_auth::password::PasswordHash;
use gatewright_auth::session::SessionSecret;
use gatewright_base::Secret;

fn show(secret: Secret, hash: PasswordHash, cookie: SessionSecret) {
    println!("{secret}");
    println!("{hash}");
    println!("{cookie}");
}

fn write(secret: Secret, hash: PasswordHash, cookie: SessionSecret) {
    let _ = serde_json::to_string(&secret);
    let _ = serde_json::to_string(&hash);
    let _ = serde_json::to_string(&cookie);
}

fn main() {}
