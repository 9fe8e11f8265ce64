//! Collectives as they really were: what each call was decomposed into, scaled to what Open MPI's monitoring counted.
//!
//! The monitoring component knows each pair's messages exactly and nothing about time; the decomposition knows when a
//! collective was called and, roughly, in which sizes. Where both agree nothing changes.

use super::part::Amount;
use std::collections::BTreeMap;

/// Shares `total` in proportion to the weights, by largest remainders: the shares add up to `total`. Equal weights
/// where all are 0.
pub fn share(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let (weights, sum): (Vec<u128>, u128) = match sum {
        0 => (vec![1; weights.len()], weights.len() as u128),
        _ => (weights.iter().map(|&weight| u128::from(weight)).collect(), sum),
    };
    let exact = |weight: &u128| (u128::from(total) * weight / sum, u128::from(total) * weight % sum);
    let mut parts: Vec<(usize, (u128, u128))> = weights.iter().map(exact).enumerate().collect();
    let given: u128 = parts.iter().map(|part| part.1.0).sum();
    let mut left = (u128::from(total).saturating_sub(given)) as usize;
    parts.sort_by(|a, b| b.1.1.cmp(&a.1.1).then(a.0.cmp(&b.0)));
    for part in &mut parts {
        if left > 0 {
            part.1.0 += 1;
            left -= 1;
        }
    }
    parts.sort_unstable_by_key(|part| part.0);
    parts.into_iter().map(|part| part.1.0 as u64).collect()
}

/// Size classes of one pair's collective messages, so that they add up to `total`. `known` are the messages of each
/// class where they are known exactly.
pub fn classes(
    decomposed: &BTreeMap<u32, Amount>,
    total: Amount,
    known: Option<&BTreeMap<u32, u64>>,
) -> BTreeMap<u32, Amount> {
    if total.messages == 0 {
        return BTreeMap::new();
    }
    let messages: BTreeMap<u32, u64> = match known {
        Some(known) if known.values().sum::<u64>() == total.messages => known.clone(),
        _ if decomposed.is_empty() => BTreeMap::from([(class_of(total.bytes / total.messages), total.messages)]),
        _ => {
            let weights: Vec<u64> = decomposed.values().map(|amount| amount.messages).collect();
            decomposed.keys().copied().zip(share(total.messages, &weights)).collect()
        }
    };
    let least: u64 =
        messages.iter().map(|(&class, &count)| count.saturating_mul(range(class).0)).fold(0, u64::saturating_add);
    let most: u64 =
        messages.iter().map(|(&class, &count)| count.saturating_mul(range(class).1)).fold(0, u64::saturating_add);
    if !(least..=most).contains(&total.bytes) {
        // Sizes that cannot be: one class, by the average.
        let messages = total.messages;
        return BTreeMap::from([(class_of(total.bytes / messages), Amount { messages, bytes: total.bytes })]);
    }
    // Bytes: what messages of the class had in the decomposition, within what they may have; then what is missing, or
    // too much, by the room that each class has left.
    let mut bytes: Vec<(u64, u64, u64)> = Vec::new();
    for (&class, &count) in &messages {
        let (low, high) = (range(class).0.saturating_mul(count), range(class).1.saturating_mul(count));
        let seen = decomposed.get(&class).filter(|amount| amount.messages > 0);
        let guess = seen.map_or(low, |amount| (amount.bytes / amount.messages).saturating_mul(count));
        bytes.push((low, guess.clamp(low, high), high));
    }
    let sum = bytes.iter().map(|entry| entry.1).fold(0, u64::saturating_add);
    let room: Vec<u64> =
        bytes.iter().map(|(low, now, high)| if sum < total.bytes { high - now } else { now - low }).collect();
    let changes = share(sum.abs_diff(total.bytes), &room);
    let amounts = messages.into_iter().zip(bytes).zip(changes).map(|(((class, messages), (_, now, _)), change)| {
        (class, Amount { messages, bytes: if sum < total.bytes { now + change } else { now - change } })
    });
    amounts.filter(|(_, amount)| amount.messages > 0).collect()
}

