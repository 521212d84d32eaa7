//! Access as one table: identity × entity × operation × surface.
//!
//! [`table`] lists by hand what docs and contract promise for each identity on each kind of entity. [`people`] creates the
//! identities with real credentials, [`walk`] tries every operation on every surface of the whole server and holds each
//! answer, and the database afterwards, against the table. Nothing here uses the rules that are tested.

mod people;
mod table;
mod walk;

use gatewright_testing::TestApp;

use table::{ENTITIES, TABLE};
use walk::Walk;

#[tokio::test(flavor = "multi_thread")]
async fn every_identity_meets_the_same_rule_on_every_surface() {
    let config = table::configuration();
    let apps = TestApp::on_every_engine(&config).await;
    let walks = apps.into_iter().map(|app| tokio::spawn(async move { walk_all(&app).await }));
    for walk in walks.collect::<Vec<_>>() {
        walk.await.unwrap();
    }
}

async fn walk_all(app: &TestApp) {
    let people = people::people(app).await;
    let told: Vec<&str> = TABLE.iter().map(|(name, _)| *name).collect();
    let there: Vec<&str> = people.iter().map(|person| person.name).collect();
    assert_eq!(told, there, "each line of the table is somebody, and nobody is left out");
    let mut wrong = Vec::new();
    for (person, (_, cells)) in people.iter().zip(TABLE) {
        let cells: Vec<&str> = cells.split_whitespace().collect();
        assert_eq!(cells.len(), ENTITIES.len(), "{}", person.name);
        wrong.extend(Walk::new(app, person, &cells).run().await);
    }
    assert!(wrong.is_empty(), "{}, {} cells:\n{}", app.engine(), wrong.len(), wrong.join("\n"));
}
