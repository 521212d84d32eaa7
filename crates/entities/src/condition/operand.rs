//! One comparison: its operands, their types and its operator.

use gatewright_base::canonical_id;
use gatewright_db::json::Number;
use gatewright_db::{Value, dialect};

use super::path::Ended;
use super::resolve::{At, Fault, OF_CALLER, Resolver, Rights, not, split, within};
use super::{Condition, Hop, Operand, Order, Type};
use crate::declare::{Kind, Target};
use crate::filter::columns::Column;
use crate::filter::lexer::Place;
use crate::filter::syntax::{Comparison, Literal, Operand as Written, Operator, Word};
use crate::filter::typed::{coerce, needle};
use crate::value::list;

/// A side of a comparison, after its path was followed.
enum Side {
    Field(Ended),
    Caller(Word),
    Literal(Literal),
}

impl Resolver<'_> {
    pub(super) fn compare(&mut self, at: At, comparison: &Comparison) -> Result<Condition, Fault> {
        let Comparison { left, place, operator, right, right_place } = comparison;
        for (side, place) in [(left, *place), (right, *right_place)] {
            if self.rights == Rights::Caller && matches!(side, Written::Caller(Word::Now)) {
                return Err(Fault::new(place, OF_CALLER));
            }
        }
        if let Some(none) = self.none_linked(at, comparison)? {
            return Ok(none);
        }
        let left = self.side(at, left)?;
        let right = self.side(at, right)?;
        let (left_hops, left) = parts(left);
        let (right_hops, right) = parts(right);
        let (left_many, left_one) = split(left_hops);
        let (right_many, right_one) = split(right_hops);
        let tails = [left_one, right_one].concat();
        let holds = match (operator, &right) {
            (Operator::Equal | Operator::NotEqual, Side::Literal(Literal::Null)) => {
                // An absent record has no value, so the comparison tests whether there is a record.
                not(within(tails, not(Condition::Absent(operand(left, *place)?))))
            }
            (Operator::In, Side::Literal(Literal::List(list))) => {
                let absent = list.contains(&Literal::Null);
                let listed = within(tails.clone(), one_of(&left, list, *place, *right_place)?);
                if absent {
                    let some = not(within(tails, not(Condition::Absent(operand(left, *place)?))));
                    Condition::Any(vec![some, listed])
                } else {
                    listed
                }
            }
            (Operator::Contains | Operator::NotContains, _) => {
                within(tails, contains(left, right, *place, *right_place)?)
            }
            (Operator::Has, _) if is_link(&left) => {
                within(tails, ordered(left, Order::Equal, right, *place, *right_place)?)
            }
            (Operator::Has, _) => within(tails, has(left, right, *place, *right_place)?),
            _ => within(tails, ordered(left, order(*operator), right, *place, *right_place)?),
        };
        let holds = match operator {
            Operator::NotEqual | Operator::NotContains => not(holds),
            _ => holds,
        };
        Ok(within([left_many, right_many].concat(), holds))
    }

    /// `watchers = []` and `watchers = null`: a relation to many records that names none.
    fn none_linked(&mut self, at: At, comparison: &Comparison) -> Result<Option<Condition>, Fault> {
        let is_none = match &comparison.right {
            Written::Literal(Literal::Null) => true,
            Written::Literal(Literal::List(list)) => list.is_empty() && comparison.operator != Operator::In,
            _ => false,
        };
        let order = match comparison.operator {
            Operator::Equal => Order::Equal,
            Operator::NotEqual => Order::Greater,
            _ => return Ok(None),
        };
        let Written::Path(path) = &comparison.left else { return Ok(None) };
        if !is_none || !self.ends_in_links(at, path)? {
            return Ok(None);
        }
        let Ended { hops, operand, .. } = self.length(at, path)?;
        let none =
            Condition::Compare { left: operand, order, right: Operand::Value(Value::Int(0)), as_type: Type::Own };
        Ok(Some(within(hops, none)))
    }

    fn side(&mut self, at: At, written: &Written) -> Result<Side, Fault> {
        Ok(match written {
            Written::Path(path) => Side::Field(self.field(at, path)?),
            Written::Old(path) => Side::Field(self.old_field(at, path)?),
            Written::Length(path) => Side::Field(self.length(at, path)?),
            Written::OldLength(path) => Side::Field(self.old_length(at, path)?),
            Written::Caller(word) => {
                self.names_tenant |= matches!(word, Word::Tenant | Word::TenantRoles);
                Side::Caller(*word)
            }
            Written::Literal(literal) => Side::Literal(literal.clone()),
        })
    }
}

/// Whether it is an id that a relation to many records has.
fn is_link(side: &Side) -> bool {
    matches!(side, Side::Field(Ended { column, .. }) if column.kind == Kind::Relation && column.of.is_some())
}

