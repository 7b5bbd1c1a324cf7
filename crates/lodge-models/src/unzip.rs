//! Decompresses response bodies: Lodge does not ask for compression, but some gateways compress anyway.

use std::io::Write;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures_util::{StreamExt, stream::BoxStream};

use crate::TransportError;

type Body = BoxStream<'static, Result<Bytes, TransportError>>;

/// The body as it was before gzip. What a piece holds is there as soon as the piece is.
pub(crate) fn stream(body: Body) -> Body {
    let mut decoder = MultiGzDecoder::new(Vec::new());
    body.map(move |piece| {
        let piece = piece?;
        let damaged = |error| TransportError::Failed(format!("the response is not valid gzip: {error}"));
        decoder.write_all(&piece).map_err(damaged)?;
        decoder.flush().map_err(damaged)?;
        Ok(Bytes::from(std::mem::take(decoder.get_mut())))
    })
    .filter(|piece| std::future::ready(!matches!(piece, Ok(piece) if piece.is_empty())))
    .boxed()
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};
    use futures_util::stream as streams;

    use super::*;

    #[tokio::test]
    async fn every_piece_is_there_as_soon_as_it_came() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut pieces = Vec::new();
        for word in ["data: one\n\n", "data: two\n\n"] {
            encoder.write_all(word.as_bytes()).unwrap();
            encoder.flush().unwrap();
            pieces.push(std::mem::take(encoder.get_mut()));
        }
        pieces.push(encoder.finish().unwrap());
        let seen: Vec<_> = stream(streams::iter(pieces.into_iter().map(|piece| Ok(piece.into()))).boxed())
            .collect()
            .await;
        let seen: Vec<Bytes> = seen.into_iter().map(Result::unwrap).collect();
        assert_eq!(seen, ["data: one\n\n", "data: two\n\n"]);
    }

    #[tokio::test]
    async fn what_is_no_gzip_is_an_error() {
        let piece = Ok(Bytes::from_static(b"plain text, whatever the header says"));
        let seen: Vec<_> = stream(streams::iter([piece]).boxed()).collect().await;
        assert!(
            seen[0].as_ref().is_err_and(|error| error.to_string().contains("gzip")),
            "{seen:?}"
        );
    }
}
