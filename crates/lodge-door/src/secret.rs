//! Random secrets, and the hashes that are stored of them.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest,
    rand::{SecureRandom, SystemRandom},
};
use subtle::ConstantTimeEq;

/// This many random bytes, in `[A-Za-z0-9_-]`.
pub(crate) fn random<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system has random numbers: without them there is no TLS either");
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What is kept of a secret: enough to recognise it, too little to use it. Secrets are random, so no salt is needed.
pub(crate) fn hash(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, secret.as_bytes()))
}

/// Compares in constant time.
pub(crate) fn same(given: &str, wanted: &str) -> bool {
    given.as_bytes().ct_eq(wanted.as_bytes()).into()
}
