//! Derived keys, within bounds.

use std::num::NonZeroU32;

use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;

use crate::password::AlgorithmError;
use crate::password::algorithm::count;
use crate::password::setting::Digest;

/// The most memory of one scrypt: OWASP's most expensive setting.
const SCRYPT_MEMORY: u64 = 128 << 20;
/// The highest product of cost, block size and parallelism of scrypt: four times OWASP's recommended one.
const SCRYPT_WORK: u64 = 4 << 20;
/// The most iterations of PBKDF2, of all blocks together: eight times what current systems set.
const PBKDF2_ROUNDS: u64 = 10_000_000;

/// Whether a sign-in may compute a scrypt of this cost.
pub(super) fn is_within_bounds((log_n, block_size, parallelism): (u8, u32, u32)) -> bool {
    let (block_size, parallelism) = (u64::from(block_size), u64::from(parallelism));
    let within = |most: u64, factors: [u64; 3]| {
        factors.iter().try_fold(1_u64, |product, factor| product.checked_mul(*factor)).is_some_and(|all| all <= most)
    };
    (1..=20).contains(&log_n)
        && block_size > 0
        && parallelism > 0
        && within(SCRYPT_MEMORY, [128, block_size, 1 << log_n])
        && within(SCRYPT_WORK, [1 << log_n, block_size, parallelism])
}

/// Iterations of all blocks of an output of this many bytes. `None`: more than a sign-in may compute, or none.
pub(super) fn rounds(digest: Digest, iterations: u32, output: usize) -> Option<u32> {
    let block = match digest {
        Digest::Sha1 => 20,
        Digest::Sha256 => 32,
        Digest::Sha512 => 64,
    };
    let rounds = u64::from(iterations).checked_mul(u64::try_from(output.div_ceil(block)).ok()?)?;
    u32::try_from(rounds).ok().filter(|rounds| (1..=PBKDF2_ROUNDS).contains(&u64::from(*rounds)))
}

pub(super) fn scrypt(
    (log_n, block_size, parallelism): (u8, u32, u32),
    password: &[u8],
    salt: &[u8],
    output: usize,
) -> Result<Vec<u8>, AlgorithmError> {
    count();
    let params = scrypt::Params::new(log_n, block_size, parallelism).map_err(|_| AlgorithmError::UnknownFormat)?;
    let mut key = vec![0; output];
    scrypt::scrypt(password, salt, &params, &mut key).map_err(|_| AlgorithmError::UnknownFormat)?;
    Ok(key)
}

pub(super) fn pbkdf2(
    digest: Digest,
    iterations: u32,
    password: &[u8],
    salt: &[u8],
    output: usize,
) -> Result<Vec<u8>, AlgorithmError> {
    count();
    let algorithm = match digest {
        Digest::Sha1 => pbkdf2::PBKDF2_HMAC_SHA1,
        Digest::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
        Digest::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
    };
    let iterations = NonZeroU32::new(iterations).ok_or(AlgorithmError::UnknownFormat)?;
    let mut key = vec![0; output];
    pbkdf2::derive(algorithm, iterations, salt, password, &mut key);
    Ok(key)
}

/// AES-256 in counter mode, beginning at zero.
pub(super) fn encrypt(key: &[u8], text: &[u8]) -> Result<Vec<u8>, AlgorithmError> {
    let key = UnboundCipherKey::new(&AES_256, key).map_err(|_| AlgorithmError::UnknownFormat)?;
    let key = EncryptingKey::ctr(key).map_err(|_| AlgorithmError::UnknownFormat)?;
    let mut text = text.to_vec();
    let zero = EncryptionContext::Iv128(FixedLength::from([0; 16]));
    key.less_safe_encrypt(&mut text, zero).map_err(|_| AlgorithmError::UnknownFormat)?;
    Ok(text)
}