fn parts(side: Side) -> (Vec<Hop>, Side) {
    match side {
        Side::Field(Ended { hops, operand, column }) => {
            (hops, Side::Field(Ended { hops: Vec::new(), operand, column }))
        }
        side => (Vec::new(), side),
    }
}

fn order(operator: Operator) -> Order {
    match operator {
        Operator::Greater => Order::Greater,
        Operator::GreaterOrEqual => Order::GreaterOrEqual,
        Operator::Less => Order::Less,
        Operator::LessOrEqual => Order::LessOrEqual,
        Operator::Equal
        | Operator::NotEqual
        | Operator::Contains
        | Operator::NotContains
        | Operator::In
        | Operator::Has => Order::Equal,
    }
}

fn flipped(order: Order) -> Order {
    match order {
        Order::Equal => Order::Equal,
        Order::Greater => Order::Less,
        Order::GreaterOrEqual => Order::LessOrEqual,
        Order::Less => Order::Greater,
        Order::LessOrEqual => Order::GreaterOrEqual,
    }
}

fn word(word: Word) -> Operand {
    match word {
        Word::Me => Operand::Me,
        Word::Roles => Operand::Roles,
        Word::TenantRoles => Operand::TenantRoles,
        Word::Tenant => Operand::Tenant,
        Word::Now => Operand::Now,
    }
}

fn name(caller: Word) -> &'static str {
    match caller {
        Word::Me => "@me",
        Word::Roles => "@roles",
        Word::TenantRoles => "@tenant_roles",
        Word::Tenant => "@tenant",
        Word::Now => "@now",
    }
}

fn takes_has(roles: Word, place: Place) -> Fault {
    let name = name(roles);
    Fault::new(place, format!("{name} takes has: {name} has 'editor'"))
}

/// The operand of a side that may be absent.
fn operand(side: Side, place: Place) -> Result<Operand, Fault> {
    match side {
        Side::Field(field) => Ok(field.operand),
        Side::Caller(caller @ (Word::Roles | Word::TenantRoles)) => Err(takes_has(caller, place)),
        Side::Caller(caller) => Ok(word(caller)),
        Side::Literal(_) => Err(Fault::new(place, "expected a field or an @ word")),
    }
}

fn one_of(left: &Side, list: &[Literal], place: Place, right_place: Place) -> Result<Condition, Fault> {
    let present = list.iter().filter(|literal| **literal != Literal::Null);
    match left {
        Side::Field(field) if field.column.kind != Kind::Json => {
            let value = |literal: &Literal| {
                coerce(&field.column, literal.clone()).map_err(|message| Fault::new(right_place, message))
            };
            Ok(Condition::In(field.operand.clone(), present.map(value).collect::<Result<_, _>>()?))
        }
        Side::Field(field) => {
            let test = |literal: &Literal| {
                ordered(Side::Field(field.clone()), Order::Equal, Side::Literal(literal.clone()), place, right_place)
            };
            Ok(Condition::Any(present.map(test).collect::<Result<_, _>>()?))
        }
        Side::Caller(caller) => {
            let test = |literal: &Literal| {
                ordered(Side::Caller(*caller), Order::Equal, Side::Literal(literal.clone()), place, right_place)
            };
            Ok(Condition::Any(present.map(test).collect::<Result<_, _>>()?))
        }
        Side::Literal(_) => Err(Fault::new(place, "expected a field or an @ word")),
    }
}

fn contains(left: Side, right: Side, place: Place, right_place: Place) -> Result<Condition, Fault> {
    let Side::Field(field) = left else { return Err(Fault::new(place, "~ compares a field")) };
    let Side::Literal(literal) = right else { return Err(Fault::new(right_place, "~ takes a text in quotes")) };
    let text = match (field.column.kind, literal) {
        (Kind::Json, Literal::Text(text)) if !text.contains('\0') => dialect::fold_case(&text),
        (Kind::Json, _) => return Err(Fault::new(right_place, "~ takes a text in quotes")),
        (_, literal) => needle(&field.column, literal).map_err(|message| Fault::new(place, message))?,
    };
    Ok(Condition::Contains(field.operand, text))
}