/// The least and the most bytes of a message of the class.
fn range(class: u32) -> (u64, u64) {
    match class {
        0 => (0, 0),
        64.. => (1 << 63, u64::MAX),
        class => (1 << (class - 1), (1 << class) - 1),
    }
}

/// One pair's series so that it adds up to `total`; `fallback` are the windows to use where it has none.
pub fn windows(
    decomposed: &BTreeMap<u64, Amount>,
    total: Amount,
    fallback: &BTreeMap<u64, Amount>,
) -> BTreeMap<u64, Amount> {
    let from = if decomposed.is_empty() { fallback } else { decomposed };
    if from.is_empty() {
        return BTreeMap::new();
    }
    let messages: Vec<u64> = from.values().map(|amount| amount.messages).collect();
    let bytes: Vec<u64> = from.values().map(|amount| amount.bytes).collect();
    let shares = share(total.messages, &messages).into_iter().zip(share(total.bytes, &bytes));
    let rows = from.keys().zip(shares).map(|(&bin, (messages, bytes))| (bin, Amount { messages, bytes }));
    rows.filter(|(_, amount)| *amount != Amount::default()).collect()
}

/// The size class of a message: 0 for an empty one, else k + 1 from 2^k bytes on.
pub fn class_of(bytes: u64) -> u32 {
    u64::BITS - bytes.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn amounts(rows: &[(u32, u64, u64)]) -> BTreeMap<u32, Amount> {
        rows.iter().map(|&(class, messages, bytes)| (class, Amount { messages, bytes })).collect()
    }

    #[test]
    fn shares_add_up() {
        for (total, weights, expected) in [
            (10, vec![1, 1, 1], vec![4, 3, 3]),
            (3, vec![0, 0], vec![2, 1]),
            (0, vec![5], vec![0]),
            (7, vec![6, 0, 1], vec![6, 0, 1]),
            (u64::MAX, vec![u64::MAX, u64::MAX], vec![u64::MAX / 2 + 1, u64::MAX / 2]),
        ] {
            assert_eq!(share(total, &weights), expected, "{total} by {weights:?}");
        }
    }

    #[test]
    fn what_agrees_stays_and_what_does_not_is_scaled() {
        let decomposed = amounts(&[(0, 2, 0), (4, 3, 30), (7, 1, 100)]);
        let same = Amount { messages: 6, bytes: 130 };
        assert_eq!(classes(&decomposed, same, None), decomposed);
        let twice = Amount { messages: 12, bytes: 260 };
        assert_eq!(classes(&decomposed, twice, None), amounts(&[(0, 4, 0), (4, 6, 60), (7, 2, 200)]));
        let impossible = Amount { messages: 6, bytes: 6000 };
        assert_eq!(classes(&decomposed, impossible, None), amounts(&[(10, 6, 6000)]));
        let known = BTreeMap::from([(4, 5), (8, 1)]);
        let found = classes(&decomposed, Amount { messages: 6, bytes: 250 }, Some(&known));
        assert_eq!(found.values().map(|amount| amount.messages).collect::<Vec<_>>(), [5, 1]);
        assert_eq!(found.values().map(|amount| amount.bytes).sum::<u64>(), 250);
        assert!((40..=75).contains(&found[&4].bytes) && (128..=255).contains(&found[&8].bytes), "{found:?}");
        assert_eq!(classes(&BTreeMap::new(), Amount { messages: 2, bytes: 20 }, None), amounts(&[(4, 2, 20)]));
        assert_eq!(classes(&decomposed, Amount::default(), None), BTreeMap::new());
    }

    #[test]
    fn size_classes() {
        for (bytes, class) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11), (u64::MAX, 64)] {
            assert_eq!(class_of(bytes), class);
        }
    }

    proptest! {
        #[test]
        fn every_total_is_met(total in any::<u64>(), weights in prop::collection::vec(any::<u64>(), 1..20)) {
            let shares = share(total, &weights);
            prop_assert_eq!(shares.iter().map(|&part| u128::from(part)).sum::<u128>(), u128::from(total));
        }
    }
}
