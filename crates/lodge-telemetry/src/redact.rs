//! Redacts secrets from text that leaves the host.

/// How tokens of well-known services begin.
const PREFIXES: [&str; 14] = [
    "sk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "eyJ",
    "ya29.",
];
/// Words that are followed by a secret.
const WORDS: [&str; 10] = [
    "authorization",
    "bearer",
    "token",
    "tkn",
    "apikey",
    "api_key",
    "api-key",
    "password",
    "secret",
    "access_token",
];
/// Shorter values of variables are too common to be looked for.
const SHORTEST: usize = 8;
const GONE: &str = "***";

/// What must not be shown.
pub struct Secrets(Vec<String>);

impl Secrets {
    /// These, and whatever the host's environment calls a key, a token or the like.
    pub fn new(known: impl IntoIterator<Item = String>) -> Self {
        let named = |name: &str| {
            let name = name.to_ascii_uppercase();
            ["KEY", "TOKEN", "SECRET", "PASSWORD"]
                .iter()
                .any(|word| name.contains(word))
        };
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| named(name.to_str()?).then(|| value.into_string().ok()).flatten());
        let mut all: Vec<String> = known.into_iter().chain(environment).collect();
        all.retain(|secret| secret.len() >= SHORTEST);
        // A secret that holds another goes first.
        all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(all)
    }

    /// The text without them.
    pub fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), GONE);
            }
        }
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+' | '~');
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        let mut hides_next = false;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            let between = behind.find(is_word).unwrap_or(behind.len());
            let (gap, next) = behind.split_at(between);
            let lower = word.to_ascii_lowercase();
            let names = WORDS.iter().any(|known| {
                lower == *known || lower.ends_with(&format!("-{known}")) || lower.ends_with(&format!("_{known}"))
            });
            let secret = PREFIXES
                .iter()
                .any(|prefix| word.starts_with(prefix) && word.len() >= prefix.len() + 8);
            if secret || (hides_next && !names && !word.is_empty()) {
                out.push_str(GONE);
            } else {
                out.push_str(word);
            }
            out.push_str(gap);
            // `token is wrong` is no secret, `token=x`, `token: x` and `Bearer x` are.
            let assigned = gap.contains(['=', ':']) || lower == "bearer";
            hides_next = names && assigned;
            rest = next;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_left_out() {
        let secrets = Secrets(vec!["open-sesame-42".to_owned()]);
        for (text, expected) in [
            ("all is well", "all is well"),
            ("the token is wrong", "the token is wrong"),
            (
                "Incorrect API key provided: sk-abcdefghijkl",
                "Incorrect API key provided: ***",
            ),
            ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
            ("GET /x?token=abc&y=1", "GET /x?token=***&y=1"),
            ("{\"api_key\": \"hunter2\"}", "{\"api_key\": \"***\"}"),
            ("with open-sesame-42 inside", "with *** inside"),
            ("x-api-key: abc", "x-api-key: ***"),
            ("ghp_0123456789abcdef at the end", "*** at the end"),
            ("sk-1", "sk-1"),
        ] {
            assert_eq!(secrets.redact(text), expected);
        }
    }
}
