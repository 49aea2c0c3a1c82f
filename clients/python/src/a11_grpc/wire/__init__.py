"""What travels: statuses, chunks, names, and the values that they stand for."""
