//! The page of methods.

#[test]
fn the_page_of_methods_is_the_one_in_the_repository() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sdk.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == lodge_copilot::docs::render(),
        "docs/sdk.md is out of date: run `cargo xtask docs`"
    );
}
