use netcliff_core::Finding;
use netcliff_report::html;

use crate::{fixture, pages};

/// The content of the page's `script#finding`.
fn embedded(page: &str) -> &str {
    let (_, rest) = page.split_once("id=\"finding\">").expect("the data is embedded");
    rest.split_once("</script>").expect("the script ends").0
}

#[test]
fn the_page_fetches_nothing() {
    for (name, finding) in fixture::variants().into_iter().filter(|(name, _)| *name != "hostile") {
        let page = html::finding(&finding).replace("http://www.w3.org/2000/svg", "").replace("url(#clip-", "");
        // Except the link to the explorer on the reader's own host, which is fetched only by a click.
        let page = page.replace(&format!("<a href=\"{}", html::EXPLORER), "");
        for fetch in ["http://", "https://", "//cdn", " src=", "@import", "url(", "<link", "<iframe"] {
            assert!(!page.contains(fetch), "{name}: {fetch}");
        }
    }
}

#[test]
fn the_data_of_the_page_is_the_finding() {
    for (name, finding) in fixture::variants() {
        let json = serde_json::to_string(&finding).unwrap();
        let page = html::finding(&finding);
        assert_eq!(embedded(&page).replace("\\u003c", "<"), json, "{name}");
        let (_, rest) = page.split_once("href=\"data:application/json;charset=utf-8,").unwrap();
        let link = percent_encoding::percent_decode_str(rest.split_once('"').unwrap().0).decode_utf8().unwrap();
        assert_eq!(link, json, "{name}");
        // The escape of `<` is an escape of JSON, so that the embedded text is valid JSON.
        assert!(serde_json::from_str::<Finding>(embedded(&page)).is_ok(), "{name}");
    }
}

#[test]
fn text_from_the_host_stays_text() {
    let page = html::finding(&fixture::hostile());
    assert!(!page.contains("<img") && !page.contains('\u{1b}'));
    // Every script is data (of a figure or of the finding) or the page's own script, and ends where it should.
    let data =
        page.matches("<script class=\"data\"").count() + page.matches("<script type=\"application/json\"").count();
    assert_eq!(page.matches("<script").count(), data + 1);
    assert_eq!(page.matches("</script>").count(), data + 1);
}

#[test]
fn every_table_names_its_columns_or_rows() {
    for (name, finding) in fixture::variants() {
        let page = html::finding(&finding);
        for table in page.split("<table").skip(1) {
            let table = table.split("</table>").next().unwrap();
            assert!(table.contains("scope=\"row\""), "{name}");
        }
        let figures = page.matches("<figure").count();
        assert!((3..=6).contains(&figures), "{name}: three figures, and the CPU split of each engine that has one");
        assert_eq!(page.matches("role=\"img\"").count(), 2 * figures, "{name}: a drawing for each width");
        assert_eq!(page.matches("<h1>").count(), 1, "{name}");
    }
}

#[test]
fn the_script_is_small_and_allowed_by_its_hash_alone() {
    let page = html::finding(&fixture::livelocking());
    let (before, script) = page.rsplit_once("<script>").expect("the script comes last");
    let script = script.split_once("</script>").unwrap().0;
    assert!(script.len() <= 15_000, "{} bytes", script.len());
    let hash = data_encoding::BASE64.encode(&<sha2::Sha256 as sha2::Digest>::digest(script.as_bytes()));
    assert!(before.contains(&format!("script-src 'sha256-{hash}'")) && !before.contains("unsafe-eval"));
    assert!(!before.contains("script-src 'unsafe-inline'"));
}

#[test]
fn the_data_of_a_figure_is_that_of_its_csv() {
    for (name, page) in pages::pages() {
        let figures: Vec<&str> = page.split("<figure").skip(1).map(|f| f.split("</figure>").next().unwrap()).collect();
        assert!(!figures.is_empty() || name == "compare", "{name}");
        for figure in figures {
            let link =
                figure.split_once("href=\"data:text/csv;charset=utf-8,").expect("a CSV").1.split('"').next().unwrap();
            let text = percent_encoding::percent_decode_str(link).decode_utf8().unwrap();
            let mut csv: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
            let Some((_, data)) = figure.split_once("type=\"application/json\">") else { continue };
            let data: serde_json::Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
            for series in data["series"].as_array().unwrap() {
                let key = data["keys"][series["key"].as_u64().unwrap() as usize].as_str().unwrap();
                for dot in series["dots"].as_array().unwrap() {
                    let line = csv.remove(0);
                    let text =
                        |value: &serde_json::Value| if value.is_null() { String::new() } else { value.to_string() };
                    let numbers = (0..4).map(|at| text(&dot[at])).collect::<Vec<_>>().join(",");
                    assert!(
                        line.trim_matches('"').starts_with(key) && line.contains(&format!(",{numbers},")),
                        "{name}: {line}: {dot}"
                    );
                }
            }
            assert!(csv.is_empty(), "{name}: {csv:?}");
        }
    }
}

