use gatewright_auth::session::Session;

fn upgraded(session: Session) -> Session {
    Session { two_factor_verified: true, ..session }
}

fn main() {}
