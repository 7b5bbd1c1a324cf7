//! A web push message: encrypted for the browser (RFC 8291), and signed with the host's key (RFC 8292).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::{
    aead, agreement, hmac,
    rand::{SecureRandom as _, SystemRandom},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::json;

/// How long a push service takes the host's word.
const GOOD_FOR: i64 = 12 * 60 * 60;
/// Push services want to be able to reach somebody; a host has no address for that.
const CONTACT: &str = "mailto:lodge@example.com";
/// The size of a record: more than a message has.
const RECORD: u32 = 4096;

/// A new key, as text.
pub(super) fn new_key() -> Option<String> {
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).ok()?;
    Some(URL_SAFE_NO_PAD.encode(made.as_ref()))
}

fn pair(key: &str) -> Option<EcdsaKeyPair> {
    let bytes = URL_SAFE_NO_PAD.decode(key).ok()?;
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bytes, &SystemRandom::new()).ok()
}

/// The public half of a key; nothing when it is none.
pub(super) fn public_key(key: &str) -> Option<String> {
    Some(URL_SAFE_NO_PAD.encode(pair(key)?.public_key()))
}

/// Scheme, host and port of an address.
pub(super) fn origin(address: &str) -> Option<String> {
    let url = reqwest::Url::parse(address).ok()?;
    url.has_host().then(|| match url.port() {
        Some(port) => format!("{}://{}:{port}", url.scheme(), url.host_str().unwrap_or_default()),
        None => format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default()),
    })
}

/// The header that says who sends something to this address.
pub(super) fn authorization(key: &str, endpoint: &str) -> Option<String> {
    let pair = pair(key)?;
    let claims = json!({
        "aud": origin(endpoint)?,
        "exp": Timestamp::now().as_second() + GOOD_FOR,
        "sub": CONTACT,
    });
    let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(json!({ "typ": "JWT", "alg": "ES256" })), part(claims));
    let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()));
    Some(format!(
        "vapid t={token}, k={}",
        URL_SAFE_NO_PAD.encode(pair.public_key())
    ))
}

/// A short name of a session that tells a push service nothing else of it.
pub(super) fn topic(session: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, session.as_bytes());
    let mut topic = URL_SAFE_NO_PAD.encode(digest.as_ref());
    topic.truncate(32);
    topic
}

fn mac(key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    context.sign()
}

/// A message that only the browser with this public key and this secret reads.
pub(super) fn encrypt(text: &[u8], theirs: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
    let random = SystemRandom::new();
    let private = agreement::EphemeralPrivateKey::generate(&agreement::ECDH_P256, &random).ok()?;
    let ours = private.compute_public_key().ok()?;
    let mut salt = [0; 16];
    random.fill(&mut salt).ok()?;
    let peer = agreement::UnparsedPublicKey::new(&agreement::ECDH_P256, theirs);
    let shared = agreement::agree_ephemeral(private, &peer, |shared| mac(secret, &[shared])).ok()?;
    let keying = mac(shared.as_ref(), &[b"WebPush: info\0", theirs, ours.as_ref(), &[1]]);
    let pseudorandom = mac(&salt, &[keying.as_ref()]);
    let key = mac(pseudorandom.as_ref(), &[b"Content-Encoding: aes128gcm\0", &[1]]);
    let nonce = mac(pseudorandom.as_ref(), &[b"Content-Encoding: nonce\0", &[1]]);
    let key = aead::UnboundKey::new(&aead::AES_128_GCM, key.as_ref().get(..16)?).ok()?;
    let nonce = aead::Nonce::try_assume_unique_for_key(nonce.as_ref().get(..12)?).ok()?;
    // The last record of a message ends with a 2.
    let mut sealed = [text, &[2]].concat();
    aead::LessSafeKey::new(key)
        .seal_in_place_append_tag(nonce, aead::Aad::empty(), &mut sealed)
        .ok()?;
    let length = u8::try_from(ours.as_ref().len()).ok()?;
    Some([&salt[..], &RECORD.to_be_bytes(), &[length], ours.as_ref(), &sealed].concat())
}
