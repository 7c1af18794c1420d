//! Reads types and their documentation from the sources: a parser for the parts of Rust that it needs, as rustfmt
//! formats them.

use std::path::{Path, PathBuf};

/// The root of the project.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A struct or an enum.
pub struct Item {
    pub name: String,
    pub doc: String,
    pub is_enum: bool,
    /// True: the type derives Serialize.
    pub serialized: bool,
    attributes: String,
    /// Fields, or variants of an enum.
    pub fields: Vec<Field>,
}

/// A field, or a variant of an enum.
pub struct Field {
    /// The key in JSON, or the variant's name in the source.
    pub key: String,
    /// The type. For a variant: the single type that it contains, or empty.
    pub kind: String,
    pub doc: String,
    /// Fields of the variant, if this is a variant.
    pub fields: Vec<Field>,
}

impl Item {
    /// Name of a variant in the JSON that serde writes.
    pub fn value_name(&self, variant: &str) -> String {
        match quoted(&self.attributes, "rename_all") {
            Some("kebab-case") => separated(variant, '-'),
            Some("snake_case") => separated(variant, '_'),
            Some("lowercase") => variant.to_lowercase(),
            _ => variant.to_owned(),
        }
    }
}

fn separated(name: &str, by: char) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(by);
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// The value of `key = "value"` among attributes.
fn quoted<'a>(attributes: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = attributes.split_once(&format!("{key} = \""))?;
    rest.split('"').next()
}

/// The items of a file or of all files in a folder below crates/, in the order of their names; tests are left out.
pub fn read(place: &str) -> Vec<Item> {
    let mut files = Vec::new();
    rust_files(&project().join("crates").join(place), &mut files);
    files.sort();
    let text = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    files.iter().flat_map(|path| items(&text(path))).collect()
}

/// All Rust files at or below a path, tests left out.
pub fn rust_files(path: &Path, into: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        entries.for_each(|entry| rust_files(&entry.expect("an entry").path(), into));
    } else if path.extension().is_some_and(|ending| ending == "rs")
        && !path.ends_with("tests.rs")
        && !path.iter().any(|part| part == "tests")
    {
        into.push(path.to_owned());
    }
}

/// Documentation and attributes in front of an item or a field.
#[derive(Default)]
struct Before {
    doc: Vec<String>,
    attributes: String,
    /// Brackets of an attribute that are still open.
    open: i32,
}

impl Before {
    /// Adds a line. False if it is neither documentation nor an attribute.
    fn take(&mut self, line: &str) -> bool {
        if self.open > 0 || line.starts_with("#[") {
            self.attributes += line;
            self.open += line.matches('[').count() as i32 - line.matches(']').count() as i32;
            true
        } else if let Some(doc) = line.strip_prefix("///") {
            self.doc.push(doc.trim().to_owned());
            true
        } else {
            line.starts_with("//")
        }
    }

    /// The documentation as one paragraph, with links replaced by their text.
    fn doc(&self) -> String {
        let paragraphs: Vec<&str> =
            self.doc.iter().map(String::as_str).take_while(|line| !line.starts_with("# ")).collect();
        paragraphs
            .join(" ")
            .replace("[`", "`")
            .replace("`]", "`")
            .replace("\\[", "[")
            .replace("\\]", "]")
            .trim()
            .to_owned()
    }

    fn is_hidden(&self) -> bool {
        self.attributes.contains("serde(skip)") || self.attributes.contains("serde(skip,")
    }
}

/// The public structs with named fields and the public enums of a source.
pub fn items(source: &str) -> Vec<Item> {
    let mut found = Vec::new();
    let mut before = Before::default();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if before.take(line) {
            continue;
        }
        let head = line.strip_prefix("pub struct ").map(|rest| (rest, false));
        if let Some((rest, is_enum)) = head.or_else(|| line.strip_prefix("pub enum ").map(|rest| (rest, true)))
            && line.ends_with('{')
        {
            let name = rest.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_owned();
            let fields = fields(&mut lines, "    ", is_enum);
            let serialized = before.attributes.contains("Serialize")
                && before.attributes.replace("Deserialize", "").contains("Serialize");
            found.push(Item {
                name,
                doc: before.doc(),
                is_enum,
                serialized,
                attributes: before.attributes.clone(),
                fields,
            });
        }
        before = Before::default();
    }
    found
}

/// The fields up to the line that closes the type. `indent` is the indent of the fields.
fn fields<'a>(lines: &mut impl Iterator<Item = &'a str>, indent: &str, variants: bool) -> Vec<Field> {
    let mut found = Vec::new();
    let mut before = Before::default();
    while let Some(line) = lines.next() {
        let Some(text) = line.strip_prefix(indent) else {
            if line.is_empty() {
                continue;
            }
            break;
        };
        if before.take(text) {
            continue;
        }
        let text = text.trim_end_matches(',');
        let (mut key, mut kind, mut inner) = (String::new(), String::new(), Vec::new());
        if variants {
            key = text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_owned();
            kind = text.split_once('(').map(|(_, rest)| rest.trim_end_matches(')').to_owned()).unwrap_or_default();
            if text.ends_with('{') {
                inner = fields(lines, &format!("{indent}    "), false);
            }
        } else if let Some((name, of)) = text.trim_start_matches("pub ").split_once(": ") {
            key = quoted(&before.attributes, "rename").unwrap_or(name.trim_start_matches("r#")).to_owned();
            kind = of.to_owned();
        }
        if !key.is_empty() && !before.is_hidden() {
            found.push(Field { key, kind, doc: before.doc(), fields: inner });
        }
        before = Before::default();
    }
    found
}