fn has(left: Side, right: Side, place: Place, right_place: Place) -> Result<Condition, Fault> {
    let (array, is_roles) = match left {
        Side::Field(field) if field.column.kind == Kind::Json => (field.operand, false),
        Side::Field(field) if field.column.kind == Kind::List => return has_item(field, right, right_place),
        Side::Caller(caller @ (Word::Roles | Word::TenantRoles)) => (word(caller), true),
        _ => {
            return Err(Fault::new(
                place,
                "has takes an array on its left: a list, a json field, @roles or @tenant_roles",
            ));
        }
    };
    let (element, as_type) = match right {
        Side::Literal(literal) => {
            json_value(literal, "has takes one value").map_err(|message| Fault::new(right_place, message))?
        }
        Side::Caller(Word::Me) => (Operand::Me, Type::Text),
        Side::Caller(Word::Tenant) => (Operand::Tenant, Type::Text),
        Side::Field(field) if is_text(&field.column) => (field.operand, Type::Text),
        Side::Field(_) | Side::Caller(_) => {
            return Err(Fault::new(right_place, "has takes a value, a text field, @me or @tenant on its right"));
        }
    };
    if is_roles && as_type != Type::Text {
        return Err(Fault::new(right_place, "a role is a text"));
    }
    Ok(Condition::Has { array, element, as_type })
}

/// A list has an item: a value of the items' type or, where they are texts, a text.
fn has_item(list: Ended, right: Side, right_place: Place) -> Result<Condition, Fault> {
    let item = list.column.item().unwrap_or_else(|| list.column.clone());
    let are_texts = matches!(item.kind, Kind::String | Kind::Enum | Kind::Uuid);
    let (element, as_type) = match right {
        Side::Literal(literal) => {
            let value = coerce(&item, literal).map_err(|message| Fault::new(right_place, message))?;
            let element = list::element(value);
            let is_number = matches!(element, Value::Int(_) | Value::Float(_));
            (Operand::Value(element), if is_number { Type::Number } else { Type::Text })
        }
        Side::Caller(Word::Me) if are_texts => (Operand::Me, Type::Text),
        Side::Caller(Word::Tenant) if are_texts => (Operand::Tenant, Type::Text),
        Side::Field(field) if are_texts && is_text(&field.column) => (field.operand, Type::Text),
        Side::Field(_) | Side::Caller(_) => {
            let takes = if are_texts { "a value, a text field, @me or @tenant" } else { "a value" };
            return Err(Fault::new(right_place, format!("\"{}\" has takes {takes} on its right", item.key)));
        }
    };
    Ok(Condition::Has { array: list.operand, element, as_type })
}

/// The number of a list's items.
fn items(list: Ended) -> Operand {
    Operand::Length(Box::new(list.operand))
}

/// A literal as JSON has it. A number is read as one that is written.
fn json_value(literal: Literal, misfit: &str) -> Result<(Operand, Type), String> {
    let (value, as_type) = match literal {
        Literal::Bool(truth) => (Value::Bool(truth), Type::Bool),
        Literal::Text(text) if !text.contains('\0') => (Value::Text(text), Type::Text),
        Literal::Number(number) => {
            let value = match Number::read(&number) {
                Ok(Number::Int(whole)) => Value::Int(whole),
                Ok(Number::Float(double)) => Value::Float(double),
                Err(out) => {
                    return Err(format!("a json value is compared with a number that it can be, not with {out}"));
                }
            };
            (value, Type::Number)
        }
        Literal::Text(_) | Literal::Null | Literal::List(_) => return Err(misfit.to_owned()),
    };
    Ok((Operand::Value(value), as_type))
}

fn ordered(left: Side, order: Order, right: Side, place: Place, right_place: Place) -> Result<Condition, Fault> {
    let compare = |left, order, right, as_type| Condition::Compare { left, order, right, as_type };
    Ok(match (left, right) {
        (Side::Literal(_), _) => return Err(Fault::new(place, "expected a field or an @ word")),
        (_, Side::Literal(Literal::Null)) => return Err(Fault::new(right_place, "null has no order")),
        (Side::Field(field), Side::Literal(literal)) if field.column.kind == Kind::Json => {
            let misfit = "a json value is compared with a text, a number, true or false";
            let (value, as_type) = json_value(literal, misfit).map_err(|message| Fault::new(right_place, message))?;
            compare(field.operand, order, value, as_type)
        }
        (Side::Field(field), Side::Literal(Literal::List(list)))
            if field.column.kind == Kind::List && list.is_empty() =>
        {
            compare(items(field), order, Operand::Value(Value::Int(0)), Type::Own)
        }
        (Side::Field(field), Side::Literal(literal)) => {
            let value = coerce(&field.column, literal).map_err(|message| Fault::new(right_place, message))?;
            compare(field.operand, order, Operand::Value(value), Type::Own)
        }
        (Side::Caller(caller), Side::Literal(literal)) => {
            let (value, as_type) = caller_value(caller, literal, order, place, right_place)?;
            compare(word(caller), order, value, as_type)
        }
        (Side::Field(field), Side::Caller(caller)) => {
            let as_type = beside_caller(&field.column, caller, order, right_place)?;
            compare(field.operand, order, word(caller), as_type)
        }
        (Side::Caller(caller), Side::Field(field)) => {
            let as_type = beside_caller(&field.column, caller, order, place)?;
            compare(field.operand, flipped(order), word(caller), as_type)
        }
        (Side::Caller(Word::Now), Side::Caller(Word::Now)) => compare(Operand::Now, order, Operand::Now, Type::Time),
        (Side::Caller(one @ (Word::Me | Word::Tenant)), Side::Caller(other @ (Word::Me | Word::Tenant))) => {
            compare(word(one), order, word(other), Type::Text)
        }
        (Side::Caller(one), Side::Caller(other)) => {
            return Err(Fault::new(place, format!("{} and {} are not of one type", name(one), name(other))));
        }
        (Side::Field(left), Side::Field(right)) => {
            let as_type = common(&left.column, &right.column).ok_or_else(|| {
                let message = format!("\"{}\" and \"{}\" are not of one type", left.column.key, right.column.key);
                Fault::new(right_place, message)
            })?;
            // JSON is on the left.
            if right.column.kind == Kind::Json {
                compare(right.operand, flipped(order), left.operand, as_type)
            } else {
                compare(left.operand, order, right.operand, as_type)
            }
        }
    })
}

