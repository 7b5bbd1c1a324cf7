use super::*;

fn get(path: &'static str, headers: &[(&'static str, &'static str)]) -> Response {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_static(value));
    }
    serve(&Method::GET, &Uri::from_static(path), &map)
}

const GZIP: (&str, &str) = ("accept-encoding", "gzip, br");

#[test]
fn every_file_is_served_with_its_type_and_the_policy() {
    assert!(FILES.iter().any(|file| file.name == "index.html"));
    for file in FILES {
        let uri: Uri = format!("/{}", file.name).parse().expect("names of files are paths");
        let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
        let response = serve(&Method::GET, &uri, &headers);
        assert_eq!(response.status(), StatusCode::OK, "{}", file.name);
        assert_ne!(
            response.headers()[header::CONTENT_TYPE],
            "application/octet-stream",
            "{}",
            file.name
        );
        for (name, value) in HEADERS {
            assert_eq!(response.headers()[name], value, "{}", file.name);
        }
    }
}

#[test]
fn what_is_not_there_is_not_found_and_still_has_the_policy() {
    for path in [
        "/nothing",
        "/../Cargo.toml",
        "/assets/",
        "/index.html/x",
        "/%2e%2e/x",
        "//",
        "/.gz",
    ] {
        let response = get(path, &[GZIP]);
        let expected = if path == "//" {
            StatusCode::OK
        } else {
            StatusCode::NOT_FOUND
        };
        assert_eq!(response.status(), expected, "{path}");
        assert_eq!(response.headers()["content-security-policy"], POLICY, "{path}");
    }
}

#[test]
fn the_page_is_at_the_root_and_where_pairing_links_lead() {
    for path in ["/", "/pair", "/index.html", "/?x=1"] {
        let response = get(path, &[GZIP]);
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "text/html; charset=utf-8",
            "{path}"
        );
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-cache", "{path}");
    }
}

#[test]
fn a_browser_that_has_a_file_is_not_sent_it_again() {
    let first = get("/", &[GZIP]);
    let etag = first.headers()[header::ETAG].to_str().expect("it is text").to_owned();
    for (said, status) in [
        (etag.clone(), StatusCode::NOT_MODIFIED),
        (format!("W/{etag}"), StatusCode::NOT_MODIFIED),
        (format!("\"other\", {etag}"), StatusCode::NOT_MODIFIED),
        ("*".to_owned(), StatusCode::NOT_MODIFIED),
        ("\"other\"".to_owned(), StatusCode::OK),
        (etag.trim_matches('"').to_owned(), StatusCode::OK),
    ] {
        let headers = HeaderMap::from_iter([
            (
                header::IF_NONE_MATCH,
                HeaderValue::from_str(&said).expect("it is ASCII"),
            ),
            (header::ACCEPT_ENCODING, HeaderValue::from_static("gzip")),
        ]);
        let response = serve(&Method::GET, &Uri::from_static("/"), &headers);
        assert_eq!(response.status(), status, "{said}");
    }
}

#[test]
fn packed_files_go_to_those_who_can_read_them() {
    let Some(file) = FILES.iter().find(|file| file.packed) else {
        // The small page is not packed.
        return;
    };
    let uri: Uri = format!("/{}", file.name).parse().expect("names of files are paths");
    for (said, status) in [
        (Some("gzip"), StatusCode::OK),
        (Some("br;q=1, gzip;q=0.5"), StatusCode::OK),
        (Some("*"), StatusCode::OK),
        (Some("identity"), StatusCode::NOT_ACCEPTABLE),
        (Some("gzip;q=0"), StatusCode::NOT_ACCEPTABLE),
        (None, StatusCode::NOT_ACCEPTABLE),
    ] {
        let headers: HeaderMap = said
            .map(|said| (header::ACCEPT_ENCODING, HeaderValue::from_static(said)))
            .into_iter()
            .collect();
        let response = serve(&Method::GET, &uri, &headers);
        assert_eq!(response.status(), status, "{said:?}");
        assert_eq!(
            response.headers().contains_key(header::CONTENT_ENCODING),
            status == StatusCode::OK,
            "{said:?}"
        );
    }
}

#[test]
fn the_page_is_as_small_as_it_promises() {
    if !is_full() {
        return;
    }
    let size = |wanted: &dyn Fn(&str) -> bool| -> usize {
        FILES
            .iter()
            .filter(|file| wanted(file.name))
            .map(|file| file.bytes.len())
            .sum()
    };
    let page = FILES.iter().find(|file| file.name == "index.html");
    let page = str::from_utf8(page.expect("there is a page").bytes).expect("it is not packed");
    let first = size(&|name| name == "index.html" || page.contains(name));
    assert!(first > 20_000, "what the page names is not counted: {first} bytes");
    let all = size(&|name| name.starts_with("assets/") || name == "index.html");
    assert!(first <= 60_000, "the first load has {first} bytes");
    assert!(all <= 350_000, "everything has {all} bytes");
}
