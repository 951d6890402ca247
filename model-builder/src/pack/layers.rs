//! Which file goes into which layer. Pure: only names and sizes count.

use crate::media;
use crate::source::Entry;

use super::tar;

/// Files at least this large get a layer of their own.
pub(crate) const OWN_LAYER: u64 = 64 << 20;
/// Registries and runtimes limit the number of layers (containerd: 127 with overlayfs).
pub(crate) const MAX_LAYERS: usize = 96;
/// Where the files are in the image.
pub(crate) const MOUNT: &str = "models";

/// What a file is to a model, in the order in which layers come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Weights,
    Config,
    Doc,
    Code,
}

impl Class {
    const ALL: [Self; 4] = [Self::Weights, Self::Config, Self::Doc, Self::Code];

    fn of(entry: &Entry) -> Self {
        let name = entry.path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        match (name.as_str(), extension) {
            (_, _) if entry.file.is_none() => Self::Config,
            ("license" | "licence" | "notice" | "readme" | "changelog", _)
            | (_, "md" | "rst" | "pdf" | "html" | "png" | "jpg" | "svg") => Self::Doc,
            (_, "json" | "yaml" | "yml" | "toml" | "ini" | "cfg" | "txt" | "jinja" | "pbtxt" | "csv") => Self::Config,
            (_, "py" | "sh" | "ipynb" | "c" | "cc" | "cpp" | "cu" | "h" | "rs" | "go" | "js" | "so") => Self::Code,
            _ => Self::Weights,
        }
    }

    /// The `ModelPack` media type of a layer of this class.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Weights => "application/vnd.cncf.model.weight.v1.tar",
            Self::Config => "application/vnd.cncf.model.weight.config.v1.tar",
            Self::Doc => "application/vnd.cncf.model.doc.v1.tar",
            Self::Code => "application/vnd.cncf.model.code.v1.tar",
        }
    }
}

/// One layer: a tar of its members under `models/`.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) class: Class,
    /// Files (and folders that no file implies), in order.
    pub(crate) members: Vec<Entry>,
}

impl Layer {
    /// Exact size of the tar.
    pub(crate) fn size(&self) -> u64 {
        let members = self.items().iter().map(|item| tar::item_size(&item.name, item.size())).sum::<u64>();
        members + tar::END.len() as u64
    }

    /// Everything in the tar, parents first: folders appear in every layer that needs them.
    pub(crate) fn items(&self) -> Vec<Item<'_>> {
        let mut items = vec![Item { name: format!("{MOUNT}/"), member: None }];
        let mut open: Vec<&str> = Vec::new();
        for member in &self.members {
            let folder = match member.file {
                Some(_) => member.path.rsplit_once('/').map_or("", |(folder, _)| folder),
                None => member.path.as_str(),
            };
            let steps: Vec<&str> = folder.split('/').filter(|step| !step.is_empty()).collect();
            let shared = open.iter().zip(&steps).take_while(|(one, other)| one == other).count();
            for depth in shared..steps.len() {
                items.push(Item { name: format!("{MOUNT}/{}/", steps[..=depth].join("/")), member: None });
            }
            open = steps;
            if member.file.is_some() {
                items.push(Item { name: format!("{MOUNT}/{}", member.path), member: Some(member) });
            }
        }
        items
    }

    /// The `ModelPack` path of the layer: a file, or the folder of all of them.
    pub(crate) fn file_path(&self) -> String {
        match self.members.as_slice() {
            [one] => format!("{MOUNT}/{}", one.path),
            _ => MOUNT.to_owned(),
        }
    }

    pub(crate) fn annotations(&self) -> (String, String) {
        (media::MODEL_FILE_PATH.to_owned(), self.file_path())
    }
}

/// One tar entry.
pub(crate) struct Item<'a> {
    /// Name in the tar; folders end with a slash.
    pub(crate) name: String,
    /// The file; `None` for a folder.
    pub(crate) member: Option<&'a Entry>,
}

impl Item<'_> {
    pub(crate) fn size(&self) -> u64 {
        self.member.map_or(0, Entry::size)
    }
}

/// Splits sorted entries into layers: large files alone (when there are not too many), the rest by class.
pub(crate) fn plan(entries: &[Entry]) -> Vec<Layer> {
    let members: Vec<&Entry> = entries.iter().filter(|entry| entry.file.is_some() || is_bare(entry, entries)).collect();
    let (large, small): (Vec<&Entry>, Vec<&Entry>) = members.into_iter().partition(|entry| entry.size() >= OWN_LAYER);
    let classes: Vec<Layer> = Class::ALL.iter().filter_map(|class| bucket(*class, &small)).collect();
    let room = MAX_LAYERS - Class::ALL.len();
    let mut layers = own_layers(&large, room);
    layers.extend(classes);
    layers.sort_by_key(|layer| layer.class);
    layers
}

