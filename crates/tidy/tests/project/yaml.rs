//! A reader of the part of YAML that the repository's files use: block mappings and lists, plain
//! and quoted scalars, lists in brackets, literal blocks. Anything else is refused.

use std::fmt;

use crate::file;

/// A value of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Yaml {
    /// A scalar, whatever its type would be; empty if there is none.
    Text(String),
    /// A list.
    List(Vec<Yaml>),
    /// A mapping, in the order of the file.
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    /// Reads a file of the repository.
    pub(crate) fn of_file(path: &str) -> Self {
        Self::parse(&file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The value at a path of keys.
    pub(crate) fn at(&self, path: &str) -> Option<&Yaml> {
        path.split('.').try_fold(self, |value, key| {
            let Self::Map(entries) = value else { return None };
            entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
        })
    }

    /// The scalar at a path of keys.
    pub(crate) fn text(&self, path: &str) -> &str {
        match self.at(path) {
            Some(Self::Text(text)) => text,
            other => panic!("{path:?} is {other:?}"),
        }
    }

    /// The entries of the mapping at a path of keys.
    pub(crate) fn entries(&self, path: &str) -> &[(String, Yaml)] {
        match self.at(path) {
            Some(Self::Map(entries)) => entries,
            other => panic!("{path:?} is {other:?}"),
        }
    }

    /// The items of the list at a path of keys.
    pub(crate) fn items(&self, path: &str) -> &[Yaml] {
        match self.at(path) {
            Some(Self::List(items)) => items,
            other => panic!("{path:?} is {other:?}"),
        }
    }

    fn parse(text: &str) -> Result<Self, Wrong> {
        let mut lines = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let content = line.trim_start_matches(' ');
            let line = Line { number: at + 1, indent: line.len() - content.len(), text: content };
            if content.starts_with('\t') {
                return line.wrong("a tab in the indentation");
            }
            lines.push(line);
        }
        let mut reader = Reader { lines, next: 0 };
        let value = reader.block(0)?;
        match reader.peek() {
            Some(left) => left.wrong("not indented like the lines above"),
            None => Ok(value),
        }
    }
}

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

impl Line<'_> {
    fn wrong<T>(&self, what: &str) -> Result<T, Wrong> {
        Err(Wrong(format!("line {}: {what}: {:?}", self.number, self.text)))
    }
}

struct Reader<'a> {
    lines: Vec<Line<'a>>,
    next: usize,
}

impl<'a> Reader<'a> {
    /// The next line with content.
    fn peek(&mut self) -> Option<Line<'a>> {
        while let Some(line) = self.lines.get(self.next) {
            if !line.text.is_empty() && !line.text.starts_with('#') {
                return Some(*line);
            }
            self.next += 1;
        }
        None
    }

    /// The block that begins at the next line, if that is indented at least so much.
    fn block(&mut self, least: usize) -> Result<Yaml, Wrong> {
        match self.peek() {
            Some(line) if line.indent >= least => match is_item(line.text) {
                true => self.list(line.indent),
                false => self.map(line.indent),
            },
            _ => Ok(Yaml::Text(String::new())),
        }
    }

    fn list(&mut self, indent: usize) -> Result<Yaml, Wrong> {
        let mut items = Vec::new();
        while let Some(line) = self.peek().filter(|line| line.indent == indent) {
            if !is_item(line.text) {
                break;
            }
            let rest = line.text[1..].trim_start();
            if split(rest).is_some() {
                // The item is a mapping: its first line is read again without the dash.
                let inner = indent + line.text.len() - rest.len();
                self.lines[self.next] = Line { indent: inner, text: rest, ..line };
                items.push(self.map(inner)?);
            } else {
                self.next += 1;
                items.push(self.value(line, rest, indent)?);
            }
        }
        Ok(Yaml::List(items))
    }

    fn map(&mut self, indent: usize) -> Result<Yaml, Wrong> {
        let mut entries: Vec<(String, Yaml)> = Vec::new();
        while let Some(line) = self.peek().filter(|line| line.indent == indent) {
            let Some((key, rest)) = split(line.text) else { return line.wrong("not a key") };
            if entries.iter().any(|(known, _)| known == key) {
                return line.wrong("the key is there already");
            }
            self.next += 1;
            entries.push((key.to_owned(), self.value(line, rest, indent)?));
        }
        Ok(Yaml::Map(entries))
    }

    /// The value that begins behind a key or a dash.
    fn value(&mut self, line: Line<'a>, text: &'a str, indent: usize) -> Result<Yaml, Wrong> {
        match text {
            "" => {
                // A list may be as far to the left as its key.
                let is_list = self.peek().is_some_and(|next| is_item(next.text));
                self.block(indent + usize::from(!is_list))
            }
            "|" => Ok(Yaml::Text(self.literal(indent))),
            _ if text.starts_with('[') => {
                let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'))
                else {
                    return line.wrong("a list that does not end");
                };
                let items = inner.split(',').map(|item| scalar(line, item.trim()));
                Ok(Yaml::List(items.collect::<Result<_, _>>()?))
            }
            _ => scalar(line, text),
        }
    }

    fn literal(&mut self, indent: usize) -> String {
        let mut text = String::new();
        while let Some(line) = self.lines.get(self.next) {
            if !line.text.is_empty() && line.indent <= indent {
                break;
            }
            text.push_str(line.text);
            text.push('\n');
            self.next += 1;
        }
        text
    }
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// A key and what follows it.
fn split(text: &str) -> Option<(&str, &str)> {
    let (key, rest) = text.split_once(": ").or_else(|| Some((text.strip_suffix(':')?, "")))?;
    let is_key = !key.is_empty() && !key.starts_with(['"', '\'', '[', '{', '#', '&', '*']);
    is_key.then_some((key, rest.trim()))
}

