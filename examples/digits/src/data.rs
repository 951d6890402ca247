//! UCI "Optical Recognition of Handwritten Digits": 1,797 images of 8 x 8 pixels, as smartcore ships it.

use ndarray::{Array1, Array2, Axis};

/// Pixels of one image.
pub const PIXELS: usize = 64;
/// Digits to tell apart.
pub const CLASSES: usize = 10;

/// Images with their true digits.
#[derive(Clone, Debug)]
pub struct Images {
    /// One row an image, `(n, 64)`, each pixel in `0.0..=1.0`.
    pub images: Array2<f32>,
    /// True digit of each row, `0..10`.
    pub digits: Array1<usize>,
}

impl Images {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.digits.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.digits.is_empty()
    }
}

/// Training half (even positions) and held-out half (odd positions) of the data set.
pub fn split() -> (Images, Images) {
    let all = load();
    let even: Vec<usize> = (0..all.len()).step_by(2).collect();
    let odd: Vec<usize> = (1..all.len()).step_by(2).collect();
    (select(&all, &even), select(&all, &odd))
}

fn load() -> Images {
    let raw = smartcore::dataset::digits::load_dataset();
    let images = Array2::from_shape_vec((raw.num_samples, PIXELS), raw.data)
        .expect("the data set has 64 features a sample")
        .mapv(|pixel| pixel / 16.0);
    let digits = raw.target.iter().map(|digit| digit_index(*digit)).collect();
    Images { images, digits }
}

/// Targets are whole numbers 0 to 9 in a float; the nearest class is exact.
fn digit_index(target: f32) -> usize {
    (0..CLASSES).min_by(|a, b| (*a as f32 - target).abs().total_cmp(&(*b as f32 - target).abs())).unwrap_or(0)
}

fn select(all: &Images, rows: &[usize]) -> Images {
    Images { images: all.images.select(Axis(0), rows), digits: all.digits.select(Axis(0), rows) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_share_no_image_and_miss_none() {
        let (training, held_out) = split();
        assert_eq!((training.len(), held_out.len()), (899, 898));
        assert!(training.images.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
        assert!((0..CLASSES).all(|digit| held_out.digits.iter().filter(|d| **d == digit).count() > 50));
    }
}
