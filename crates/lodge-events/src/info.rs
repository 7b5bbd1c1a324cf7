//! Descriptions of types, from which `docs/events.md` is generated.

/// What is known about one event type.
#[derive(Debug, Clone, Copy)]
pub struct TypeInfo {
    /// Name on the wire, such as `assistant.message`.
    pub name: &'static str,
    /// Heading under which the reference lists it.
    pub family: &'static str,
    /// Whether events of this type are sent but never written to the log.
    pub ephemeral: bool,
    /// Whether the seeds know the type; otherwise it comes from the newest schema.
    pub in_seed: bool,
    /// One line on what it means.
    pub doc: &'static str,
    /// The fields of `data`.
    pub fields: &'static [FieldInfo],
}

/// What is known about a shape that event fields are made of.
#[derive(Debug, Clone, Copy)]
pub struct ShapeInfo {
    /// Name of the Rust type.
    pub name: &'static str,
    /// One line on what it is.
    pub doc: &'static str,
    /// Its fields.
    pub fields: &'static [FieldInfo],
}

/// What is known about a union of shapes that a field tells apart.
#[derive(Debug, Clone, Copy)]
pub struct UnionInfo {
    /// Name of the Rust type.
    pub name: &'static str,
    /// The field that distinguishes the variants.
    pub tag: &'static str,
    /// One line on what it is.
    pub doc: &'static str,
    /// The value of that field and the shape that goes with it.
    pub variants: &'static [(&'static str, &'static str)],
}

/// What is known about a vocabulary of fixed words.
#[derive(Debug, Clone, Copy)]
pub struct WordsInfo {
    /// Name of the Rust type.
    pub name: &'static str,
    /// One line on what the words say.
    pub doc: &'static str,
    /// The words known today.
    pub words: &'static [&'static str],
}

/// One field of an event or shape.
#[derive(Debug, Clone, Copy)]
pub struct FieldInfo {
    /// Name on the wire.
    pub name: &'static str,
    /// The Rust type, as written in the definition.
    pub rust_type: &'static str,
    /// Whether it must be there.
    pub presence: Presence,
    /// One line on what it means.
    pub doc: &'static str,
}

impl FieldInfo {
    /// Whether events made by Lodge always carry the field.
    pub const fn required(&self) -> bool {
        !matches!(self.presence, Presence::Optional)
    }
}

/// Whether a field is there, when written and when read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Always there.
    Required,
    /// Always written; older writers left it out, so a default is taken when reading.
    Written,
    /// Always written, `null` when there is no value.
    Nullable,
    /// There when it has a value.
    Optional,
}
