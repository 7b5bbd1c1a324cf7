//! Empty: it is here so that the build dependencies, whose features derive macros share, are resolved.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
