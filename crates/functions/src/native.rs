//! What functions ask of the server without waiting: random bytes, digests, encodings, addresses.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gatewright_base::Ambient;
use hmac::{Hmac, KeyInit, Mac};
use rquickjs::prelude::{Func, Rest};
use rquickjs::{Array, Ctx, Exception, Function, IntoJs, Object, TypedArray, Value};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use url::Url;

use crate::data;

/// The most random bytes at once.
const RANDOM: usize = 65_536;

/// Puts the function `native` into the globals, where the prelude takes it, and returns it to be held.
pub(crate) fn install<'js>(ctx: &Ctx<'js>, ambient: Ambient) -> rquickjs::Result<Function<'js>> {
    let native = move |ctx: Ctx<'js>, name: String, given: Rest<Value<'js>>| call(&ctx, &ambient, &name, &given.0);
    let globals = ctx.globals();
    globals.set("native", Func::from(native))?;
    globals.get("native")
}

fn call<'js>(ctx: &Ctx<'js>, ambient: &Ambient, name: &str, given: &[Value<'js>]) -> rquickjs::Result<Value<'js>> {
    let text = |at: usize| -> rquickjs::Result<String> { given.get(at).map_or(Ok(String::new()), Value::get) };
    let bytes = |at: usize| bytes_of(ctx, given.get(at));
    match name {
        "random" => {
            let count: usize = given.first().map_or(Ok(0), Value::get)?;
            let mut random = vec![0; count.min(RANDOM)];
            ambient.fill(&mut random);
            new_bytes(ctx, random)
        }
        "uuid" => {
            let mut random = [0; 16];
            ambient.fill(&mut random);
            uuid::Builder::from_random_bytes(random).into_uuid().to_string().into_js(ctx)
        }
        "digest" => new_bytes(ctx, digest(ctx, &text(0)?, &bytes(1)?)?),
        "hmac" => new_bytes(ctx, hmac(ctx, &text(0)?, &bytes(1)?, &bytes(2)?)?),
        "verify" => verify(ctx, &text(0)?, &bytes(1)?, &bytes(2)?, &bytes(3)?)?.into_js(ctx),
        "encode" => new_bytes(ctx, text(0)?.into_bytes()),
        "decode" => decode(ctx, &bytes(0)?, given.get(1).and_then(Value::as_bool).unwrap_or_default())?.into_js(ctx),
        "base64" => base64(ctx, &text(0)?)?.into_js(ctx),
        "unbase64" => unbase64(ctx, &text(0)?)?.into_js(ctx),
        "url" => parts(ctx, &address(ctx, &text(0)?, given.get(1).and_then(Value::as_string))?),
        "urlWith" => {
            let mut url = address(ctx, &text(0)?, None)?;
            set(&mut url, &text(1)?, &text(2)?);
            parts(ctx, &url)
        }
        "pairs" => {
            let array = Array::new(ctx.clone())?;
            for (index, (name, value)) in url::form_urlencoded::parse(text(0)?.as_bytes()).enumerate() {
                array.set(index, vec![name.into_owned(), value.into_owned()])?;
            }
            Ok(array.into_value())
        }
        "query" => {
            let pairs: Vec<Vec<String>> = given.first().map_or(Ok(Vec::new()), Value::get)?;
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            for pair in &pairs {
                let [name, value] = pair.as_slice() else { continue };
                query.append_pair(name, value);
            }
            query.finish().into_js(ctx)
        }
        _ => Err(Exception::throw_type(ctx, "there is no such function")),
    }
}

fn bytes_of<'js>(ctx: &Ctx<'js>, value: Option<&Value<'js>>) -> rquickjs::Result<Vec<u8>> {
    let bytes = value.and_then(Value::as_object).and_then(data::bytes_of);
    bytes.ok_or_else(|| Exception::throw_type(ctx, "bytes are expected"))
}

/// A copy into the engine's own memory.
fn new_bytes<'js>(ctx: &Ctx<'js>, bytes: impl AsRef<[u8]>) -> rquickjs::Result<Value<'js>> {
    TypedArray::<u8>::new_copy(ctx.clone(), bytes.as_ref()).map(TypedArray::into_value)
}

fn digest(ctx: &Ctx<'_>, hash: &str, data: &[u8]) -> rquickjs::Result<Vec<u8>> {
    Ok(match hash {
        "SHA-1" => Sha1::digest(data).to_vec(),
        "SHA-256" => Sha256::digest(data).to_vec(),
        "SHA-384" => Sha384::digest(data).to_vec(),
        "SHA-512" => Sha512::digest(data).to_vec(),
        _ => return Err(Exception::throw_type(ctx, "the hash is not known")),
    })
}

