//! How many pieces of a product lie in the warehouse.

pub struct Stock {
    pieces: u32,
}

impl Stock {
    pub fn reserve(&mut self, pieces: u32) -> Result<(), OutOfStock> {
        self.pieces = self.pieces.checked_sub(pieces).ok_or(OutOfStock)?;
        Ok(())
    }
}

pub struct OutOfStock;