fn caller_value(
    caller: Word,
    literal: Literal,
    order: Order,
    place: Place,
    right_place: Place,
) -> Result<(Operand, Type), Fault> {
    match (caller, literal) {
        (Word::Roles | Word::TenantRoles, _) => Err(takes_has(caller, place)),
        (Word::Me | Word::Tenant, Literal::Text(text)) if order == Order::Equal && !text.contains('\0') => {
            Ok((Operand::Value(Value::Text(canonical_id(&text).into_owned())), Type::Text))
        }
        (Word::Me | Word::Tenant, _) if order != Order::Equal => {
            Err(Fault::new(place, format!("{} has no order; use = or !=", name(caller))))
        }
        (Word::Me | Word::Tenant, _) => Err(Fault::new(right_place, format!("{} takes a text", name(caller)))),
        (Word::Now, literal) => {
            let column = Column {
                name: String::new(),
                key: "@now".to_owned(),
                kind: Kind::Timestamp,
                of: None,
                values: Vec::new(),
                to: None,
                links: None,
            };
            let value = coerce(&column, literal).map_err(|message| Fault::new(right_place, message))?;
            Ok((Operand::Value(value), Type::Time))
        }
    }
}

/// The type in which a field and a word of the request are compared.
fn beside_caller(column: &Column, caller: Word, order: Order, place: Place) -> Result<Type, Fault> {
    match caller {
        Word::Roles | Word::TenantRoles => Err(takes_has(caller, place)),
        Word::Now if column.kind == Kind::Timestamp => Ok(Type::Own),
        Word::Now => {
            Err(Fault::new(place, format!("\"{}\" is not a timestamp; @now cannot be compared with it", column.key)))
        }
        Word::Me | Word::Tenant if order != Order::Equal => {
            Err(Fault::new(place, format!("{} has no order; use = or !=", name(caller))))
        }
        Word::Me | Word::Tenant if column.kind == Kind::Json => Ok(Type::Text),
        Word::Me if matches!(column.to, Some(Target::Entity(_))) => {
            Err(Fault::new(place, format!("\"{}\" names a record, and @me an account", column.key)))
        }
        Word::Me | Word::Tenant if is_text(column) => Ok(Type::Text),
        Word::Me | Word::Tenant => Err(Fault::new(
            place,
            format!("\"{}\" is not text; {} cannot be compared with it", column.key, name(caller)),
        )),
    }
}

fn is_text(column: &Column) -> bool {
    matches!(column.kind, Kind::String | Kind::Text | Kind::Enum | Kind::Relation)
}

/// The type in which two fields are compared, if there is one.
fn common(left: &Column, right: &Column) -> Option<Type> {
    match (left.kind, right.kind) {
        (Kind::Json, Kind::Json) | (Kind::List | Kind::File, _) | (_, Kind::List | Kind::File) => None,
        (Kind::Json, _) => json_type(right),
        (_, Kind::Json) => json_type(left),
        (Kind::Relation, Kind::Relation) => match (left.to, right.to) {
            (Some(left), Some(right)) => (left == right).then_some(Type::Own),
            // One is an id.
            _ => Some(Type::Own),
        },
        _ if is_text(left) && is_text(right) => Some(Type::Own),
        (left, right) => (left == right).then_some(Type::Own),
    }
}

fn json_type(column: &Column) -> Option<Type> {
    match column.kind {
        Kind::Int | Kind::Float => Some(Type::Number),
        Kind::Bool => Some(Type::Bool),
        _ if is_text(column) => Some(Type::Text),
        _ => None,
    }
}
