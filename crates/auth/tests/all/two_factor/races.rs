//! Twenty parallel requests, on two replicas with one database: one succeeds.

use std::time::Duration;

use futures_util::future::join_all;
use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_db::testing::TestDb;
use gatewright_db::{Db, Options};
use gatewright_limits::Policy;
use serde_json::json;

use super::{begin, enroll_ann, send};
use crate::support::{Answer, Call, PASSWORD, Site, config, databases};

fn loose() -> AuthConfig {
    let mut config = config();
    let policy = Policy::new(10_000, Duration::from_mins(15), Duration::from_mins(30));
    let limits = &mut config.limits;
    for limit in [&mut limits.login, &mut limits.login_account, &mut limits.two_factor, &mut limits.two_factor_account]
    {
        limit.policy = policy;
    }
    config
}

/// Two replicas, each with connections of its own, and Ann.
async fn replicas(db: &TestDb) -> [Site; 2] {
    let one = super::with(db, loose()).await;
    let own = Db::open(&db.url, Options::default()).await.unwrap();
    let two = Site::with(loose(), |builder| builder.database(own).plugin(TwoFactorPlugin::new("Blog"))).await;
    one.register_ann().await;
    [one, two]
}

/// Sends the same code in each of the sessions at once, by turns to the replicas.
async fn all_at_once(sites: &[Site; 2], endpoint: &str, sessions: &[Answer], code: &str) -> Vec<Answer> {
    let sent = sessions.iter().enumerate().map(|(n, session)| send(&sites[n % 2], endpoint, session, code));
    join_all(sent).await
}

async fn sign_in_twenty_times(site: &Site) -> Vec<Answer> {
    join_all((0..20).map(|_| site.login_ann())).await
}

#[track_caller]
fn winner<'a>(answers: &'a [Answer], what: &str) -> &'a Answer {
    let won: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
    assert_eq!(won.len(), 1, "{what}: {:?}", answers.iter().map(|answer| answer.status).collect::<Vec<_>>());
    assert!(answers.iter().all(|answer| answer.status == 200 || answer.status == 401), "{what}");
    won[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_accepted_in_one_of_twenty_sessions() {
    for db in databases().await {
        let sites = replicas(&db).await;
        let ann = enroll_ann(&sites[0]).await;
        sites[1].clock.set(sites[0].ambient.now());
        for code in [ann.app.code(&sites[0]), ann.codes[0].clone()] {
            let pending = sign_in_twenty_times(&sites[0]).await;
            let answers = all_at_once(&sites, "challenge", &pending, &code).await;
            let passed = winner(&answers, db.name);
            sites[1].me(passed).await.expect(200);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_accepted_once_in_one_session() {
    for db in databases().await {
        let sites = replicas(&db).await;
        let ann = enroll_ann(&sites[0]).await;
        sites[1].clock.set(sites[0].ambient.now());
        for code in [ann.app.code(&sites[0]), ann.codes[0].clone()] {
            let pending = vec![sites[0].login_ann().await; 20];
            let answers = all_at_once(&sites, "challenge", &pending, &code).await;
            sites[0].me(winner(&answers, db.name)).await.expect(200);
        }
        // Ten codes at once in one session: one of them makes the session, whatever becomes of the others.
        let pending = sites[0].login_ann().await;
        let answers = join_all(ann.codes[1..].iter().map(|code| send(&sites[1], "challenge", &pending, code))).await;
        sites[0].me(winner(&answers, db.name)).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enrollment_is_confirmed_once() {
    for db in databases().await {
        let sites = replicas(&db).await;
        sites[1].clock.set(sites[0].ambient.now());
        let sessions = vec![sites[0].login_ann().await; 20];
        let app = begin(&sites[0], &sessions[0]).await;
        let answers = all_at_once(&sites, "verify", &sessions, &app.code(&sites[0])).await;
        let won: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
        assert_eq!(won.len(), 1, "{}", db.name);
        // The others are too late: for the code, for an enrollment, or before the session counts as verified.
        assert!(answers.iter().all(|answer| [200, 401, 403, 409].contains(&answer.status.as_u16())), "{}", db.name);
        let verified = "SELECT id FROM sessions WHERE two_factor_verified = ?1";
        assert_eq!(db.db.query(verified, vec![true.into()]).await.unwrap().len(), 1, "{}", db.name);
        let codes = db.db.query("SELECT user_id FROM two_factor_backup_codes", vec![]).await.unwrap();
        assert_eq!(codes.len(), 10);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_code_draws_one_of_twenty_parallel_code_sets() {
    for db in databases().await {
        let sites = replicas(&db).await;
        let ann = enroll_ann(&sites[0]).await;
        sites[0].advance(300);
        sites[1].clock.set(sites[0].ambient.now());
        // A backup code is one of the set that is replaced, so it comes first.
        for code in [ann.codes[0].clone(), ann.app.code(&sites[0])] {
            let proof = json!({ "password": PASSWORD, "code": code });
            let drawn = (0..20).map(|n| {
                let call = Call::post("/auth/2fa/backup-codes").json(&proof).cookie_of(&ann.session);
                call.send(&sites[n % 2])
            });
            winner(&join_all(drawn).await, db.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_parallel_code_sets_remains() {
    for db in databases().await {
        let sites = replicas(&db).await;
        let ann = enroll_ann(&sites[0]).await;
        sites[1].clock.set(sites[0].ambient.now());
        let drawn = (0..20).map(|n| {
            let call = Call::post("/auth/2fa/backup-codes").cookie_of(&ann.session);
            call.send(&sites[n % 2])
        });
        for answer in join_all(drawn).await {
            answer.expect(200);
        }
        let codes = db.db.query("SELECT user_id FROM two_factor_backup_codes", vec![]).await.unwrap();
        assert_eq!(codes.len(), 10, "{}", db.name);
    }
}
