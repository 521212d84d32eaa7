use gatewright_auth::session::NewSession;
use gatewright_base::UserId;

fn kept(user_id: UserId) -> NewSession {
    NewSession { user_id }
}

fn main() {}
