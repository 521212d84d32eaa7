//! Entities as a library: declared in Rust, and written and read as a given identity, without HTTP. The permissions are
//! the same as for the endpoints.
//!
//! ```console
//! $ cargo run -p gatewright --example records
//! ```

use std::error::Error;
use std::sync::Arc;

use gatewright::base::{Ambient, Credential, Identity, Principal, Roles, Subject, UserId};
use gatewright::db::{Db, Options};
use gatewright::entities::operations::Error as OperationError;
use gatewright::entities::{Call, Entities, Entity, Field, ListQuery, Users};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let db = Db::open("sqlite://records.db", Options::default()).await?;
    let tasks = Entity::new("tasks")
        .owner("user_id")
        .field(Field::string("title").required().max(200))
        .field(Field::choice("status", ["open", "done"]).default("open"));
    let entities = Entities::builder(db, Ambient::system()).users(Users::Elsewhere).declare(tasks).build().await?;

    let (ann, ben) = (Call::from(person("ann")?), Call::from(person("ben")?));
    let tasks = entities.table("tasks")?;
    let task = tasks.create(&ann, json!({ "title": "Water the plants" })).await?;
    tasks.update(&ann, task.id(), json!({ "status": "done" }), None).await?;

    let done = ListQuery::new().condition("status", "done").sort("-created_at").limit(10);
    for task in tasks.list(&ann, &done).await?.records::<Value>()? {
        println!("done: {}", task["title"]);
    }
    // Records have owners. For every other caller, this one is not found.
    let refused = tasks.get(&ben, task.id()).await;
    assert!(matches!(refused, Err(OperationError::NotFound)));
    Ok(())
}

/// A caller without sign-in: the program itself sets the identity.
fn person(id: &str) -> Result<Identity, Box<dyn Error>> {
    let subject = Subject::User(UserId::parse(id)?);
    let credential = Credential::Jwt { expires_at: jiff::Timestamp::MAX };
    Ok(Identity::Known(Arc::new(Principal { subject, email: None, roles: Roles::default(), credential })))
}
