//! Generates the reference of all event types, `docs/events.md`, from their definitions.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::{
    Attachment, ContentBlock, FieldInfo, Notification, PERSISTENCE_DIFFERENCES, PermissionRequest,
    PersistenceDifference, Presence, SEED_ONLY_FIELDS, SeedOnlyField, ShapeInfo, TYPES, TypeInfo, UnionInfo,
    attachment, beside, extension, is_beside, permission, shapes, string_enums,
};

const INTRODUCTION: &str = "\
# Session events

This page is generated from the definitions in `crates/lodge-events` by `cargo xtask docs`; do not edit it.

Everything that happens in a session is an event. Persisted events are lines of the session's `events.jsonl`, written
before anybody sees them. Ephemeral events are sent to clients and never written.

Types whose names begin with `lodge.` are Lodge's own. They are beside the chain: no event has one of them as its parent.
SDK clients receive them only if they ask for them by name. Older builds and the Copilot CLI skip them in a log, because
they are marked `ephemeral` there.

Types marked as in the guide are in the SDK's event guide: the Copilot SDK's published guide to streaming events, which is
the contract. The others come from the schema that newer releases of the SDK ship.

## The envelope

| Field | Type | Required | Meaning |
|---|---|---|---|
| `type` | string | yes | One of the types below, or one that a newer program wrote. |
| `data` | object | yes | Depends on the type. |
| `agentId` | string | | The sub-agent the event belongs to. |
| `ephemeral` | boolean | | `true` for ephemeral events and for those beside the chain, else absent. |
| `id` | string | yes | UUID v4 of the event. |
| `timestamp` | string | yes | ISO 8601, UTC, milliseconds. |
| `parentId` | string \\| null | yes | `id` of the last event of the chain before this one; null for the first. Ephemeral events and those beside the chain carry it and do not advance it. |

Unknown types, unknown fields and the format of numbers are preserved.
";

/// The text of `docs/events.md`.
pub fn render() -> String {
    let mut out = INTRODUCTION.to_owned();
    let names = Names::collect();
    overview(&mut out);
    let mut family = "";
    for info in TYPES {
        if info.family != family {
            family = info.family;
            section(&mut out, family);
        }
        event(&mut out, info, &names);
    }
    section(&mut out, "Shapes");
    for union in UNIONS {
        write_union(&mut out, union);
    }
    for shape in all_shapes() {
        heading(&mut out, shape.name, shape.doc);
        fields(&mut out, shape.fields, &names);
    }
    vocabularies(&mut out);
    differences(&mut out);
    out
}

const UNIONS: &[UnionInfo] = &[
    ContentBlock::UNION,
    PermissionRequest::UNION,
    Attachment::UNION,
    Notification::UNION,
];

fn all_shapes() -> impl Iterator<Item = &'static ShapeInfo> {
    [
        shapes::SHAPES,
        permission::SHAPES,
        attachment::SHAPES,
        beside::SHAPES,
        extension::SHAPES,
    ]
    .into_iter()
    .flatten()
}

