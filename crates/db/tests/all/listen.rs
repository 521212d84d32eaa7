use std::time::Duration;

use gatewright_db::testing::engines;
use gatewright_db::{Engine, Error, dialect, params};

#[tokio::test]
async fn a_listener_receives_only_its_channel_in_order() {
    for engine in engines().await {
        let listener = engine.db.listen("a \"quoted\" channel").await.unwrap();
        assert_eq!(listener.is_some(), engine.db.engine() == Engine::Postgres);
        let Some(mut listener) = listener else { continue };
        dialect::notify(&engine.db, "another", "not for us").await.unwrap();
        for payload in ["first", "second"] {
            dialect::notify(&engine.db, "a \"quoted\" channel", payload).await.unwrap();
        }
        assert_eq!(listener.next().await.unwrap(), "first");
        assert_eq!(listener.next().await.unwrap(), "second");
    }
}

#[tokio::test]
async fn a_listener_reports_a_lost_connection() {
    for engine in engines().await {
        let Some(mut listener) = engine.db.listen("channel").await.unwrap() else { continue };
        let end = "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity
                   WHERE query = 'LISTEN \"channel\"' AND datname = current_database()";
        assert_eq!(engine.db.query(end, params![]).await.unwrap().len(), 1);
        let ended = tokio::time::timeout(Duration::from_mins(1), listener.next()).await.unwrap();
        assert!(matches!(ended, Err(Error::ConnectionLost(_))), "{ended:?}");
    }
}
