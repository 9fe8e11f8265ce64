//! Text of others in XML.

/// What XML 1.0 has a way to write (section 2.2, "Characters"); all else, and other control characters, as blanks. A
/// thread's name may be any bytes.
pub fn readable(words: &str) -> String {
    let is_readable =
        |c: char| !c.is_control() && matches!(c, ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{1_0000}'..);
    words.chars().map(|c| if is_readable(c) { c } else { ' ' }).collect()
}
