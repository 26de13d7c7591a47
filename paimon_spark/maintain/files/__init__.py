"""Files that nothing needs any more: finding them and deleting them."""
