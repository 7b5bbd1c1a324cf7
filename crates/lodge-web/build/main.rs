//! Builds the page in `web/` where Node.js is there, and names its files for the program to carry.
//!
//! Without Node.js, or without its registry, the program is built all the same, with a small page that says how to get the
//! full one. `LODGE_WEB=require` fails instead, `LODGE_WEB=skip` does not try.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

mod bundle;
mod tree;

fn main() {
    let crate_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets this"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets this"));
    let web = crate_dir.join("../../web");
    println!("cargo::rerun-if-env-changed=LODGE_WEB");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=fallback");
    for name in tree::SOURCES {
        println!("cargo::rerun-if-changed={}", web.join(name).display());
    }
    let wanted = env::var("LODGE_WEB").unwrap_or_default();
    let built = match wanted.as_str() {
        "skip" => Err("LODGE_WEB=skip was set".to_owned()),
        "" | "require" => bundle::build(&web, &cache(&out)),
        other => panic!("LODGE_WEB={other} is not known: it is “require” or “skip”"),
    };
    let (files, full) = match built {
        Ok(dir) => (dir, true),
        Err(why) if wanted == "require" => panic!("The page could not be built: {why}"),
        Err(why) => {
            if wanted.is_empty() {
                println!("cargo::warning=The program is built without its page: {why}");
            }
            (crate_dir.join("fallback"), false)
        }
    };
    fs::write(out.join("files.rs"), table(&files, full)).expect("cargo's output directory can be written");
}

/// A directory of all profiles: the page is the same in each.
fn cache(out: &Path) -> PathBuf {
    let target = out.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file());
    target.unwrap_or(out).join("web")
}

/// The files as Rust source. A name that ends in `.gz` is the packed form of the name before it.
fn table(dir: &Path, full: bool) -> String {
    let mut source = format!("pub(crate) const FULL: bool = {full};\npub(crate) static FILES: &[File] = &[\n");
    for path in tree::files(dir).expect("the built page can be read") {
        let name = path.strip_prefix(dir).expect("it was found there");
        let name = name.to_string_lossy().replace('\\', "/");
        let (name, packed) = name
            .strip_suffix(".gz")
            .map_or((name.as_str(), false), |name| (name, true));
        let etag = tree::hash(&[&path]).expect("the built page can be read");
        let path = fs::canonicalize(&path).expect("it was found there");
        source += &format!(
            "    File {{ name: {name:?}, packed: {packed}, etag: \"\\\"{etag}\\\"\", bytes: include_bytes!({path:?}) }},\n"
        );
    }
    source + "];\n"
}
