//! The reference of all event types, `docs/events.md`, made from their definitions.

/// What is known about a union of shapes.
pub(crate) struct UnionInfo {
    pub(crate) name: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) variants: &'static [(&'static str, &'static str)],
}
