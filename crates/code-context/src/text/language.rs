//! The language of a file, judged by its name and first line, and its comments and strings.

/// Language families with the same syntax of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Language {
    /// Plain text, data, or an unknown language.
    Other = 0,
    /// C, C++ and similar languages.
    C = 1,
    CSharp = 2,
    /// Java, Scala, Groovy.
    Java = 3,
    Kotlin = 4,
    /// JavaScript and TypeScript, with the component formats around them.
    Script = 5,
    Python = 6,
    Go = 7,
    Rust = 8,
    Swift = 9,
    Ruby = 10,
    Php = 11,
    Shell = 12,
    /// SQL and Lua: comments start with two dashes.
    Dashed = 13,
    /// Markup: HTML, XML, XAML, templates.
    Markup = 14,
    /// Prose: Markdown, reStructuredText, plain text.
    Prose = 15,
    /// Settings and data: JSON, YAML, TOML, project files.
    Data = 16,
    Style = 17,
    /// Grammars and interface descriptions with C-like comments.
    Grammar = 18,
}

impl Language {
    /// The language of a file: by its path, else by the interpreter it names.
    pub fn of(path: &str, text: &[u8]) -> Self {
        match Self::of_path(path) {
            Self::Other => Self::of_first_line(text).unwrap_or(Self::Other),
            known => known,
        }
    }

    /// The language of a script that begins with `#!`.
    fn of_first_line(text: &[u8]) -> Option<Self> {
        let line = text[..text.len().min(200)].split(|byte| *byte == b'\n').next()?;
        let words = std::str::from_utf8(line.strip_prefix(b"#!")?).ok()?.split_whitespace();
        // `/usr/bin/env -S python3.12 -u` names the program after itself.
        let mut programs = words
            .filter(|word| !word.starts_with('-'))
            .map(|word| word.rsplit('/').next().unwrap_or(word))
            .filter(|name| *name != "env" && !name.contains('='));
        let program = programs.next()?.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        match program {
            "sh" | "bash" | "zsh" | "dash" | "ksh" | "fish" | "make" | "perl" => Some(Self::Shell),
            "python" | "pypy" => Some(Self::Python),
            "node" | "deno" | "bun" | "ts-node" => Some(Self::Script),
            "ruby" => Some(Self::Ruby),
            "php" => Some(Self::Php),
            "lua" => Some(Self::Dashed),
            _ => None,
        }
    }

    /// The language of a path, by its extension.
    pub fn of_path(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let Some((_, extension)) = name.rsplit_once('.') else {
            return match name {
                "Makefile" | "makefile" | "Dockerfile" | "Rakefile" | "Gemfile" => Self::Shell,
                "README" | "LICENSE" | "CHANGELOG" | "AUTHORS" | "NEWS" => Self::Prose,
                _ => Self::Other,
            };
        };
        match extension.to_ascii_lowercase().as_str() {
            "c" | "h" | "cc" | "cpp" | "cxx" | "hpp" | "hh" | "hxx" | "ipp" | "inl" | "m"
            | "mm" | "cu" | "cuh" => Self::C,
            "cs" | "csx" => Self::CSharp,
            "java" | "scala" | "groovy" => Self::Java,
            "kt" | "kts" => Self::Kotlin,
            "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" | "vue" | "svelte" => {
                Self::Script
            }
            "py" | "pyx" | "pxd" | "pyi" => Self::Python,
            "go" => Self::Go,
            "rs" => Self::Rust,
            "swift" => Self::Swift,
            "rb" | "rake" | "gemspec" => Self::Ruby,
            "php" => Self::Php,
            "sh" | "bash" | "zsh" | "ps1" | "psm1" | "pl" | "pm" | "r" | "jl" | "ex" | "exs" => {
                Self::Shell
            }
            "sql" | "lua" | "hs" | "elm" | "vb" => Self::Dashed,
            "html" | "htm" | "xml" | "xaml" | "axaml" | "razor" | "cshtml" | "template" | "hbs"
            | "erb" | "resx" | "resw" => Self::Markup,
            "md" | "mdx" | "rst" | "txt" | "adoc" | "markdown" => Self::Prose,
            "json" | "yaml" | "yml" | "toml" | "ini" | "cfg" | "conf" | "csv" | "tsv" | "lock"
            | "csproj" | "props" | "targets" | "sln" | "gradle" | "properties" | "tf" | "hcl" => {
                Self::Data
            }
            "css" | "scss" | "less" | "sass" => Self::Style,
            "proto" | "y" | "l" | "g4" | "tt" | "thrift" | "fbs" | "graphql" | "fs" | "dart"
            | "zig" | "jq" | "al" => Self::Grammar,
            _ => Self::Other,
        }
    }

