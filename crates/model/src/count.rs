//! Numbers of things in messages: one is not several.

/// `1 task`, `3 tasks`.
pub fn counted(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_not_several() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "task")), ["0 tasks", "1 task", "2 tasks"]);
    }
}
