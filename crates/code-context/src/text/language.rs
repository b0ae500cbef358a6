//! The language of a file, judged by its name and first line, and its comments and strings.

/// Language families with the same syntax of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Language {
    /// Plain text, data, or an unknown language.
    Other,
    /// C, C++ and similar languages.
    C,
    CSharp,
    /// Java, Scala, Groovy.
    Java,
    Kotlin,
    /// JavaScript and TypeScript, with the component formats around them.
    Script,
    Python,
    Go,
    Rust,
    Swift,
    Ruby,
    Php,
    Shell,
    /// SQL and Lua: comments start with two dashes.
    Dashed,
    /// Markup: HTML, XML, XAML, templates.
    Markup,
    /// Prose: Markdown, reStructuredText, plain text.
    Prose,
    /// Settings and data: JSON, YAML, TOML, project files.
    Data,
    Style,
    /// Grammars and interface descriptions with C-like comments.
    Grammar,
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
    fn languages_are_detected_by_extension() {
        for (path, language) in [
            ("src/a.cs", Language::CSharp),
            ("a/b.TSX", Language::Script),
            ("x.rs", Language::Rust),
            ("Makefile", Language::Shell),
            ("no-extension", Language::Other),
            ("docs/readme.md", Language::Prose),
        ] {
            assert_eq!(Language::of_path(path), language, "{path}");
        }
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
