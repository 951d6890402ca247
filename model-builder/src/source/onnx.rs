//! The outline of an ONNX file: protobuf fields of the model and its graph, without reading the weights.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Field numbers of `ModelProto`, `GraphProto` and `TensorProto` in onnx.proto.
const MODEL_GRAPH: u64 = 7;
const GRAPH_INITIALIZER: u64 = 5;
const TENSOR_DIMS: u64 = 1;

/// More fields than this in one message is not a model we read.
const MAX_FIELDS: usize = 1_000_000;

/// A field: its number, and where its content is.
struct Field {
    number: u64,
    value: Value,
}

enum Value {
    Number(u64),
    Bytes { start: u64, end: u64 },
    Fixed,
}

/// Number of parameters (elements of initializers) of a file with a whole outline.
pub(super) fn parameters(file: &File, size: u64) -> Result<u64, String> {
    let mut count: u64 = 0;
    let mut graphs = 0;
    for field in fields(file, 0, size)? {
        if let (MODEL_GRAPH, Value::Bytes { start, end }) = (field.number, &field.value) {
            graphs += 1;
            for inner in fields(file, *start, *end)? {
                if let (GRAPH_INITIALIZER, Value::Bytes { start, end }) = (inner.number, &inner.value) {
                    count = count.checked_add(elements(file, *start, *end)?).ok_or("its shapes overflow")?;
                }
            }
        }
    }
    if graphs == 1 { Ok(count) } else { Err("it has no graph".to_owned()) }
}

fn elements(file: &File, start: u64, end: u64) -> Result<u64, String> {
    let mut product: u64 = 1;
    let mut times = |side: u64| match product.checked_mul(side) {
        Some(next) => {
            product = next;
            Ok(())
        }
        None => Err("its shapes overflow".to_owned()),
    };
    for field in fields(file, start, end)?.iter().filter(|field| field.number == TENSOR_DIMS) {
        match field.value {
            Value::Number(side) => times(side)?,
            Value::Bytes { start, end } => {
                let mut cursor = Cursor { file, at: start, end };
                while cursor.at < cursor.end {
                    times(cursor.varint()?)?;
                }
            }
            Value::Fixed => return Err("a tensor has dimensions of the wrong type".to_owned()),
        }
    }
    Ok(product)
}

fn fields(file: &File, start: u64, end: u64) -> Result<Vec<Field>, String> {
    let mut cursor = Cursor { file, at: start, end };
    let mut fields = Vec::new();
    while cursor.at < cursor.end {
        if fields.len() >= MAX_FIELDS {
            return Err("it has too many fields".to_owned());
        }
        fields.push(cursor.field()?);
    }
    Ok(fields)
}

struct Cursor<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Cursor<'_> {
    fn field(&mut self) -> Result<Field, String> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.skip(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.varint()?;
                let start = self.skip(length)?;
                Value::Bytes { start, end: self.at }
            }
            5 => self.skip(4).map(|_| Value::Fixed)?,
            kind => return Err(format!("byte {} starts no protobuf field (wire type {kind})", self.at)),
        };
        if key >> 3 == 0 {
            return Err(format!("byte {} starts no protobuf field (number 0)", self.at));
        }
        Ok(Field { number: key >> 3, value })
    }

    /// Passes `length` bytes; gives where they start.
    fn skip(&mut self, length: u64) -> Result<u64, String> {
        let start = self.at;
        let end = start.checked_add(length).filter(|end| *end <= self.end);
        self.at = end.ok_or_else(|| format!("a field at byte {start} is cut off"))?;
        Ok(start)
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut buffer = [0; 10];
        let room = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..room], self.at).map_err(|error| error.to_string())?;
        let mut value = 0;
        for (index, byte) in buffer[..count].iter().enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.at += index as u64 + 1;
                return Ok(value);
            }
        }
        Err(format!("a number at byte {} is cut off", self.at))
    }
}
