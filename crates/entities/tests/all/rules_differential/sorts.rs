//! Generated orders over related records, under a generated rule for reading those.

use std::cmp::Ordering;

use gatewright_base::Ambient;
use gatewright_entities::{Action, Entities};
use serde_json::Value;

use super::evaluator::World2;
use super::{Dice, Row, Rule, USERS, entities, fill, ids, read, rule, scale, tasks, text};
use crate::all::support::{user_with, worlds};

/// A path from a task over projects alone, and its direction.
struct Key {
    relations: Vec<&'static str>,
    field: &'static str,
    descending: bool,
}

impl Key {
    fn roll(dice: &mut Dice) -> Self {
        let mut relations = vec!["project"; dice.roll(2)];
        let fields = if relations.is_empty() {
            ["title", "n", "assignee"]
        } else {
            relations.extend(vec!["parent"; dice.roll(3)]);
            ["name", "owner", "closed"]
        };
        Self { relations, field: dice.pick(&fields), descending: dice.roll(2) == 0 }
    }

    fn text(&self) -> String {
        let minus = if self.descending { "-" } else { "" };
        format!("{minus}{}", [&*self.relations, &[self.field]].concat().join("."))
    }

    fn value<'a>(&self, world: &'a World2<'_>, task: &'a Row, readable: &Rule) -> Option<&'a Value> {
        let mut row = task;
        for relation in &self.relations {
            row = world.live("projects").find(|project| project["id"] == row[*relation])?;
            if !world.holds(row, readable) {
                return None;
            }
        }
        Some(&row[self.field]).filter(|value| !value.is_null())
    }
}

/// Absent values are the greatest.
fn compare(left: Option<&Value>, right: Option<&Value>) -> Ordering {
    match (left, right) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(Value::Bool(left)), Some(Value::Bool(right))) => left.cmp(right),
        (Some(Value::Number(left)), Some(Value::Number(right))) => left.as_i64().cmp(&right.as_i64()),
        (Some(left), Some(right)) => left.as_str().unwrap().cmp(right.as_str().unwrap()),
    }
}

#[tokio::test]
async fn generated_sorts_order_as_the_evaluator_does() {
    for mut world in worlds(entities()).await {
        let (times, seed) = scale();
        let mut dice = Dice(17 + seed);
        fill(&world, &mut dice).await;
        let data = read(&world).await;
        for round in 0..30 * times {
            let readable = rule(&mut dice, "projects", round % 3, 4);
            let [projects, members, _, notes] = entities();
            let projects = projects.rule(Action::Read, text(&readable));
            let builder = Entities::builder(world.db().clone(), Ambient::system());
            let builder = builder.declare_all([projects, members, tasks(), notes]);
            world.router = builder.build().await.unwrap().router();
            let (me, roles) = (dice.pick(&USERS), dice.pick(&[&["boss"][..], &[]]));
            let (caller, evaluator) = (user_with(me, roles), World2 { data: &data, me: Some(me), roles });
            let mut keys: Vec<Key> = Vec::new();
            while keys.len() <= round % 3 {
                let key = Key::roll(&mut dice);
                let is_new = keys.iter().all(|other| other.text().trim_matches('-') != key.text().trim_matches('-'));
                keys.extend(is_new.then_some(key));
            }
            let mut wanted: Vec<&Row> = evaluator.live("tasks").collect();
            wanted.sort_by(|left, right| {
                let by_key = keys.iter().map(|key| {
                    let value = |row| key.value(&evaluator, row, &readable);
                    let order = compare(value(left), value(right));
                    if key.descending { order.reverse() } else { order }
                });
                by_key
                    .fold(Ordering::Equal, Ordering::then)
                    .then_with(|| left["id"].as_str().cmp(&right["id"].as_str()))
            });
            let wanted: Vec<&str> = wanted.into_iter().map(|row| row["id"].as_str().unwrap()).collect();
            let sort = keys.iter().map(Key::text).collect::<Vec<_>>().join(",");
            let context = format!("{}: {sort} as {me} {roles:?}, projects: {}", world.name(), text(&readable));
            let list = world.get(&caller, &format!("/tasks?limit=100&sort={sort}")).await;
            assert_eq!(ids(&list), wanted, "{context}");
            for direction in ["forward", "backward"] {
                let (mut pages, mut from) = (Vec::new(), String::new());
                loop {
                    let path = format!("/tasks?limit=9&sort={sort}&direction={direction}&cursor={from}");
                    let page = world.get(&caller, &path).await;
                    pages.push(ids(&page));
                    let Some(cursor) = page.json()["cursor"].as_str().map(str::to_owned) else { break };
                    from = cursor;
                }
                if direction == "backward" {
                    pages.reverse();
                }
                assert_eq!(pages.concat(), wanted, "{context} {direction}");
            }
        }
    }
}