/// A folder that no other entry implies.
fn is_bare(folder: &Entry, entries: &[Entry]) -> bool {
    // Sorted with final slashes, so what is inside comes right after.
    let next = entries.partition_point(|entry| order_key(entry) <= order_key(folder));
    let inside = entries.get(next).and_then(|entry| entry.path.strip_prefix(folder.path.as_str()));
    !inside.is_some_and(|rest| rest.starts_with('/'))
}

fn order_key(entry: &Entry) -> String {
    if entry.file.is_none() { format!("{}/", entry.path) } else { entry.path.clone() }
}

fn bucket(class: Class, small: &[&Entry]) -> Option<Layer> {
    let members: Vec<Entry> =
        small.iter().filter(|entry| Class::of(entry) == class).map(|entry| (*entry).clone()).collect();
    (!members.is_empty()).then_some(Layer { class, members })
}

/// One layer a file, or `room` layers of about equal size in sorted order.
fn own_layers(large: &[&Entry], room: usize) -> Vec<Layer> {
    let layer = |members: &[&Entry]| Layer {
        class: Class::of(members[0]),
        members: members.iter().map(|entry| (*entry).clone()).collect(),
    };
    if large.len() <= room {
        return large.iter().map(|entry| layer(&[entry])).collect();
    }
    let total: u64 = large.iter().map(|entry| entry.size()).sum();
    let share = total.div_ceil(room as u64).max(1);
    let mut layers = Vec::new();
    let mut start = 0;
    let mut filled = 0;
    for (index, entry) in large.iter().enumerate() {
        filled += entry.size();
        let wanted = share.saturating_mul(layers.len() as u64 + 1);
        if filled >= wanted || index + 1 == large.len() {
            layers.push(layer(&large[start..=index]));
            start = index + 1;
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FileStamp;

    fn file(path: &str, size: u64) -> Entry {
        Entry { path: path.to_owned(), file: Some(FileStamp::for_test(size)) }
    }

    fn folder(path: &str) -> Entry {
        Entry { path: path.to_owned(), file: None }
    }

    fn names(layer: &Layer) -> Vec<String> {
        layer.items().into_iter().map(|item| item.name).collect()
    }

    #[test]
    fn buckets_small_files_by_class_and_gives_large_ones_their_own() {
        let entries = [
            file("README.md", 5),
            file("a.bin", OWN_LAYER),
            file("b.bin", OWN_LAYER - 1),
            file("config.json", 2),
            file("run.py", 1),
        ];
        let layers = plan(&entries);
        let described: Vec<(Class, String)> = layers.iter().map(|layer| (layer.class, layer.file_path())).collect();
        let expected = [
            (Class::Weights, "models/a.bin"),
            (Class::Weights, "models/b.bin"),
            (Class::Config, "models/config.json"),
            (Class::Doc, "models/README.md"),
            (Class::Code, "models/run.py"),
        ];
        assert_eq!(described, expected.map(|(class, path)| (class, path.to_owned())));
    }

    #[test]
    fn names_parents_first_and_keeps_bare_folders() {
        let entries = [
            file("a.txt", 1),
            folder("a"),
            folder("a/empty"),
            folder("b"),
            folder("b/c"),
            file("b/c/x.txt", 1),
            file("b/y.txt", 1),
        ];
        let layers = plan(&entries);
        assert_eq!(layers.len(), 1);
        let expected = [
            "models/",
            "models/a.txt",
            "models/a/",
            "models/a/empty/",
            "models/b/",
            "models/b/c/",
            "models/b/c/x.txt",
            "models/b/y.txt",
        ];
        assert_eq!(names(&layers[0]), expected);
    }

    #[test]
    fn never_exceeds_the_number_of_layers() {
        let many: Vec<Entry> = (0..300).map(|index| file(&format!("w{index:03}.bin"), OWN_LAYER + index)).collect();
        let layers = plan(&many);
        assert!(layers.len() <= MAX_LAYERS && layers.len() > MAX_LAYERS - 8, "{}", layers.len());
        assert_eq!(layers.iter().map(|layer| layer.members.len()).sum::<usize>(), 300);
        let sizes: Vec<u64> = layers.iter().map(Layer::size).collect();
        assert!(sizes.iter().max().unwrap() <= &(sizes.iter().min().unwrap() * 4));
    }
}
