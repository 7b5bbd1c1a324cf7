//! The install script, with releases in a directory.

use std::process::Command;

use testkit::{Home, workspace};

#[test]
fn the_newest_release_is_the_one_with_the_highest_numbers() {
    let home = Home::new();
    let packages = home.work().join("packages");
    std::fs::create_dir(&packages).unwrap();
    let platform = match std::env::consts::ARCH {
        "x86_64" => "x86_64-linux",
        _ => "aarch64-linux",
    };
    let mut sums = String::new();
    for version in ["0.10.0", "0.10.1-rc.1", "0.9.0", "0.2.11"] {
        let name = format!("lodge-{version}-{platform}");
        let bin = packages.join(&name).join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let program = format!("#!/bin/sh\necho 'lodge {version}'\n");
        std::fs::write(bin.join("lodge"), program).unwrap();
        let script = format!("chmod +x {name}/bin/lodge && tar -czf {name}.tar.gz {name} && sha256sum {name}.tar.gz");
        let packed = Command::new("sh")
            .args(["-c", &script])
            .current_dir(&packages)
            .output()
            .unwrap();
        assert!(packed.status.success(), "{packed:?}");
        sums += &String::from_utf8(packed.stdout).unwrap();
    }
    std::fs::write(packages.join("SHA256SUMS"), sums).unwrap();
    for (version, expected) in [(None, "lodge 0.10.0"), (Some("0.10.1-rc.1"), "lodge 0.10.1-rc.1")] {
        let installed = Command::new("sh")
            .arg(workspace().join("install.sh"))
            .arg("--from")
            .arg(&packages)
            .args(version.into_iter().flat_map(|version| ["--version", version]))
            .env("HOME", home.work())
            .output()
            .unwrap();
        let said = String::from_utf8(installed.stdout).unwrap();
        assert!(said.contains(&format!("{expected} in")), "{said}");
    }
}
