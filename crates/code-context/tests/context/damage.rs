//! An index that is damaged on disk gives the right answer or is rebuilt, never a wrong answer and
//! never a panic.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use code_context::{ContextError, Index, Options, Packed, Query, RankedFile, Weights, pack, rank};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn options() -> Options {
    Options { history: false, ..Options::default() }
}

/// What a deep session would get.
fn question(index: &Index) -> Result<(Vec<RankedFile>, Packed), ContextError> {
    let query = Query::from_text("Basket total is wrong\n`sum_of_lines` in cart3 ignores vouchers");
    let ranked = rank(index, &query, &Weights::default(), 20)?;
    let packed = pack(index, &query, &ranked, 3000)?;
    Ok((ranked, packed))
}

/// A repository whose files are old enough to be trusted.
fn repository(folder: &Path) -> PathBuf {
    let root = folder.join("repository");
    for number in 0..40 {
        let place = root.join(format!("src/part{}", number % 5));
        fs::create_dir_all(&place).unwrap();
        let text = format!(
            "# Basket number {number}.\ndef sum_of_lines_{number}(lines):\n    total = {number}\n    \
             return total + voucher_{}(lines)\n\nclass Cart{number}:\n    pass\n",
            number % 7
        );
        fs::write(place.join(format!("cart{number}.py")), text).unwrap();
    }
    crate::trusted::wait_until_trusted(folder);
    root
}

/// The files of the only index in a cache.
fn files(cache: &Path) -> Vec<PathBuf> {
    let store = fs::read_dir(cache).unwrap().next().unwrap().unwrap().path();
    let mut files: Vec<PathBuf> =
        fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| fs::metadata(path).unwrap().len() > 1);
    files.sort();
    files
}

#[derive(Debug, Clone)]
enum Damage {
    Flip(u8),
    Cut,
    Zeros(usize),
    Gone,
}

fn apply(path: &Path, at: &prop::sample::Index, damage: &Damage) {
    let mut bytes = fs::read(path).unwrap();
    let place = at.index(bytes.len());
    match damage {
        Damage::Flip(mask) => bytes[place] ^= mask,
        Damage::Cut => bytes.truncate(place),
        Damage::Zeros(count) => {
            bytes.iter_mut().skip(place).take(*count).for_each(|byte| *byte = 0);
        }
        Damage::Gone => return fs::remove_file(path).unwrap(),
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn damage_anywhere_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    let root = repository(folder.path());
    let good_cache = folder.path().join("good");
    Index::open_or_build(&root, &good_cache, &options()).unwrap();
    fs::write(root.join("src/part0/cart0.py"), "def voucher_0(lines): pass\n").unwrap();
    let (right, _) = Index::ask(&root, &good_cache, &options(), question).unwrap();
    assert!(right.1.files.len() > 5);
    let good = files(&good_cache);
    assert!(good.len() >= 3, "{good:?}");
    let damage = prop_oneof![
        8 => (1u8..).prop_map(Damage::Flip),
        1 => Just(Damage::Cut),
        1 => (1usize..5000).prop_map(Damage::Zeros),
        1 => Just(Damage::Gone),
    ];
    let rebuilt = Cell::new(0);
    let strategy = (0..good.len(), any::<prop::sample::Index>(), damage);
    let cache = folder.path().join("bad");
    let mut runner = TestRunner::new(Config::with_cases(300));
    runner
        .run(&strategy, |(file, at, damage)| {
            if cache.exists() {
                fs::remove_dir_all(&cache).unwrap();
            }
            let store = cache.join(good[0].parent().unwrap().file_name().unwrap());
            fs::create_dir_all(&store).unwrap();
            for path in &good {
                fs::copy(path, store.join(path.file_name().unwrap())).unwrap();
            }
            apply(&store.join(good[file].file_name().unwrap()), &at, &damage);
            let (answer, report) = Index::ask(&root, &cache, &options(), question).unwrap();
            prop_assert_eq!(&answer, &right);
            rebuilt.set(rebuilt.get() + u32::from(report.rebuilt.is_some()));
            let (answer, report) = Index::ask(&root, &cache, &options(), question).unwrap();
            prop_assert_eq!(&answer, &right);
            // It is rebuilt only once.
            prop_assert_eq!(report.rebuilt, None);
            Ok(())
        })
        .unwrap();
    assert!(rebuilt.get() > 20, "damage was noticed {} times", rebuilt.get());
}

#[test]
fn damage_while_the_index_is_open_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let root = repository(folder.path());
    let cache = folder.path().join("cache");
    let (index, _) = Index::open_or_build(&root, &cache, &options()).unwrap();
    for path in files(&cache) {
        let length = usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![0; length], 0).unwrap();
    }
    assert!(matches!(question(&index), Err(ContextError::Damaged { .. })));
    let (index, report) = Index::rebuild(&root, &cache, &options()).unwrap();
    assert!(report.rebuilt.is_some());
    assert!(question(&index).is_ok());
}