    /// Whether it is a programming language.
    pub fn is_code(self) -> bool {
        !matches!(self, Self::Other | Self::Prose | Self::Data)
    }

    pub fn code(self) -> u8 {
        self as u8
    }

    /// Decodes it; an unknown number is an unknown language.
    pub fn from_code(code: u8) -> Self {
        const ALL: [Language; 19] = [
            Language::Other,
            Language::C,
            Language::CSharp,
            Language::Java,
            Language::Kotlin,
            Language::Script,
            Language::Python,
            Language::Go,
            Language::Rust,
            Language::Swift,
            Language::Ruby,
            Language::Php,
            Language::Shell,
            Language::Dashed,
            Language::Markup,
            Language::Prose,
            Language::Data,
            Language::Style,
            Language::Grammar,
        ];
        ALL.get(usize::from(code)).copied().unwrap_or(Self::Other)
    }

    /// Start of a comment that ends with the line.
    pub(crate) fn line_comment(self) -> &'static [u8] {
        match self {
            Self::C
            | Self::CSharp
            | Self::Java
            | Self::Kotlin
            | Self::Script
            | Self::Go
            | Self::Rust
            | Self::Swift
            | Self::Php
            | Self::Style
            | Self::Grammar => b"//",
            Self::Python | Self::Ruby | Self::Shell | Self::Data => b"#",
            Self::Dashed => b"--",
            Self::Other | Self::Markup | Self::Prose => b"",
        }
    }

    /// Start and end of a block comment.
    pub(crate) fn block_comment(self) -> Option<(&'static [u8], &'static [u8])> {
        match self {
            Self::C
            | Self::CSharp
            | Self::Java
            | Self::Kotlin
            | Self::Script
            | Self::Go
            | Self::Rust
            | Self::Swift
            | Self::Php
            | Self::Style
            | Self::Grammar => Some((b"/*", b"*/")),
            Self::Markup => Some((b"<!--", b"-->")),
            _ => None,
        }
    }

    /// The quotes of a string on one line.
    pub(crate) fn quotes(self) -> &'static [u8] {
        match self {
            Self::Other | Self::Prose | Self::Markup => b"",
            // There a single quote is a lifetime or a character, never a long string.
            Self::Rust
            | Self::C
            | Self::Java
            | Self::Kotlin
            | Self::CSharp
            | Self::Swift
            | Self::Grammar => b"\"",
            Self::Go | Self::Script => b"\"'`",
            _ => b"\"'",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_detected_by_extension_and_survive_storage() {
        for (path, language) in [
            ("src/a.cs", Language::CSharp),
            ("a/b.TSX", Language::Script),
            ("x.rs", Language::Rust),
            ("Makefile", Language::Shell),
            ("no-extension", Language::Other),
            ("docs/readme.md", Language::Prose),
        ] {
            assert_eq!(Language::of_path(path), language, "{path}");
            assert_eq!(Language::from_code(language.code()), language);
        }
        assert_eq!(Language::from_code(200), Language::Other);
    }

    #[test]
    fn a_script_without_an_extension_names_its_language() {
        for (text, language) in [
            ("#!/bin/sh\nx", Language::Shell),
            ("#!/usr/bin/env python3\n", Language::Python),
            ("#!/usr/bin/env -S A=1 python3.12 -u", Language::Python),
            ("#! /usr/bin/node --flag\n", Language::Script),
            ("#!/usr/bin/unknown\n", Language::Other),
            ("#!\n", Language::Other),
            ("plain", Language::Other),
        ] {
            assert_eq!(Language::of("bin/tool", text.as_bytes()), language, "{text}");
        }
        assert_eq!(Language::of("a.md", b"#!/bin/sh"), Language::Prose);
    }
}
