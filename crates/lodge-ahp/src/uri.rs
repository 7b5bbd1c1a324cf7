//! Addresses: of files, of sessions made elsewhere, of chats.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
pub(crate) use lodge_files::uri::{child, unescape};
pub use lodge_files::uri::{file, path};

/// The id under which the host's agent is offered, and the scheme of sessions that other faces made.
pub const PROVIDER: &str = "lodge";

/// Whether clients mean the host's agent by this name. There is one, and programs written for other hosts name theirs.
pub(crate) fn is_provider(name: &str) -> bool {
    [PROVIDER, "copilot", "copilotcli"].contains(&name)
}

/// The URI of a session that no client gave a URI.
pub(crate) fn session(id: &str) -> String {
    format!("{PROVIDER}:/{id}")
}

/// The last part of a session's URI, where it can serve as the host's id.
pub(crate) fn id_in(session: &str) -> Option<&str> {
    let id = session.rsplit(['/', ':']).next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    ((8..=64).contains(&id.len()) && id.chars().all(plain)).then_some(id)
}

/// What the addresses of chats begin with.
pub(crate) const CHAT: &str = "ahp-chat:";

/// The default chat of a session, spelt as editors work it out for themselves.
pub(crate) fn default_chat(session: &str) -> String {
    format!("ahp-chat://default/{}", URL_SAFE_NO_PAD.encode(session))
}

/// The chat of the sub-agent that a tool call started, spelt as editors spell it.
pub(crate) fn sub_chat(session: &str, tool_call_id: &str) -> String {
    of_call("ahp-chat://subagent/", session, tool_call_id)
}

/// The terminal of the command that a tool call runs.
pub(crate) fn tool_terminal(session: &str, tool_call_id: &str) -> String {
    of_call("ahp-terminal://tool/", session, tool_call_id)
}

fn of_call(prefix: &str, session: &str, tool_call_id: &str) -> String {
    let mut uri = format!("{prefix}{}/", URL_SAFE_NO_PAD.encode(session));
    for byte in tool_call_id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

/// The session and the tool call whose terminal this is.
pub(crate) fn call_of_tool_terminal(uri: &str) -> Option<(String, String)> {
    let (encoded, call) = uri.strip_prefix("ahp-terminal://tool/")?.split_once('/')?;
    let session = String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()?;
    Some((session, String::from_utf8(unescape(call)?).ok()?))
}

/// The scheme of what changed files contained.
pub(crate) const FILE_CONTENT: &str = "lodge-content:";

const CONTENT: &str = "/content/";

/// Something that a tool said in a session, too large for the session's state.
pub(crate) fn content(session: &str, name: &str) -> String {
    let name = file(name);
    format!("{session}{CONTENT}{}", &name["file://".len()..])
}

/// One side of a file that a tool call changes. Both sides have the same path: editors take a file with two for a renamed one.
pub(crate) fn content_side(session: &str, call: &str, side: &str, file: &str) -> String {
    format!("{}?{side}", content(session, &format!("{call}/{file}")))
}

/// The session and the name of such a thing. The name of a side is `<call>-<side>/<file>`.
pub(crate) fn session_of_content(uri: &str) -> Option<(&str, String)> {
    let (session, name) = uri.rsplit_once(CONTENT).filter(|_| !uri.starts_with(FILE_CONTENT))?;
    let (name, side) = name
        .split_once('?')
        .map_or((name, None), |(name, side)| (name, Some(side)));
    let name = path(&format!("file:///{name}"))?;
    let name = name.to_str()?.strip_prefix('/')?;
    let name = match (side, name.rsplit_once('/')) {
        (Some(side), Some((call, file))) => format!("{call}-{side}/{file}"),
        _ => name.to_owned(),
    };
    Some((session, name))
}

/// A state for editors of the VS Code family. They cannot open a session that names anything by an address without a slash, such as
/// `untitled:Untitled-1`, although they attach such things themselves. They get it with one.
pub(crate) fn with_slashes(json: &str) -> String {
    const KEY: &str = "\"uri\":\"";
    let mut parts = json.split(KEY);
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        all.push_str(KEY);
        let scheme = part
            .find(|c: char| !c.is_ascii_alphanumeric() && !"+.-".contains(c))
            .unwrap_or_default();
        match part[scheme..].strip_prefix(':') {
            Some(rest) if scheme > 0 && !rest.starts_with(['/', '?', '#', '"']) => {
                all.push_str(&part[..scheme]);
                all.push_str(":/");
                all.push_str(rest);
            }
            _ => all.push_str(part),
        }
    }
    all
}