fn hmac(ctx: &Ctx<'_>, hash: &str, key: &[u8], data: &[u8]) -> rquickjs::Result<Vec<u8>> {
    fn tag<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Option<Vec<u8>> {
        let mut mac = <M as KeyInit>::new_from_slice(key).ok()?;
        mac.update(data);
        Some(mac.finalize().into_bytes().to_vec())
    }
    let tag = match hash {
        "SHA-1" => tag::<Hmac<Sha1>>(key, data),
        "SHA-256" => tag::<Hmac<Sha256>>(key, data),
        "SHA-384" => tag::<Hmac<Sha384>>(key, data),
        "SHA-512" => tag::<Hmac<Sha512>>(key, data),
        _ => None,
    };
    tag.ok_or_else(|| Exception::throw_type(ctx, "the hash is not known"))
}

/// In a time that does not depend on where the tags differ.
fn verify(ctx: &Ctx<'_>, hash: &str, key: &[u8], tag: &[u8], data: &[u8]) -> rquickjs::Result<bool> {
    let expected = hmac(ctx, hash, key, data)?;
    let differs = expected.iter().zip(tag).fold(0, |differs, (one, other)| differs | (one ^ other));
    Ok(expected.len() == tag.len() && std::hint::black_box(differs) == 0)
}

fn decode(ctx: &Ctx<'_>, bytes: &[u8], is_fatal: bool) -> rquickjs::Result<String> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) if is_fatal => Err(Exception::throw_type(ctx, "the bytes are not valid UTF-8")),
        Err(_) => Ok(String::from_utf8_lossy(bytes).into_owned()),
    }
}

fn base64(ctx: &Ctx<'_>, text: &str) -> rquickjs::Result<String> {
    let bytes: Option<Vec<u8>> = text.chars().map(|unit| u8::try_from(u32::from(unit)).ok()).collect();
    let bytes = bytes.ok_or_else(|| Exception::throw_range(ctx, "btoa takes characters up to U+00FF"))?;
    Ok(STANDARD.encode(bytes))
}

fn unbase64(ctx: &Ctx<'_>, text: &str) -> rquickjs::Result<String> {
    let plain: String = text.chars().filter(|unit| !unit.is_ascii_whitespace()).collect();
    let padded = format!("{plain}{}", "=".repeat((4 - plain.len() % 4) % 4));
    let bytes = STANDARD.decode(padded).map_err(|_| Exception::throw_range(ctx, "the text is not base64"))?;
    Ok(bytes.into_iter().map(char::from).collect())
}

fn address<'js>(ctx: &Ctx<'js>, text: &str, base: Option<&rquickjs::String<'js>>) -> rquickjs::Result<Url> {
    let base = base.map(rquickjs::String::to_string).transpose()?;
    let url = match base {
        Some(base) => Url::parse(&base).and_then(|base| base.join(text)),
        None => Url::parse(text),
    };
    url.map_err(|error| Exception::throw_type(ctx, &format!("invalid URL: {error}")))
}

fn set(url: &mut Url, part: &str, value: &str) {
    use url::quirks;
    match part {
        "protocol" => drop(quirks::set_protocol(url, value)),
        "username" => drop(quirks::set_username(url, value)),
        "password" => drop(quirks::set_password(url, value)),
        "host" => drop(quirks::set_host(url, value)),
        "hostname" => drop(quirks::set_hostname(url, value)),
        "port" => drop(quirks::set_port(url, value)),
        "pathname" => quirks::set_pathname(url, value),
        "search" => quirks::set_search(url, value),
        "hash" => quirks::set_hash(url, value),
        _ => {}
    }
}

fn parts<'js>(ctx: &Ctx<'js>, url: &Url) -> rquickjs::Result<Value<'js>> {
    use url::quirks;
    let object = Object::new(ctx.clone())?;
    let origin = quirks::origin(url);
    let parts = [
        ("href", quirks::href(url)),
        ("origin", &origin),
        ("protocol", quirks::protocol(url)),
        ("username", quirks::username(url)),
        ("password", quirks::password(url)),
        ("host", quirks::host(url)),
        ("hostname", quirks::hostname(url)),
        ("port", quirks::port(url)),
        ("pathname", quirks::pathname(url)),
        ("search", quirks::search(url)),
        ("hash", quirks::hash(url)),
    ];
    for (name, value) in parts {
        object.set(name, value)?;
    }
    Ok(object.into_value())
}
