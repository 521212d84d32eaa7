use gatewright_auth::session::{PendingSession, Session};

async fn delete_everything(_session: Session) {}

async fn handler(pending: PendingSession) {
    delete_everything(pending).await;
    delete_everything(pending.into()).await;
}

fn main() {}
