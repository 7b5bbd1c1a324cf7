//! Spellings of the wire. Inside, everything is protocol 1.0.0. Clients of 0.9.0 get the same bytes: the protocol only
//! grew between the two, by actions that this host does not send. The seed's 0.1.0 is translated at the edge.

pub(crate) mod seed;
