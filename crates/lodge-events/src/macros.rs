//! The macros that define types.

/// The wire name of a Rust field as serde's `camelCase` makes it, in a buffer with its length.
pub(crate) const fn camel_case<const N: usize>(snake: &str) -> ([u8; N], usize) {
    let bytes = snake.as_bytes();
    let mut out = [0; N];
    let (mut read, mut written, mut capital) = (0, 0, false);
    while read < bytes.len() {
        if bytes[read] == b'_' {
            capital = written > 0;
        } else {
            out[written] = if capital {
                bytes[read].to_ascii_uppercase()
            } else {
                bytes[read]
            };
            written += 1;
            capital = false;
        }
        read += 1;
    }
    (out, written)
}

/// The wire name of a field as a constant.
macro_rules! wire_name {
    ($field:ident) => {{
        const SNAKE: &str = stringify!($field);
        const CAMEL: ([u8; SNAKE.len()], usize) = $crate::macros::camel_case(SNAKE);
        match ::std::str::from_utf8(CAMEL.0.split_at(CAMEL.1).0) {
            Ok(name) => name,
            Err(_) => panic!("field names are ASCII"),
        }
    }};
}
pub(crate) use wire_name;

/// A struct with its serde form. Fields are written one a line, the sign after the name tells the presence:
/// `name: T` required, `name! T` always written but defaulted when an older writer left it out, `name~ T` written as
/// `null` when `None`, `name? T` left out when `None`.
macro_rules! data_struct {
    ($name:ident $doc:literal { $( $field:ident
        $(: $req:ty = $req_doc:literal)? $(! $written:ty = $written_doc:literal)?
        $(~ $null:ty = $null_doc:literal)? $(? $opt:ty = $opt_doc:literal)? ),* $(,)? }) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Default, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name { $(
            $( #[doc = $req_doc] pub $field: $req, )?
            $( #[doc = $written_doc] #[serde(default)] pub $field: $written, )?
            $( #[doc = $null_doc] pub $field: Option<$null>, )?
            $( #[doc = $opt_doc] #[serde(default, skip_serializing_if = "Option::is_none")] pub $field: Option<$opt>, )?
        )* }

        impl $name {
            pub(crate) const FIELDS: &'static [$crate::FieldInfo] = &[ $( $crate::FieldInfo {
                name: $crate::macros::wire_name!($field),
                $( rust_type: stringify!($req), presence: $crate::Presence::Required, doc: $req_doc, )?
                $( rust_type: stringify!($written), presence: $crate::Presence::Written, doc: $written_doc, )?
                $( rust_type: stringify!($null), presence: $crate::Presence::Nullable, doc: $null_doc, )?
                $( rust_type: stringify!($opt), presence: $crate::Presence::Optional, doc: $opt_doc, )?
            } ),* ];
        }
    };
}
pub(crate) use data_struct;

/// The event types of one family: for each, the wire name, whether it is `persisted` or `ephemeral`, whether it is in
/// the `seed` or `newer`, one line of documentation, and the fields as in `data_struct!`.
macro_rules! events {
    ($family:literal; $( $wire:literal $name:ident $persistence:ident $origin:ident $doc:literal { $($fields:tt)* } )*) => {
        $(
            $crate::macros::data_struct!($name $doc { $($fields)* });

            impl $name {
                /// Name of the type on the wire.
                pub const NAME: &'static str = $wire;

                /// What is known about this type.
                pub const INFO: $crate::TypeInfo = $crate::TypeInfo {
                    name: Self::NAME,
                    family: $family,
                    ephemeral: $crate::macros::flag!($persistence),
                    in_seed: $crate::macros::flag!($origin),
                    doc: $doc,
                    fields: Self::FIELDS,
                };
            }
        )*

        /// How many types this file defines; the catalogue must list as many.
        pub(crate) const DEFINED: usize = [$($wire),*].len();
    };
}
pub(crate) use events;

/// The words of a definition that stand for a yes or a no.
macro_rules! flag {
    (persisted) => {
        false
    };
    (ephemeral) => {
        true
    };
    (seed) => {
        true
    };
    (newer) => {
        false
    };
}
pub(crate) use flag;

