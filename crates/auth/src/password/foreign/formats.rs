//! The spellings of other systems' hashes.

use super::text::{base64, of_hexadecimal};
use super::{Foreign, Scrypt, Variant, kdf};
use crate::password::setting::Digest;
use crate::password::{AlgorithmError, PasswordHash};

/// The lengths of an output that is compared, in bytes. A shorter one could fit by chance.
const OUTPUT: std::ops::RangeInclusive<usize> = 16..=128;
/// The most bytes of a salt, and of Firebase's signer key.
const LONGEST: usize = 1024;
/// The cost of better-auth, which its hashes do not name.
const BETTER_AUTH: (u8, u32, u32) = (14, 16, 1);

/// `None`: no format of another system.
pub(super) fn parse(text: &str) -> Option<Result<Foreign, AlgorithmError>> {
    let (name, rest) = match text.strip_prefix('$') {
        Some(text) => text.split_once('$')?,
        None => match text.split_once('$') {
            Some((name, rest)) => return django(name, rest),
            None => return text.split_once(':').map(|(salt, key)| known(better_auth(salt, key))),
        },
    };
    let parts: Vec<&str> = rest.split('$').collect();
    Some(known(match (name, parts.as_slice()) {
        ("scrypt", [cost, salt, output]) => plain_scrypt(cost, salt, output),
        ("firescrypt", [cost, salt, output, separator, key]) => firebase(cost, salt, output, separator, key),
        ("pbkdf2" | "pbkdf2-sha1", [cost, salt, output]) => pbkdf2(Digest::Sha1, cost, salt, output),
        ("pbkdf2-sha256" | "keycloak-pbkdf2-sha256", [cost, salt, output]) => {
            pbkdf2(Digest::Sha256, cost, salt, output)
        }
        ("pbkdf2-sha512" | "keycloak-pbkdf2-sha512", [cost, salt, output]) => {
            pbkdf2(Digest::Sha512, cost, salt, output)
        }
        ("sha256", [salt, output]) => sha(Digest::Sha256, salt, output),
        ("sha512", [salt, output]) => sha(Digest::Sha512, salt, output),
        ("scrypt" | "firescrypt" | "sha256" | "sha512", _) => None,
        (name, _) if name.starts_with("pbkdf2") || name.starts_with("keycloak-") => None,
        _ => return None,
    }))
}

fn known(foreign: Option<Foreign>) -> Result<Foreign, AlgorithmError> {
    foreign.filter(|foreign| foreign.setting().is_some()).ok_or(AlgorithmError::UnknownFormat)
}

/// Django's `algorithm$…`. `None`: another system's.
fn django(name: &str, rest: &str) -> Option<Result<Foreign, AlgorithmError>> {
    let parts: Vec<&str> = rest.split('$').collect();
    Some(known(match (name, parts.as_slice()) {
        ("bcrypt_sha256", _) => Some(Foreign::Django { inner: PasswordHash::from_stored(rest), digested: true }),
        ("bcrypt", _) => Some(Foreign::Django { inner: PasswordHash::from_stored(rest), digested: false }),
        ("argon2", _) => {
            Some(Foreign::Django { inner: PasswordHash::from_stored(format!("${rest}")), digested: false })
        }
        ("pbkdf2_sha1", [cost, salt, output]) => pbkdf2_of(Digest::Sha1, cost, salt.as_bytes(), output),
        ("pbkdf2_sha256", [cost, salt, output]) => pbkdf2_of(Digest::Sha256, cost, salt.as_bytes(), output),
        ("scrypt", [n, salt, block_size, parallelism, output]) => {
            n.parse::<u32>().ok().filter(|n| n.is_power_of_two()).and_then(|n| {
                let log_n = u8::try_from(n.trailing_zeros()).ok()?;
                let cost = (log_n, block_size.parse().ok()?, parallelism.parse().ok()?);
                scrypt(cost, salt.as_bytes().to_vec(), base64(output)?, Variant::Plain)
            })
        }
        ("pbkdf2_sha1" | "pbkdf2_sha256" | "scrypt", _) => None,
        _ => return None,
    }))
}

/// The salt is hashed as text.
fn better_auth(salt: &str, key: &str) -> Option<Foreign> {
    of_hexadecimal(salt).filter(|salt| !salt.is_empty())?;
    let key = of_hexadecimal(key).filter(|key| key.len() == 64)?;
    scrypt(BETTER_AUTH, salt.as_bytes().to_vec(), key, Variant::Normalized)
}

fn plain_scrypt(cost: &str, salt: &str, output: &str) -> Option<Foreign> {
    scrypt(scrypt_cost(cost)?, base64(salt)?, base64(output)?, Variant::Plain)
}

/// The separator follows the salt. The output is as long as the signer key.
fn firebase(cost: &str, salt: &str, output: &str, separator: &str, key: &str) -> Option<Foreign> {
    let mut salt = base64(salt)?;
    salt.extend(base64(separator)?);
    let (output, key) = (base64(output)?, base64(key)?);
    (output.len() == key.len()).then_some(())?;
    scrypt(scrypt_cost(cost)?, salt, output, Variant::Signed(key))
}

/// `ln=14,r=8,p=1`.
fn scrypt_cost(text: &str) -> Option<(u8, u32, u32)> {
    Some((number(text, "ln=")?.try_into().ok()?, number(text, "r=")?, number(text, "p=")?))
}

fn scrypt(cost: (u8, u32, u32), salt: Vec<u8>, expected: Vec<u8>, variant: Variant) -> Option<Foreign> {
    let (log_n, block_size, parallelism) = cost;
    let good = kdf::is_within_bounds(cost) && OUTPUT.contains(&expected.len()) && salt.len() <= LONGEST;
    good.then_some(Foreign::Scrypt(Scrypt { log_n, block_size, parallelism, salt, expected, variant }))
}

/// The cost is `i=1000`, `i=1000,l=32`, or passlib's `1000`.
fn pbkdf2(digest: Digest, cost: &str, salt: &str, output: &str) -> Option<Foreign> {
    let iterations = if cost.contains('=') { number(cost, "i=")?.to_string() } else { cost.to_owned() };
    pbkdf2_of(digest, &iterations, &base64(salt)?, output)
}

fn pbkdf2_of(digest: Digest, iterations: &str, salt: &[u8], output: &str) -> Option<Foreign> {
    let (iterations, expected) = (iterations.parse().ok()?, base64(output)?);
    kdf::rounds(digest, iterations, expected.len())?;
    let good = OUTPUT.contains(&expected.len()) && salt.len() <= LONGEST;
    good.then(|| Foreign::Pbkdf2 { digest, iterations, salt: salt.to_vec(), expected })
}

fn sha(digest: Digest, salt: &str, output: &str) -> Option<Foreign> {
    let length = if digest == Digest::Sha512 { 64 } else { 32 };
    let expected = of_hexadecimal(output).filter(|output| output.len() == length)?;
    (salt.len() <= LONGEST).then(|| Foreign::Sha { digest, salt: salt.as_bytes().to_vec(), expected })
}

/// The number behind `name` in a list with commas.
fn number(text: &str, name: &str) -> Option<u32> {
    text.split(',').find_map(|pair| pair.strip_prefix(name)?.parse().ok())
}
