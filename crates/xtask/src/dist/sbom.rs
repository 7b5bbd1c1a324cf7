//! A list of what the program is built from, as CycloneDX has it.

use anyhow::Result;
use serde_json::{Value, json};

use super::{Release, archive, licences::Kind};

pub(super) fn render(release: &Release) -> Result<Vec<u8>> {
    let components: Vec<Value> = release
        .packages
        .iter()
        .map(|package| {
            let scope = match package.kind {
                Kind::Cargo => "the program",
                Kind::Npm => "the page",
            };
            // The specification has no slash for a choice.
            let licence = package.licence.replace('/', " OR ");
            json!({
                "type": "library",
                "bom-ref": package.url(),
                "name": package.name,
                "version": package.version,
                "purl": package.url(),
                "licenses": [{ "expression": licence }],
                "properties": [{ "name": "lodge:part", "value": scope }],
            })
        })
        .collect();
    let own = format!("pkg:generic/lodge@{}", release.version);
    let depends: Vec<String> = release.packages.iter().map(|package| package.url()).collect();
    let bom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "lodge",
                "version": release.version,
                "licenses": [{ "license": { "id": "MIT" } }],
                "hashes": [{ "alg": "SHA-256", "content": archive::sha256(&release.binary) }],
                "properties": [{ "name": "lodge:commit", "value": release.commit }],
            },
        },
        "components": components,
        "dependencies": [{ "ref": own, "dependsOn": depends }],
    });
    let mut text = serde_json::to_vec_pretty(&bom)?;
    text.push(b'\n');
    Ok(text)
}
