//! What a plain full-text index costs: path and content of every text file, tantivy's usual words,
//! two threads. Arguments: the folder to read and the folder for the index.

#[path = "../../../measure.rs"]
mod measure;

use std::path::Path;

use tantivy::schema::{STORED, Schema, TEXT};
use tantivy::{Index, IndexWriter, TantivyDocument};

/// As heartbeat has it.
const MAX_FILE: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(root), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: plain-tantivy DIR INDEX".into());
    };
    let started = measure::Started::now();
    std::fs::create_dir_all(&folder)?;
    let files = index(Path::new(&root), Path::new(&folder))?;
    println!("{}", started.line(&format!("{files} files")));
    Ok(())
}

fn index(root: &Path, folder: &Path) -> Result<usize, Box<dyn std::error::Error>> {
    let mut schema = Schema::builder();
    let path = schema.add_text_field("path", TEXT | STORED);
    let body = schema.add_text_field("body", TEXT);
    let index = Index::create_in_dir(folder, schema.build())?;
    let mut writer: IndexWriter = index.writer_with_num_threads(2, 200 << 20)?;
    let mut files = 0;
    let mut walker = ignore::WalkBuilder::new(root);
    walker.hidden(false).parents(false).git_global(false).require_git(false);
    for entry in walker.filter_entry(|entry| entry.file_name() != ".git").build() {
        let entry = entry?;
        let small = entry.metadata().is_ok_and(|metadata| metadata.len() <= MAX_FILE);
        if !small || !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        let mut document = TantivyDocument::default();
        document.add_text(path, entry.path().to_string_lossy());
        document.add_text(body, text);
        writer.add_document(document)?;
        files += 1;
    }
    writer.commit()?;
    writer.wait_merging_threads()?;
    Ok(files)
}
