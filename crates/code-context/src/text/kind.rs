//! The role of a file in its repository, judged by its path: product code is ranked first, tests
//! and documents only if the query is about them.

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum Kind {
    /// Code of the product.
    Source,
    /// Tests, fixtures, benchmarks.
    Test,
    /// Examples, samples, demonstrations.
    Example,
    Document,
    /// Settings, build files, data.
    Setting,
    /// Generated, or minified.
    Generated,
    /// Third-party code.
    Vendored,
}

const TEST_WORDS: &str = "\
    test tests spec specs testing testdata fixture fixtures unittest unittests testsuite \
     e2e benchmark benchmarks bench benches mock mocks stub stubs perf fuzz testutil \
     testutils snapshots testcases testlib";
const EXAMPLE_WORDS: &str = "\
    sample samples example examples demo demos playground sandbox tutorial tutorials";
const DOCUMENT_WORDS: &str = "doc docs documentation website changelog changelogs";
const VENDOR_WORDS: &str = "\
    vendor vendored third_party thirdparty node_modules bower_components deps external \
     extern submodules";
const GENERATED_WORDS: &str = "dist generated gen autogen __generated__ migrations";

impl Kind {
    /// The kind by path alone; the content can still turn it into [`Kind::Generated`].
    pub fn of_path(path: &str, is_code: bool) -> Self {
        let lower = path.to_ascii_lowercase();
        let (folders, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
        let is_in = |words: &str, word: &str| words.split(' ').any(|known| known == word);
        let folder_is = |words: &str| folders.split('/').any(|folder| is_in(words, folder));
        let folder_has =
            |words: &str| folders.split(['/', '.', '-', '_']).any(|part| is_in(words, part));
        if folder_is(VENDOR_WORDS) {
            return Self::Vendored;
        }
        if folder_has(TEST_WORDS)
            || folder_is("__tests__ __mocks__ __snapshots__")
            || is_test_folder(path)
            || is_test_name(path, name)
        {
            return Self::Test;
        }
        if folder_has(EXAMPLE_WORDS) {
            return Self::Example;
        }
        if folder_is(GENERATED_WORDS) || is_generated_name(name) {
            return Self::Generated;
        }
        if is_build_file(name) {
            return Self::Setting;
        }
        if folder_is(DOCUMENT_WORDS) {
            return Self::Document;
        }
        if is_code {
            return Self::Source;
        }
        if name.ends_with(".md")
            || name.ends_with(".rst")
            || name.ends_with(".txt")
            || name.ends_with(".adoc")
        {
            Self::Document
        } else {
            Self::Setting
        }
    }

    /// One word for display.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Test => "test",
            Self::Example => "example",
            Self::Document => "document",
            Self::Setting => "setting",
            Self::Generated => "generated",
            Self::Vendored => "vendored",
        }
    }
}

/// Project folders such as `Contoso.Web.Tests`, `ContosoTests` or `core_test`.
fn is_test_folder(path: &str) -> bool {
    let Some((folders, _)) = path.rsplit_once('/') else { return false };
    folders.split('/').any(|folder| {
        folder.ends_with("Tests") || folder.ends_with("Test") || folder.ends_with("Specs")
    })
}

fn is_test_name(path: &str, lower: &str) -> bool {
    let stem = lower.split('.').next().unwrap_or(lower);
    let parts_say = lower.split(['.', '-', '_']).any(|part| {
        matches!(part, "test" | "tests" | "spec" | "specs" | "fixture" | "bench" | "benchmark")
    });
    let original = path.rsplit('/').next().unwrap_or(path);
    let original_stem = original.split('.').next().unwrap_or(original);
    let ends = original_stem.ends_with("Test")
        || original_stem.ends_with("Tests")
        || original_stem.ends_with("TestCase")
        || original_stem.ends_with("Spec");
    // `TestCart.java` is a test, but elsewhere it may be part of a testing library.
    let starts = lower.ends_with(".java")
        && original_stem
            .strip_prefix("Test")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    // The build layout states what belongs to the product.
    let product = path.starts_with("src/main/") || path.contains("/src/main/");
    !product && (parts_say || ends || starts || stem == "conftest")
}

fn is_generated_name(lower: &str) -> bool {
    [
        ".min.js",
        ".min.css",
        ".g.cs",
        ".designer.cs",
        ".pb.go",
        ".pb.cc",
        ".pb.h",
        "_pb2.py",
        ".generated.cs",
        ".snap",
        ".lock",
        "-lock.json",
        "go.sum",
    ]
    .iter()
    .any(|end| lower.ends_with(end))
        || lower.starts_with("zz_generated")
}

/// Settings written as code: `babel.config.js`, `gulpfile.ts`.
fn is_build_file(lower: &str) -> bool {
    let stem = lower.split('.').next().unwrap_or(lower);
    let second = lower.split('.').nth(1).unwrap_or_default();
    second == "config" && lower.split('.').count() == 3
        || matches!(stem, "gulpfile" | "gruntfile" | "rakefile" | "jakefile" | "karma")
            && lower.split('.').count() <= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_tell_their_kind() {
        for (path, kind) in [
            ("src/Shop/Cart.cs", Kind::Source),
            ("test/Shop.Tests/CartTests.cs", Kind::Test),
            ("src/CartTests/Helper.cs", Kind::Test),
            ("src/_pytest/unittest.py", Kind::Source),
            ("pkg/cart_test.go", Kind::Test),
            ("packages/a/__tests__/x.js", Kind::Test),
            ("src/Latest.java", Kind::Source),
            ("src/test/java/TestCart.java", Kind::Test),
            ("framework/src/main/java/TestPlan.java", Kind::Source),
            ("src/framework/TestParameters.cs", Kind::Source),
            ("examples/a.rs", Kind::Example),
            ("docs/conf.py", Kind::Document),
            ("vendor/x/y.go", Kind::Vendored),
            ("web/app.min.js", Kind::Generated),
            ("web/babel.config.js", Kind::Setting),
            ("web/src/config.js", Kind::Source),
        ] {
            assert_eq!(Kind::of_path(path, true), kind, "{path}");
        }
        assert_eq!(Kind::of_path("README.md", false), Kind::Document);
        assert_eq!(Kind::of_path("app.json", false), Kind::Setting);
    }
}
