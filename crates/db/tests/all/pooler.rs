//! A real `PgBouncer` in transaction mode.

use gatewright_base::Secret;
use gatewright_db::testing::{REQUIRED, engines};
use gatewright_db::{Db, OpenError, Options};
use gatewright_servers::{PrivateBouncer, find_program};

#[tokio::test]
async fn a_pooler_in_transaction_mode_is_refused_without_a_direct_url() {
    let Some(engine) = engines().await.into_iter().find(|engine| engine.name == "postgres") else { return };
    if find_program("pgbouncer").is_none() {
        assert!(std::env::var(REQUIRED).is_err(), "`pgbouncer` is missing; run `cargo xtask test`");
        return;
    }
    let name = url::Url::parse(&engine.url).unwrap().path().trim_start_matches('/').to_owned();
    for connections in [1, 6] {
        let bouncer = PrivateBouncer::start(&engine.url, connections).unwrap();
        let pooled = bouncer.database_url(&name);
        let options = Options { direct_url: Some(Secret::new(engine.url.clone())), ..Options::default() };
        // Any number of existing pooler connections does not hide it.
        for _ in 0..2 {
            let refused = Db::open(&pooled, Options::default()).await;
            let Err(OpenError::Unreachable { reason, .. }) = refused else { panic!("{connections}: {refused:?}") };
            assert!(reason.contains("database.direct_url"), "{reason}");
            let db = Db::open(&pooled, options.clone()).await.unwrap();
            let several = (0..4).map(|_| db.query("SELECT pg_sleep(0.05)", vec![]));
            futures_util::future::try_join_all(several).await.unwrap();
            assert_eq!(crate::compiled::compiled(&db).await, ["off"; 3]);
        }
    }
    engine.db.ping().await.unwrap();
}