/// The session that a default chat's URI names.
pub(crate) fn session_of_default_chat(chat: &str) -> Option<String> {
    let encoded = chat.strip_prefix("ahp-chat://default/")?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()
}

/// The session that a sub-agent's chat is in.
pub(crate) fn session_of_sub_chat(chat: &str) -> Option<String> {
    let (encoded, _) = chat.strip_prefix("ahp-chat://subagent/")?.split_once('/')?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_name_their_session() {
        let uri = content("copilot:/x", "call 1/a-0");
        assert_eq!(uri, "copilot:/x/content/call%201/a-0");
        assert_eq!(session_of_content(&uri), Some(("copilot:/x", "call 1/a-0".to_owned())));
        assert_eq!(session_of_content("file:///x"), None);
        assert_eq!(session_of_content("lodge-content:/home/content/x?s/git-1"), None);
        let uri = content_side("copilot:/x", "call 1", "before", "a.txt");
        assert_eq!(uri, "copilot:/x/content/call%201/a.txt?before");
        assert_eq!(
            session_of_content(&uri),
            Some(("copilot:/x", "call 1-before/a.txt".to_owned()))
        );
    }

    #[test]
    fn editors_get_addresses_with_a_slash_and_all_else_as_it_is() {
        for (state, expected) in [
            (r#"{"uri":"untitled:a","b":1}"#, r#"{"uri":"untitled:/a","b":1}"#),
            (
                r#"[{"uri":"a+b:c"},{"uri":"output:d"}]"#,
                r#"[{"uri":"a+b:/c"},{"uri":"output:/d"}]"#,
            ),
        ] {
            assert_eq!(with_slashes(state), expected);
        }
        for same in [
            r#"{"uri":"file:///a"}"#,
            r#"{"uri":"git:/a?b"}"#,
            r#"{"uri":"a:?b"}"#,
            r#"{"uri":"a:"}"#,
            r#"{"uri":""}"#,
            r#"{"uri":"no address: at all"}"#,
            r#"{"text":"\"uri\":\"untitled:a\""}"#,
            r#"{"uri"#,
        ] {
            assert_eq!(with_slashes(same), same);
        }
    }

    #[test]
    fn chats_name_their_session() {
        let chat = default_chat("lodge:/abc");
        assert_eq!(chat, "ahp-chat://default/bG9kZ2U6L2FiYw");
        assert_eq!(session_of_default_chat(&chat).as_deref(), Some("lodge:/abc"));
        assert_eq!(
            sub_chat("lodge:/abc", "call/1"),
            "ahp-chat://subagent/bG9kZ2U6L2FiYw/call%2F1"
        );
        let terminal = tool_terminal("lodge:/abc", "call/1");
        let named = ("lodge:/abc".to_owned(), "call/1".to_owned());
        assert_eq!(call_of_tool_terminal(&terminal), Some(named));
        assert_eq!(
            session_of_sub_chat(&sub_chat("lodge:/abc", "call/1")).as_deref(),
            Some("lodge:/abc")
        );
        assert_eq!(
            id_in("copilot:/6f1c2a58-1111-4222-8333-abcdefabcdef"),
            Some("6f1c2a58-1111-4222-8333-abcdefabcdef")
        );
        assert_eq!(id_in("copilot:/../x"), None);
        assert_eq!(id_in("ahp-session:/short"), None);
    }
}