#[test]
fn a_page_says_what_it_is() {
    for (kind, wanted) in [
        ("find", "Cliff of 2 x Intel(R) Xeon(R) Processor: 412 kpps - netcliff find"),
        ("experiment", "Throughput of five schemes by load - netcliff run"),
        ("rfc2544", "Forwarding by RFC 2544: 423 kpps of 64B frames - netcliff rfc2544"),
        ("transfers", "What each setting does to a transfer - netcliff run"),
    ] {
        let page = pages::pages().into_iter().find(|(name, _)| *name == kind).unwrap().1;
        let inside = |tag: &str| page.split_once(&format!("<{tag}>")).unwrap().1.split_once('<').unwrap().0.to_owned();
        assert_eq!(inside("title"), wanted);
        assert_eq!(inside("h1"), wanted.rsplit_once(" - ").unwrap().0, "{kind}");
    }
}

#[test]
fn a_title_stands_once() {
    for (name, page) in pages::pages() {
        let body = page.split_once("<body>").unwrap().1;
        let (h1, rest) = body.split_once("<h1>").unwrap().1.split_once("</h1>").unwrap();
        for figure in rest.split("<figure").skip(1) {
            let caption = figure.split_once("<figcaption>").map(|(_, text)| text.split('<').next().unwrap());
            assert_ne!(caption, Some(h1), "{name}");
            // The drawing's own text is above its view box.
            let top: f64 = figure.split_once("viewBox=\"0 ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
            assert!(top > 20.0, "{name}: {top}");
        }
    }
}

#[test]
fn the_verdict_and_the_table_go_by_the_same_bounds() {
    for share in [0.02, 0.44, 0.6, 0.95] {
        let mut finding = fixture::livelocking();
        finding.livelock.wire = Some(share.into());
        let page = words(&html::finding(&finding));
        let group = page.lines().find(|line| line.starts_with("Delivered at twice the cliff")).expect("the table");
        assert!(group.contains("below 50 %: receive livelock") && group.contains("from 90 %: no livelock"), "{group}");
        // The verdict is above the table.
        let verdict =
            page.lines().find(|line| line.contains("at twice the cliff") && line.contains("of the peak")).unwrap();
        assert_eq!(verdict.starts_with("Receive livelock"), share < 0.5, "{verdict}");
        assert_eq!(verdict.starts_with("No livelock"), share >= 0.9, "{verdict}");
    }
}

#[test]
fn the_words_of_the_page() {
    let mut pages = String::new();
    for name in ["livelocking", "partial", "nothing"] {
        let finding = fixture::variants().into_iter().find(|(variant, _)| *variant == name).unwrap().1;
        pages += &format!("#### {name}\n{}\n", words(&html::finding(&finding)));
    }
    insta::assert_snapshot!("html", pages);
}

/// The page's text without pictures, style and data: one line per row, heading or paragraph.
fn words(page: &str) -> String {
    let mut text = page.split_once("<body>").unwrap().1.split_once("<section id=\"raw\">").unwrap().0.to_owned();
    for (tag, instead) in [("svg", ""), ("script", "")] {
        while let Some((before, after)) = text.split_once(&format!("<{tag}")) {
            text = format!("{before}{instead}{}", after.split_once(&format!("</{tag}>")).unwrap().1);
        }
    }
    for end in ["</tr>", "</p>", "</h1>", "</h2>", "</h3>", "</li>", "</summary>", "</figure>", "</figcaption>"] {
        text = text.replace(end, "\n");
    }
    for end in ["</th>", "</td>"] {
        text = text.replace(end, " | ");
    }
    let mut words = String::new();
    for part in text.split('<') {
        words.push_str(part.split_once('>').map_or(part, |(_, after)| after));
    }
    words
        .lines()
        .map(|line| line.trim().trim_end_matches(" |"))
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}