/// Shapes that event fields are made of, written like events without the wire part.
macro_rules! shapes {
    ($( $name:ident $doc:literal { $($fields:tt)* } )*) => {
        $( $crate::macros::data_struct!($name $doc { $($fields)* }); )*

        /// The shapes of this file, for the reference.
        pub(crate) const SHAPES: &[$crate::ShapeInfo] =
            &[ $( $crate::ShapeInfo { name: stringify!($name), doc: $doc, fields: $name::FIELDS } ),* ];
    };
}
pub(crate) use shapes;

/// A union told apart by a field. What is not known, or does not fit, is kept as `Other`, so that one new variant does
/// not make a whole event unreadable.
macro_rules! union {
    ($name:ident by $tag:literal $doc:literal { $( $wire:literal $variant:ident($shape:ty) ),* $(,)? }) => {
        #[doc = $doc]
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(tag = $tag)]
        pub enum $name {
            $( #[doc = concat!("`", $wire, "`")] #[serde(rename = $wire)] $variant($shape), )*
            /// A variant this version does not know, kept as it was read.
            #[serde(untagged)]
            Other(::serde_json::Value),
        }

        impl Default for $name {
            fn default() -> Self {
                Self::Other(::serde_json::Value::Null)
            }
        }

        impl $name {
            /// The variant's name on the wire; empty if an unknown variant has none.
            pub fn tag(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $wire, )*
                    Self::Other(value) => value.get($tag).and_then(|tag| tag.as_str()).unwrap_or_default(),
                }
            }

            pub(crate) const UNION: $crate::UnionInfo = $crate::UnionInfo {
                name: stringify!($name),
                tag: $tag,
                doc: $doc,
                variants: &[ $( ($wire, stringify!($shape)) ),* ],
            };
        }

        $( impl From<$shape> for $name {
            fn from(shape: $shape) -> Self {
                Self::$variant(shape)
            }
        } )*
    };
}
pub(crate) use union;

/// A vocabulary of fixed words. Words that came later are kept as `Other`.
macro_rules! words {
    ($( $doc:literal $name:ident { $( $variant:ident = $word:literal ),* $(,)? } )*) => {
        $(
            #[doc = $doc]
            #[derive(Debug, Clone, PartialEq, Eq, Hash)]
            pub enum $name {
                $( #[doc = concat!("`", $word, "`")] $variant, )*
                /// A word this version does not know.
                Other(Box<str>),
            }

            impl $name {
                /// The word on the wire.
                pub fn as_str(&self) -> &str {
                    match self {
                        $( Self::$variant => $word, )*
                        Self::Other(word) => word,
                    }
                }
            }

            /// The first word of the vocabulary.
            impl Default for $name {
                fn default() -> Self {
                    $crate::macros::first!($( Self::$variant ),*)
                }
            }

            impl From<&str> for $name {
                fn from(word: &str) -> Self {
                    match word {
                        $( $word => Self::$variant, )*
                        _ => Self::Other(word.into()),
                    }
                }
            }

            impl From<String> for $name {
                fn from(word: String) -> Self {
                    Self::from(word.as_str())
                }
            }

            impl PartialEq<str> for $name {
                fn eq(&self, word: &str) -> bool {
                    self.as_str() == word
                }
            }

            impl PartialEq<&str> for $name {
                fn eq(&self, word: &&str) -> bool {
                    self.as_str() == *word
                }
            }

            impl ::std::fmt::Display for $name {
                fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                    f.pad(self.as_str())
                }
            }

            impl ::serde::Serialize for $name {
                fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.as_str())
                }
            }

            impl<'de> ::serde::Deserialize<'de> for $name {
                fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    <String as ::serde::Deserialize>::deserialize(deserializer).map(Self::from)
                }
            }
        )*

        /// All vocabularies, for the reference.
        pub(crate) const WORDS: &[$crate::WordsInfo] =
            &[ $( $crate::WordsInfo { name: stringify!($name), doc: $doc, words: &[ $( $word ),* ] } ),* ];
    };
}
pub(crate) use words;

/// The first of a list.
macro_rules! first {
    ($first:expr $(, $rest:expr)*) => {
        $first
    };
}
pub(crate) use first;
