use netcliff_core::Finding;
use netcliff_report::html;

use crate::fixture;

/// What stands in the page's `script#finding`.
fn embedded(page: &str) -> &str {
    let (_, rest) = page.split_once("id=\"finding\">").expect("the data is embedded");
    rest.split_once("</script>").expect("the script ends").0
}

#[test]
fn the_page_fetches_nothing() {
    for (name, finding) in fixture::variants().into_iter().filter(|(name, _)| *name != "hostile") {
        let page = html::finding(&finding).replace("http://www.w3.org/2000/svg", "");
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
        // The escape is JSON's own: what is embedded reads as it stands.
        assert!(serde_json::from_str::<Finding>(embedded(&page)).is_ok(), "{name}");
    }
}

#[test]
fn text_from_the_host_stays_text() {
    let page = html::finding(&fixture::hostile());
    assert!(!page.contains("<img") && !page.contains('\u{1b}'));
    // The only script is the data, and it ends where it should.
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("</script>").count(), 1);
}

#[test]
fn every_table_names_its_columns_or_rows() {
    for (name, finding) in fixture::variants() {
        let page = html::finding(&finding);
        for table in page.split("<table").skip(1) {
            let table = table.split("</table>").next().unwrap();
            assert!(table.contains("scope=\"row\""), "{name}");
        }
        assert_eq!(page.matches("role=\"img\"").count(), 4, "{name}: four pictures");
        assert_eq!(page.matches("<h1>").count(), 1, "{name}");
    }
}

#[test]
fn the_words_of_the_page() {
    for name in ["livelocking", "partial", "nothing"] {
        let finding = fixture::variants().into_iter().find(|(variant, _)| *variant == name).unwrap().1;
        insta::assert_snapshot!(format!("html-{name}"), words(&html::finding(&finding)));
    }
}

/// The page's text without pictures, style and data, a line a row, heading or paragraph.
fn words(page: &str) -> String {
    let mut text = page.split_once("<body>").unwrap().1.split_once("<section id=\"raw\">").unwrap().0.to_owned();
    while let Some((before, after)) = text.split_once("<svg") {
        text = format!("{before}[picture]{}", after.split_once("</svg>").unwrap().1);
    }
    for end in ["</tr>", "</p>", "</h1>", "</h2>", "</h3>", "</li>", "</summary>", "</figure>"] {
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
