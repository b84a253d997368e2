//! Images of items, on every backend: kept by name, listed in pages, removed, bounded.

use engine::UnixMs;
use server::ledger::Source;

use crate::places::LedgerHome;

const AT: UnixMs = UnixMs(1_700_000_000_000);

fn name(number: usize) -> String {
    format!("{number:032x}.png")
}

fn names(source: &Source, after: &str, max: usize) -> Vec<String> {
    source.images(after, max).unwrap().into_iter().map(|image| image.name).collect()
}

#[test]
fn images_are_kept_by_their_names_until_they_are_removed() {
    for home in LedgerHome::each() {
        drop(home.open());
        let source = home.source();
        assert_eq!((source.image(&name(1)).unwrap(), names(&source, "", 9)), (None, Vec::new()));
        assert_eq!(source.missing_image(&[]).unwrap(), None);
        // Every byte there is, and more than a packet's first fragment.
        let content: Vec<u8> = (0..=255).cycle().take(512 * 1024).collect();
        for _ in 0..2 {
            source.add_image(&name(1), &content, AT).unwrap();
        }
        source.add_image(&name(3), b"c", AT).unwrap();
        source.add_image(&name(2), b"b", AT).unwrap();
        assert_eq!(source.image(&name(1)).unwrap(), Some(content));
        assert_eq!(names(&source, "", 2), [name(1), name(2)]);
        assert_eq!(names(&source, &name(2), 2), [name(3)]);
        let kept = &source.images("", 1).unwrap()[0];
        assert_eq!(kept.bytes, 512 * 1024);
        assert!(kept.added_at >= AT, "{kept:?}");
        let (one, three, four) = (name(1), name(3), name(4));
        assert_eq!(source.missing_image(&[&one, &three]).unwrap(), None);
        assert_eq!(source.missing_image(&[&one, &four, &three]).unwrap(), Some(&*four));
        let many: Vec<String> = (0..1_200).map(|number| name(1 + number % 3)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(source.missing_image(&many).unwrap(), None);
        assert!(source.remove_image(&one).unwrap());
        assert!(!source.remove_image(&one).unwrap());
        assert_eq!(names(&source, "", 9), [name(2), name(3)]);
        // They are no part of the books.
        assert!(source.audit().unwrap().broken.is_empty());
    }
}

#[test]
fn what_a_killed_server_left_of_an_image_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::Directory(directory.path().to_owned());
    source.add_image(&name(1), b"whole", AT).unwrap();
    std::fs::write(directory.path().join("images/.part"), b"ha").unwrap();
    assert_eq!(names(&source, "", 9), [name(1)]);
    source.add_image(&name(2), b"whole", AT).unwrap();
    assert_eq!(names(&source, "", 9), [name(1), name(2)]);
}

#[test]
#[should_panic(expected = "no name of an image")]
fn a_name_never_leads_out_of_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    Source::Directory(directory.path().to_owned()).image("../ledger.db").ok();
}