fn scalar(line: Line<'_>, text: &str) -> Result<Yaml, Wrong> {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            return match inner.strip_suffix(quote) {
                Some(inner) if !inner.contains([quote, '\\']) => Ok(Yaml::Text(inner.to_owned())),
                _ => line.wrong("a quotation with something behind or inside it"),
            };
        }
    }
    let plain = text.split(" #").next().unwrap_or_default().trim_end();
    let odd = plain.starts_with(['{', '&', '*', '!', '>', '%', '@', '`', '|']);
    match odd || plain.contains(": ") || plain.ends_with(':') {
        true => line.wrong("a value that needs quotes, or a form that is not used here"),
        false => Ok(Yaml::Text(plain.to_owned())),
    }
}

#[test]
fn every_form_in_use_is_read() {
    let text = "# a\na: 1 # one\nb:\n  - x: \"y: z\"\n    w: [p, 'q']\n  - v\nc:\n- d\ne: |\n  f: g\n\n  h\ni:\n";
    let read = Yaml::parse(text).unwrap();
    assert_eq!(read.text("a"), "1");
    let items = read.items("b");
    assert_eq!((items[0].text("x"), items[0].items("w").len()), ("y: z", 2));
    assert_eq!(items[1], Yaml::Text("v".to_owned()));
    assert_eq!(read.items("c"), [Yaml::Text("d".to_owned())]);
    assert_eq!((read.text("e"), read.text("i")), ("f: g\n\nh\n", ""));
    assert_eq!(read.at("b.x"), None);
}

#[test]
fn what_is_wrong_is_refused() {
    for text in [
        "a: 1\n\tb: 2",
        "a: 1\na: 2",
        "a: 1\n  b: 2",
        "a:\n  b: 1\n c: 2",
        "a: b: c",
        "a: [b",
        "a: \"b\" c",
        "a: {b: 1}",
        "a",
    ] {
        assert!(Yaml::parse(text).is_err(), "{text:?}: {:?}", Yaml::parse(text));
    }
}

#[test]
fn every_yaml_file_is_read() {
    let mut count = 0;
    for end in [".yml", ".yaml"] {
        for source in tidelock_tidy::sources("").iter().filter(|file| file.path.ends_with(end)) {
            // The rules of alerts use forms of their own, and are read by a test of their own.
            if source.path != "docs/operations/alerts.yml" {
                Yaml::of_file(&source.path);
                count += 1;
            }
        }
    }
    assert!(count >= 4, "{count} files");
}
