//! Images attached as files. The log keeps what the model got, as the file was then.

use std::{fmt::Write as _, io::Read, path::Path};

use base64::Engine;
use lodge_events::{Attachment, BinaryType, SessionBinaryAsset};
use ring::digest::{SHA256, digest};

/// Larger files are named, and not shown.
const LARGEST: u64 = 8 << 20;

/// Reads the images among attached files. Each becomes an asset that its attachment refers to. Reads files.
pub(crate) fn read(attachments: &mut [Attachment], cwd: &Path) -> Vec<SessionBinaryAsset> {
    let mut assets: Vec<SessionBinaryAsset> = Vec::new();
    for attachment in attachments {
        let Attachment::File(file) = attachment else { continue };
        if file.asset_id.is_some() {
            continue;
        }
        let Some((mime_type, bytes)) = image(&cwd.join(&file.path)) else {
            continue;
        };
        let asset_id = asset_id(&bytes);
        file.mime_type = Some(mime_type.to_owned());
        file.byte_length = Some(bytes.len() as u64);
        file.asset_id = Some(asset_id.clone());
        if assets.iter().all(|known| known.asset_id != asset_id) {
            assets.push(SessionBinaryAsset {
                asset_id,
                type_: BinaryType::Image,
                mime_type: mime_type.to_owned(),
                byte_length: bytes.len() as u64,
                data: base64::engine::general_purpose::STANDARD.encode(&bytes),
                ..SessionBinaryAsset::default()
            });
        }
    }
    assets
}

fn asset_id(bytes: &[u8]) -> String {
    let mut id = "sha256:".to_owned();
    for byte in digest(&SHA256, bytes).as_ref() {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

/// The bytes of a file that is an image by what it holds, whatever it is called.
fn image(path: &Path) -> Option<(&'static str, Vec<u8>)> {
    let mut file = std::fs::File::open(path).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > LARGEST {
        return None;
    }
    let mut bytes = vec![0; 16.min(usize::try_from(meta.len()).ok()?)];
    file.read_exact(&mut bytes).ok()?;
    let mime_type = mime_type(&bytes)?;
    file.take(LARGEST).read_to_end(&mut bytes).ok()?;
    Some((mime_type, bytes))
}

fn mime_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::FileAttachment;

    use super::*;

    #[test]
    fn files_that_are_images_become_assets_and_others_stay_files() {
        let dir = tempfile::tempdir().unwrap();
        let png = b"\x89PNG\r\n\x1a\n rest of it";
        std::fs::write(dir.path().join("shot.png"), png).unwrap();
        std::fs::write(dir.path().join("same"), png).unwrap();
        std::fs::write(dir.path().join("liar.png"), "just text").unwrap();
        std::fs::write(dir.path().join("empty.png"), "").unwrap();
        let names = ["shot.png", "same", "liar.png", "empty.png", "gone.png", "."];
        let mut attachments = names.map(|name| {
            Attachment::File(FileAttachment {
                path: name.to_owned(),
                ..FileAttachment::default()
            })
        });
        let assets = read(&mut attachments, dir.path());
        assert_eq!(assets.len(), 1, "the same bytes are kept once");
        assert_eq!(assets[0].mime_type, "image/png");
        assert_eq!(assets[0].byte_length, png.len() as u64);
        for (name, attachment) in names.iter().zip(&attachments) {
            let Attachment::File(file) = attachment else { panic!() };
            let expected = ["shot.png", "same"].contains(name).then(|| assets[0].asset_id.clone());
            assert_eq!(file.asset_id, expected, "{name}");
        }
    }
}
