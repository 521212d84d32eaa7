//! Generated filters of streams under a generated rule: each event goes to the callers that the evaluator names.

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Ambient, Identity};
use gatewright_entities::{Action, Entities};
use gatewright_events::{Bus, StreamOptions, Streams};
use http::{Method, StatusCode};
use serde_json::json;

use super::evaluator::World2;
use super::{Data, Dice, Path, Row, Rule, encoded, entities, fill, read, rule, scale, tasks, text};
use crate::all::support::{Stream, World, user_with, worlds};

/// A stream, its caller and the events that the evaluator expects.
struct Listener {
    me: Option<&'static str>,
    roles: &'static [&'static str],
    filter: Rule,
    stream: Stream,
    wanted: Vec<String>,
}

/// Whether the rule names `n` of the record itself.
fn names_n(rule: &Rule) -> bool {
    let is_n = |path: &Path| path.steps.is_empty() && path.field == "n";
    match rule {
        Rule::Any(parts) | Rule::All(parts) => parts.iter().any(names_n),
        Rule::Not(inner) => names_n(inner),
        Rule::Compare(path, ..) | Rule::Me(path, _) | Rule::Has(path, _) | Rule::Length(path, ..) => is_n(path),
        Rule::Paths(left, _, right) => is_n(left) || is_n(right),
        Rule::Role(_) | Rule::Each(..) => false,
    }
}

impl Listener {
    async fn open(world: &World, dice: &mut Dice, round: usize) -> Self {
        let me = dice.pick(&[Some("ann"), Some("ben"), None]);
        let roles = if me.is_some() { dice.pick(&[&["boss"][..], &[]]) } else { &[] };
        let filter = rule(dice, "tasks", round % 3, 3);
        let caller = me.map_or(Identity::Anonymous, |me| user_with(me, roles));
        let asked = encoded(&format!("({}) || title = 'end'", text(&filter)));
        let path = format!("/tasks/_events?filter={asked}");
        let stream = Stream::open(world.ask(&caller, Method::GET, &path)).await;
        Self { me, roles, filter, stream, wanted: Vec::new() }
    }

    fn wants(&mut self, kind: &str, data: &Data, row: &Row, before: Option<&Row>, rule: &Rule) {
        let world = World2 { data, me: self.me, roles: self.roles };
        let id = row["id"].as_str().unwrap();
        if world.holds(row, rule) {
            // The filter finds the tasks that its listener may read; the rule finds all.
            let mut readable = data.clone();
            readable.entry("tasks").or_default().retain(|task| world.holds(task, rule));
            let reader = World2 { data: &readable, ..world };
            if reader.holds(row, &self.filter) {
                self.wanted.push(format!("{kind} {id} {}", row["n"]));
            }
        } else if before.is_some_and(|before| names_n(rule) && world.holds(before, rule)) {
            self.wanted.push(format!("deleted {id} null"));
        }
    }

    /// What the stream has shown up to the task `end`.
    async fn seen(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let next = tokio::time::timeout(Duration::from_mins(1), self.stream.next()).await;
            let (kind, record) = next.expect("no event within a minute").expect("the stream ended");
            if record["title"] == "end" {
                return seen;
            }
            let kind = kind.trim_start_matches("entity.");
            seen.push(format!("{kind} {} {}", record["id"].as_str().unwrap(), record["n"]));
        }
    }
}

fn row<'a>(data: &'a Data, id: &str) -> &'a Row {
    data["tasks"].iter().find(|row| row["id"] == json!(id)).unwrap()
}

#[tokio::test]
async fn generated_filters_of_streams_decide_as_the_evaluator_does() {
    for mut world in worlds(entities()).await {
        let (times, seed) = scale();
        let mut dice = Dice(23 + seed);
        fill(&world, &mut dice).await;
        let writer = user_with("ann", &["root"]);
        let (mut shown, mut all) = (0, 0);
        for round in 0..25 * times {
            let read_rule = rule(&mut dice, "tasks", round % 3, 4);
            let rule_text = format!("({}) || @roles has 'root' || title = 'end'", text(&read_rule));
            let [projects, members, _, notes] = entities();
            let bus = Bus::new(&Ambient::system());
            let builder = Entities::builder(world.db().clone(), Ambient::system());
            let builder = builder.bus(bus.clone()).streams(Streams::start(&bus, StreamOptions::default()));
            let builder = builder.declare_all([projects, members, tasks().rule(Action::Read, &*rule_text), notes]);
            let open = std::mem::replace(&mut world.router, builder.build().await.unwrap().router());
            let mut listeners = Vec::new();
            for _ in 0..6 {
                listeners.push(Listener::open(&world, &mut dice, round).await);
            }
            let ruled = world.router.clone();
            let data_now = async |world: &mut World| {
                world.router = open.clone();
                let data = read(world).await;
                world.router = ruled.clone();
                data
            };
            let mut data = Arc::new(data_now(&mut world).await);
            for _ in 0..3 {
                let id = dice.pick(&data["tasks"])["id"].as_str().unwrap().to_owned();
                let before = row(&data, &id).clone();
                let n = (before["n"].as_i64().unwrap() + 1 + i64::try_from(dice.roll(3)).unwrap()) % 4;
                let answer = world.patch(&writer, &format!("/tasks/{id}"), json!({"n": n})).await;
                assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
                data = Arc::new(data_now(&mut world).await);
                for listener in &mut listeners {
                    listener.wants("updated", &data, row(&data, &id), Some(&before), &read_rule);
                }
            }
            let mut body = dice.pick(&data["tasks"]);
            for key in ["id", "createdAt", "updatedAt"] {
                body.remove(key);
            }
            let live = data["projects"].iter().filter(|project| project["deletedAt"].is_null());
            let live: Vec<&Row> = live.collect();
            body.insert("project".to_owned(), dice.pick(&live)["id"].clone());
            body.insert("others".to_owned(), json!([dice.pick(&live)["id"]]));
            let id = world.post(&writer, "/tasks", serde_json::Value::from(body)).await.id();
            data = Arc::new(data_now(&mut world).await);
            for listener in &mut listeners {
                listener.wants("created", &data, row(&data, &id), None, &read_rule);
                listener.wants("deleted", &data, row(&data, &id), None, &read_rule);
            }
            assert_eq!(world.delete(&writer, &format!("/tasks/{id}")).await.status, StatusCode::NO_CONTENT);
            let end = world.post(&writer, "/tasks", json!({"title": "end", "n": 0})).await.id();
            for listener in &mut listeners {
                let context = format!("{}: {:?} {rule_text}: {}", world.name(), listener.me, text(&listener.filter));
                assert_eq!(listener.seen().await, listener.wanted, "{context}");
                shown += listener.wanted.len();
                all += 5;
            }
            assert_eq!(world.delete(&writer, &format!("/tasks/{end}")).await.status, StatusCode::NO_CONTENT);
            world.router = open;
        }
        assert!(
            shown > all / 10 && shown < all * 9 / 10,
            "streams that show all or nothing prove nothing: {shown} of {all}"
        );
    }
}
