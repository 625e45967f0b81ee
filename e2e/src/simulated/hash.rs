//! The hashes that NVIDIA's controller puts into names and annotations.
//!
//! It hashes with 32-bit FNV-1a and, for names, maps the decimal digits to an alphabet without
//! vowels, as Kubernetes does for generated names. Checked against two recorded names.

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// 32-bit FNV-1a.
pub fn fnv1a(text: &str) -> u32 {
    text.bytes()
        .fold(OFFSET, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME))
}

/// The hash part of an object name: decimal FNV-1a in Kubernetes' safe alphabet.
pub fn name_hash(text: &str) -> String {
    fnv1a(text)
        .to_string()
        .bytes()
        .map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]))
        .collect()
}

/// Name of a driver DaemonSet that an NVIDIADriver makes for one pool of nodes.
///
/// `kernel` is given with precompiled drivers only. The name fits a label value (63 characters).
pub fn driver_app_name(driver_type: &str, os_tag: &str, uid: &str, kernel: Option<&str>) -> String {
    let hash = match kernel {
        Some(kernel) => name_hash(&format!("{uid}-{kernel}")),
        None => name_hash(uid),
    };
    let mut prefix = format!("nvidia-{driver_type}-driver-{os_tag}");
    prefix.truncate(62 - hash.len());
    format!("{prefix}-{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fnv1a_values() {
        assert_eq!(fnv1a(""), OFFSET);
        assert_eq!(fnv1a("a"), 0xe40c_292c);
        assert_eq!(fnv1a("foobar"), 0xbf9c_f968);
    }

    #[test]
    fn digits_become_the_safe_alphabet() {
        // FNV-1a of "a" is 3826002220 in decimal.
        assert_eq!(name_hash("a"), "7d6b446664");
    }

    #[test]
    fn a_long_name_is_cut_before_the_hash() {
        let name = driver_app_name("gpu", &"x".repeat(80), "uid", Some("6.12.47"));
        assert_eq!(name.len(), 63);
        assert!(name.ends_with(&name_hash("uid-6.12.47")));
    }
}
