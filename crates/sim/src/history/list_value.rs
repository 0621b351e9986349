//! Lists as values: the length and a digest of the elements, so that long lists stay cheap.

/// The value of a list with these elements.
pub fn of<'a>(elements: impl IntoIterator<Item = &'a str>) -> Option<String> {
    elements.into_iter().fold(None, |list, one| Some(pushed(list.as_deref(), one)))
}

/// The value of a list after one more element.
pub fn pushed(list: Option<&str>, element: &str) -> String {
    let mut words = list.unwrap_or_default().split_ascii_whitespace();
    let length: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let before = words.nth(1).and_then(|word| word.parse().ok());
    let digest = element
        .bytes()
        .chain([0])
        .fold(before.unwrap_or(0xcbf2_9ce4_8422_2325), |digest: u64, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    format!("{} elements {digest}", length + 1)
}

/// What a caller is told of a value: of a list its length.
pub fn shown(value: &str) -> &str {
    value.split_once(" elements ").map_or(value, |(length, _)| length)
}