/// Where in the page a named type is described.
struct Names(BTreeMap<&'static str, String>);

impl Names {
    fn collect() -> Self {
        let shapes = all_shapes().map(|shape| shape.name);
        let unions = UNIONS.iter().map(|union| union.name);
        let linked = shapes
            .chain(unions)
            .map(|name| (name, format!("#{}", name.to_lowercase())));
        let words = string_enums::WORDS
            .iter()
            .map(|words| (words.name, "#vocabularies".to_owned()));
        Self(linked.chain(words).collect())
    }

    /// The type of a field as the wire has it, with links.
    fn wire_type(&self, rust_type: &str) -> String {
        let rust_type = rust_type.replace(' ', "");
        if let Some(item) = rust_type.strip_prefix("Vec<").and_then(|rest| rest.strip_suffix('>')) {
            return format!("{}\\[\\]", self.wire_type(item));
        }
        let record = ["BTreeMap<String,", "Map<String,"]
            .iter()
            .find_map(|map| rust_type.strip_prefix(map));
        if let Some(value) = record.and_then(|rest| rest.strip_suffix('>')) {
            return format!("Record<string, {}>", self.wire_type(value));
        }
        match rust_type.as_str() {
            "String" => "string".into(),
            "bool" => "boolean".into(),
            "u64" | "i64" | "f64" => "number".into(),
            "Value" => "any".into(),
            name => match self.0.get(name) {
                Some(target) => format!("[{name}]({target})"),
                None => name.to_owned(),
            },
        }
    }
}

fn overview(out: &mut String) {
    section(out, "All types at a glance");
    out.push_str("\n| Type | Ephemeral | In the guide | Meaning |\n|---|---|---|---|\n");
    for TypeInfo {
        name,
        ephemeral,
        in_seed,
        doc,
        ..
    } in TYPES
    {
        let (ephemeral, in_seed) = (tick(*ephemeral), tick(*in_seed));
        line(
            out,
            format_args!(
                "| [`{name}`](#{}) |{ephemeral}|{in_seed}| {doc} |",
                name.replace('.', "")
            ),
        );
    }
}

fn event(out: &mut String, info: &TypeInfo, names: &Names) {
    heading(out, &format!("`{}`", info.name), info.doc);
    let persistence = if info.ephemeral { "Ephemeral." } else { "Persisted." };
    let origin = match info.in_seed {
        true => "",
        false if is_beside(info.name) => " Beside the chain.",
        false => " Newer than the SDK's event guide.",
    };
    line(out, format_args!("\n{persistence}{origin}"));
    fields(out, info.fields, names);
}

fn fields(out: &mut String, fields: &[FieldInfo], names: &Names) {
    if fields.is_empty() {
        out.push_str("\nThe data is empty.\n");
        return;
    }
    out.push_str("\n| Field | Type | Required | Meaning |\n|---|---|---|---|\n");
    for field in fields {
        let null = if field.presence == Presence::Nullable {
            " \\| null"
        } else {
            ""
        };
        let wire_type = names.wire_type(field.rust_type);
        let FieldInfo { name, doc, .. } = field;
        line(
            out,
            format_args!("| `{name}` | {wire_type}{null} |{}| {doc} |", tick(field.required())),
        );
    }
}

fn write_union(out: &mut String, union: &UnionInfo) {
    heading(out, union.name, union.doc);
    line(out, format_args!("\n| `{}` | Shape |\n|---|---|", union.tag));
    for (value, shape) in union.variants {
        line(
            out,
            format_args!("| `{value}` | [{shape}](#{}) |", shape.to_lowercase()),
        );
    }
    out.push_str("\nOther variants are kept as they are.\n");
}

fn vocabularies(out: &mut String) {
    section(out, "Vocabularies");
    out.push_str("\nOther words are kept as they are.\n\n| Name | Words | Meaning |\n|---|---|---|\n");
    for words in string_enums::WORDS {
        let list: Vec<_> = words.words.iter().map(|word| format!("`{word}`")).collect();
        line(
            out,
            format_args!("| {} | {} | {} |", words.name, list.join(", "), words.doc),
        );
    }
}

fn differences(out: &mut String) {
    section(out, "Where persistence differs from the newest schema");
    out.push_str("\n| Type | Here | Why |\n|---|---|---|\n");
    for PersistenceDifference {
        name,
        ephemeral,
        reason,
    } in PERSISTENCE_DIFFERENCES
    {
        let here = if *ephemeral { "ephemeral" } else { "persisted" };
        line(out, format_args!("| `{name}` | {here} | {reason} |"));
    }
    section(
        out,
        "Fields of the SDK's event guide that the newest schema does not have",
    );
    out.push_str(
        "\nThey are read, and written beside what is there today; clients that do not know them pass over them.\n",
    );
    out.push_str("\n| Type | Field | In its place |\n|---|---|---|\n");
    for SeedOnlyField { name, pointer, reason } in SEED_ONLY_FIELDS {
        let field = pointer.trim_start_matches('/').replace('/', ".");
        line(out, format_args!("| `{name}` | `{field}` | {reason} |"));
    }
}

fn section(out: &mut String, title: &str) {
    line(out, format_args!("\n## {title}"));
}

fn heading(out: &mut String, title: &str, doc: &str) {
    line(out, format_args!("\n### {title}\n\n{doc}"));
}

fn tick(yes: bool) -> &'static str {
    if yes { " yes " } else { " " }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string does not fail");
}
